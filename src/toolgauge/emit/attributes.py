"""The attributes of one result, as they stand on the log record and on the scorecard's span event.

Split in two: what is the same for all results of a criterion with this outcome is serialised once, the
rest is added to each. `append_all` is the one place where a Python value becomes an OTLP value.
"""

# pyright: reportUnknownMemberType=false

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeAlias

from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from toolgauge.emit import names
from toolgauge.emit.fit import MAX_IDENTIFIER, MAX_LABEL, fit_text
from toolgauge.emit.redact import Redactor
from toolgauge.model.outcomes import (
    Enforce,
    Errored,
    Level,
    NotEvaluated,
    Outcome,
    OutcomeWord,
    Result,
    Scored,
    outcome_word,
)
from toolgauge.model.trajectory import Trajectory

Attribute: TypeAlias = tuple[str, str | bool | int | float]
TemplateKey: TypeAlias = tuple[str, str, str, str, Level, Enforce, OutcomeWord]


class AttributeList(Protocol):
    """A protobuf message's repeated `attributes`."""

    def add(self, *, key: str) -> KeyValue:
        """Append an attribute."""
        ...


def append_all(target: AttributeList, attributes: Iterable[Attribute]) -> None:
    """Append attributes to a message."""
    for key, value in attributes:
        encoded = target.add(key=key).value
        match value:
            case bool():
                encoded.bool_value = value
            case str():
                encoded.string_value = value
            case int():
                encoded.int_value = value
            case float():
                encoded.double_value = value


def template_key(result: Result, outcome: Outcome) -> TemplateKey:
    """Name what `constant_attributes` depends on."""
    return (
        result.criterion,
        result.revision,
        result.evaluator,
        result.version,
        result.level,
        result.enforce,
        outcome_word(outcome),
    )


def constant_attributes(key: TemplateKey) -> Iterator[Attribute]:
    """Yield the attributes that all results with this key share."""
    criterion, revision, evaluator, version, level, enforce, word = key
    yield names.CRITERION, fit_text(criterion, MAX_IDENTIFIER)
    yield names.OUTCOME, word
    if word in {"pass", "fail"}:
        yield names.SCORE_LABEL, word
    yield names.LEVEL, level
    yield names.REVISION, fit_text(revision, MAX_IDENTIFIER)
    yield names.EVALUATOR, fit_text(evaluator, MAX_IDENTIFIER)
    yield names.EVALUATOR_VERSION, fit_text(version, MAX_IDENTIFIER)
    if enforce == "shadow":
        yield names.SHADOW, True


def varying_attributes(
    trajectory: Trajectory, result: Result, outcome: Outcome, redactor: Redactor
) -> Iterator[Attribute]:
    """Yield the attributes of this result alone."""
    match outcome:
        case Scored(value=value):
            yield names.SCORE_VALUE, float(value)
        case NotEvaluated(reason=reason):
            yield names.REASON, reason
        case Errored(error_type=error_type):
            yield names.ERROR_TYPE, fit_text(error_type, MAX_LABEL) or "_OTHER"
    explanation = redactor.explain(outcome)
    if explanation:
        yield names.EXPLANATION, explanation
    yield from _whereabouts(trajectory, result)


def _whereabouts(trajectory: Trajectory, result: Result) -> Iterator[Attribute]:
    call = result.call
    if call is not None:
        yield names.TOOL, fit_text(call.name, MAX_IDENTIFIER)
        if call.call_id is not None:
            yield names.CALL_ID, fit_text(call.call_id, MAX_IDENTIFIER)
    agent = judged_agent(trajectory, result)
    if agent is not None:
        yield names.AGENT, fit_text(agent, MAX_IDENTIFIER)
    if trajectory.conversation_id is not None:
        yield names.CONVERSATION, fit_text(trajectory.conversation_id, MAX_IDENTIFIER)
    if trajectory.service is not None:
        yield names.SERVICE, fit_text(trajectory.service, MAX_IDENTIFIER)
    end_ns = call.end_ns if call is not None else trajectory.end_ns
    if end_ns > 0:
        yield names.SPAN_END, min(end_ns, 2**63 - 1)


def judged_agent(trajectory: Trajectory, result: Result) -> str | None:
    """Name the agent that made the judged call, for a trajectory its first agent."""
    if result.call is not None:
        return result.call.agent
    return trajectory.agents[0] if trajectory.agents else None
