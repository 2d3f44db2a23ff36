"""Weighs readings: about how much memory they take, with the objects that text is made of.

Bounds on memory are only as good as this. It is asked for every span, so of large values a sample is looked at.
"""

from collections.abc import Collection, Iterable
from itertools import islice
from sys import getsizeof

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json
from toolgauge.model.observations import (
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    MessageSeen,
    Observation,
    Reading,
)

# As CPython lays them out, and a tenth for what its allocator loses: the reading with its times, its reference with
# three ids, its place in a table.
READING_BYTES = 650
# The key of a log record, beside its reading: what was said, without the texts.
LOG_KEY_BYTES = 500
# A name for itself beside its object, or nothing but short fields.
_OBSERVATION_BYTES = 150
_CALL_ID_BYTES = 80
_WRAPPER_BYTES = 40
_NUMBER_BYTES = 28
_ITEM_BYTES = 60
# So many elements are looked at in a container, in one within it, and so on; deeper ones are taken as they mostly are.
_SAMPLES = (16, 8, 2, 1, 1, 1)


class Scale:
    """Weighs the readings of one trace in their order: what is one object in all of them counts once."""

    __slots__ = ("_system",)

    def __init__(self) -> None:
        # Each model call repeats the system prompt; recognised again, it is mostly the same object.
        self._system: MessageSeen | None = None

    def weight(self, reading: Reading) -> int:
        """Return about how many bytes the reading takes."""
        size = READING_BYTES
        for seen in reading.observations:
            if isinstance(seen, MessageSeen) and seen.role == "system":
                if seen is self._system:
                    continue
                self._system = seen
            size += weight_of(seen)
        for attribute in reading.attributes:
            size += getsizeof(attribute) + getsizeof(attribute[1])
        return size


def weight_of(observation: Observation) -> int:
    """Return about how many bytes an observation takes.

    Tools on offer count as what names them: recognised again, they are the same objects in all traces.
    """
    match observation:
        case CallExecuted(arguments=arguments, result=result, error=error):
            return _OBSERVATION_BYTES + _CALL_ID_BYTES + _content(arguments) + _content(result) + _error(error)
        case MessageSeen(text=text):
            return _OBSERVATION_BYTES + getsizeof(text)
        case CallRequested(arguments=arguments):
            return _OBSERVATION_BYTES + _CALL_ID_BYTES + _content(arguments)
        case CallAnswered(result=result, error=error):
            return _OBSERVATION_BYTES + _CALL_ID_BYTES + _content(result) + _error(error)
        case _:
            return _OBSERVATION_BYTES


def _content(content: Content) -> int:
    match content:
        case Recorded(value=value):
            return _WRAPPER_BYTES + _json(value, 0)
        case Unparsed(text=text):
            return _WRAPPER_BYTES + getsizeof(text)
        case NotRecorded():
            return 0


def _error(error: CallError | None) -> int:
    return 0 if error is None else _OBSERVATION_BYTES + getsizeof(error.message)


def _json(value: Json, depth: int) -> int:
    match value:
        case str():
            return getsizeof(value)
        case dict():
            # Names are kept once by the parser, however often they occur.
            return getsizeof(value) + _elements(value.values(), depth)
        case list():
            return getsizeof(value) + _elements(value, depth)
        case _:
            return _NUMBER_BYTES


def _elements(elements: Collection[Json], depth: int) -> int:
    count = len(elements)
    if not count:
        return 0
    if depth >= len(_SAMPLES):
        return count * _ITEM_BYTES
    looked_at = min(count, _SAMPLES[depth])
    return _sum(islice(elements, looked_at), depth + 1) * count // looked_at


def _sum(elements: Iterable[Json], depth: int) -> int:
    return sum([_json(element, depth) for element in elements])
