"""Closed trajectories come in, results go out; the evaluators in between are trusted with nothing.

An exception of an evaluator becomes `Errored`, and its outcomes are checked before they count. Our evaluators end; plug-ins
have a deadline of their own (`service/plug_in_evaluators.py`).
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from pathlib import PurePath
from traceback import walk_tb
from typing import TypeAlias, cast, get_args

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.errors import EvaluationError, is_interrupt
from toolgauge.model.expected import Expected
from toolgauge.model.judging import Answers, Inquiry
from toolgauge.model.left_out import RememberedEffects
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.outcomes import Difference, Errored, Level, NotEvaluated, Outcome, Reason, Result, Scored, Side
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.contracts import ToolKinds
from toolgauge.score.criterion import (
    NO_SCORE,
    OUTCOMES,
    Criterion,
    Makes,
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
from toolgauge.score.selection import NO_CALLS
from toolgauge.score.tool_offers import RecentOffers
from toolgauge.score.unmatched import OnUnmatched, UnmatchedCriteria

# Entered around each evaluation.
Around: TypeAlias = Callable[[Criterion, Trajectory], AbstractContextManager[None]]


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
        around: Around | None = None,
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
        self._evaluated = _evaluated if around is None else partial(_measured, around)
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
        own_facts = facts if completed is trajectory else Facts(trajectory, self.kinds)
        results: list[Result] = []
        is_narrowed = half is not None or bool(trajectory.code_steps)
        for registered in self._scoring:
            if not applies(registered, trajectory):
                continue
            shown = facts if registered.needs.recent_offer else own_facts
            if registered.is_plain and not is_narrowed:
                results += self._evaluated(registered, shown, None)
            else:
                results += self._narrowed(registered, shown, conversation, half)
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
        root = answers.trajectory.root
        for inquiry, judged in answers.answers:
            asked = inquiry.registered if isinstance(inquiry, _Registered) else self._asking_by_name[inquiry.criterion]
            level, makes = asked.criterion.evaluator.level, asked.makes
            checker = Checker(makes, level, inquiry.trajectory.calls)
            for call, outcome in judged or ((None, NO_CALLS if level == "call" else _SILENCE),):
                try:
                    results.append(checker.result(call, outcome, root))
                except EvaluationError as error:
                    results.append(makes.made(raised(error, __file__))(root))
                except Exception as error:  # noqa: BLE001 (outcomes may hold objects of the plug-in, which may raise anything)
                    fault = Errored(error_type=type(error).__name__, message="the outcome could not be checked")
                    results.append(makes.made(fault)(root))
                    break
        return tuple(results)

    def _unscored(self, trajectory: Trajectory, reason: Reason, explanation: str) -> tuple[Result, ...]:
        outcome = NotEvaluated(reason=reason, explanation=explanation)
        return tuple(
            registered.makes.made(outside_sample(registered.criterion, trajectory) or outcome)(trajectory.root)
            for registered in self._scoring
            if applies(registered, trajectory)
        )

    def _narrowed(
        self, registered: Registered, facts: Facts, conversation: Conversation, half: NotEvaluated | None
    ) -> list[Result]:
        trajectory, makes = facts.trajectory, registered.makes
        seen = seen_by(registered, trajectory, self.kinds)
        if not isinstance(seen, Seen):
            return [makes.made(seen)(trajectory.root)]
        shown, expected = seen.trajectory, seen.expected
        if half is not None:
            # Without the tool's span nobody knows what became of a call, without the model's with which arguments it was
            # made; and without an id, whether both are of the same call.
            calls = () if registered.needs_whole else tuple([one for one in shown.calls if one.is_joined_by_id])
            if not calls:
                return [makes.made(half)(trajectory.root)]
            shown = replace(shown, calls=calls)
        results = self._evaluated(registered, facts if shown is trajectory else Facts(shown, self.kinds), expected)
        if half is not None:
            # Its missing part may be in the other half.
            return [
                makes.made(half)(one.target) if one.call is None and isinstance(one.outcome, NotEvaluated) else one
                for one in results
            ]
        return results if expected is None else [_with_values_seen(one, conversation, expected) for one in results]


def _measured(around: Around, registered: Registered, facts: Facts, expected: Expected | None) -> list[Result]:
    with around(registered.criterion, facts.trajectory):
        return _evaluated(registered, facts, expected)


def _evaluated(registered: Registered, facts: Facts, expected: Expected | None) -> list[Result]:
    """Make results up to the first outcome that is wrong, or up to an exception, in place of which there is an error."""
    makes, root, outcomes = registered.makes, facts.trajectory.root, registered.outcomes
    results: list[Result] = []
    try:
        if outcomes is not None:
            for call, outcome in outcomes(facts):
                make = makes.get(id(outcome)) or makes.of(outcome)
                results.append(make(root) if call is None else make(call.span, call))
        elif registered.evaluator is not None:
            checker = Checker(makes, registered.evaluator.level, facts.trajectory.calls)
            for evaluation in registered.evaluator.evaluate(facts.trajectory, expected):
                # Older plug-ins yield `None` between outcomes.
                if evaluation is not None:
                    call, outcome = evaluation
                    results.append(checker.result(call, outcome, root))
    except BaseException as error:
        if is_interrupt(error):
            raise
        results.append(makes.made(raised(error, __file__))(root))
    if results:
        return results
    return [makes.made(NO_CALLS if registered.criterion.evaluator.level == "call" else _SILENCE)(root)]


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


_LARGEST = sys.float_info.max
_REASONS = frozenset[str](get_args(Reason))
# The longest text, and the most parts or differences, that an evaluator of a plug-in or file may give.
MAX_TEXT = 10_000
MAX_ENTRIES = 100


class Checker:
    """Checks the outcomes of one evaluator for one trajectory, one after the other."""

    def __init__(self, makes: Makes, level: Level, calls: tuple[ToolCall, ...]) -> None:
        self._makes, self._level = makes, level
        # Each target is judged once, so a never-ending evaluator runs out of targets.
        self._left: set[int | None] = {None, *(map(id, calls) if level == "call" else ())}

    def result(self, call: ToolCall | None, outcome: Outcome, root: SpanRef | None) -> Result:
        """Make a result. Raises `EvaluationError` when something is wrong with the outcome or its target."""
        target = None if call is None else id(call)
        if target not in self._left:
            raise EvaluationError("invalid_outcome", "the evaluator judged a call twice or one that is not there")
        self._left.discard(target)
        if call is None and self._level == "call" and isinstance(outcome, Scored):
            message = "the evaluator scored the trajectory where it declares to score calls"
            raise EvaluationError("invalid_outcome", message)
        make = self._makes.get(id(outcome))
        if make is None:
            if problem := problem_of(outcome):
                raise EvaluationError("invalid_outcome", problem)
            make = self._makes.of(outcome)
        return make(root) if call is None else make(call.span, call)


# The outcome where the evaluator of trajectories yielded none.
_SILENCE = Errored(error_type="invalid_outcome", message="the evaluator yielded no outcome")


def raised(error: BaseException, caller: str) -> Errored:
    """Return the outcome of an evaluator that raised, which the file `caller` had called.

    The message of an exception may quote argument values: only its class is kept, and the innermost line in the evaluator's file.
    """
    if isinstance(error, EvaluationError):
        return Errored(error_type=error.error_type, message=error.message)
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    called = [(file, line) for file, line in frames if file != caller]
    lines = [line for file, line in called if file == called[0][0]]
    where = f" ({PurePath(called[0][0]).name}, line {lines[-1]})" if lines else ""
    return Errored(error_type=type(error).__name__[:MAX_TEXT], message=f"the evaluator raised an exception{where}")


def problem_of(outcome: object) -> str:
    """Return the fault of an outcome; a plug-in may have put anything into it, in spite of its types."""
    match outcome:
        case Scored():
            explanation, is_exempt = cast("tuple[object, object]", (outcome.explanation, outcome.is_exempt))
            if not _is_number(outcome.value) or not 0 <= outcome.value <= 1:
                return NO_SCORE
            if not isinstance(explanation, str) or not explanation:
                return "the evaluator gave a score without an explanation"
            if not isinstance(is_exempt, bool):
                return "the evaluator gave something else for a truth value"
            if not _are_parts(outcome.parts) or not _are_differences(outcome.differences):
                return "the evaluator gave parts or differences of the wrong type"
            return ""
        case NotEvaluated(reason=first, explanation=second) | Errored(error_type=first, message=second):
            texts = cast("tuple[object, object]", (first, second))
            if not isinstance(texts[0], str) or not isinstance(texts[1], str):
                return "the evaluator gave something else for a text"
        case _:
            return "the evaluator yielded something that is not an outcome"
    is_unknown = isinstance(outcome, NotEvaluated) and first not in _REASONS
    return "the evaluator gave a reason that is not in the closed list" if is_unknown else ""


def _is_number(value: object) -> bool:
    # NaN fails every comparison, and an integer may be larger than any float.
    return isinstance(value, int | float) and not isinstance(value, bool) and -_LARGEST <= value <= _LARGEST


def _are_parts(parts: object) -> bool:
    if not isinstance(parts, Mapping):
        return False
    items = cast("Mapping[object, object]", parts).items()  # nothing is known about a plug-in's mapping
    return all(isinstance(name, str) and _is_number(figure) for name, figure in items)


def _are_differences(differences: object) -> bool:
    if not isinstance(differences, tuple):
        return False
    for entry in cast("tuple[object, ...]", differences):  # nothing is known about a plug-in's tuple
        if not isinstance(entry, Difference):
            return False
        where, rule, *sides = cast("tuple[object, ...]", (entry.where, entry.rule, entry.expected, entry.actual))
        if not isinstance(where, str) or not isinstance(rule, str):
            return False
        if not all(side is None or isinstance(side, Side) for side in sides):
            return False
    return True


def cut(outcome: Outcome) -> Outcome:
    """Copy a sound outcome of a plug-in into our own classes, without the rest of long texts and containers."""
    return cast("Outcome", _cut(outcome))  # of the class that it had


def _cut(value: object) -> object:
    match value:
        case str():
            # Not by a method that a class of the plug-in may have in its place.
            return str.__getitem__(value, slice(MAX_TEXT))
        case Mapping():
            items = cast("Mapping[object, object]", value).items()  # nothing is known about a plug-in's mapping
            return {_cut(key): _cut(entry) for key, entry in islice(items, MAX_ENTRIES)}
        case list() | tuple():
            entries = [_cut(entry) for entry in cast("Sequence[object]", value)[:MAX_ENTRIES]]
            return tuple(entries) if isinstance(value, tuple) else entries
        case Struct():
            own = next(one for one in (*OUTCOMES, Difference, Side) if isinstance(value, one))
            make = cast("Callable[..., object]", own)  # its fields keep their types
            return make(**{name: _cut(getattr(value, name)) for name in own.__struct_fields__})
        case float():
            return float(value)
        case int() if not isinstance(value, bool):
            return int(value)
        case _:
            return value
