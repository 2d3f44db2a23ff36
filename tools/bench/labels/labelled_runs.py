"""Recorded runs with errors that people labelled: a folder with `labels.json`, and for each set of runs its traces.

`labels.json` names for each set its runs: their steps, the errors that people marked in a step, and whether the run passed. The
traces are OTLP JSON, one request a line, in `SET.jsonl.xz`. The converters beside this module write such folders; the data
is not in this repository.
"""

import csv
import json
import lzma
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# Errors in the form of a call, or in how its tool or service worked: spans alone can prove them. All other categories, such as
# a wrong choice of tool or a result that was made up, need the meaning of a text.
STRUCTURAL = frozenset(
    (
        "Formatting Errors", "Tool Definition Issues", "Environment Setup Errors", "Rate Limiting", "Authentication Errors",
        "Service Errors", "Resource Not Found", "Resource Exhaustion", "Timeout Issues", "Invalid Invocation",
        "Guardrails Triggered", "System Failure",
    )
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of a run: its spans, those of its tool calls and sub-agents, and whether the producer recorded an error."""

    id: str
    spans: Sequence[str]
    calls: Sequence[str] = ()
    agents: Sequence[str] = ()
    failed: bool = False


@dataclass(frozen=True, kw_only=True)
class LabelledError:
    """An error that people marked; `step` is `None` where it belongs to no step, `root` marks the cause of the failure."""

    step: str | None
    category: str
    root: bool = False


@dataclass(frozen=True, kw_only=True)
class LabelledRun:
    """One run; `passed` is `None` where nobody judged the whole run."""

    trace_id: str
    passed: bool | None
    steps: Sequence[Step]
    errors: Sequence[LabelledError]


def read_sets(folder: Path) -> dict[str, list[LabelledRun]]:
    """Return the runs of each set of a folder."""
    sets = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
    return {name: [_run(row) for row in found["traces"]] for name, found in sets.items()}


def _run(row: Mapping[str, Any]) -> LabelledRun:
    return LabelledRun(
        trace_id=row["trace_id"],
        passed=row["passed"],
        steps=[
            Step(
                id=step["id"],
                spans=step["spans"],
                calls=step["calls"],
                agents=step["agents"],
                failed=step.get("failed", False),
            )
            for step in row["steps"]
        ],
        errors=[
            LabelledError(step=error["step"], category=error["category"], root=error.get("root", False))
            for error in row["errors"]
        ],
    )


def write_set(folder: Path, name: str, runs: Iterable[tuple[LabelledRun, Mapping[str, Any]]]) -> int:
    """Write a set of runs with their OTLP requests, and the verdicts as `toolgauge check --labels` reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[LabelledRun] = []
    with lzma.open(folder / f"{name}.jsonl.xz", "wt", encoding="utf-8") as traces:
        for run, request in runs:
            traces.write(json.dumps(request) + "\n")
            rows.append(run)
    labels = folder / "labels.json"
    sets: dict[str, Any] = json.loads(labels.read_text(encoding="utf-8")) if labels.exists() else {}
    labels.write_text(json.dumps({**sets, name: {"traces": [asdict(row) for row in rows]}}), encoding="utf-8")
    with (folder / f"{name}.verdicts.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows((("trace_id", "verdict"), *_verdicts(rows)))
    return len(rows)


def _verdicts(runs: Iterable[LabelledRun]) -> Iterator[tuple[str, str]]:
    for run in runs:
        if run.passed is not None:
            yield run.trace_id, "passed" if run.passed else "failed"


def attributes(values: Mapping[str, Any] | None) -> list[dict[str, object]]:
    """Return attributes in OTLP JSON."""
    return [_attribute(key, value) for key, value in (values or {}).items()]


def _attribute(key: str, value: object) -> dict[str, object]:
    # Other values than texts, numbers and truth values become JSON text.
    match value:
        case bool():
            return {"key": key, "value": {"boolValue": value}}
        case int():
            return {"key": key, "value": {"intValue": str(value)}}
        case float():
            return {"key": key, "value": {"doubleValue": value}}
        case str():
            return {"key": key, "value": {"stringValue": value}}
        case _:
            return {"key": key, "value": {"stringValue": json.dumps(value)}}
