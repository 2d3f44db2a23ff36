"""`ragas.*`: the scores of Ragas 0.4.3."""

from collections import Counter

from toolgauge.model.outcomes import Outcome, Scored
from toolgauge.score.equality import PythonEquality
from toolgauge.score.plain_calls import Looked, PlainCalls, PlainComparison

_DECIMALS = 4


class ToolCallF1(PlainComparison):
    """`ToolCallF1` of Ragas: F1 between the sets of expected and actual calls, rounded to four decimals.

    Calls are the same when name and all arguments are equal, where 1, 1.0 and true are one value. Sets: repeats of a
    call count once. Nothing expected and nothing called is 0.
    """

    # Unexpected calls that are equal count once.
    looks = Looked(unexpected=True)

    def compared(self, expected: PlainCalls, made: PlainCalls) -> Outcome:
        """Compare both sides."""
        equality = PythonEquality()
        wanted, found = ({(call.name, equality.key(call.args or {})) for call in calls} for calls in (expected, made))
        both = len(wanted & found)
        precision = both / len(found) if found else 0.0
        recall = both / len(wanted) if wanted else 0.0
        value = 2 * precision * recall / (precision + recall) if both else 0.0
        return Scored(
            value=round(value, _DECIMALS),
            explanation=f"{both} of {len(wanted)} different expected calls are among {len(found)} different calls made",
            parts={"precision": precision, "recall": recall},
        )


class ToolCallAccuracy(PlainComparison):
    """`ToolCallAccuracy` of Ragas: the share of expected arguments whose values have the same text, calls paired by place.

    0 unless the names are the same in the same order; without `strict_order` both sides are sorted first, by
    name, then by argument names and texts. Arguments beyond the expected ones are free, except where none are expected:
    then any is a 0. Nothing expected and nothing called is 1.
    """

    strict_order: bool = True

    def compared(self, expected: PlainCalls, made: PlainCalls) -> Outcome:
        """Compare both sides."""
        if not expected and not made:
            return Scored(value=1.0, explanation="no call was expected and none was made")
        names = [call.name for call in expected], [call.name for call in made]
        if not (names[0] == names[1] if self.strict_order else Counter(names[0]) == Counter(names[1])):
            return Scored(value=0.0, explanation="the names of the calls are not those that were expected")
        wanted, found = _texts(expected), _texts(made)
        if not self.strict_order:
            wanted, found = sorted(wanted, key=_sort_key), sorted(found, key=_sort_key)
        total = 0.0
        for (_, texts), (_, others) in zip(wanted, found, strict=True):
            if texts:
                total += sum(others.get(name) == text for name, text in texts.items()) / len(texts)
            elif not others:
                total += 1.0
        value = total / len(wanted)
        return Scored(
            value=min(value, 1.0),
            explanation=f"the names of {len(wanted)} calls are as expected, and {value:.0%} of their expected arguments",
        )


# The name of a call, and its arguments as text.
_Texts = tuple[str, dict[str, str]]


def _texts(calls: PlainCalls) -> list[_Texts]:
    """Write all arguments as Python's `str` does: 1 and "1" are the same then, 1 and 1.0 are not."""
    return [(call.name, {name: str(value) for name, value in (call.args or {}).items()}) for call in calls]


def _sort_key(call: _Texts) -> tuple[str, ...]:
    name, args = call
    return (name, *(text for argument in sorted(args) for text in (argument, args[argument])))
