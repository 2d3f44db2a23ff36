"""How much memory readings take, including the objects behind their texts, and the bound on the text kept of one trace.

An object that many readings share counts with the first one. The longest texts are cut in the middle, to the highest power of two at which
all fit: cutting twice equals cutting once.
"""

import json
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from gc import get_referents
from heapq import nsmallest
from itertools import chain, compress, repeat
from operator import is_, itemgetter, methodcaller, not_
from sys import getsizeof

from cachetools import FIFOCache
from msgspec.structs import astuple, replace

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.left_out import HASH_BYTES, MARK, NOTHING_LEFT_OUT, LeftOut, is_cut, token_hash, tokens
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
# Spans of one request share the names of their service and scope. Characters beyond this limit count for each span.
_LONGEST_NAME = 256
_REFERENCE_BYTES = 8
_TOOL_BYTES = 100
_ATTRIBUTE_BYTES = 64
_WRAPPER_BYTES = 40
# The parser keeps shorter names of members once.
_LONGEST_SHARED_NAME = 32
# Some hundred sets of dozens of tools.
_MAX_SHARED_BYTES = 16 * 1024 * 1024
_LONG_SPAN = 4096
# What protobuf makes of a message, in relation to its bytes.
_PARSED, _PARSED_ATTRIBUTE_BYTES = 3, 100
_WRAPPERS = frozenset((Recorded, Unparsed, CallError)).__contains__
# Observations with contents of calls, and observations that have each a rule of their own.
_CONTENTS = frozenset((CallExecuted, CallRequested, CallAnswered, CodeExecuted, SpanFailed)).__contains__
_OTHERS = frozenset((MessageSeen, ToolsOffered, ToolDescribed)).__contains__
_fields: Callable[..., tuple[object, ...]] = astuple
_names: Callable[[object], Collection[str]] = methodcaller("keys")
_HOLDS = frozenset((dict, list, tuple)).__contains__
_SIZED = frozenset((str, int, float, dict, list, tuple)).__contains__


class Scale:
    """Weighs readings in their order. Remembers up to `max_bytes` of the newest objects that readings share."""

    def __init__(self, max_bytes: int = _MAX_SHARED_BYTES) -> None:
        # By their ids, which stay theirs as long as they are here.
        self._shared = FIFOCache[int, tuple[object, int]](max_bytes, itemgetter(1))

    def weights(self, reading: Reading) -> tuple[int, int]:
        """Return about how many bytes the reading takes, and the tools on offer that it is the first to have."""
        observations = reading.observations
        size, offered = READING_BYTES + _OBSERVATION_BYTES * len(observations), 0
        size += max(0, len(reading.scope) + len(reading.service or "") - _LONGEST_NAME)
        kinds = [*map(type, observations)]
        # In a long span, any name may be long.
        of_calls = map(_CONTENTS, kinds) if reading.size_bytes <= _LONG_SPAN else map(not_, map(_OTHERS, kinds))
        held = [*chain.from_iterable(map(astuple, compress(observations, of_calls)))]
        for seen in compress(observations, map(_OTHERS, kinds)):
            if type(seen) is MessageSeen:
                # Each model call repeats the system prompt; recognised again, it is mostly the same object.
                size += self._once(seen, seen.text.__sizeof__()) if seen.role == "system" else seen.text.__sizeof__()
            elif type(seen) is ToolsOffered:
                if id(seen.tools) not in self._shared:
                    texts_of = [tool.name.__sizeof__() + tool.description.__sizeof__() for tool in seen.tools]
                    offered += self._once(seen.tools, _TOOL_BYTES * len(texts_of) + sum(texts_of))
                    # One by one, tools may have the same objects for schemas.
                    offered += sum([self._schema(tool) for tool in seen.tools])
            elif type(seen) is ToolDescribed:
                offered += self._schema(seen.tool)
        for _, value in reading.attributes:
            size += _ATTRIBUTE_BYTES + value.__sizeof__()
        return (size + memory_of(held) if held else size), offered

    def resource(self, resource: Resource) -> int:
        """Return about how many bytes a resource takes, where it is not remembered by now."""
        return self._once(resource, _PARSED * resource.size_bytes + _PARSED_ATTRIBUTE_BYTES * len(resource.attributes))

    def _schema(self, tool: ToolDefinition) -> int:
        if tool.parameters is None or id(tool.parameters) in self._shared:
            return 0
        return self._once(tool.parameters, memory_of([tool.parameters]))

    def _once(self, seen: object, size: int) -> int:
        if id(seen) in self._shared:
            return 0
        if size <= self._shared.maxsize:
            self._shared[id(seen)] = (seen, size)
        return size


