"""Which facts evaluators require: found by trying, so it holds for any evaluator.

Each evaluator, with its default parameters, is put in front of a made-up run with everything recorded, and of the same
run without the fact. What it could score before and not after, it requires; one that asks a judge could if it asked. A
judge that is asked something else without the fact is shown less. A text that has no default is any text; evaluators
that want more than that are left out.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias, cast

from msgspec.structs import replace
from pydantic import BaseModel, ValidationError

from toolgauge import plugins
from toolgauge.judge.inquiry import questions
from toolgauge.model.content import NOT_RECORDED, Recorded
from toolgauge.model.expected import Expected, ExpectedCall, ExpectedOutput
from toolgauge.model.judging import JudgeEvaluator, Question
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.outcomes import Outcome, Scored
from toolgauge.model.ports import Evaluator
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import Message, Run, ToolCall, Trajectory
from toolgauge.recognize.remedies import Fact
from toolgauge.score.criterion import Criterion, Inline, NoReference, ToolKinds
from toolgauge.score.scorer import Scorer

_SPAN = SpanRef("5b8efff798038103d269b633813fc60c", "0102040810203040")
# One value of each call stands nowhere else: where the others can be traced, a judge need not be asked.
_ARGUMENTS = Recorded({"order_id": "A-17", "reason": "late"})
_REFUND = ToolCall(
    order=1,
    turn=1,
    position=0,
    name="refund_order",
    arguments=_ARGUMENTS,
    result=Recorded("refunded"),
    error=None,
    call_id="call_1",
    agent="support",
    agent_path=("support",),
    state="executed",
    span=_SPAN,
    requested_by=_SPAN,
    executed_by=_SPAN,
    dialect="genai",
    start_ns=3,
    end_ns=4,
    result_turn=2,
    run=_SPAN,
)
_LOOKUP = replace(
    _REFUND,
    order=0,
    turn=0,
    name="find_order",
    arguments=Recorded({"customer": "Ann", "limit": 3}),
    result=Recorded("A-17"),
    call_id="call_0",
    start_ns=1,
    end_ns=2,
    result_turn=1,
)
_CALLS = (_LOOKUP, _REFUND)
_OFFER = (
    ToolDefinition(
        name="find_order",
        description="Finds the order of a customer.",
        parameters={"type": "object", "properties": {"customer": {"type": "string"}}, "required": ["customer"]},
    ),
    ToolDefinition(
        name="refund_order",
        description="Refunds an order.",
        parameters={"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]},
    ),
)
_PROMPT, _RESPONSE = "Refund my order. Ann", "Your order is refunded."
_RUN = Run(
    span=_SPAN,
    above=None,
    agent="support",
    prompt=_PROMPT,
    response=_RESPONSE,
    tools_offered=_OFFER,
    start_ns=1,
    end_ns=5,
)
_WHOLE = Trajectory(
    scope="trace",
    trace_id=_SPAN.trace_id,
    conversation_id="c-1",
    service="shop",
    agents=("support",),
    root=_SPAN,
    calls=_CALLS,
    tools_offered=_OFFER,
    messages=(Message(role="user", text=_PROMPT, turn=0), Message(role="assistant", text=_RESPONSE, turn=2)),
    attributes={},
    closed_because="run_ended",
    start_ns=1,
    end_ns=5,
    runs=(_RUN,),
)
_EXPECTED = Expected(
    turns=(
        (
            ExpectedCall(name="find_order", args={"customer": "Ann", "limit": 3}, output=ExpectedOutput(value="A-17")),
            ExpectedCall(
                name="refund_order",
                args={"order_id": "A-17", "reason": "late"},
                output=ExpectedOutput(value="refunded"),
            ),
        ),
    )
)


class Requirements:
    """What the installed evaluators make of a run that lacks a fact."""

    def __init__(self) -> None:
        self._criteria = {
            name: criterion for name in plugins.names(plugins.EVALUATORS) for criterion in _criterion(name)
        }
        self._complete = {name: _findings(criterion, _WHOLE) for name, criterion in self._criteria.items()}
        self._known: dict[Fact, dict[str, tuple[_Finding, ...]]] = {}

    def of(self, fact: Fact) -> tuple[str, ...]:
        """Name the evaluators that score, or ask a judge, with the fact and not without it."""
        return tuple(
            name
            for name, found in self._without(fact).items()
            if _can_judge(self._complete[name]) and not _can_judge(found)
        )

    def shown_less(self, fact: Fact) -> tuple[str, ...]:
        """Name the evaluators that ask a judge with and without the fact, and not the same."""
        return tuple(
            name
            for name, found in self._without(fact).items()
            if any(isinstance(one, Question) for one in found) and found != self._complete[name]
        )

    def _without(self, fact: Fact) -> dict[str, tuple["_Finding", ...]]:
        if fact not in self._known:
            lacking = _without(fact)
            self._known[fact] = {
                name: () if lacking is None else _findings(criterion, lacking)
                for name, criterion in self._criteria.items()
            }
        return self._known[fact]


# An outcome, or what is asked before there is one.
_Finding: TypeAlias = Outcome | Question


def _findings(criterion: Criterion, trajectory: Trajectory) -> tuple[_Finding, ...]:
    # One that has seen nothing before: an earlier offer would stand in for one that is not there.
    scorer = Scorer((criterion,), ToolKinds())
    scored = tuple(result.outcome for result in scorer.score(trajectory, trajectory.end_ns))
    asking = (asking for inquiry in scorer.inquiries(trajectory) for asking in questions(inquiry))
    return (*scored, *(found for _, found in asking))


def _can_judge(found: Sequence[_Finding]) -> bool:
    return any(isinstance(one, Scored | Question) for one in found)


def _without(fact: Fact) -> Trajectory | None:
    """Take the fact away; `None` where nothing is left to judge: no calls seen is not the same as none made."""
    match fact:
        case "calls":
            return None
        case "arguments":
            return replace(_WHOLE, calls=tuple(replace(call, arguments=NOT_RECORDED) for call in _CALLS))
        case "results":
            return replace(_WHOLE, calls=tuple(replace(call, result=NOT_RECORDED, result_turn=None) for call in _CALLS))
        case "failures":
            # Whoever judges calls still does, and takes those that failed for others.
            return _WHOLE
        case "call_ids":
            return replace(_WHOLE, calls=tuple(replace(call, call_id=None) for call in _CALLS))
        case "tool_definitions":
            return replace(_WHOLE, tools_offered=None, runs=(replace(_RUN, tools_offered=None),))
        case "conversation_id":
            return replace(_WHOLE, conversation_id=None)
        case "user_text":
            found = tuple(message for message in _WHOLE.messages if message.role != "user")
            return replace(_WHOLE, messages=found, runs=(replace(_RUN, prompt=None),))


def _criterion(name: str) -> Iterator[Criterion]:
    loaded = plugins.evaluator(name)
    if not issubclass(loaded, BaseModel):
        return
    texts = {
        name: "any" for name, field in loaded.model_fields.items() if field.is_required() and field.annotation is str
    }
    try:
        # A plug-in's class: `plugins.evaluator` has seen that it has what an evaluator must have.
        evaluator = cast("Evaluator | JudgeEvaluator", loaded.model_validate(texts))
    except ValidationError:
        return
    # Declared by the evaluator: one that needs no reference might judge something else with one.
    reference = Inline(_EXPECTED) if getattr(evaluator, "needs_reference", False) else NoReference()
    yield Criterion(name=name, evaluator_name=name, evaluator=evaluator, revision="", reference=reference)
