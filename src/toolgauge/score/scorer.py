"""Closed trajectories come in, results go out; the evaluators in between are trusted with nothing.

An exception of an evaluator becomes `Errored`, and its outcomes are checked before they count. Our evaluators end; plug-ins
have a deadline of their own (`service/plug_in_evaluators.py`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import TypeAlias, cast

from msgspec.structs import replace

from toolgauge.model.errors import EvaluationError, is_interrupt
from toolgauge.model.expected import Expected
from toolgauge.model.judging import Answers, Inquiry, Judged
from toolgauge.model.left_out import RememberedEffects
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.outcomes import Errored, NotEvaluated, Reason, Result, Scored
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.contracts import ToolKinds
from toolgauge.score.criterion import (
    Criterion,
    Registered,
    Seen,
    applies,
    attribute_keys,
    outside_sample,
    register,
    seen_by,
    with_neutral_tools,
    with_writing_tools,
)
from toolgauge.score.facts import Facts
from toolgauge.score.origins.grounding import Seen as TextsSeen
from toolgauge.score.recorded_values import Conversation, ExpectedValues
from toolgauge.score.tool_offers import RecentOffers
from toolgauge.score.unmatched import OnUnmatched, UnmatchedCriteria
from toolgauge.score.verdicts import Checker, broken, raised

# Entered around each evaluation.
Around: TypeAlias = Callable[[Criterion, Trajectory], AbstractContextManager[None]]

_NOTHING = nullcontext()


def nothing_around(criterion: Criterion, trajectory: Trajectory) -> AbstractContextManager[None]:  # noqa: ARG001 (the same for all)
    """Do nothing before and after an evaluation."""
    return _NOTHING


class _Registered(Inquiry, frozen=True, kw_only=True, eq=False):
    """An inquiry that knows its criterion: another one may have that name when the answers come."""

    registered: Registered


# Criteria that ask a judge are not scored here: `inquiries` returns their questions, `judged` takes the answers.
class Scorer:
    """Scores trajectories against criteria; remembers recent offers."""

    def __init__(
        self,
        criteria: Sequence[Criterion],
        kinds: ToolKinds,
        *,
        around: Around = nothing_around,
        on_unmatched: OnUnmatched | None = None,
        registered_tools: Mapping[str, ToolDefinition] | None = None,
    ) -> None:
        """`around` is entered for each evaluation; `on_unmatched` logs criteria that match nothing."""
        registered = tuple(map(register, criteria))
        self.criteria = tuple(criteria)
        self._scoring = tuple(one for one in registered if one.evaluator is not None)
        self._asking = tuple(one for one in registered if one.judge is not None)
        self._asking_by_name = {one.criterion.name: one for one in self._asking}
        self.kinds = kinds
        self._around = around
        # What the agent had seen, and the effects of its calls, of the trajectory scored last; `None` where no criterion asked for it.
        self.seen: TextsSeen | None = None
        self.effects: RememberedEffects | None = None
        # How many results of the trajectory scored last read like errors, by whether their calls failed for it. A call of a
        # conversation counts once, with its trace unless only conversations are judged.
        self.reported_errors: Mapping[str, int] = {}
        self._counts_in = next((one.scope for one in criteria if one.evaluator_name == "tool_success"), "trace")
        self._expected_values = ExpectedValues()
        self._recent_offers = RecentOffers()
        self.registered_tools: Mapping[str, ToolDefinition] = registered_tools or {}
        self.unmatched = UnmatchedCriteria(registered, on_unmatched)
        self.wanted: frozenset[str] = frozenset(key for criterion in criteria for key in attribute_keys(criterion))
        # Whether traces of a conversation are joined.
        self.gathers_conversations = any(one.scope == "conversation" for one in criteria)
        # Whether a criterion judges a trace by what earlier traces of its conversation showed.
        self.wants_earlier_values = any(
            one.criterion.scope == "trace" and one.needs.earlier_traces for one in self._scoring
        )

    def score(self, trajectory: Trajectory, *, lacking: Reason = "incomplete") -> tuple[Result, ...]:
        """Return all results, in the order of the criteria and of the calls."""
        # Of an incomplete trajectory only whole calls are judged, by evaluators that look at a call alone; `lacking` is the reason why.
        trajectory = with_writing_tools(with_neutral_tools(trajectory, self.kinds), (), self.kinds)
        if self.registered_tools:
            trajectory = replace(trajectory, registered_tools=self.registered_tools)
        self.unmatched.see(trajectory)
        conversation = Conversation(trajectory, self._expected_values)
        completed = self._recent_offers.completed(trajectory)
        if completed is not trajectory:
            completed = with_writing_tools(completed, (), self.kinds)
        incomplete = trajectory.incomplete
        # The outcome of all evaluators that judge an incomplete trajectory as a whole.
        half = None if incomplete is None else NotEvaluated(reason=lacking, explanation=incomplete)
        facts = Facts(completed, self.kinds)
        results: list[Result] = []
        for registered in self._scoring:
            if applies(registered, trajectory):
                shown = (
                    facts if registered.needs.recent_offer or completed is trajectory else Facts(trajectory, self.kinds)
                )
                results += self._results(registered, shown, conversation, half)
        self.seen, self.effects = facts.seen, facts.effects
        is_counted = trajectory.scope == self._counts_in and "error_texts" in vars(facts)
        self.reported_errors = facts.error_texts.outcomes if is_counted else {}
        return tuple(results)

    def overloaded(self, trajectory: Trajectory) -> tuple[Result, ...]:
        """Return `overload` for every criterion that applies."""
        return self._unscored(trajectory, "overload", "the queue of closed trajectories was full")

    def interrupted(self, trajectory: Trajectory) -> tuple[Result, ...]:
        """Return `incomplete` for every criterion that applies."""
        return self._unscored(trajectory, "incomplete", "scoring was interrupted")

    def inquiries(self, trajectory: Trajectory, *, lacking: Reason = "incomplete") -> tuple[Inquiry, ...]:
        """Return the inquiries of the criteria that ask a judge; of an incomplete trajectory they are settled."""
        if not self._asking:
            return ()
        trajectory = with_writing_tools(trajectory, (), self.kinds)
        incomplete = trajectory.incomplete
        half = None if incomplete is None else NotEvaluated(reason=lacking, explanation=incomplete)
        found: list[Inquiry] = []
        for registered in self._asking:
            if registered.judge is not None and applies(registered, trajectory):
                seen = seen_by(registered, trajectory, self.kinds)
                shown, settled = (seen, half) if isinstance(seen, Seen) else (Seen(trajectory, None), seen)
                found.append(
                    _Registered(
                        criterion=registered.criterion.name,
                        evaluator=registered.judge,
                        trajectory=shown.trajectory,
                        expected=shown.expected,
                        settled=settled,
                        registered=registered,
                    )
                )
        return tuple(found)

    def judged(self, answers: Answers) -> tuple[Result, ...]:
        """Make results of the answers to inquiries; their outcomes are checked like all others."""
        results: list[Result] = []
        for inquiry, judged in answers.answers:
            registered = (
                inquiry.registered if isinstance(inquiry, _Registered) else self._asking_by_name[inquiry.criterion]
            )
            checker = Checker(registered.criterion.evaluator.level, inquiry.trajectory.calls, registered.marks)
            checked: list[Judged] = []
            try:
                for call, outcome in judged or ((None, checker.silence()),):
                    passed = checker.passed(call, outcome)
                    checked.append(
                        (call, passed[0]) if passed is not None else broken("invalid_outcome", checker.problem)
                    )
            except Exception as error:  # noqa: BLE001 (outcomes may hold objects of the plug-in, which may raise anything)
                checked.append(broken(type(error).__name__, "the outcome could not be checked"))
            root = answers.trajectory.root
            results += [
                registered.made(root if call is None else call.span, call, outcome) for call, outcome in checked
            ]
        return tuple(results)

    def _unscored(self, trajectory: Trajectory, reason: Reason, explanation: str) -> tuple[Result, ...]:
        outcome = NotEvaluated(reason=reason, explanation=explanation)
        return tuple(
            registered.made(trajectory.root, None, outside_sample(registered.criterion, trajectory) or outcome)
            for registered in self._scoring
            if applies(registered, trajectory)
        )

    def _results(
        self, registered: Registered, facts: Facts, conversation: Conversation, half: NotEvaluated | None
    ) -> list[Result]:
        criterion, evaluator, trajectory = registered.criterion, registered.evaluator, facts.trajectory
        if evaluator is None:
            return []
        seen = seen_by(registered, trajectory, self.kinds)
        if not isinstance(seen, Seen):
            return [registered.made(trajectory.root, None, seen)]
        if half is not None:
            # Without the tool's span nobody knows what became of a call, without the model's with which arguments it was
            # made; and without an id, whether both are of the same call.
            calls = () if registered.needs_whole else tuple(one for one in seen.trajectory.calls if one.is_joined_by_id)
            if not calls:
                return [registered.made(trajectory.root, None, half)]
            seen = Seen(replace(seen.trajectory, calls=calls), seen.expected)
        outcomes: list[Judged] = []
        fault: Errored | None = None
        # One outcome a call and one for the trajectory; after them any other is a repeat, which is refused.
        most = len(seen.trajectory.calls) + 2
        with self._around(criterion, trajectory):
            try:
                if registered.outcomes is not None:
                    shown = facts if seen.trajectory is trajectory else Facts(seen.trajectory, self.kinds)
                    outcomes.extend(islice(registered.outcomes(shown), most))
                else:
                    # The spare thread has left out the `None` between outcomes that plug-ins may yield.
                    evaluations = cast("Iterable[Judged]", evaluator.evaluate(seen.trajectory, seen.expected))
                    outcomes.extend(islice(evaluations, most))
            except EvaluationError as error:
                fault = Errored(error_type=error.error_type, message=error.message)
            except BaseException as error:
                if is_interrupt(error):
                    raise
                fault = raised(error, __file__)
        results = _checked(registered, seen, outcomes, fault, trajectory.root)
        if half is not None:
            # Its missing part may be in the other half.
            return [
                registered.made(one.target, None, half)
                if one.call is None and isinstance(one.outcome, NotEvaluated)
                else one
                for one in results
            ]
        expected = seen.expected
        return results if expected is None else [_with_values_seen(one, conversation, expected) for one in results]


def _checked(
    registered: Registered, seen: Seen, outcomes: Sequence[Judged], fault: Errored | None, root: SpanRef | None
) -> list[Result]:
    made = registered.made
    checker = Checker(registered.criterion.evaluator.level, seen.trajectory.calls, registered.marks)
    try:
        is_sound = checker.check(outcomes, made, root)
    except Exception as error:  # noqa: BLE001 (outcomes may hold objects of the plug-in, which may raise anything)
        return [*checker.results, made(root, None, raised(error, __file__))]
    if is_sound and fault is not None:
        return [*checker.results, made(root, None, fault)]
    return checker.results or [made(root, None, checker.silence())]


def _with_values_seen(result: Result, conversation: Conversation, expected: Expected) -> Result:
    """Flag a reference that belongs to another conversation; a wrong join is silent otherwise."""
    outcome = result.outcome
    if result.call is not None or not isinstance(outcome, Scored):
        return result
    share = conversation.share_of(expected)
    if share is None:
        return result
    explanation = outcome.explanation
    # A case may have calls alone: without messages they only show that the agent passes other values.
    if share == 0 and conversation.has_messages:
        explanation += "; no value of the reference occurs in the conversation: it may belong to another one"
    parts = {**outcome.parts, "reference_values_seen": share}
    return replace(result, outcome=replace(outcome, explanation=explanation, parts=parts))
