"""Marks values as truncated where several values of a trace end at one length, which reveals an unusual limit.

Arrives: the readings of a trace. Leaves: the same readings, with arguments and results that were cut as `Unparsed(..., "truncated")`.
Without it, JSON that an unusual limit cut would count as JSON that the model wrote wrongly. Readings of spans with cut JSON
have the sizes of all texts of the span. Of other spans, the lengths of values that were read as objects or lists are unknown,
and texts that `cutting` shortened have no length of their own.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence, Set

from msgspec.structs import replace

from toolgauge.model.content import Content, Recorded, Unparsed
from toolgauge.model.damaged_json import MOST_SPARED, SHORTEST_LIMIT, TextSize, text_size
from toolgauge.model.left_out import is_cut
from toolgauge.model.observations import (
    CallAnswered,
    CallExecuted,
    CallRequested,
    MessageSeen,
    Observation,
    Reading,
)

_BEGINS = ("{", "[", "(", '"')


def with_truncated_values(readings: Sequence[Reading]) -> Sequence[Reading]:
    """Return the readings, with values that end at one length as truncated.

    Several texts show a limit when they have the same length in characters, UTF-8 bytes or UTF-16 units: two different ones of
    JSON that is valid up to its end, or one of these and another text, if no text of the trace is longer. Lengths are the same
    as well where the next character of the shorter text may have been too wide for the limit.
    """
    # Only traces with unreadable JSON pay for the rest.
    if not any(_may_be_cut(seen) for reading in readings for seen in reading.observations):
        return readings
    truncated = _cut_at_common_length(readings)
    return [_with_truncated(reading, truncated) for reading in readings] if truncated else readings


def _may_be_cut(seen: Observation) -> bool:
    if type(seen) is CallRequested:
        return type(seen.arguments) is Unparsed
    if type(seen) is not CallExecuted:
        return False
    result = seen.result.value if type(seen.result) is Recorded else None
    return type(seen.arguments) is Unparsed or (type(result) is str and result.startswith(_BEGINS))


def _cut_at_common_length(readings: Sequence[Reading]) -> Set[str]:
    """Return the texts of values that a limit cut."""
    observations = [seen for reading in readings for seen in reading.observations]
    values = {text for seen in observations for text in map(_text, _contents(seen)) if text is not None}
    messages = {seen.text for seen in observations if type(seen) is MessageSeen}
    sizes = {text: text_size(text) for text in values | messages if len(text) >= SHORTEST_LIMIT and not is_cut(text)}
    every = {*sizes.values(), *(size for reading in readings for size in reading.text_sizes)}
    unfinished = {text: sizes[text] for text in values if text in sizes and sizes[text].is_cut}
    found: set[str] = set()
    for unit in range(len(MOST_SPARED)):
        of_all = _Lengths(every, unit)
        of_unfinished = _Lengths([size for size in every if size.is_cut], unit)
        for text, size in unfinished.items():
            if of_unfinished.like(size) > 1 or (of_all.like(size) > 1 and of_all.is_longest(size)):
                found.add(text)
    return found


class _Lengths:
    """Counts the texts of each length in one unit."""

    def __init__(self, sizes: Collection[TextSize], unit: int) -> None:
        self._unit = unit
        self._all = Counter([size.lengths[unit] for size in sizes])
        self._wide = Counter([size.lengths[unit] for size in sizes if self._spared(size)])
        self._longest = max(self._all, default=0)

    def like(self, size: TextSize) -> int:
        """Return how many texts one limit can have cut together with this one, itself included."""
        length, most = size.lengths[self._unit], MOST_SPARED[self._unit]
        shorter = sum(self._wide[length - spared] for spared in range(1, most + 1))
        longer = sum(self._all[length + spared] for spared in range(1, self._spared(size) + 1))
        return self._all[length] + shorter + longer

    def is_longest(self, size: TextSize) -> bool:
        """Return whether no text is longer than the limit that may have cut this one."""
        return size.lengths[self._unit] + self._spared(size) >= self._longest

    def _spared(self, size: TextSize) -> int:
        """Return how far before a limit the text may end: only text with wide characters does."""
        return MOST_SPARED[self._unit] if size.lengths[self._unit] != size.lengths[0] else 0


def _with_truncated(reading: Reading, truncated: Set[str]) -> Reading:
    if not any(_text(content) in truncated for seen in reading.observations for content in _contents(seen)):
        return reading
    return replace(reading, observations=tuple([_marked(seen, truncated) for seen in reading.observations]))


def _marked(seen: Observation, truncated: Set[str]) -> Observation:
    match seen:
        case CallRequested(arguments=arguments):
            return replace(seen, arguments=_as_truncated(arguments, truncated))
        case CallExecuted(arguments=arguments, result=result):
            marked = _as_truncated(arguments, truncated), _as_truncated(result, truncated)
            return replace(seen, arguments=marked[0], result=marked[1])
        case CallAnswered(result=result):
            return replace(seen, result=_as_truncated(result, truncated))
        case _:
            return seen


def _as_truncated(content: Content, truncated: Set[str]) -> Content:
    text = _text(content)
    return Unparsed(text, "truncated") if text is not None and text in truncated else content


def _contents(seen: Observation) -> Iterator[Content]:
    match seen:
        case CallRequested(arguments=arguments):
            yield arguments
        case CallExecuted(arguments=arguments, result=result):
            yield arguments
            yield result
        case CallAnswered(result=result):
            yield result
        case _:
            return


def _text(content: Content) -> str | None:
    match content:
        case Unparsed(text=text) | Recorded(value=str() as text):
            return text
        case _:
            return None
