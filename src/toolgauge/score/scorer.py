"""Closed trajectories come in, results go out; the evaluators in between are plug-ins and trusted with nothing.

What an evaluator raises becomes `Errored`, what it yields is checked before it counts, and one that never
ends is cut off. A generator that yields `None` as pauses, so that scoring never keeps the event loop waiting.
"""

from collections.abc import Generator, Iterator, Sequence
from types import GeneratorType

from toolgauge.model.expected import Expected
from toolgauge.model.judging import Answers, Inquiry, Judged, JudgeEvaluator
from toolgauge.model.outcomes import NotEvaluated, Outcome, Reason, Result, Scored
from toolgauge.model.ports import Evaluation, Evaluator
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.applying import (
    Registered,
    Seen,
    applies,
    attribute_keys,
    outside_sample,
    register,
    seen_by,
    with_writing_tools,
)
from toolgauge.score.criterion import Criterion, ToolKinds
from toolgauge.score.pauses import Spent
from toolgauge.score.seen import Conversation, ExpectedValues
from toolgauge.score.verdicts import Checker, Marks, broken

# So many results are made without a pause.
_RESULTS_AT_A_TIME = 1000
# What one evaluator may take of its own time for one trajectory; 10,000 calls take the slowest of ours less.
_LONGEST_NS = 10_000_000_000


class _Registered(Inquiry, frozen=True, kw_only=True, eq=False):
    """An inquiry that knows its criterion: another one may have that name when the answers come."""

    registered: Criterion


class Scorer:
    """Scores trajectories against criteria. Keeps nothing between trajectories.

    Criteria that ask a judge are not scored here: `inquiries` says what they want to know, `judged` what came of it.
    """

    def __init__(self, criteria: Sequence[Criterion], kinds: ToolKinds, *, max_pauses: int = 20_000) -> None:
        """`max_pauses` is how often one evaluator may pause on one trajectory before it is cut off."""
        registered = tuple(map(register, criteria))
        self._scoring = tuple(one for one in registered if one.evaluator is not None)
        self._asking = tuple(one for one in registered if one.judge is not None)
        self._asking_by_name = {one.criterion.name: one.criterion for one in self._asking}
        self._kinds = kinds
        self._max_pauses = max_pauses
        self._expected_values = ExpectedValues()
        self.wanted: frozenset[str] = frozenset(key for criterion in criteria for key in attribute_keys(criterion))
        self.wants_conversations = any(criterion.scope == "conversation" for criterion in criteria)

    def score(self, trajectory: Trajectory, spent: Spent | None = None) -> Iterator[tuple[Result, ...] | None]:
        """Yield pauses (`None`) and at the end all results, in the order of the criteria and of the calls.

        An evaluator that takes too long of the time that is `spent` is cut off at its next pause.
        """
        spent = spent or Spent()
        trajectory = with_writing_tools(trajectory, (), self._kinds)
        conversation = Conversation(trajectory, self._expected_values)
        results: list[Result] = []
        for registered in self._scoring:
            if applies(registered, trajectory):
                if results:
                    yield None
                results += yield from self._results(registered, trajectory, conversation, spent)
        yield tuple(results)

    def overloaded(self, trajectory: Trajectory) -> tuple[Result, ...]:
        """Say for every criterion that applies that there was no room to score."""
        return self._unscored(trajectory, "overload", "the queue of closed trajectories was full")

    def interrupted(self, trajectory: Trajectory) -> tuple[Result, ...]:
        """Say for every criterion that applies that scoring was ended before it was done."""
        return self._unscored(trajectory, "incomplete", "scoring was interrupted")

    def inquiries(self, trajectory: Trajectory) -> tuple[Inquiry, ...]:
        """Say what the criteria that ask a judge want to know of the trajectory."""
        if not self._asking:
            return ()
        trajectory = with_writing_tools(trajectory, (), self._kinds)
        return tuple(
            _inquiry(registered.criterion, registered.judge, trajectory, seen_by(registered, trajectory, self._kinds))
            for registered in self._asking
            if registered.judge is not None and applies(registered, trajectory)
        )

    def judged(self, answers: Answers) -> tuple[Result, ...]:
        """Make results of what came of inquiries; outcomes are checked as those of other evaluators are."""
        return tuple(
            result
            for inquiry, judged in answers.answers
            for result in _judged_results(self._asked(inquiry), inquiry, answers.trajectory, judged)
        )

    def _asked(self, inquiry: Inquiry) -> Criterion:
        return inquiry.registered if isinstance(inquiry, _Registered) else self._asking_by_name[inquiry.criterion]

    def _unscored(self, trajectory: Trajectory, reason: Reason, explanation: str) -> tuple[Result, ...]:
        outcome = NotEvaluated(reason=reason, explanation=explanation)
        return tuple(
            result
            for registered in self._scoring
            if applies(registered, trajectory)
            for criterion in (registered.criterion,)
            for result in _made(criterion, trajectory, ((None, outside_sample(criterion, trajectory) or outcome),))
        )

    def _results(
        self, registered: Registered, trajectory: Trajectory, conversation: Conversation, spent: Spent
    ) -> Generator[None, None, list[Result]]:
        criterion, evaluator = registered.criterion, registered.evaluator
        seen = seen_by(registered, trajectory, self._kinds)
        if evaluator is None:
            return []
        if not isinstance(seen, Seen):
            return _made(criterion, trajectory, ((None, seen),))
        judged = yield from self._judged(registered, evaluator, seen, spent)
        if seen.expected is not None:
            judged = yield from _with_values_seen(judged, conversation, seen.expected)
        results: list[Result] = []
        for first in range(0, len(judged), _RESULTS_AT_A_TIME):
            if first:
                yield None
            results += _made(criterion, trajectory, judged[first : first + _RESULTS_AT_A_TIME])
        return results

    def _judged(
        self, registered: Registered, evaluator: Evaluator, seen: Seen, spent: Spent
    ) -> Generator[None, None, list[Judged]]:
        """Run the evaluator as far as it goes; what it said before it broke stays."""
        checker = Checker(evaluator.level, seen.trajectory.calls, registered.marks)
        pauses = 0
        until_ns = spent.ns + _LONGEST_NS
        try:
            evaluations = evaluator.evaluate(seen.trajectory, seen.expected)
            for _ in checker.checking(evaluations):
                pauses += 1
                if pauses > self._max_pauses or spent.ns > until_ns:
                    checker.judged.append(broken("timeout", "the evaluator did not end and was cut off"))
                    break
                yield None
            _close(evaluations)
        except Exception as error:  # noqa: BLE001 (plug-ins may raise anything; it becomes an outcome)
            # The message may quote argument values, so only the type is kept.
            checker.judged.append(broken(type(error).__name__, "the evaluator raised an exception"))
        return checker.judged or [(None, checker.silence())]


