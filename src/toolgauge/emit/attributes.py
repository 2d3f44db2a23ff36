"""The attributes of one result, as they stand on the log record and on the scorecard's span event.

In three parts: what all results of a criterion with this outcome share and what all results for one call share
is serialised once; the rest is added to each. `append_all` is the one place where a Python value becomes an OTLP value.
"""

# pyright: reportUnknownMemberType=false

from collections.abc import Callable, Iterable, Iterator
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
_Constant: TypeAlias = tuple[str, str, str, str, Level, Enforce, OutcomeWord]
# Serialised attributes by judged call (by identity; 0 is the trajectory), for the results of one scorecard.
Places: TypeAlias = dict[int, bytes]

_MAX_TEMPLATES = 4096


class AttributeList(Protocol):
    """A protobuf message's repeated `attributes`."""

    def add(self, *, key: str) -> KeyValue:
        """Append an attribute."""
        ...


class Carrier(Protocol):
    """A protobuf message with attributes: a log record or a span event."""

    @property
    def attributes(self) -> AttributeList:
        """Its attributes."""
        ...

    def MergeFromString(self, serialized: bytes) -> int:  # noqa: N802 # protobuf's name
        """Append serialised fields."""
        ...

    def SerializeToString(self) -> bytes:  # noqa: N802 # protobuf's name
        """Serialise."""
        ...


def append_all(target: AttributeList, attributes: Iterable[Attribute]) -> None:
    """Append attributes to a message."""
    for key, value in attributes:
        encoded = target.add(key=key).value
        match value:
            case str():
                encoded.string_value = value
            case bool():
                encoded.bool_value = value
            case int():
                encoded.int_value = value
            case float():
                encoded.double_value = value


class ResultWriter:
    """Writes results into messages. `begin` makes a message that holds what its kind has for an outcome."""

    def __init__(
        self, begin: Callable[[OutcomeWord], Carrier], empty: Callable[[], Carrier], redactor: Redactor
    ) -> None:
        self._begin = begin
        self._empty = empty
        self._redactor = redactor
        self._constants: dict[_Constant, bytes] = {}

    def write(self, target: Carrier, trajectory: Trajectory, result: Result, outcome: Outcome, places: Places) -> None:
        """Write one result. `places` is empty for the first result of a scorecard and kept for its others."""
        key = id(result.call) if result.call is not None else 0
        place = places.get(key)
        if place is None:
            place = places[key] = self._place(trajectory, result)
        target.MergeFromString(self._constant(result, outcome) + place)
        append_all(target.attributes, self._varying(outcome))

    def _constant(self, result: Result, outcome: Outcome) -> bytes:
        key = (
            result.criterion,
            result.revision,
            result.evaluator,
            result.version,
            result.level,
            result.enforce,
            outcome_word(outcome),
        )
        known = self._constants.get(key)
        if known is None:
            # Criteria come and go with the configuration; a process that reloads for a year must not grow.
            if len(self._constants) >= _MAX_TEMPLATES:
                self._constants.clear()
            message = self._begin(key[-1])
            append_all(message.attributes, _constant_attributes(key))
            known = self._constants[key] = message.SerializeToString()
        return known

    def _place(self, trajectory: Trajectory, result: Result) -> bytes:
        message = self._empty()
        append_all(message.attributes, _place_attributes(trajectory, result))
        return message.SerializeToString()

    def _varying(self, outcome: Outcome) -> Iterator[Attribute]:
        match outcome:
            case Scored(value=value):
                yield names.SCORE_VALUE, float(value)
            case NotEvaluated(reason=reason):
                yield names.REASON, reason
            case Errored(error_type=error_type):
                yield names.ERROR_TYPE, fit_text(error_type, MAX_LABEL) or "_OTHER"
        explanation = self._redactor.explain(outcome)
        if explanation:
            yield names.EXPLANATION, explanation


def _constant_attributes(constant: _Constant) -> Iterator[Attribute]:
    criterion, revision, evaluator, version, level, enforce, word = constant
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


def _place_attributes(trajectory: Trajectory, result: Result) -> Iterator[Attribute]:
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
