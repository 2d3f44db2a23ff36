"""What an evaluator may say: checked before it counts, because evaluators are plug-ins."""

import math
from collections.abc import Mapping, Sequence
from typing import cast, get_args

from toolgauge.model.outcomes import Difference, Errored, Level, NotEvaluated, Outcome, Reason, Scored
from toolgauge.model.trajectory import ToolCall

_REASONS = frozenset[str](get_args(Reason))


class Checker:
    """Checks the outcomes of one evaluator for one trajectory, one after the other."""

    __slots__ = ("_calls", "_level", "_open", "_sound")

    def __init__(self, level: Level, calls: Sequence[ToolCall]) -> None:
        self._level = level
        self._calls = len(calls)
        # Each target is judged once, so a never-ending evaluator runs out of targets. `None` is the trajectory.
        self._open: set[int | None] = {None}
        if level == "call":
            self._open.update(id(call) for call in calls)
        # Scores that were found right; the same object is said of many calls.
        self._sound: dict[int, Scored] = {}

    def problem(self, call: object, outcome: object) -> str | None:
        """Say what is wrong with an outcome; `None` when nothing is."""
        target = None if call is None else id(call)
        if target not in self._open:
            return "the evaluator judged a call twice or one that is not there"
        self._open.discard(target)
        if isinstance(outcome, Scored):
            if target is None and self._level == "call":
                return "the evaluator scored the trajectory where it declares to score calls"
            return None if id(outcome) in self._sound else self._problem_of_score(outcome)
        if isinstance(outcome, NotEvaluated):
            return None if outcome.reason in _REASONS else "the evaluator gave a reason that is not in the closed list"
        return None if isinstance(outcome, Errored) else "the evaluator yielded something that is not an outcome"

    def _problem_of_score(self, scored: Scored) -> str | None:
        if not _is_number(scored.value) or not 0 <= scored.value <= 1:
            return "the evaluator gave a score that is not a number from 0 to 1"
        if not _is_text(scored.explanation):
            return "the evaluator gave a score without an explanation"
        if not _are_parts(scored.parts) or not _are_differences(scored.differences):
            return "the evaluator gave parts or differences of the wrong type"
        self._sound[id(scored)] = scored
        return None

    def silence(self) -> Outcome:
        """Say what it means that the evaluator yielded no outcome."""
        if self._level == "call":
            return NotEvaluated(reason="no_calls", explanation="no call to judge")
        return Errored(error_type="invalid_outcome", message="the evaluator yielded no outcome")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _are_parts(parts: object) -> bool:
    if not isinstance(parts, Mapping):
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
    return all(isinstance(difference, Difference) for difference in entries)
