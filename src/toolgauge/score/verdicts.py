"""What an evaluator may say: checked before it counts, because evaluators are plug-ins."""

import math
from collections.abc import Iterable, Mapping
from typing import cast, get_args

from toolgauge.model.outcomes import Difference, Errored, Level, NotEvaluated, Outcome, Reason, Scored
from toolgauge.model.trajectory import ToolCall

# Room for rounding: a mean of thirds must be able to reach a threshold of 1.
_ROUNDING = 1e-9
_REASONS = frozenset[str](get_args(Reason))


class Checker:
    """Checks the outcomes of one evaluator for one trajectory, one after the other, and says which scores pass."""

    __slots__ = ("_level", "_open", "_pass_at", "_sound", "problem")

    def __init__(self, level: Level, calls: Iterable[ToolCall], pass_at: float) -> None:
        self._level = level
        self._pass_at = pass_at - _ROUNDING
        # Each target is judged once, so a never-ending evaluator runs out of targets. `None` is the trajectory.
        self._open: set[int | None] = {None}
        if level == "call":
            self._open.update(map(id, calls))
        # What was found right, by identity, and what became of it: evaluators say the same of many calls, mostly with
        # the very same object.
        self._sound: dict[int, tuple[Outcome, Outcome]] = {}
        # What is wrong with the outcome that was refused.
        self.problem = ""

    def passed(self, call: object, outcome: object) -> Outcome | None:
        """Return the outcome with its score passed or not; `None` when something is wrong with it."""
        target = None if call is None else id(call)
        if target not in self._open:
            return self._refused("the evaluator judged a call twice or one that is not there")
        self._open.discard(target)
        if target is None and self._level == "call" and isinstance(outcome, Scored):
            return self._refused("the evaluator scored the trajectory where it declares to score calls")
        known = self._sound.get(id(outcome))
        return self._found_sound(outcome) if known is None else known[1]

    def _found_sound(self, outcome: object) -> Outcome | None:
        if isinstance(outcome, Scored):
            problem = _problem_of_score(outcome)
        elif isinstance(outcome, NotEvaluated):
            problem = _problem_of_absence(outcome)
        elif isinstance(outcome, Errored):
            problem = _problem_of_words(outcome.error_type, outcome.message)
        else:
            return self._refused("the evaluator yielded something that is not an outcome")
        if problem:
            return self._refused(problem)
        said = self._with_pass(outcome) if isinstance(outcome, Scored) else outcome
        self._sound[id(outcome)] = outcome, said
        return said

    def _with_pass(self, scored: Scored) -> Scored:
        return Scored(
            value=scored.value,
            explanation=scored.explanation,
            parts=scored.parts,
            differences=scored.differences,
            passed=scored.value >= self._pass_at,
        )

    def _refused(self, problem: str) -> None:
        self.problem = problem

    def silence(self) -> Outcome:
        """Say what it means that the evaluator yielded no outcome."""
        if self._level == "call":
            return NotEvaluated(reason="no_calls", explanation="no call to judge")
        return Errored(error_type="invalid_outcome", message="the evaluator yielded no outcome")


def _problem_of_score(scored: Scored) -> str:
    if not _is_number(scored.value) or not 0 <= scored.value <= 1:
        return "the evaluator gave a score that is not a number from 0 to 1"
    if not _is_text(scored.explanation):
        return "the evaluator gave a score without an explanation"
    if not _are_parts(scored.parts) or not _are_differences(scored.differences):
        return "the evaluator gave parts or differences of the wrong type"
    return ""


def _problem_of_absence(outcome: NotEvaluated) -> str:
    if outcome.reason not in _REASONS:
        return "the evaluator gave a reason that is not in the closed list"
    return _problem_of_words(outcome.explanation)


def _problem_of_words(*words: object) -> str:
    return "" if all(isinstance(word, str) for word in words) else "the evaluator gave something else for a text"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


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
    entries = cast("tuple[object, ...]", differences)  # nothing is known about a plug-in's tuple
    return not entries or all(isinstance(difference, Difference) for difference in entries)
