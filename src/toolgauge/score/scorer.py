"""Closed trajectories come in, results go out; the evaluators in between are plug-ins and trusted with nothing.

What an evaluator raises becomes `Errored`, what it yields is checked before it counts, and one that never
ends is cut off. A generator that yields `None` as pauses, so that scoring never keeps the event loop waiting.
"""

import hashlib
import json
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from toolgauge.model.expected import Expected
from toolgauge.model.outcomes import Errored, NotEvaluated, Outcome, Reason, Result, Scored
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.compare import same
from toolgauge.score.criterion import Criterion, Inline, Lookup, NoReference, ToolKinds
from toolgauge.score.globs import Globs
from toolgauge.score.seen import share_of_values_seen
from toolgauge.score.verdicts import Checker

# Room for rounding: a mean of thirds must be able to reach a threshold of 1.
_ROUNDING = 1e-9
_SAMPLED_OUT = NotEvaluated(reason="sampled_out", explanation="not in the sample")

_Judged: TypeAlias = tuple[ToolCall | None, Outcome]


@dataclass(frozen=True, slots=True)
class _Registered:
    """A criterion with its globs compiled."""

    criterion: Criterion
    service: Globs | None
    agent: Globs | None
    case: Globs | None


class Scorer:
    """Scores trajectories against criteria. Keeps nothing between trajectories."""

    def __init__(self, criteria: Sequence[Criterion], kinds: ToolKinds, *, max_pauses: int = 2000) -> None:
        """`max_pauses` is how often one evaluator may pause on one trajectory before it is cut off."""
        self._registered = tuple(_register(criterion) for criterion in criteria)
        self._kinds = kinds
        self._max_pauses = max_pauses
        self.wanted: frozenset[str] = frozenset(key for criterion in criteria for key in _attribute_keys(criterion))
        self.wants_conversations = any(criterion.scope == "conversation" for criterion in criteria)

    def score(self, trajectory: Trajectory) -> Iterator[tuple[Result, ...] | None]:
        """Yield pauses (`None`) and at the end all results, in the order of the criteria and of the calls."""
        trajectory = self._with_writing_tools(trajectory, ())
        results: list[Result] = []
        for registered in self._applying_to(trajectory):
            if results:
                yield None
            results.extend((yield from self._results(registered, trajectory)))
        yield tuple(results)

    def overloaded(self, trajectory: Trajectory) -> tuple[Result, ...]:
        """Say for every criterion that applies that there was no room to score."""
        return self._unscored(trajectory, "overload", "the queue of closed trajectories was full")

    def interrupted(self, trajectory: Trajectory) -> tuple[Result, ...]:
        """Say for every criterion that applies that scoring was ended before it was done."""
        return self._unscored(trajectory, "incomplete", "scoring was interrupted")

    def _unscored(self, trajectory: Trajectory, reason: Reason, explanation: str) -> tuple[Result, ...]:
        outcome = NotEvaluated(reason=reason, explanation=explanation)
        return tuple(
            _result(
                registered.criterion,
                trajectory,
                None,
                outcome if _is_sampled(registered.criterion, trajectory) else _SAMPLED_OUT,
            )
            for registered in self._applying_to(trajectory)
        )

    def _applying_to(self, trajectory: Trajectory) -> Iterator[_Registered]:
        return (registered for registered in self._registered if _applies(registered, trajectory))

    def _results(self, registered: _Registered, trajectory: Trajectory) -> Generator[None, None, list[Result]]:
        criterion = registered.criterion
        if not _is_sampled(criterion, trajectory):
            return [_result(criterion, trajectory, None, _SAMPLED_OUT)]
        expected = _reference(criterion, trajectory)
        if expected is None and not isinstance(criterion.reference, NoReference):
            outcome = NotEvaluated(reason="no_reference", explanation="the trajectory names no known case")
            return [_result(criterion, trajectory, None, outcome)]
        narrowed = self._narrowed(registered, trajectory, expected)
        judged = yield from self._judged(criterion, narrowed, expected)
        if expected is not None:
            judged = yield from _with_values_seen(judged, narrowed, expected)
        return [_result(criterion, trajectory, call, _passed(outcome, criterion.pass_at)) for call, outcome in judged]

    def _narrowed(self, registered: _Registered, trajectory: Trajectory, expected: Expected | None) -> Trajectory:
        if expected is not None:
            trajectory = self._with_writing_tools(trajectory, tuple(call.name for call in expected.calls))
        if registered.agent is None or registered.criterion.evaluator.level != "call":
            return trajectory
        agent = registered.agent
        calls = tuple(call for call in trajectory.calls if agent.match(_agent_of(call, trajectory)))
        return replace(trajectory, calls=calls)

    def _with_writing_tools(self, trajectory: Trajectory, expected_names: tuple[str, ...]) -> Trajectory:
        called = trajectory.writing_tools if expected_names else {call.name for call in trajectory.calls}
        names = {*called, *expected_names}
        return replace(trajectory, writing_tools=frozenset(name for name in names if self._kinds.writes(name)))

    def _judged(
        self, criterion: Criterion, trajectory: Trajectory, expected: Expected | None
    ) -> Generator[None, None, list[_Judged]]:
        """Run the evaluator as far as it goes; what it said before it broke stays."""
        judged: list[_Judged] = []
        checker = Checker(criterion.evaluator.level, trajectory.calls)
        pauses = 0
        try:
            evaluations = criterion.evaluator.evaluate(trajectory, expected)
            for evaluation in evaluations:
                if evaluation is not None:
                    call, outcome = evaluation
                    problem = checker.problem(call, outcome)
                    judged.append((call, outcome) if problem is None else _broken("invalid_outcome", problem))
                    if problem is None:
                        continue
                    break
                pauses += 1
                if pauses > self._max_pauses:
                    judged.append(_broken("timeout", "the evaluator did not end and was cut off"))
                    break
                yield None
            _close(evaluations)
        except Exception as error:  # noqa: BLE001 (plug-ins may raise anything; it becomes an outcome)
            # The message may quote argument values, so only the type is kept.
            judged.append(_broken(type(error).__name__, "the evaluator raised an exception"))
        return judged or [(None, checker.silence())]