def _inquiry(criterion: Criterion, judge: JudgeEvaluator, trajectory: Trajectory, seen: Seen | NotEvaluated) -> Inquiry:
    settled = seen if isinstance(seen, NotEvaluated) else None
    return _Registered(
        criterion=criterion.name,
        evaluator=judge,
        trajectory=trajectory if isinstance(seen, NotEvaluated) else seen.trajectory,
        expected=None if isinstance(seen, NotEvaluated) else seen.expected,
        settled=settled,
        registered=criterion,
    )


def _judged_results(
    criterion: Criterion, inquiry: Inquiry, trajectory: Trajectory, judged: Sequence[Judged]
) -> list[Result]:
    checker = Checker(criterion.evaluator.level, inquiry.trajectory.calls, Marks(criterion.pass_at))
    checked: list[Judged] = []
    try:
        for call, outcome in judged or ((None, checker.silence()),):
            said = checker.passed(call, outcome)
            checked.append((call, said) if said is not None else broken("invalid_outcome", checker.problem))
    except Exception as error:  # noqa: BLE001 (plug-ins say what they like, with parts of their own making)
        checked.append(broken(type(error).__name__, "the outcome could not be checked"))
    return _made(criterion, trajectory, checked)


def _close(evaluations: Iterator[Evaluation]) -> None:
    # Nearly always of the plain kind; an abstract class has to be asked at length.
    if isinstance(evaluations, (GeneratorType, Generator)):
        evaluations.close()


def _with_values_seen(
    judged: list[Judged], conversation: Conversation, expected: Expected
) -> Generator[None, None, list[Judged]]:
    """Flag a reference that belongs to another conversation; a wrong join is silent otherwise."""
    if not any(call is None and isinstance(outcome, Scored) for call, outcome in judged):
        return judged
    share = yield from conversation.share_of(expected)
    if share is None:
        return judged
    return [(call, outcome if call is not None else _flagged(outcome, share)) for call, outcome in judged]


def _flagged(outcome: Outcome, share: float) -> Outcome:
    if not isinstance(outcome, Scored):
        return outcome
    explanation = outcome.explanation
    if share == 0:
        explanation += "; no value of the reference occurs in the conversation: it may belong to another one"
    # Not `replace`, as below.
    return Scored(
        value=outcome.value,
        explanation=explanation,
        parts={**outcome.parts, "reference_values_seen": share},
        differences=outcome.differences,
        passed=outcome.passed,
    )


def _made(criterion: Criterion, trajectory: Trajectory, judged: Sequence[Judged]) -> list[Result]:
    name, revision, enforce, root = criterion.name, criterion.revision, criterion.enforce, trajectory.root
    evaluator, version, level = criterion.evaluator_name, criterion.evaluator.version, criterion.evaluator.level
    # By position: this is made of every result, and costs half as much.
    return [
        Result(name, revision, evaluator, version, level, enforce, root if call is None else call.span, call, outcome)
        for call, outcome in judged
    ]
