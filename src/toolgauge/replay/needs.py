"""Which evaluators cannot judge when something is missing: found out by trying, so it holds for anybody's evaluators.

Each evaluator, with its default parameters, is put in front of one made-up call with everything recorded, and of the
same call without the fact. What it could score before and not after, it needs. One that has no defaults is left out.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from pydantic import BaseModel, ValidationError

from toolgauge import plugins
from toolgauge.model.content import NOT_RECORDED, Recorded
from toolgauge.model.expected import Expected, ExpectedCall, ExpectedOutput
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.outcomes import Scored
from toolgauge.model.ports import Evaluator
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import Message, ToolCall, Trajectory
from toolgauge.replay.advice import Fact
from toolgauge.score.criterion import Criterion, Inline, NoReference, ToolKinds
from toolgauge.score.scorer import Scorer

_SPAN = SpanRef("5b8efff798038103d269b633813fc60c", "0102040810203040")
_ARGUMENTS = Recorded({"order_id": "A-17"})
_CALL = ToolCall(
    order=0,
    turn=0,
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
    start_ns=1,
    end_ns=2,
    result_turn=1,
)
_WHOLE = Trajectory(
    scope="trace",
    trace_id=_SPAN.trace_id,
    conversation_id="c-1",
    service="shop",
    agents=("support",),
    root=_SPAN,
    calls=(_CALL,),
    tools_offered=(
        ToolDefinition(
            name="refund_order",
            description="Refunds an order.",
            parameters={"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]},
        ),
    ),
    messages=(Message(role="user", text="Refund order A-17.", turn=0),),
    attributes={},
    closed_because="run_ended",
    start_ns=1,
    end_ns=2,
)
_EXPECTED = Expected(
    turns=((ExpectedCall(name="refund_order", args={"order_id": "A-17"}, output=ExpectedOutput(value="refunded")),),)
)


class Needs:
    """Tells which of the installed evaluators need a fact."""

    def __init__(self) -> None:
        self._scorers = {name: scorer for name in plugins.names(plugins.EVALUATORS) for scorer in _scorer(name)}
        self._known: dict[Fact, tuple[str, ...]] = {}

    def of(self, fact: Fact) -> tuple[str, ...]:
        """Name the evaluators that score with the fact and not without it, by default parameters."""
        if fact not in self._known:
            without = _without(fact)
            self._known[fact] = tuple(name for name, scorer in self._scorers.items() if _needs(scorer, without))
        return self._known[fact]


def _needs(scorer: Scorer, without: Trajectory | None) -> bool:
    return _is_scored(scorer, _WHOLE) and not (without is not None and _is_scored(scorer, without))


def _without(fact: Fact) -> Trajectory | None:
    """Take the fact away; `None` where nothing is left to judge: no calls seen is not the same as none made."""
    match fact:
        case "calls":
            return None
        case "arguments":
            return replace(_WHOLE, calls=(replace(_CALL, arguments=NOT_RECORDED),))
        case "results":
            return replace(_WHOLE, calls=(replace(_CALL, result=NOT_RECORDED, result_turn=None),))
        case "call_ids":
            return replace(_WHOLE, calls=(replace(_CALL, call_id=None),))
        case "tool_definitions":
            return replace(_WHOLE, tools_offered=None)
        case "conversation_id":
            return replace(_WHOLE, conversation_id=None)
        case "user_text":
            return replace(_WHOLE, messages=())


def _scorer(name: str) -> Iterator[Scorer]:
    loaded = plugins.evaluator(name)
    if not issubclass(loaded, BaseModel):
        return
    try:
        # A plug-in's class: `plugins.evaluator` has seen that it has what an evaluator must have.
        evaluator = cast("Evaluator", loaded.model_validate({}))
    except ValidationError:
        return
    # Its own word for it: one that needs no reference might judge something else with one.
    reference = Inline(_EXPECTED) if getattr(evaluator, "needs_reference", False) else NoReference()
    criterion = Criterion(name=name, evaluator_name=name, evaluator=evaluator, revision="", reference=reference)
    yield Scorer((criterion,), ToolKinds())


def _is_scored(scorer: Scorer, trajectory: Trajectory) -> bool:
    return any(
        isinstance(result.outcome, Scored) for results in scorer.score(trajectory) if results for result in results
    )
