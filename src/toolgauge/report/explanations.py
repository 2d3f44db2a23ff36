"""What decided a result, for people: the outcome in words, and each difference, as far as values may be shown.

Terminal and web view write the same from it. Texts are masked and of bounded length; they come from spans and
have to be escaped.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from toolgauge.export.json_text import MAX_COMPARED, side_by_side
from toolgauge.export.redact import Redactor
from toolgauge.model.json import kind
from toolgauge.model.outcomes import (
    ERROR_RULE,
    OTHER_ARGUMENTS,
    Difference,
    Errored,
    NotEvaluated,
    Outcome,
    OutcomeWord,
    Result,
    Scored,
    Side,
    outcome_word,
)
from toolgauge.model.plain_words import rule_words

# Below verdicts whose values are hidden.
HOW_TO_SHOW_VALUES = "values are hidden; `redact: {values: show}` in the configuration shows them"
_MAX_DIFFERENCES = 50
_MAX_WHERE = 200
_MAX_VALUE = 400
_MAX_BRIEF_VALUE = 60
_FAILED = ("fail", "error")


class ShownDifference(Struct, frozen=True, kw_only=True):
    """One thing that differed. `where` names tool and argument path, `rule` what decided.

    `expected` and `actual` are values, or where those are hidden their kinds (`a number`); `None` where there is none.
    `in_words` replaces both for a call with other arguments than expected, and is empty elsewhere.
    """

    where: str
    rule: str
    expected: str | None
    actual: str | None
    in_words: str = ""

    @property
    def rule_words(self) -> str:
        """The rule as people read it."""
        return rule_words(self.rule)


class Verdict(Struct, frozen=True, kw_only=True):
    """What came of one result, and why. `result` has criterion, level and call.

    `reason` is why there is no score: a word of the closed list, or the error's type. `requirement` is
    the score that is enough (`passes at 0.8`), empty where it is not known. `more` counts the differences left out.
    """

    result: Result
    word: OutcomeWord
    value: float | None
    reason: str | None
    requirement: str
    explanation: str
    differences: tuple[ShownDifference, ...] = ()
    more: int = 0
    hides_values: bool = False


class VerdictWriter:
    """Writes verdicts. `pass_at` has the least score that passes, by the criterion's revision, as far as known."""

    def __init__(self, redactor: Redactor, pass_at: Mapping[str, float]) -> None:
        self._redactor = redactor
        self._pass_at = pass_at

    def verdict(self, result: Result) -> Verdict:
        """Write what came of a result."""
        outcome = result.outcome
        value, reason = figure(outcome)
        differences = outcome.differences if isinstance(outcome, Scored) else ()
        return Verdict(
            result=result,
            word=outcome_word(outcome),
            value=value,
            reason=reason,
            requirement=requirement(result, self._pass_at),
            explanation=_explanation(outcome, self._redactor),
            differences=tuple(
                shown_difference(difference, self._redactor) for difference in differences[:_MAX_DIFFERENCES]
            ),
            more=max(0, len(differences) - _MAX_DIFFERENCES),
            hides_values=bool(differences) and not self._redactor.shows_values,
        )


def brief_reason(outcome: Outcome, redactor: Redactor) -> str:
    """Explain an outcome in a few words; a difference whose values may be shown needs no further ones."""
    explanation = _explanation(outcome, redactor)
    if not isinstance(outcome, Scored) or not outcome.differences or not redactor.shows_values:
        return explanation
    compared = next((each for each in outcome.differences if each.expected is not None), None)
    if compared is None:
        # What came instead of a result: an error's message, a value that no one had seen.
        actual = shown_difference(outcome.differences[0], redactor, _MAX_BRIEF_VALUE).actual
        return explanation if actual is None else redactor.masked(f"{explanation}: {actual}")
    more = len(outcome.differences) - 1
    shown = comparison(shown_difference(compared, redactor, _MAX_BRIEF_VALUE))
    return redactor.masked(f"{shown}; {more} more" if more else shown)


def comparison(difference: ShownDifference) -> str:
    """Write expected beside actual; where a call failed, no value was expected."""
    if difference.in_words:
        return f"{difference.where}: {difference.in_words}"
    wanted = "" if difference.expected is None else f"expected {difference.expected}, "
    return f"{difference.where}: {wanted}got {'nothing' if difference.actual is None else difference.actual}"


def figure(outcome: Outcome) -> tuple[float | None, str | None]:
    """Return the score, and where there is none why: the reason, or the type of the error."""
    match outcome:
        case Scored(value=value):
            return value, None
        case NotEvaluated(reason=reason):
            return None, reason
        case Errored(error_type=error_type):
            return None, error_type


def requirement(result: Result, pass_at: Mapping[str, float]) -> str:
    """Return which score is enough, `passes at 0.8`; empty where that is not known."""
    if isinstance(result.outcome, Scored) and result.outcome.is_exempt:
        return "accepted at any score"
    if not result.can_fail:
        return "passes at any score"
    least = pass_at.get(result.revision)
    return "" if least is None else f"passes at {least:g}"


def deciding(results: Sequence[Result]) -> Sequence[Result]:
    """Leave out criteria that are only tried out: they decide nothing, unless there are no others."""
    return [result for result in results if result.enforce == "live"] or results


def worst_result(results: Sequence[Result]) -> Result | None:
    """Choose the result to show for all: the worst failure, else the first that passed, else the first; `None` of none."""
    failed = [result for result in results if outcome_word(result.outcome) in _FAILED]
    if failed:
        return min(failed, key=_rank)
    return next((result for result in results if isinstance(result.outcome, Scored)), results[0] if results else None)


def _rank(result: Result) -> tuple[bool, float]:
    """Order results that are no pass: failures before errors, the lowest score first."""
    outcome = result.outcome
    return (False, outcome.value) if isinstance(outcome, Scored) else (True, 0.0)


def _explanation(outcome: Outcome, redactor: Redactor) -> str:
    return redactor.error(outcome.message) if isinstance(outcome, Errored) else redactor.mask(outcome.explanation)


def _kind(side: Side | None) -> str | None:
    if side is None:
        return None
    word = kind(side.value)
    match word:
        case "null" | "text":
            return word
        case "object":
            return "an object"
        case _:
            return f"a {word}"


def shown_difference(difference: Difference, redactor: Redactor, room: int = _MAX_VALUE) -> ShownDifference:
    """Show one difference, with at most `room` characters of each value."""
    if redactor.shows_values:
        expected, actual = _sides(difference, redactor, room)
    else:
        expected, actual = _kind(difference.expected), _kind(difference.actual)
    return ShownDifference(
        where=redactor.mask(difference.where[:_MAX_WHERE]),
        rule=redactor.mask(difference.rule[:_MAX_WHERE]),
        expected=expected,
        actual=actual,
        in_words=redactor.mask(redactor.in_words(difference, room)) if difference.rule == OTHER_ARGUMENTS else "",
    )


def _sides(difference: Difference, redactor: Redactor, room: int) -> tuple[str | None, str | None]:
    if difference.rule == ERROR_RULE:
        return redactor.side(difference, difference.expected, room), redactor.side(difference, difference.actual, room)
    expected = redactor.side(difference, difference.expected, MAX_COMPARED)
    actual = redactor.side(difference, difference.actual, MAX_COMPARED)
    return side_by_side(expected, actual, room)
