"""Checks outcomes before they count, because evaluators are plug-ins."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import PurePath
from traceback import walk_tb
from typing import TypeAlias, cast, get_args

from msgspec import Struct

from toolgauge.model.judging import Judged
from toolgauge.model.outcomes import (
    Difference,
    Errored,
    Finding,
    Level,
    NotEvaluated,
    Outcome,
    Reason,
    Result,
    Scored,
    Side,
)
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall

# Makes a criterion's result from a span, a call (`None`: the trajectory), an outcome, and the finding where known.
MakeResult: TypeAlias = Callable[..., Result]

# Room for rounding: a mean of thirds must be able to reach a threshold of 1.
_ROUNDING = 1e-9
_LARGEST = sys.float_info.max
_REASONS = frozenset[str](get_args(Reason))
# So many outcomes of a criterion are remembered, with words of so many characters.
_MAX_KNOWN = 256
_LONGEST_KNOWN = 200
_OUTCOMES = frozenset((Scored, NotEvaluated, Errored))
# The longest text, and the most parts or differences, that an evaluator of a plug-in or file may give.
MAX_TEXT = 10_000
MAX_ENTRIES = 100


# An outcome whose score passed or not, with the finding where it is known.
Marked: TypeAlias = tuple[Outcome, Finding | None]


# Evaluators mostly yield the same objects; kept here, no other can take their place in memory. Without it: a fifth more for
# scoring and encoding.
class Marks(dict[int, tuple[Outcome, Marked]]):
    """The marked outcomes of one criterion by the identity of the unmarked outcome, which is kept alive."""

    __slots__ = ("_found", "_keeps_parts", "_least")

    def __init__(
        self, pass_at: float, found: Callable[[Outcome], Finding | None] = lambda _: None, *, keeps_parts: bool = False
    ) -> None:
        """`pass_at` is the least score that passes; `keeps_parts` where the evaluator changes no parts afterwards."""
        super().__init__()
        self._found = found
        self._least = pass_at - _ROUNDING
        self._keeps_parts = keeps_parts

    def mark(self, outcome: Outcome) -> Outcome:
        """Return the outcome, which was found right; a score passed or not."""
        if not isinstance(outcome, Scored):
            words = outcome.explanation if isinstance(outcome, NotEvaluated) else outcome.error_type + outcome.message
            self._keep(outcome, outcome, words)
            return outcome
        # An integer, or the number of a library, is told from no other that equals it; and no zero is negative.
        value = float(outcome.value) or 0.0
        passed = outcome.is_exempt or value >= self._least
        # Not the evaluator's own parts where they are empty: it might fill them later, and nobody would check them.
        parts = outcome.parts or {}
        marked = Scored(value, outcome.explanation, parts, outcome.differences, passed, is_exempt=outcome.is_exempt)
        # Differences take memory, and are seldom the same again.
        if not outcome.differences and (self._keeps_parts or not parts):
            self._keep(outcome, marked, outcome.explanation)
        return marked

    def _keep(self, outcome: Outcome, marked: Outcome, words: str) -> None:
        # A class of the evaluator's own may have more in it, and may not be frozen: then it says something else later.
        if len(words) <= _LONGEST_KNOWN and type(outcome) in _OUTCOMES:
            if len(self) >= _MAX_KNOWN:
                self.clear()
            self[id(outcome)] = outcome, (marked, self._found(marked))


class Checker:
    """Checks the outcomes of one evaluator for one trajectory, one after the other, and decides which scores pass."""

    __slots__ = ("_is_judged", "_left", "_level", "_marks", "_open", "problem", "results")

    def __init__(self, level: Level, calls: tuple[ToolCall, ...], marks: Marks) -> None:
        self._level = level
        self._marks = marks
        # Each target is judged once, so a never-ending evaluator runs out of targets. Nearly all judge the calls in
        # order: these are left, from the last to the next. `_open` holds the calls that were skipped.
        self._left = [*calls[::-1]] if level == "call" else []
        self._open: set[int] = set()
        self._is_judged = False
        # The results of `check`.
        self.results: list[Result] = []
        # The fault of the outcome that was refused.
        self.problem = ""

    def check(self, outcomes: Iterable[Judged], made: MakeResult, root: SpanRef | None) -> bool:
        """Add results up to the first outcome that is wrong, in place of which there is an error; False when there is one."""
        add, left, known = self.results.append, self._left, self._marks
        for call, outcome in outcomes:
            marked = known.get(id(outcome))
            # As `passed` does: nearly all calls are judged in order, with an outcome that is known.
            if marked is not None and left and left[-1] is call:
                add(made(left.pop().span, call, *marked[1]))
            elif (passed := self.passed(call, outcome)) is not None:
                add(made(root if call is None else call.span, call, *passed))
            else:
                add(made(root, *broken("invalid_outcome", self.problem)))
                return False
        return True

    def passed(self, call: object, outcome: object) -> Marked | None:
        """Return the outcome with its score passed or not; `None` when something is wrong with it."""
        if call is None:
            was_open, self._is_judged = not self._is_judged, True
        else:
            while self._left:
                following = self._left.pop()
                if following is call:
                    was_open = True
                    break
                self._open.add(id(following))
            else:
                was_open = id(call) in self._open
                self._open.discard(id(call))
        if not was_open:
            self.problem = "the evaluator judged a call twice or one that is not there"
            return None
        if call is None and self._level == "call" and isinstance(outcome, Scored):
            self.problem = "the evaluator scored the trajectory where it declares to score calls"
            return None
        known = self._marks.get(id(outcome))
        if known is not None:
            return known[1]
        self.problem = problem_of(outcome)
        # `problem_of` has seen that it is an outcome.
        return None if self.problem else (self._marks.mark(cast("Outcome", outcome)), None)

    def silence(self) -> Outcome:
        """Return the outcome where the evaluator yielded none."""
        if self._level == "call":
            return NotEvaluated(reason="no_calls", explanation="no call to judge")
        return Errored(error_type="invalid_outcome", message="the evaluator yielded no outcome")


def broken(error_type: str, message: str) -> Judged:
    """Return the outcome of an evaluation that failed."""
    return None, Errored(error_type=error_type, message=message)


def raised(error: BaseException, caller: str) -> Errored:
    """Return the outcome of an evaluator that raised, which the file `caller` had called.

    The message of an exception may quote argument values: only its class is kept, and the innermost line in the evaluator's file.
    """
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
                return "the evaluator gave a score that is not a number from 0 to 1"
            if not isinstance(explanation, str) or not explanation:
                return "the evaluator gave a score without an explanation"
            if not isinstance(is_exempt, bool):
                return "the evaluator gave something else for a truth value"
            if not _are_parts(outcome.parts) or not _are_differences(outcome.differences):
                return "the evaluator gave parts or differences of the wrong type"
            return ""
        case NotEvaluated(reason=first, explanation=second) | Errored(error_type=first, message=second):
            if not _are_texts(first, second):
                return "the evaluator gave something else for a text"
        case _:
            return "the evaluator yielded something that is not an outcome"
    is_unknown = isinstance(outcome, NotEvaluated) and first not in _REASONS
    return "the evaluator gave a reason that is not in the closed list" if is_unknown else ""


def _are_texts(*words: object) -> bool:
    return all(isinstance(word, str) for word in words)


def _is_number(value: object) -> bool:
    # NaN fails every comparison, and an integer may be larger than any float.
    return isinstance(value, int | float) and not isinstance(value, bool) and -_LARGEST <= value <= _LARGEST


def _are_parts(parts: object) -> bool:
    # Nearly always a dict, of which an abstract class has to be asked at length.
    if type(parts) is not dict and not isinstance(parts, Mapping):
        return False
    items = cast("Mapping[object, object]", parts)  # nothing is known about a plug-in's mapping
    for name, figure in items.items():  # noqa: SIM110 (asked of each part of each score; `all` takes twice as long)
        if not isinstance(name, str) or not _is_number(figure):
            return False
    return True


def _are_differences(differences: object) -> bool:
    if not isinstance(differences, tuple):
        return False
    for entry in cast("tuple[object, ...]", differences):  # nothing is known about a plug-in's tuple
        if not isinstance(entry, Difference) or not _are_texts(entry.where, entry.rule):
            return False
        sides = cast("tuple[object, ...]", (entry.expected, entry.actual))
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
            own = next(one for one in (*_OUTCOMES, Difference, Side) if isinstance(value, one))
            make = cast("Callable[..., object]", own)  # its fields keep their types
            return make(**{name: _cut(getattr(value, name)) for name in own.__struct_fields__})
        case float():
            return float(value)
        case int() if not isinstance(value, bool):
            return int(value)
        case _:
            return value
