"""The verdict on a call or a trajectory in words: outcome, differences, and the origins of argument values.

Texts are masked and of bounded length, and have to be escaped. No step is called the cause of a failure.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from toolgauge.export.redact import MASKED, MAX_COMPARED, Redactor, side_by_side
from toolgauge.model.json import kind
from toolgauge.model.outcomes import (
    EFFECT_RULE,
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
from toolgauge.model.trajectory import CallOrigins, ValueOrigin, ValueSource

_MAX_NAME, _MAX_TRACED, _MAX_LINE = 80, 60, 600
_SOURCES: Mapping[ValueSource, str] = {
    "user": "from the user",
    "system": "from the system prompt",
    "schema": "from the description of the tool",
    "result": "from results of earlier calls",
    "earlier": "from an earlier trace of the conversation",
    "derived": "derived from earlier values",
    "model": "the model's own",
    "common": "too common to trace",
    "unknown": "the model's own or from something that was not recorded",
}


def origin_lines(origins: CallOrigins | None, redactor: Redactor) -> tuple[str, ...]:
    """Write where each argument value of a call is from, one line each; none without a call. Calls are counted from 1."""
    if origins is None:
        return ()

    def quoted(name: str) -> str:
        shown = redactor.masked(name, _MAX_NAME)[:_MAX_NAME]
        return f"`{''.join(letter if letter.isprintable() else ' ' for letter in shown)}`"

    def source(one: ValueOrigin, described: set[int]) -> str:
        """Write where a value is from, back to where it begins; a call that the line has described is only named."""
        if one.result_of is None:
            return _SOURCES[one.source]
        behind = one.result_of
        text = f"from the result of call {behind.call.order + 1} {quoted(behind.call.name)}"
        if behind.call.order in described:
            return text
        described.add(behind.call.order)
        # Values from one place share a sentence.
        groups: dict[tuple[ValueSource, int | None], list[ValueOrigin]] = {}
        for value in behind.values:
            order = None if value.result_of is None else value.result_of.call.order
            groups.setdefault((value.source, order), []).append(value)
        parts: list[str] = []
        for group in groups.values():
            *names, last = (quoted(value.path) for value in group)
            listed = f"{', '.join(names)} and {last}" if names else last
            parts.append(f"whose {listed} {'is' if len(group) == 1 else 'are'} {source(group[0], described)}")
        if behind.more:
            parts.append(f"{behind.more} more of its values {'is' if behind.more == 1 else 'are'} not followed")
        return f"{text} ({'; '.join(parts)})" if len(parts) > 1 else ", ".join((text, *parts))

    lines: list[str] = []
    for one in origins.values:
        value = ""
        if redactor.is_private(one.path):
            value = f" {MASKED}"
        elif redactor.shows_values:
            text = redactor.json(one.value, _MAX_TRACED)
            value = f" {text[:_MAX_TRACED]}{'…' if len(text) > _MAX_TRACED else ''}"
        line = f"{quoted(one.path)}{value} is {source(one, set())}"
        lines.append(line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}…")
    if origins.more:
        lines.append(f"and {origins.more} more {'value' if origins.more == 1 else 'values'}")
    return tuple(lines)


# Below verdicts whose values are hidden.
HOW_TO_SHOW_VALUES = "values are hidden; `redact: {values: show}` in the configuration shows them"
_MAX_DIFFERENCES = 50
_MAX_WHERE = 200
_MAX_VALUE = 400
_MAX_BRIEF_VALUE = 60
FAILED: tuple[OutcomeWord, ...] = ("fail", "error")
_WORST_FIRST: tuple[OutcomeWord, ...] = (*FAILED, "pass", "not_evaluated")
_DEFAULT = "default."
# Failures of one run that explain its others come first; criteria written by a user come before these.
_CAUSES = (
    *("tool_contract", "arguments_schema", "known_tool", "one_effect", "grounded_arguments", "grounded_answer"),
    *("honest_answer", "error_handling", "tool_success", "repeated_calls", "run_completed"),
)
# Rules by which evaluators compare whole calls: a difference with one side is a call that is missing, or one too many.
_REPEATED = "repeated call"
_WHOLE_CALLS = ("name_and_args", "name", "missing call", "extra call", "unexpected call", _REPEATED)


class ShownDifference(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One difference. `expected` and `actual` are values, or hidden ones' kinds (`a number`); `None` without one."""

    where: Annotated[str, Meta(description="the tool, and the path in its arguments")]
    rule: Annotated[str, Meta(description="the comparison that decided")]
    expected: str | None
    actual: str | None
    in_words: Annotated[str, Meta(description="both sides in one sentence, for a call with other arguments")] = ""

    @property
    def rule_words(self) -> str:
        """The rule as people read it; a whole call without its other side is missing, or one too many."""
        if self._is_one_call:
            extra = self.rule if self.rule == _REPEATED else "extra call"
            return "missing call" if self.actual is None else extra
        return rule_words(self.rule)

    @property
    def sides(self) -> tuple[tuple[str, str], ...]:
        """Both sides, `(("expected", "20"), ("got", "25"))`; where a call failed, no value was expected."""
        expected, actual = self.expected, "nothing" if self.actual is None else self.actual
        if self._is_one_call:
            # An expected call whose arguments do not matter has `null` for them.
            expected = {None: "nothing", "null": "a call with any arguments"}.get(expected, expected)
        if self.rule == EFFECT_RULE and expected is not None:
            return ("first", expected), ("then", actual)
        got = ("got", actual)
        return (got,) if expected is None else (("expected", expected), got)

    @property
    def _is_one_call(self) -> bool:
        return self.rule in _WHOLE_CALLS and (self.expected is None or self.actual is None)


