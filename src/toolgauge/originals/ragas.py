"""`ragas.*`: the scores of Ragas 0.4.3."""

from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

from toolgauge.model.json import Json
from toolgauge.model.outcomes import Outcome, Scored
from toolgauge.score.equality import Key, PythonEquality
from toolgauge.score.plain_calls import Looked, PlainCalls, PlainComparison

_DECIMALS = 4


class ToolCallF1(PlainComparison):
    """`ToolCallF1` of Ragas: F1 between the sets of expected and actual calls, rounded to four decimals.

    Calls are the same when name and all arguments are equal, where 1, 1.0 and true are one value. Sets: repeats of a
    call count once. Nothing expected and nothing called is 0.
    """

    version: ClassVar[str] = "1"

    def looked(self) -> Looked:
        """Look at the arguments of all calls: unexpected ones that are equal count once."""
        return Looked(unexpected=True)

    def compared(self, expected: PlainCalls, made: PlainCalls) -> Outcome:
        """Compare both sides."""
        equality = PythonEquality()
        wanted = _distinct(expected, equality)
        found = _distinct(made, equality)
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

    version: ClassVar[str] = "1"

    strict_order: bool = True

    def looked(self) -> Looked:
        """Look at the arguments of expected tools: another tool's call makes it 0 whatever its arguments are."""
        return Looked()

    def compared(self, expected: PlainCalls, made: PlainCalls) -> Outcome:
        """Compare both sides."""
        if not expected and not made:
            return Scored(value=1.0, explanation="no call was expected and none was made")
        if not self._has_same_names(expected, made):
            return Scored(value=0.0, explanation="the names of the calls are not those that were expected")
        wanted = _texts(expected)
        found = _texts(made)
        if not self.strict_order:
            wanted, found = sorted(wanted, key=_sort_key), sorted(found, key=_sort_key)
        total = 0.0
        for want, find in zip(wanted, found, strict=True):
            total += _share(want[1], find[1])
        value = total / len(wanted)
        return Scored(
            value=min(value, 1.0),
            explanation=f"the names of {len(wanted)} calls are as expected, and {value:.0%} of their expected arguments",
        )

    def _has_same_names(self, expected: PlainCalls, made: PlainCalls) -> bool:
        wanted, found = [call.name for call in expected], [call.name for call in made]
        return wanted == found if self.strict_order else Counter(wanted) == Counter(found)


def _distinct(calls: PlainCalls, equality: PythonEquality) -> set[tuple[str, Key]]:
    distinct: set[tuple[str, Key]] = set()
    for call in calls:
        distinct.add((call.name, equality.key(call.args or {})))
    return distinct


# The name of a call, and its arguments as text.
_Texts = tuple[str, dict[str, str]]


def _texts(calls: PlainCalls) -> list[_Texts]:
    """Write all arguments as Python's `str` does: 1 and "1" are the same then, 1 and 1.0 are not."""
    texts: list[_Texts] = []
    for call in calls:
        written: dict[str, str] = {}
        for name, value in (call.args or {}).items():
            written[name] = _text(value) if isinstance(value, list | dict) else str(value)
        texts.append((call.name, written))
    return texts


def _text(value: list[Json] | dict[str, Json]) -> str:
    """Do what `str` does to a container, without recursion."""
    pieces: list[str] = []
    stack: list[Iterator[tuple[str, Json] | str]] = [iter((("", value),))]
    while stack:
        step = next(stack[-1], None)
        if step is None:
            stack.pop()
        elif isinstance(step, str):
            pieces.append(step)
        else:
            before, node = step
            pieces.append(before)
            if isinstance(node, list | dict):
                stack.append(_inside(node))
            else:
                pieces.append(repr(node))
    return "".join(pieces)


def _inside(node: list[Json] | dict[str, Json]) -> Iterator[tuple[str, Json] | str]:
    """Yield values with the text before each, and the brackets."""
    is_object = isinstance(node, dict)
    yield "{" if is_object else "["
    comma = ""
    if isinstance(node, dict):
        for name, value in node.items():
            yield f"{comma}{name!r}: ", value
            comma = ", "
    else:
        for value in node:
            yield comma, value
            comma = ", "
    yield "}" if is_object else "]"


def _sort_key(call: _Texts) -> tuple[str, ...]:
    name, args = call
    return (name, *(text for argument in sorted(args) for text in (argument, args[argument])))


def _share(wanted: dict[str, str], found: dict[str, str]) -> float:
    if not wanted:
        return 0.0 if found else 1.0
    return sum(found.get(name) == text for name, text in wanted.items()) / len(wanted)
