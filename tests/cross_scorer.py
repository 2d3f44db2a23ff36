"""The table in docs/evaluators/comparison.md: known scorers on the same calls, and ours beside them.

    python -m tests.cross_scorer          # print it
    python -m tests.cross_scorer --write  # put it into the page

The scores of others were measured with their packages (`tests/golden/cross_scorer_cases.json`); those we reproduce are
computed here and must be the same.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from toolgauge.cases.case import Case
from toolgauge.cases.scoring import Cases
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Outcome, Scored

PAGE = Path(__file__).parent.parent / "docs" / "evaluators" / "comparison.md"
MEASURED = Path(__file__).parent / "golden" / "cross_scorer_cases.json"
_MARKS = ("<!-- cross-scorer -->\n", "<!-- /cross-scorer -->")


@dataclass(frozen=True, kw_only=True)
class Scorer:
    """An evaluator of ours: with `measured` it reproduces the scorer of that name. `shape` is how its cases are written."""

    head: str
    evaluator: str = ""
    config: JsonObject = field(default_factory=dict[str, Json])
    shape: str = "calls"
    measured: str = ""


_PARAMETERS: JsonObject = {"evaluation_params": ["input_parameters"]}

OTHERS = (
    Scorer(head="Ragas F1", evaluator="ragas.tool_call_f1", shape="chat", measured="ragas ToolCallF1"),
    Scorer(
        head="Ragas Accuracy", evaluator="ragas.tool_call_accuracy", shape="chat", measured="ragas ToolCallAccuracy"
    ),
    Scorer(head="DeepEval", evaluator="deepeval.tool_correctness", measured="deepeval ToolCorrectness (default)"),
    Scorer(
        head="DeepEval, arguments",
        evaluator="deepeval.tool_correctness",
        config=_PARAMETERS,
        measured="deepeval +params",
    ),
    Scorer(
        head="DeepEval, arguments, order",
        evaluator="deepeval.tool_correctness",
        config={**_PARAMETERS, "should_consider_ordering": True},
        measured="deepeval +params+order",
    ),
    *(
        Scorer(
            head=f"agentevals {mode}",
            evaluator="agentevals.trajectory_match",
            config={"trajectory_match_mode": mode},
            shape="messages",
            measured=f"LC agentevals {mode}",
        )
        for mode in ("strict", "unordered", "superset")
    ),
    *(
        Scorer(
            head=f"ADK {match_type}",
            evaluator="adk.tool_trajectory",
            config={"threshold": 1.0, "match_type": match_type},
            shape="invocations",
            measured=f"google-adk {match_type}",
        )
        for match_type in ("EXACT", "IN_ORDER", "ANY_ORDER")
    ),
)
# Not among our originals: shown as measured.
MEASURED_ONLY = tuple(
    Scorer(
        head=f"pydantic-evals {order}",
        measured=f"pydantic-evals TrajectoryMatch {order} (helpers, names only)",
    )
    for order in ("in_order", "any_order")
)
OURS = tuple(
    Scorer(head=f"`{name}`", evaluator=name)
    for name in ("tool_call_f1", "tool_call_accuracy", "tool_call_args", "tool_trajectory")
)


@cache
def measured_cases() -> tuple[dict[str, Any], ...]:
    """Read the cases."""
    return tuple(json.loads(MEASURED.read_text())["cases"])


def outcome(scorer: Scorer, case: Mapping[str, Any]) -> Outcome:
    """Score one case with an evaluator of ours."""
    expected, actual = _written(scorer.shape, case["expected"], case["actual"])
    return Cases().score(
        Case(
            place="cross_scorer_cases.json",
            name=case["case"],
            evaluator=scorer.evaluator,
            config=scorer.config,
            expected=expected,
            actual=actual,
            pass_at=1.0,
            verdicts=(),
        )
    ).outcome  # fmt: skip


def _written(shape: str, expected: list[list[Json]], actual: list[list[Json]]) -> tuple[JsonObject, JsonObject]:
    wanted: list[Json] = [{"name": name, "args": args} for name, args in expected]
    made: list[Json] = [{"name": name, "args": args} for name, args in actual]
    match shape:
        case "chat":
            return {"tool_calls": wanted}, {"messages": _messages(made)}
        case "messages":
            return {"messages": _messages(wanted)}, {"messages": _messages(made)}
        case "invocations":
            return {"invocations": [{"calls": wanted}]}, {"invocations": [{"calls": made}]}
        case _:
            return {"calls": wanted}, {"calls": made}


def _messages(calls: list[Json]) -> list[Json]:
    return [{"role": "user", "content": "q"}, {"role": "assistant", "content": "", "tool_calls": calls}]


def table() -> str:
    """Make the whole table."""
    heads = [scorer.head for scorer in (*OURS, *OTHERS, *MEASURED_ONLY)]
    lines = [f"| calls | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for case in measured_cases():
        cells = [_cell(outcome(scorer, case)) for scorer in (*OURS, *OTHERS)]
        cells += [f"{case['scores'][scorer.measured]:.3g}" for scorer in MEASURED_ONLY]
        lines.append(f"| {case['case']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(said: Outcome) -> str:
    return f"{round(said.value, 3):.3g}" if isinstance(said, Scored) else "-"


def written() -> str:
    """Return the table that the page holds."""
    return PAGE.read_text().partition(_MARKS[0])[2].partition(_MARKS[1])[0]


def _write() -> None:
    before, mark, rest = PAGE.read_text().partition(_MARKS[0])
    PAGE.write_text(before + mark + table() + _MARKS[1] + rest.partition(_MARKS[1])[2])


if __name__ == "__main__":
    if "--write" in sys.argv:
        _write()
    else:
        sys.stdout.write(table())