class ShownVerdict(Struct, frozen=True, kw_only=True):
    """A result and its reasons. `reason` explains a missing score: a word of the closed list, or the error's type.

    `requirement` is the score that is enough (`passes at 0.8`), if known. `more` counts the differences left out.
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

    @property
    def head(self) -> str:
        """Outcome, criterion, judged call and score: "fail refunds of call 2 `refund_order`: 0.667 (passes at 0.8)"."""
        call = "" if self.result.call is None else f" of call {self.result.call.order + 1} `{self.result.call.name}`"
        return f"{self.word} {self.result.criterion}{call}: {self.score_words}"

    @property
    def score_words(self) -> str:
        """The score beside the least that passes, `0.667 (passes at 0.8)`; without a score the reason."""
        if self.value is None:
            return self.reason or ""
        return f"{self.value:.3f} ({self.requirement})" if self.requirement else f"{self.value:.3f}"


def shown_verdict(result: Result, redactor: Redactor, pass_at: Mapping[str, float]) -> ShownVerdict:
    """Word a result. `pass_at` has the least score that passes, by the criterion's revision, as far as known."""
    outcome = result.outcome
    value, reason = figure(outcome)
    differences = outcome.differences if isinstance(outcome, Scored) else ()
    return ShownVerdict(
        result=result,
        word=outcome_word(outcome),
        value=value,
        reason=reason,
        requirement=requirement(result, pass_at),
        explanation=redactor.reason(outcome),
        differences=tuple(shown_difference(one, redactor) for one in differences[:_MAX_DIFFERENCES]),
        more=max(0, len(differences) - _MAX_DIFFERENCES),
        hides_values=bool(differences) and not redactor.shows_values,
    )


def brief_reason(outcome: Outcome, redactor: Redactor) -> str:
    """Explain an outcome in a few words; a difference whose values may be shown needs no further ones."""
    explanation = redactor.reason(outcome)
    if not isinstance(outcome, Scored) or not outcome.differences or not redactor.shows_values:
        return explanation
    compared = next((each for each in outcome.differences if each.expected is not None), None)
    if compared is None:
        # The value in place of a result: an error's message, an argument that no one had seen.
        shown = [shown_difference(each, redactor, _MAX_BRIEF_VALUE) for each in outcome.differences]
        found = next((each for each in shown if each.actual is not None), None)
        if found is None:
            return explanation
        return redactor.masked(
            f"{explanation}: {found.actual}" if len(shown) == 1 else f"{explanation}; {comparison(found)}"
        )
    more = len(outcome.differences) - 1
    compared_values = comparison(shown_difference(compared, redactor, _MAX_BRIEF_VALUE))
    return redactor.masked(f"{compared_values}; {more} more" if more else compared_values)


