"""Converts TRAIL (PatronusAI/TRAIL on Hugging Face) to a folder for `python -m tools.bench.labels`.

    python -m tools.bench.labels.trail ROWS.jsonl SET FOLDER

ROWS.jsonl holds the rows of one split, one a line, as `pandas.read_parquet(...).to_json(..., orient="records", lines=True)` writes
them: `trace` with nested spans, and `labels` with `errors`. SET is the name of the set, such as `trail-gaia`. The spans stay
as OpenInference recorded them.
"""

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tools.bench.labels.labelled_runs import LabelledError, LabelledRun, Step, attributes, write_set

_STEP = re.compile(r"Step \d+")
_DURATION = re.compile(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?")
_STATUS = {"Unset": 0, "Ok": 1, "Error": 2}
_KIND = "openinference.span.kind"
# How much of an error has to be quoted: labels cut their evidence at the end, and shorter texts occur by chance.
_LEAST_QUOTED, _MOST_QUOTED = 20, 60

_Span = Mapping[str, Any]


def converted(row: Mapping[str, Any]) -> tuple[LabelledRun, dict[str, Any]]:
    """Return the labels and the OTLP JSON request of one row."""
    trace, labels = (json.loads(row[key]) if isinstance(row[key], str) else row[key] for key in ("trace", "labels"))
    spans = [span for top in trace["spans"] for span in _flat(top)]
    by_id = {span["span_id"]: span for span in spans}
    steps = _steps(spans, by_id, {error["location"] for error in labels["errors"]})
    step_of = {span: step for step in steps for span in step.spans}
    errors = [
        LabelledError(step=_place(error, steps, step_of, by_id), category=error["category"])
        for error in labels["errors"]
    ]
    request = {"resourceSpans": [_resource_spans(span, trace["trace_id"]) for span in spans]}
    return LabelledRun(trace_id=trace["trace_id"], passed=None, steps=steps, errors=errors), request


def _flat(span: _Span) -> Iterator[_Span]:
    yield span
    for child in span.get("child_spans") or ():
        yield from _flat(child)


def _steps(spans: Sequence[_Span], by_id: Mapping[str, _Span], labelled: set[str]) -> list[Step]:
    """Return the spans `Step N` with all that is below them; a labelled span outside of them is a step of its own."""
    members: dict[str, list[_Span]] = {}
    for span in sorted(spans, key=lambda span: span["timestamp"]):
        step = _step_above(span, by_id)
        if step is not None or span["span_id"] in labelled:
            members.setdefault(span["span_id"] if step is None else step["span_id"], []).append(span)
    return [
        Step(
            id=step,
            spans=[span["span_id"] for span in below],
            calls=[span["span_id"] for span in below if span["span_attributes"].get(_KIND) == "TOOL"],
            agents=[span["span_id"] for span in below if span["span_attributes"].get(_KIND) == "AGENT"],
            failed=by_id[step].get("status_code") == "Error",
        )
        for step, below in members.items()
    ]


def _step_above(span: _Span, by_id: Mapping[str, _Span]) -> _Span | None:
    """Return the innermost `Step N` of the same agent that holds a span, or the span itself where it is one."""
    above: _Span | None = span
    while above is not None and not _STEP.fullmatch(above["span_name"]):
        above = by_id.get(above.get("parent_span_id") or "")
        if above is not None and above["span_attributes"].get(_KIND) == "AGENT":
            return None
    return above


def _place(
    error: Mapping[str, Any], steps: Sequence[Step], step_of: Mapping[str, Step], by_id: Mapping[str, _Span]
) -> str | None:
    """Return the step of an error.

    Rule: a label whose evidence quotes a recorded error belongs to the last step, up to the labelled one, that has this error:
    people often mark the model call that received it.
    """
    labelled = step_of.get(error["location"])
    if labelled is None:
        return None
    evidence = _words(error.get("evidence") or "")
    for step in reversed(steps[: steps.index(labelled) + 1]):
        message = _words(by_id[step.id].get("status_message") or "").partition(": ")[2]
        if step.failed and (_quotes(evidence, message) or _quotes(message, evidence)):
            return step.id
    return labelled.id


def _quotes(text: str, quoted: str) -> bool:
    return len(quoted) >= _LEAST_QUOTED and quoted[:_MOST_QUOTED] in text


def _words(text: str) -> str:
    return " ".join(text.split())


def _resource_spans(span: _Span, trace_id: str) -> dict[str, Any]:
    start = _nanoseconds(span["timestamp"])
    encoded = {
        "traceId": trace_id,
        "spanId": span["span_id"],
        "parentSpanId": span.get("parent_span_id") or "",
        "name": span["span_name"],
        "kind": 1,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + _duration_ns(span.get("duration") or "PT0S")),
        "status": {
            "code": _STATUS.get(span.get("status_code") or "", 0),
            "message": span.get("status_message") or "",
        },
        "attributes": attributes(span["span_attributes"]),
        "events": [_event(event) for event in span.get("events") or ()],
    }
    scope = {"name": span.get("scope_name") or "", "version": span.get("scope_version") or ""}
    return {
        "resource": {"attributes": attributes(span.get("resource_attributes"))},
        "scopeSpans": [{"scope": scope, "spans": [encoded]}],
    }


def _event(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event in OTLP JSON; exports write its keys with and without capital letters."""
    known = {key.lower(): value for key, value in event.items()}
    time = str(_nanoseconds(known["timestamp"])) if known.get("timestamp") else "0"
    return {"name": known.get("name") or "", "timeUnixNano": time, "attributes": attributes(known.get("attributes"))}


def _nanoseconds(timestamp: str) -> int:
    moment = datetime.fromisoformat(timestamp.replace("Z", "+00:00"))
    return (moment - datetime.fromisoformat("1970-01-01T00:00:00+00:00")) // timedelta(microseconds=1) * 1000


def _duration_ns(text: str) -> int:
    found = _DURATION.fullmatch(text)
    hours, minutes, seconds = (float(part or 0) for part in found.groups()) if found else (0.0, 0.0, 0.0)
    return int(((hours * 60 + minutes) * 60 + seconds) * 1e9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("set")
    parser.add_argument("folder", type=Path)
    chosen = parser.parse_args()
    with chosen.rows.open(encoding="utf-8") as lines:
        runs = (converted(json.loads(line)) for line in lines if line.strip())
        print(f"{write_set(chosen.folder, chosen.set, runs)} runs")


if __name__ == "__main__":
    main()
