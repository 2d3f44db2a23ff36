"""Estimates how much memory readings take, including the objects behind their texts.

Bounds on memory are only as good as this. What many readings share counts with the first of them.
"""

from collections.abc import Collection, Sequence
from typing import cast

from msgspec import Struct
from msgspec.structs import astuple

from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import (
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    CodeExecuted,
    MessageSeen,
    Observation,
    Reading,
    SpanFailed,
    ToolDefinition,
    ToolDescribed,
    ToolsOffered,
)
from toolgauge.model.records import Resource

# The reading with its times, three ids and places in two tables, as CPython lays them out, plus a tenth for the allocator.
READING_BYTES = 650
# The key of a log record, beside its reading: times and numbers.
LOG_KEY_BYTES = 200
_OBSERVATION_BYTES = 150
# The names of a service and a scope, which the spans of one request share; what is longer counts each time.
_LONGEST_NAME = 256
_REFERENCE_BYTES = 8
_TOOL_BYTES = 100
_ATTRIBUTE_BYTES = 64
_WRAPPER_BYTES = 40
# What the garbage collector keeps beside each container.
_COLLECTED_BYTES = 16
# The parser keeps shorter names of members once.
_LONGEST_SHARED_NAME = 32
# What is remembered of shared objects: some hundred sets of dozens of tools.
_MAX_SHARED_BYTES = 16 * 1024 * 1024
_LONG_SPAN = 4096
# What protobuf makes of a message, in relation to its bytes.
_PARSED, _PARSED_ATTRIBUTE_BYTES = 3, 100
_LEAVES = frozenset((str, int, float))
_WRAPPERS = frozenset((Recorded, Unparsed, CallError))


class Scale:
    """Weighs readings in their order. Remembers the newest objects that readings share, up to `max_bytes` of them."""

    def __init__(self, max_bytes: int = _MAX_SHARED_BYTES) -> None:
        # By their ids, which stay theirs as long as they are here.
        self._shared: dict[int, tuple[object, int]] = {}
        self._max_bytes = max_bytes
        self.shared_bytes = 0

    def weights(self, reading: Reading) -> tuple[int, int]:
        """Return about how many bytes the reading takes, and the tools on offer that it is the first to have."""
        size, offered = READING_BYTES + _OBSERVATION_BYTES * len(reading.observations), 0
        size += max(0, len(reading.scope) + len(reading.service or "") - _LONGEST_NAME)
        is_long = reading.size_bytes > _LONG_SPAN
        held: list[object] = []
        for seen in reading.observations:
            # By their very classes: asking a Struct what it is an instance of takes five times as long.
            if type(seen) is MessageSeen:
                # Each model call repeats the system prompt; recognised again, it is mostly the same object.
                size += self._once(seen, seen.text.__sizeof__()) if seen.role == "system" else seen.text.__sizeof__()
            elif type(seen) is ToolsOffered or type(seen) is ToolDescribed:
                offered += self._tools(seen)
            elif is_long:
                held += astuple(seen)
            else:
                held += contents_of(seen)
        for _, value in reading.attributes:
            size += _ATTRIBUTE_BYTES + value.__sizeof__()
        return (size + memory_of(held, with_names=is_long) if held else size), offered

    def resource(self, resource: Resource) -> int:
        """Return about how many bytes a resource takes, where it is not remembered by now."""
        if id(resource) in self._shared:
            return 0
        size = _PARSED * resource.size_bytes + _PARSED_ATTRIBUTE_BYTES * len(resource.attributes)
        return self._once(resource, size)

    def _tools(self, offered: ToolsOffered | ToolDescribed) -> int:
        if isinstance(offered, ToolDescribed):
            return self._schema(offered.tool)
        if id(offered.tools) in self._shared:
            return 0
        size = sum([_TOOL_BYTES + tool.name.__sizeof__() + tool.description.__sizeof__() for tool in offered.tools])
        self._once(offered.tools, size)
        # ClaimedAct one by one, tools may have the same objects for schemas.
        return size + sum([self._schema(tool) for tool in offered.tools])

    def _schema(self, tool: ToolDefinition) -> int:
        if tool.parameters is None or id(tool.parameters) in self._shared:
            return 0
        return self._once(tool.parameters, memory_of([tool.parameters]))

    def _once(self, seen: object, size: int) -> int:
        if id(seen) in self._shared:
            return 0
        self._shared[id(seen)] = (seen, size)
        self.shared_bytes += size
        while self.shared_bytes > self._max_bytes:
            oldest = next(iter(self._shared))
            self.shared_bytes -= self._shared.pop(oldest)[1]
        return size


def weight_together(readings: Collection[Reading]) -> int:
    """Return about how many bytes the readings take, shared objects counted once and tools on offer not at all."""
    distinct = {id(seen): seen for reading in readings for seen in reading.observations}
    held: list[object] = []
    for seen in distinct.values():
        held += (seen.text,) if type(seen) is MessageSeen else contents_of(seen)
    references = sum([len(reading.observations) for reading in readings])
    base = READING_BYTES * len(readings) + _REFERENCE_BYTES * references + _OBSERVATION_BYTES * len(distinct)
    return base + memory_of(held)


def contents_of(observation: Observation) -> tuple[object, ...]:
    """Return what an observation holds of a call beside short names."""
    if type(observation) is CallExecuted:
        return observation.call_id, observation.arguments, observation.result, observation.error
    if type(observation) is CallRequested:
        return observation.call_id, observation.arguments
    if type(observation) is CodeExecuted or type(observation) is SpanFailed:
        return (observation.error,)
    if type(observation) is CallAnswered:
        return observation.call_id, observation.result, observation.error
    return ()


def memory_of(level: Sequence[object], *, with_names: bool = True) -> int:
    """Return how many bytes these values take, with all that is in them; without long names of members where there are none."""
    size = 0
    while level:
        below: list[object] = []
        for value in level:
            kind = type(value)
            if kind in _LEAVES:
                size += value.__sizeof__()
            elif kind is dict:
                members = cast("JsonObject", value)
                size += _COLLECTED_BYTES + members.__sizeof__()
                below += members.values()
                if with_names:
                    below += [name for name in members if len(name) > _LONGEST_SHARED_NAME]
            elif kind is list:
                elements = cast("list[Json]", value)
                size += _COLLECTED_BYTES + elements.__sizeof__()
                below += elements
            elif kind in _WRAPPERS:
                size += _WRAPPER_BYTES
                below += astuple(cast("Struct", value))
        level = below
    return size