def comparison(difference: ShownDifference, *, names_rule: bool = False) -> str:
    """Write expected beside actual."""
    rule = f" ({difference.rule_words})" if names_rule and not difference.in_words else ""
    shown = difference.in_words or ", ".join(f"{side} {text}" for side, text in difference.sides)
    return f"{difference.where}{rule}: {shown}"


def figure(outcome: Outcome) -> tuple[float | None, str | None]:
    """Return the score, or instead the reason why it is missing or the type of the error."""
    match outcome:
        case Scored(value=value):
            return value, None
        case NotEvaluated(reason=reason):
            return None, reason
        case Errored(error_type=error_type):
            return None, error_type


def requirement(result: Result, pass_at: Mapping[str, float]) -> str:
    """Return the least score that passes, `passes at 0.8`; empty where it is unknown."""
    if not result.can_fail:
        return "for information"
    least, outcome = pass_at.get(result.revision), result.outcome
    # Acceptance changes an outcome only below the least score that passes.
    if isinstance(outcome, Scored) and outcome.is_exempt and outcome.value < (1 if least is None else least):
        return "accepted at any score"
    return "" if least is None else f"passes at {least:g}"


def live_outcome(results: Sequence[Result]) -> OutcomeWord:
    """Return the worst outcome of the live criteria, else `not_evaluated`."""
    return joined({outcome_word(result.outcome) for result in results if result.enforce == "live"})


def joined(words: Collection[OutcomeWord]) -> OutcomeWord:
    """Join outcomes: a failure outweighs a pass, a pass outweighs `not_evaluated`, which stands for none."""
    return next(word for word in _WORST_FIRST if word in words or word == "not_evaluated")


def deciding(results: Sequence[Result]) -> Sequence[Result]:
    """Leave out shadow criteria, unless all are."""
    return [result for result in results if result.enforce == "live"] or results


def failures(results: Sequence[Result]) -> list[Result]:
    """Return the failed results: failures before errors, causes before consequences, and the lowest score first."""

    def urgency(result: Result) -> tuple[bool, int, float]:
        is_default = result.criterion.startswith(_DEFAULT) and result.evaluator in _CAUSES
        place = _CAUSES.index(result.evaluator) if is_default else -1
        value = result.outcome.value if isinstance(result.outcome, Scored) else 0.0
        return not isinstance(result.outcome, Scored), place, value

    return sorted((result for result in results if outcome_word(result.outcome) in FAILED), key=urgency)


def worst_result(results: Sequence[Result]) -> Result | None:
    """Choose the result to show for all: the failure that explains most, else the first that passed; `None` without any."""
    scored = (result for result in results if isinstance(result.outcome, Scored))
    return next(iter((*failures(results), *scored, *results)), None)


def _kind(side: Side | None) -> str | None:
    if side is None or side.words:
        return side and side.words
    word = kind(side.value)
    return {"null": word, "text": word, "object": "an object"}.get(word, f"a {word}")


def shown_difference(difference: Difference, redactor: Redactor, room: int = _MAX_VALUE) -> ShownDifference:
    """Show one difference, with at most `room` characters of each value."""
    expected, actual = _kind(difference.expected), _kind(difference.actual)
    if redactor.shows_values:
        searched = room if difference.rule == ERROR_RULE else MAX_COMPARED
        expected = redactor.side(difference, difference.expected, searched)
        actual = redactor.side(difference, difference.actual, searched)
        if difference.rule != ERROR_RULE:
            expected, actual = side_by_side(expected, actual, room)
    return ShownDifference(
        where=redactor.mask(difference.where[:_MAX_WHERE]),
        rule=redactor.mask(difference.rule[:_MAX_WHERE]),
        expected=expected,
        actual=actual,
        in_words=redactor.mask(redactor.in_words(difference, room)) if difference.rule == OTHER_ARGUMENTS else "",
    )
