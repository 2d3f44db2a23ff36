"""A report as SARIF 2.1.0, for code scanning: one result for each failure, in the words of the other reports."""

import hashlib
import json

from toolgauge.model.json import JsonObject
from toolgauge.report.findings import Report, Row
from toolgauge.report.terminal import printable, shortened

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_MAX_TEXT, _MAX_RESULTS = 1_000, 5_000


def sarif(report: Report) -> bytes:
    """Write the report. Failures that fail no run are in it as suppressed."""
    failures = [row for row in report.rows if row.outcome in ("fail", "error")]
    rules = list(dict.fromkeys(row.criterion for row in failures))
    run: JsonObject = {
        "tool": {
            "driver": {
                "name": "toolgauge",
                "rules": [{"id": printable(rule), "shortDescription": {"text": printable(rule)}} for rule in rules],
            }
        },
        "results": [_result(row, rules.index(row.criterion), report) for row in failures[:_MAX_RESULTS]],
    }
    written: JsonObject = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(written, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _result(row: Row, rule: int, report: Report) -> JsonObject:
    file, number = row.place or (report.files[0] if report.files else "-", 1)
    lines = (f"{row.subject}:", *(finding.sentence_of(_MAX_TEXT) for finding in row.problems))
    # The same in the next recording: the id of a trace is not.
    same = row.subject if row.details or row.place else row.problems[0].explanation
    key = f"{row.criterion}\n{row.problems[0].tool}\n{same}"
    found: JsonObject = {
        "ruleId": printable(row.criterion),
        "ruleIndex": rule,
        "level": "note" if row.exempt else "error",
        "message": {"text": "\n".join(shortened(line, _MAX_TEXT) for line in lines)},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": printable(file)}, "region": {"startLine": number}},
                "logicalLocations": [{"fullyQualifiedName": shortened(row.subject, _MAX_TEXT)}],
            }
        ],
        "partialFingerprints": {"toolgauge/v1": hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:32]},
    }
    if row.exempt:
        found["suppressions"] = [{"kind": "external", "justification": row.exempt}]
    return found