def weight_together(readings: Collection[Reading]) -> int:
    """Return about how many bytes the readings take, shared objects counted once and tools on offer not at all."""
    distinct = [*{id(seen): seen for reading in readings for seen in reading.observations}.values()]
    held: list[object] = [seen.text for seen in distinct if type(seen) is MessageSeen]
    held += chain.from_iterable(map(astuple, compress(distinct, map(_CONTENTS, map(type, distinct)))))
    references = sum([len(reading.observations) for reading in readings])
    base = READING_BYTES * len(readings) + _REFERENCE_BYTES * references + _OBSERVATION_BYTES * len(distinct)
    return base + memory_of(held)


def memory_of(values: Sequence[object]) -> int:
    """Return the bytes that these values and everything inside them take; names of members count where they are long."""
    wrappers = [*compress(values, map(_WRAPPERS, map(type, values)))]
    held = level = [*values, *chain.from_iterable(map(_fields, wrappers))]
    # A level at a time, by calls that pass over all of its values: Python code for each takes ten times as long.
    while level := get_referents(*compress(level, map(_HOLDS, map(type, level)))):
        held += level
    kinds = [*map(type, held)]
    size = _WRAPPER_BYTES * len(wrappers) + sum(map(getsizeof, compress(held, map(_SIZED, kinds))))
    names = [*chain.from_iterable(map(_names, compress(held, map(is_, kinds, repeat(dict)))))]
    if max(map(len, names), default=0) > _LONGEST_SHARED_NAME:
        size += sum([name.__sizeof__() for name in names if len(name) > _LONGEST_SHARED_NAME])
    return size


_LOWEST_LEVEL = 64
# About the memory of one hash while it is collected: a number and its place in a set.
_ENTRY_SIZE = 100
_FEWEST = 1024
_CONTENT_PER_TOKEN = 256
_MOST_MERGED = 16_384
# So many characters of one text are looked at.
_MAX_LOOKED_AT = 1 << 17


class Cutter:
    """Cuts the texts of one trace to the size that fits, each time when there are more."""

    def __init__(self, max_size: int) -> None:
        self._max = max_size
        self._level = max(_LOWEST_LEVEL, 1 << max_size.bit_length())
        self.index = TruncatedIndex(max_size)
        self.left_out = NOTHING_LEFT_OUT

    def fit(self, readings: dict[Hashable, Reading]) -> None:
        """Cut the readings in their places."""
        while True:
            counted = list(self._shared(readings))
            longest = max(counted, default=0)
            if sum(counted) <= self._max or longest <= _LOWEST_LEVEL:
                break
            # Higher levels cut nothing.
            self._level = max(_LOWEST_LEVEL, 1 << (longest - 1).bit_length() - 1)
        distinct = {id(seen): seen for reading in readings.values() for seen in reading.observations}
        whole = [text for seen in distinct.values() for text in texts(seen)]
        texts_cut = sum([len(text) == self._level and is_cut(text) for text in whole])
        self.left_out = self.index.left_out(texts_cut) if texts_cut else NOTHING_LEFT_OUT

    def _shared(self, readings: dict[Hashable, Reading]) -> Iterator[int]:
        """Cut to the level, keep repetitions once, and yield the sizes of all texts, each once."""
        known: dict[Hashable, Observation] = {}
        for key, reading in readings.items():
            kept: list[Observation] = []
            for seen in reading.observations:
                repeated = identity(seen)
                one = known.get(repeated) if repeated is not None else None
                if one is None:
                    shortened = cut(seen, self._level)
                    if shortened is not seen:
                        for text in texts(seen):
                            if len(text) > self._level and not is_cut(text):
                                self.index.add(text)
                    # A text that was cut earlier equals a whole one that is cut.
                    one = shortened if repeated is None else known.setdefault(identity(shortened), shortened)
                    if repeated is not None:
                        known[repeated] = one
                    if one is shortened:
                        yield from map(len, texts(one))
                kept.append(one)
            if any(now is not before for now, before in zip(kept, reading.observations, strict=True)):
                readings[key] = replace(reading, observations=tuple(kept))


def texts(observation: Observation) -> Iterator[str]:
    """Yield the texts that an observation carries."""
    match observation:
        case MessageSeen(text=text):
            yield text
        case CallRequested(arguments=arguments):
            yield _text(arguments)
        case CallAnswered(error=error) | CallExecuted(error=error):
            if isinstance(observation, CallExecuted):
                yield _text(observation.arguments)
            yield _text(observation.result)
            yield error.message if error is not None else ""
        case SpanFailed(error=CallError(message=message)) | CodeExecuted(error=CallError(message=message)):
            yield message
        case _:
            pass