def _broken(error_type: str, message: str) -> _Judged:
    return None, Errored(error_type=error_type, message=message)


def _close(evaluations: Iterator[Evaluation]) -> None:
    if isinstance(evaluations, Generator):
        evaluations.close()


def _register(criterion: Criterion) -> _Registered:
    when = criterion.when
    return _Registered(
        criterion,
        service=None if when.service is None else Globs((when.service,)),
        agent=None if when.agent is None else Globs((when.agent,)),
        case=None if when.case is None else Globs((when.case,)),
    )


def _attribute_keys(criterion: Criterion) -> Iterator[str]:
    yield from criterion.when.attributes
    if isinstance(criterion.reference, Lookup):
        yield criterion.reference.key


def _applies(registered: _Registered, trajectory: Trajectory) -> bool:
    criterion = registered.criterion
    return (
        criterion.scope == trajectory.scope
        and (registered.service is None or registered.service.match(trajectory.service or ""))
        and (registered.agent is None or _has_agent(registered.agent, trajectory))
        and (registered.case is None or _is_case(registered.case, criterion, trajectory))
        and all(
            key in trajectory.attributes and same(trajectory.attributes[key], value)
            for key, value in criterion.when.attributes.items()
        )
    )


def _has_agent(agent: Globs, trajectory: Trajectory) -> bool:
    return any(agent.match(name) for name in trajectory.agents)


def _agent_of(call: ToolCall, trajectory: Trajectory) -> str:
    if call.agent is not None:
        return call.agent
    if call.agent_path:
        return call.agent_path[-1]
    # With a single agent there is no doubt whose call it was.
    return trajectory.agents[0] if len(trajectory.agents) == 1 else ""


def _case(criterion: Criterion, trajectory: Trajectory) -> str | None:
    if not isinstance(criterion.reference, Lookup):
        return None
    value = trajectory.attributes.get(criterion.reference.key)
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _is_case(case: Globs, criterion: Criterion, trajectory: Trajectory) -> bool:
    value = _case(criterion, trajectory)
    return value is not None and case.match(value)


def _reference(criterion: Criterion, trajectory: Trajectory) -> Expected | None:
    match criterion.reference:
        case NoReference():
            return None
        case Inline(expected=expected):
            return expected
        case Lookup(cases=cases):
            case = _case(criterion, trajectory)
            return None if case is None else cases.get(case)


def _is_sampled(criterion: Criterion, trajectory: Trajectory) -> bool:
    if criterion.sample >= 1:
        return True
    # The criterion is not part of what is hashed: all criteria see the same conversations.
    identity = trajectory.conversation_id or trajectory.trace_id
    digest = hashlib.sha256(identity.encode("utf-8", "backslashreplace")).digest()
    return int.from_bytes(digest[:8], "big") < criterion.sample * 2**64


def _with_values_seen(
    judged: list[_Judged], trajectory: Trajectory, expected: Expected
) -> Generator[None, None, list[_Judged]]:
    """Flag a reference that belongs to another conversation; a wrong join is silent otherwise."""
    if not any(call is None and isinstance(outcome, Scored) for call, outcome in judged):
        return judged
    share = yield from share_of_values_seen(trajectory, expected)
    if share is None:
        return judged
    return [(call, outcome if call is not None else _flagged(outcome, share)) for call, outcome in judged]


def _flagged(outcome: Outcome, share: float) -> Outcome:
    if not isinstance(outcome, Scored):
        return outcome
    explanation = outcome.explanation
    if share == 0:
        explanation += "; no value of the reference occurs in the conversation: it may belong to another one"
    return replace(outcome, explanation=explanation, parts={**outcome.parts, "reference_values_seen": share})


def _passed(outcome: Outcome, pass_at: float) -> Outcome:
    if not isinstance(outcome, Scored):
        return outcome
    # Not `replace`, which costs three times as much, once for every call of every trajectory.
    return Scored(
        value=outcome.value,
        explanation=outcome.explanation,
        parts=outcome.parts,
        differences=outcome.differences,
        passed=outcome.value >= pass_at - _ROUNDING,
    )


def _result(criterion: Criterion, trajectory: Trajectory, call: ToolCall | None, outcome: Outcome) -> Result:
    return Result(
        criterion=criterion.name,
        revision=criterion.revision,
        evaluator=criterion.evaluator_name,
        version=criterion.evaluator.version,
        level=criterion.evaluator.level,
        enforce=criterion.enforce,
        target=trajectory.root if call is None else call.span,
        call=call,
        outcome=outcome,
    )
