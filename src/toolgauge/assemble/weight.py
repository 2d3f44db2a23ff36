"""Weighs readings: about how much memory they take, with the objects that text is made of.

Bounds on memory are only as good as this. It is asked for every span: what is small is weighed whole, of what is
large a sample. Objects are asked for their sizes directly; `getsizeof` would take eight times as long.
"""

from collections.abc import Collection
from typing import cast

from msgspec.structs import astuple

from toolgauge.model.content import Content, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    Observation,
    Reading,
    ToolDefinition,
    ToolsOffered,
)

# As CPython lays them out, and a tenth for what its allocator loses: the reading with its times, its reference with
# three ids, its places in two tables.
READING_BYTES = 650
# Names of services and scopes, which the spans of one request share, are no longer; what is longer counts each time.
_LONGEST_NAME = 256
# The key of a log record, beside its reading: times and numbers.
LOG_KEY_BYTES = 200
# A name for itself beside its object, or nothing but short fields.
_OBSERVATION_BYTES = 150
# What has no more than that.
_PLAIN = frozenset((AgentRun, ConversationSeen, ModelCall))
# A call has an id as well.
_CALL_ID_BYTES = 80
# A definition with its place in a tuple.
_TOOL_BYTES = 100
# What is remembered of tools on offer: some hundred sets of dozens.
_MAX_KNOWN_BYTES = 16 * 1024 * 1024
_WRAPPER_BYTES = 40
_NUMBER_BYTES = 28
_ATTRIBUTE_BYTES = 64
# What the garbage collector keeps beside each container.
_COLLECTED_BYTES = 16
_CONTAINER_BYTES = _WRAPPER_BYTES + _COLLECTED_BYTES
# So many elements of a value are looked at on each level of nesting, in places all over it: by the golden ratio, which
# falls into step with no table's columns.
_MOST = 64
_PLACES = tuple(number * 0.6180339887498949 % 1 for number in range(_MOST))
# A number must come out, however often a sample was taken of a sample.
_MOST_ALIKE = 1e12
# Nothing takes more than so many times its bytes: a sample that says so was taken of a value that was made for it.
_MOST_TIMES = 50
# What seems to take less than such a part of its bytes is looked at whole: it may be made to fool a sample, or hold a
# megabyte where others have a name. Of real readings hardly any does.
_SELDOM_LESS_THAN = 4
_SINGLE = frozenset((str, int, float, bool, type(None)))
# The parser keeps no longer names of members once.
_LONGEST_SHARED_NAME = 32