def identity(observation: Observation) -> Hashable | None:
    """Return a key that repetitions of an observation share; `None` for one that stands for itself."""
    match observation:
        case MessageSeen(role=role, text=text, follows=follows, has_media=has_media):
            return ("message", role, hash(text), len(text), follows, has_media)
        case CallAnswered(call_id=call_id, name=name, result=result, error=error):
            # A number or an object differs from a text that reads like it.
            kinds = type(result), type(result.value) if isinstance(result, Recorded) else None
            text = _text(result)
            return ("answer", call_id, name, kinds, hash(text), len(text), error)
        case _:
            return None


def written_out(reading: Reading) -> str:
    """Write all that a reading observed; readings that differ are written differently."""
    try:
        return repr(reading.observations)
    except RecursionError:
        # Deeper than anything that a tool takes or returns.
        return ""


def cut(observation: Observation, level: int) -> Observation:
    """Return the observation with no text longer than `level`; itself when nothing is."""
    if all(len(text) <= level for text in texts(observation)):
        return observation
    changed: dict[str, object] = {}
    for name in observation.__struct_fields__:
        value = getattr(observation, name)
        if name == "text":
            changed[name] = cut_text(value, level)
        elif isinstance(value, CallError):
            changed[name] = replace(value, message=cut_text(value.message, level))
        elif isinstance(value, Recorded | Unparsed) and len(text := _text(value)) > level:
            # That a text was broken from the start stays known: it is why the call was turned down.
            reason = value.reason if isinstance(value, Unparsed) else "truncated"
            changed[name] = Unparsed(text=cut_text(text, level), reason=reason)
    return replace(observation, **changed)


def cut_text(text: str, level: int) -> str:
    """Keep both ends of a text that is longer than `level`, an even number of characters, with a mark between."""
    if len(text) <= level:
        return text
    kept = (level - len(MARK)) // 2
    return text[:kept] + MARK + text[len(text) - kept :]


def _text(content: Content) -> str:
    match content:
        case Recorded(value=str() as text) | Unparsed(text=text):
            return text
        case Recorded(value=value):
            try:
                return json.dumps(value, ensure_ascii=False)
            except RecursionError:
                # Deeper than anything a tool takes or returns; its bytes count against the limit of all traces.
                return ""
        case NotRecorded():
            return ""


class TruncatedIndex:
    """The ids and numbers of the cut texts of one trace; as many as suit the text that is kept."""

    def __init__(self, max_content_size: int) -> None:
        self._max = max(_FEWEST, max_content_size // _CONTENT_PER_TOKEN)
        self._hashes: set[int] = set()
        # Larger hashes than this are not kept: enough smaller ones are known.
        self._limit = 1 << 64
        self._is_complete = True

    @property
    def size_bytes(self) -> int:
        """About how much memory the index takes."""
        return _ENTRY_SIZE * len(self._hashes)

    def add(self, text: str) -> None:
        """Take the ids and numbers of a text."""
        for token in tokens(text[:_MAX_LOOKED_AT]):
            hashed = token_hash(token)
            if hashed < self._limit:
                self._hashes.add(hashed)
                if len(self._hashes) > 2 * self._max:
                    self._drop_largest()
        if len(text) > _MAX_LOOKED_AT:
            self._is_complete = False

    def left_out(self, texts: int) -> LeftOut:
        """Return the index of so many texts."""
        if len(self._hashes) > self._max:
            self._drop_largest()
        packed = b"".join(hashed.to_bytes(HASH_BYTES, "big") for hashed in sorted(self._hashes))
        return LeftOut(hashes=packed, texts=texts, is_complete=self._is_complete)

    def _drop_largest(self) -> None:
        self._hashes = set(nsmallest(self._max, self._hashes))
        self._limit = max(self._hashes) + 1
        self._is_complete = False


def merged(parts: Iterable[LeftOut]) -> LeftOut:
    """Return one index of several traces."""
    parts = [part for part in parts if part.texts]
    if len(parts) <= 1:
        return parts[0] if parts else NOTHING_LEFT_OUT
    starts = range(0, max(len(part.hashes) for part in parts), HASH_BYTES)
    packed = {part.hashes[at : at + HASH_BYTES] for part in parts for at in starts if at < len(part.hashes)}
    hashes = sorted(packed)
    return LeftOut(
        hashes=b"".join(hashes[:_MOST_MERGED]),
        texts=sum(part.texts for part in parts),
        is_complete=len(hashes) <= _MOST_MERGED and all(part.is_complete for part in parts),
    )
