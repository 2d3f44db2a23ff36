"""The attributes of one result, as they stand in a log record and in the scorecard's span event.

In three parts: what all results of a criterion with this outcome share and what all results for one call share
is written once; the rest is added to each.
"""

from collections.abc import Iterator
from typing import TypeAlias

from toolgauge.emit import names
from toolgauge.emit.fit import MAX_EXPLANATION, MAX_IDENTIFIER, MAX_LABEL, fit_text
from toolgauge.emit.redact import Redactor
from toolgauge.emit.wire import AttributeValue, AttributeWriter
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

Attribute: TypeAlias = tuple[str, AttributeValue]
_Constant: TypeAlias = tuple[str, str, str, str, Level, Enforce, OutcomeWord]
# What was written while scorecards are encoded: of results and outcomes by their identity, and of judged calls by that
# of trajectory and call.
Places: TypeAlias = dict[int | tuple[int, int], tuple[bytes, ...]]

_MAX_CONSTANTS = 4096


class ResultWriter:
    """Writes results as attributes, each with its length in front."""

    def __init__(self, redactor: Redactor) -> None:
        self._attributes = AttributeWriter()
        self._redactor = redactor
        self._constants: dict[_Constant, tuple[bytes, ...]] = {}

    def attributes(self, trajectory: Trajectory, result: Result, outcome: Outcome, places: Places) -> tuple[bytes, ...]:
        """Write one result. `places` is empty at first and kept for as long as these scorecards are encoded."""
        # A result stands in an event of the scorecard's span and in a log record.
        written = places.get(id(result))
        if written is not None:
            return written
        key = (id(trajectory), id(result.call))
        place = places.get(key)
        if place is None:
            place = places[key] = tuple(self._place(trajectory, result))
        # Not of `outcome`, which may be made for this call alone: an id must not come to name something new.
        varying = places.get(id(result.outcome))
        if varying is None:
            varying = places[id(result.outcome)] = tuple(self._varying(outcome))
        written = places[id(result)] = (*self._constant(result, outcome), *place, *varying)
        return written

    def _constant(self, result: Result, outcome: Outcome) -> tuple[bytes, ...]:
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
            if len(self._constants) >= _MAX_CONSTANTS:
                self._constants.clear()
            known = tuple(self._attributes.one(name, value) for name, value in _constant_attributes(key))
            self._constants[key] = known
        return known

    def _place(self, trajectory: Trajectory, result: Result) -> Iterator[bytes]:
        one, repeated = self._attributes.one, self._attributes.repeated
        call = result.call
        if call is not None:
            yield repeated(names.TOOL, call.name, MAX_IDENTIFIER)
            if call.call_id is not None:
                yield one(names.CALL_ID, fit_text(call.call_id, MAX_IDENTIFIER))
        agent = judged_agent(trajectory, result)
        if agent is not None:
            yield repeated(names.AGENT, agent, MAX_IDENTIFIER)
        if trajectory.conversation_id is not None:
            # An id, but the same for all calls of the trajectory.
            yield repeated(names.CONVERSATION, trajectory.conversation_id, MAX_IDENTIFIER)
        if trajectory.service is not None:
            yield repeated(names.SERVICE, trajectory.service, MAX_IDENTIFIER)
        end_ns = call.end_ns if call is not None else trajectory.end_ns
        if end_ns > 0:
            yield one(names.SPAN_END, min(end_ns, 2**63 - 1))

    def _varying(self, outcome: Outcome) -> Iterator[bytes]:
        match outcome:
            case Scored(value=value):
                yield self._attributes.figure(names.SCORE_VALUE, float(value))
            case NotEvaluated(reason=reason):
                yield self._attributes.repeated(names.REASON, reason, MAX_LABEL)
            case Errored(error_type=error_type):
                yield self._attributes.repeated(names.ERROR_TYPE, error_type or "_OTHER", MAX_LABEL)
        explanation = self._redactor.explain(outcome)
        if explanation:
            yield self._attributes.repeated(names.EXPLANATION, explanation, MAX_EXPLANATION)


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


def judged_agent(trajectory: Trajectory, result: Result) -> str | None:
    """Name the agent that made the judged call, for a trajectory its first agent."""
    if result.call is not None:
        return result.call.agent
    return trajectory.agents[0] if trajectory.agents else None