class OfferedTools:
    """Weighs tools on offer: those that are the same objects as in another reading before take no memory again.

    The newest are remembered, up to `max_bytes` of them.
    """

    def __init__(self, max_bytes: int = _MAX_KNOWN_BYTES) -> None:
        # By their ids, which stay theirs as long as they are here.
        self._known: dict[int, tuple[object, int]] = {}
        self._bytes = 0
        self._max_bytes = max_bytes

    def weight(self, tools: tuple[ToolDefinition, ...], received_bytes: int) -> int:
        """Return about how many bytes the tools take that no reading had before; they came in so many bytes or less."""
        if id(tools) in self._known:
            return 0
        size, schemas = 0, list[JsonObject]()
        for tool in tools:
            size += _TOOL_BYTES + tool.name.__sizeof__() + tool.description.__sizeof__()
            if tool.parameters is not None and id(tool.parameters) not in self._known:
                schemas.append(tool.parameters)
        self._remember(tools, size)
        sampled = _levels([*schemas])
        if sampled * _SELDOM_LESS_THAN < received_bytes:
            sampled = max(sampled, _texts(list(schemas)))
        for schema in schemas:
            self._remember(schema, sampled // len(schemas))
        return size + sampled

    @property
    def remembered_bytes(self) -> int:
        """About how much memory those take that are remembered."""
        return self._bytes

    def _remember(self, seen: object, size: int) -> None:
        if id(seen) in self._known:
            return
        self._known[id(seen)] = (seen, size)
        self._bytes += size
        while self._bytes > self._max_bytes:
            oldest = next(iter(self._known))
            self._bytes -= self._known.pop(oldest)[1]


class Scale:
    """Weighs the readings of one trace in their order: what is one object in all of them counts once.

    Tools on offer count as what names them, unless it is known which of them were `offered` before.
    """

    __slots__ = ("_offered", "_system")

    def __init__(self, offered: OfferedTools | None = None) -> None:
        self._offered = offered
        # Each model call repeats the system prompt; recognised again, it is mostly the same object.
        self._system: MessageSeen | None = None

    def weight(self, reading: Reading) -> int:
        """Return about how many bytes the reading takes, or more."""
        size = self.sampled(reading)
        if size * _SELDOM_LESS_THAN < reading.size_bytes:
            size = max(size, _texts_of(reading))
        service, scope = reading.service, reading.scope
        if len(scope) > _LONGEST_NAME:
            size += scope.__sizeof__()
        if service is not None and len(service) > _LONGEST_NAME:
            size += service.__sizeof__()
        return size

    def sampled(self, reading: Reading) -> int:
        """Return about how many bytes the reading takes, unless it is made to seem less."""
        size = READING_BYTES + _OBSERVATION_BYTES * len(reading.observations)
        for seen in reading.observations:
            # By their very classes: asking a Struct what it is an instance of takes five times as long.
            if type(seen) in _PLAIN:
                continue
            if type(seen) is MessageSeen:
                if seen is self._system:
                    size -= _OBSERVATION_BYTES
                    continue
                if seen.role == "system":
                    self._system = seen
                size += seen.text.__sizeof__()
            elif type(seen) is not ToolsOffered:
                size += _told_of_call(seen)
            elif self._offered is not None:
                size += self._offered.weight(seen.tools, reading.size_bytes)
        for _, value in reading.attributes:
            size += _ATTRIBUTE_BYTES + value.__sizeof__()
        most = READING_BYTES + _MOST_TIMES * reading.size_bytes
        return size if size < most else most


def weight_of(observation: Observation) -> int:
    """Return about how many bytes an observation takes."""
    if type(observation) is MessageSeen:
        return _OBSERVATION_BYTES + observation.text.__sizeof__()
    return _OBSERVATION_BYTES + _told_of_call(observation)


def _told_of_call(observation: Observation) -> int:
    """Weigh what is told of a call; nothing is, where the observation is not about one."""
    if type(observation) is CallExecuted:
        told, error = _content(observation.arguments) + _content(observation.result), observation.error
    elif type(observation) is CallRequested:
        return _CALL_ID_BYTES + _content(observation.arguments)
    elif type(observation) is CallAnswered:
        told, error = _content(observation.result), observation.error
    else:
        return 0
    if error is not None:
        told += _OBSERVATION_BYTES + error.message.__sizeof__()
    return _CALL_ID_BYTES + told


def _texts_of(reading: Reading) -> int:
    """Add up all texts and numbers, wherever they are; but not what is shared, or was weighed whole."""
    told = [seen for seen in reading.observations if type(seen) is not MessageSeen and type(seen) is not ToolsOffered]
    return _texts([field for seen in told for field in astuple(seen)])


def _texts(level: list[object]) -> int:
    size = 0
    while level:
        below: list[object] = []
        for value in level:
            if type(value) in _SINGLE:
                # Nearly all, and quicker to tell than what an object is an instance of.
                size += value.__sizeof__()
            elif isinstance(value, dict):
                members = cast("JsonObject", value)
                below += members.values()
                below += [name for name in members if len(name) > _LONGEST_SHARED_NAME]
            elif isinstance(value, list):
                below += cast("list[Json]", value)
            elif isinstance(value, Recorded | Unparsed | CallError):
                below += astuple(value)
            else:
                size += value.__sizeof__()
        level = below
    return size


def _content(content: Content) -> int:
    if type(content) is not Recorded:
        return _WRAPPER_BYTES + content.text.__sizeof__() if type(content) is Unparsed else 0
    value = content.value
    # Names of members are kept once by the parser, however often they occur.
    if type(value) is dict:
        elements: Collection[Json] = value.values()
    elif type(value) is list:
        elements = value
    else:
        return _WRAPPER_BYTES + value.__sizeof__()
    size = _CONTAINER_BYTES + value.__sizeof__()
    if len(value) > _MOST:
        return size + _levels(list(elements))
    # Most arguments and results have no level below this one.
    within = 0
    for element in elements:
        if type(element) is str:
            within += element.__sizeof__()
        elif type(element) is dict or type(element) is list:
            return size + _levels(list(elements))
        else:
            within += _NUMBER_BYTES
    return size + within


def _levels(level: list[Json]) -> int:
    """Weigh elements and what is in them, level by level: of a large level a sample, and the rest like that."""
    size, times = 0.0, 1.0
    while level:
        if len(level) > _MOST:
            times = min(times * len(level) / _MOST, _MOST_ALIKE)
            level = [level[int(place * len(level))] for place in _PLACES]
        below: list[Json] = []
        for element in level:
            if type(element) is dict:
                size += times * _COLLECTED_BYTES
                below += element.values()
            elif type(element) is list:
                size += times * _COLLECTED_BYTES
                below += element
            size += times * element.__sizeof__()
        level = below
    return int(size)
