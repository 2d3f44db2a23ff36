"""A report as JUnit XML for GitHub, GitLab and Jenkins, and as SARIF 2.1.0 for code scanning.

JUnit has a test case for each trajectory and criterion. Readers drop test cases with the same `classname` and `name`, so
names are counted. SARIF has a result for each failure. Control characters become escapes.
"""

import hashlib
import json
from collections import Counter, defaultdict
from xml.etree import ElementTree as ET

from toolgauge.model.json import JsonObject
from toolgauge.report.findings import Report, Row
from toolgauge.report.run_failures import group_line
from toolgauge.report.terminal import printable, shortened

_GATE = "gate"
_MAX_NAME = 200
_MAX_KINDS = 50
_MAX_MESSAGE = 300
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_MAX_TEXT, _MAX_RESULTS = 1_000, 5_000


def junit(report: Report) -> bytes:
    """Write a report as JUnit XML."""
    root = ET.Element("testsuites", name=printable(report.title))
    by_criterion: defaultdict[str, list[Row]] = defaultdict(list)
    for row in report.rows:
        by_criterion[row.criterion].append(row)
    for criterion, rows in by_criterion.items():
        suite = ET.SubElement(root, "testsuite", name=shortened(criterion, _MAX_NAME))
        if kinds := [group for group in report.groups if group.kind.criterion == criterion]:
            properties = ET.SubElement(suite, "properties")
            for number, group in enumerate(kinds[:_MAX_KINDS], 1):
                name = f"kind of failure {number}"
                ET.SubElement(properties, "property", name=name, value=printable(group_line(group)))
        names = Counter[str]()
        for row in rows:
            name = shortened(row.subject, _MAX_NAME)
            names[name] += 1
            _case(suite, row, name if names[name] == 1 else f"{name} ({names[name]})")
    if report.checks:
        suite = ET.SubElement(root, "testsuite", name=_GATE)
        for check in report.checks:
            case = ET.SubElement(suite, "testcase", classname=_GATE, name=printable(check.condition))
            if not check.passed:
                text = printable(check.sentence)
                ET.SubElement(case, "failure", message=text, type=_GATE).text = text
    for element in (root, *root):
        for name, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            element.set(name, str(len([*element.iter(tag)])))
    ET.indent(root)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _case(suite: ET.Element, row: Row, name: str) -> None:
    case = ET.SubElement(suite, "testcase", classname=shortened(row.criterion, _MAX_NAME), name=name)
    if row.place is not None:
        case.set("file", printable(row.place[0]))
        case.set("line", str(row.place[1]))
    lines = [row.details] if row.details else []
    for finding in row.problems:
        lines.append(f"{finding.outcome} {finding.sentence()}")
        lines += (f"  {difference}" for difference in finding.differences)
    if row.passes:
        lines.append(f"passed: {row.passes}")
    text = "\n".join(map(printable, lines))
    message = shortened(row.problems[0].sentence(_MAX_MESSAGE), _MAX_MESSAGE) if row.problems else ""
    match row.outcome:
        case "pass" if row.findings:
            ET.SubElement(case, "system-out").text = text
        case "pass":
            pass
        case "not_evaluated":
            ET.SubElement(case, "skipped", message=message).text = text
        case word if row.exempt:
            why = f"{word}, and not enforced ({row.exempt}): {message}"
            ET.SubElement(case, "skipped", message=why).text = text
        case "fail":
            ET.SubElement(case, "failure", message=message, type="fail").text = text
        case "error":
            kind = printable(row.problems[0].reason) or "error"
            ET.SubElement(case, "error", message=message, type=kind).text = text


def sarif(report: Report) -> bytes:
    """Write a report as SARIF. Failures that fail no run are suppressed results."""
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
    lines = (f"{row.subject}:", *(finding.sentence(_MAX_TEXT) for finding in row.problems))
    # The next recording has the same subject, unless it is the id of a trace.
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
