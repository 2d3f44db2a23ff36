from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import repeat
from typing import ClassVar, cast

import pytest

from tests.rows import each_row
from toolgauge.model.expected import Expected
from toolgauge.model.outcomes import Level, NotEvaluated, Outcome, Scored
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.plugins import EVALUATORS, evaluator, names
from toolgauge.testing.evaluators import check_evaluator, check_judge_evaluator
from toolgauge.testing.samples import SECRET, sample_call

NO_CALLS = NotEvaluated(reason="no_calls", explanation="no call")


# What evaluators cannot do without.
REQUIRED: dict[str, dict[str, object]] = {
    "budget": {"calls": 3, "errors": 0, "duration": "1s", "tokens": 100, "per_tool": {"find_*": {"calls": 1}}},
    "data_flow": {"rules": {"refund_order.order_id": {"from": {"tool": "find_order"}}}},
    "order_rules": {
        "rules": [
            {"before": "refund_order", "call": {"tool": "find_order", "arguments": {"order_id": "*"}}},
            {"after": "find_order", "call": "refund_order"},
            {"never_before": "refund_order", "call": "cancel_order"},
            {"never": {"tool": "*", "arguments": {"amount": {"at_least": 100}}}},
            {"at_most": 2, "call": "find_order"},
            {"requires_confirmation": "refund_order"},
        ]
    },
    "output_judge": {"rubric": "It answers."},
    "policy": {"forbid": ["cancel_*", {"tool": "*", "arguments": {"order_id": {"matches": ".*secret.*"}}}]},
    "strands.tool_called": {"tool_name": "find_order"},
    "strands.trajectory_judge": {"rubric": "It makes sense."},
    "trajectory_judge": {"rubric": "It makes sense."},
}


@each_row("name", names(EVALUATORS))
def test_each_installed_evaluator_keeps_its_contract(name: str):
    installed = evaluator(name)(**REQUIRED.get(name, {}))
    if hasattr(installed, "questions"):
        check_judge_evaluator(installed)
    else:
        check_evaluator(installed)


@dataclass(eq=False)
class Fake:
    """Yields for each call what it is told to; nothing to judge without calls."""

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "call"
    outcome: Callable[[ToolCall], Outcome] = lambda _: Scored(value=1.0, explanation="fine")
    target: Callable[[ToolCall], ToolCall | None] = lambda call: call
    judged: list[ToolCall] = field(default_factory=list[ToolCall])
    remembers: bool = False

    def __deepcopy__(self, memo: object) -> "Fake":
        return self

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002
        if not trajectory.calls:
            yield None, NO_CALLS
        for call in trajectory.calls:
            yield None
            value = self.outcome(call)
            if self.remembers and call in self.judged:
                value = Scored(value=0.5, explanation="seen before")
            self.judged.append(call)
            yield self.target(call), value


class Unversioned(Fake):
    version: ClassVar[str] = ""


class OfTrajectory(Fake):
    level: ClassVar[Level] = "trajectory"


class Silent(Fake):
    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002
        yield from ()


class Endless(Fake):
    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002
        yield from repeat(None)


def scoring(value: float, explanation: str = "fine", *, passed: bool | None = None) -> Callable[[ToolCall], Outcome]:
    return lambda _: Scored(value=value, explanation=explanation, passed=passed)


def explode(call: ToolCall) -> Outcome:
    raise KeyError(call.name)


@each_row(
    ("fake", "message"),
    [
        (Unversioned(), "`version` of Unversioned is empty"),
        (Fake(outcome=scoring(1.5)), "not within 0 and 1"),
        (Fake(outcome=scoring(float("nan"))), "say `NotEvaluated`"),
        (Fake(outcome=scoring(1.0, " ")), "without an explanation"),
        (Fake(outcome=scoring(1.0, f"got {SECRET}")), "repeats a recorded value"),
        (Fake(outcome=scoring(1.0, passed=True)), "pass_at"),
        (Fake(outcome=lambda _: Scored(0.5, "x", is_exempt=cast("bool", 1))), "`is_exempt`"),
        (Fake(outcome=lambda _: Scored(value=1.0, explanation="x", parts={"p": float("inf")})), "no number"),
        (Fake(outcome=explode), "raises KeyError"),
        (OfTrajectory(), "judges a call although its level is trajectory"),
        (Fake(target=lambda _: None), "scores the trajectory although its level is call|the same target twice"),
        (Fake(target=lambda _: sample_call(999)), "not in the trajectory|the same target twice"),
        (Fake(remembers=True), "something else the second time|same target"),
        (Silent(), "yields no outcome"),
        (Endless(), "would be cut off"),
    ],
)
def test_broken_contract_is_named(fake: Fake, message: str):
    with pytest.raises(AssertionError, match=message):
        check_evaluator(fake)
