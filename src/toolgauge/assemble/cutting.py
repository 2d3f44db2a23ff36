"""Bounds the text kept of one trace: messages, arguments, results, error messages.

Every model input repeats the history before it: repeated observations are kept once. If that is not enough, the longest
texts are cut in the middle, to the highest level (a power of two) at which all together fit. The level depends on what
came and not on its order: cutting twice gives what cutting once at the lower level gives. Ids and numbers of what is cut
go to an index.
"""

import json
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence, Set
from heapq import nsmallest

from msgspec.structs import replace

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.damaged_json import MOST_SPARED, SHORTEST_LIMIT, TextSize, text_size
from toolgauge.model.left_out import HASH_BYTES, MARK, NOTHING_LEFT_OUT, LeftOut, is_cut, token_hash, tokens
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    CodeExecuted,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    Observation,
    Reading,
    SpanFailed,
    ToolDescribed,
    ToolsOffered,
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
    values = {text for seen in observations for text in map(_whole_text, _contents(seen)) if text is not None}
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
    if not any(_whole_text(content) in truncated for seen in reading.observations for content in _contents(seen)):
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
    text = _whole_text(content)
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


def _whole_text(content: Content) -> str | None:
    match content:
        case Unparsed(text=text) | Recorded(value=str() as text):
            return text
        case _:
            return None


_LOWEST_LEVEL = 64
_REPEATED = frozenset((MessageSeen, CallAnswered))
# About what one hash costs while it is collected: a number and its place in a set.
_ENTRY_SIZE = 100
_FEWEST = 1024
_CONTENT_PER_TOKEN = 256
_MOST_MERGED = 16_384
# So many characters of one text are looked at.
_MAX_LOOKED_AT = 1 << 17


class Cutter:
    """Cuts the texts of one trace to what fits, as often as there is more of them."""

    def __init__(self, max_size: int) -> None:
        self._max = max_size
        self._level = max(_LOWEST_LEVEL, 1 << max_size.bit_length())
        self._index = TruncatedIndex(max_size)
        self.left_out = NOTHING_LEFT_OUT

    @property
    def index_bytes(self) -> int:
        """About how much memory the index of what was cut takes."""
        return self._index.size_bytes

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
        texts_cut = sum(
            [len(text) == self._level and is_cut(text) for seen in distinct.values() for text in texts(seen)]
        )
        self.left_out = self._index.left_out(texts_cut) if texts_cut else NOTHING_LEFT_OUT

    def _shared(self, readings: dict[Hashable, Reading]) -> Iterator[int]:
        """Cut to the level, keep repetitions once, and yield the sizes of all texts, each once."""
        known: dict[Hashable, Observation] = {}
        for key, reading in readings.items():
            kept: list[Observation] = []
            for seen in reading.observations:
                repeated = identity(seen) if type(seen) in _REPEATED else None
                one = known.get(repeated) if repeated is not None else None
                if one is None:
                    shortened = cut(seen, self._level)
                    if shortened is not seen:
                        for text in texts(seen):
                            if len(text) > self._level and not is_cut(text):
                                self._index.add(text)
                    # One that was cut earlier is what a whole one is cut to.
                    one = shortened if repeated is None else known.setdefault(identity(shortened), shortened)
                    if repeated is not None:
                        known[repeated] = one
                    if one is shortened:
                        yield from sizes(one)
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
        case CallAnswered(result=result, error=error):
            yield _text(result)
            yield error.message if error is not None else ""
        case CallExecuted(arguments=arguments, result=result, error=error):
            yield _text(arguments)
            yield _text(result)
            yield error.message if error is not None else ""
        case SpanFailed(error=CallError(message=message)) | CodeExecuted(error=CallError(message=message)):
            yield message
        case _:
            return


def sizes(observation: Observation) -> Iterator[int]:
    """Yield the sizes, in characters, of the texts that an observation carries."""
    return (len(text) for text in texts(observation))


def identity(observation: Observation) -> Hashable | None:
    """Return a key that repetitions of an observation share; `None` for one that stands for itself."""
    match observation:
        case MessageSeen(role=role, text=text, follows=follows, has_media=has_media):
            return ("message", role, hash(text), len(text), follows, has_media)
        case CallAnswered(call_id=call_id, name=name, result=result, error=error):
            text = _text(result)
            return ("answer", call_id, name, _kind(result), hash(text), len(text), error)
        case ToolsOffered(tools=tools):
            return ("offer", *((tool.name, tool.description, hash(_as_json(tool.parameters))) for tool in tools))
        case ToolDescribed(tool=tool):
            return ("described", tool.name, hash(_as_json(tool.parameters)))
        case _:
            return None


def fingerprint(observation: Observation) -> Hashable:
    """Return a key that differs between any two observations, without holding on to their texts."""
    match observation:
        case CallRequested(arguments=arguments):
            text = _text(arguments)
            known = (observation.position, observation.name, observation.call_id, observation.agent)
            return ("requested", *known, observation.usable, _kind(arguments), hash(text), len(text))
        case CallExecuted(arguments=arguments, result=result):
            known = (observation.name, observation.call_id, observation.agent, observation.error)
            kinds = (_kind(arguments), _kind(result))
            return ("executed", *known, kinds, hash(_text(arguments)), hash(_text(result)))
        case AgentRun() | ModelCall() | ConversationSeen() | SpanFailed() | CodeExecuted():
            return observation
        case _:
            return identity(observation)


def cut(observation: Observation, level: int) -> Observation:
    """Return the observation with no text longer than `level`; itself when nothing is."""
    if all(size <= level for size in sizes(observation)):
        return observation
    match observation:
        case MessageSeen():
            return replace(observation, text=cut_text(observation.text, level))
        case CallRequested():
            return replace(observation, arguments=_cut_content(observation.arguments, level))
        case CallAnswered():
            return replace(
                observation,
                result=_cut_content(observation.result, level),
                error=_cut_error(observation.error, level),
            )
        case CallExecuted():
            return replace(
                observation,
                arguments=_cut_content(observation.arguments, level),
                result=_cut_content(observation.result, level),
                error=_cut_error(observation.error, level),
            )
        case CodeExecuted(error=error):
            return replace(observation, error=_cut_error(error, level))
        case SpanFailed(error=error):
            return SpanFailed(error=replace(error, message=cut_text(error.message, level)))
        case _:
            return observation


def cut_text(text: str, level: int) -> str:
    """Keep both ends of a text that is longer than `level`, an even number of characters, with a mark between."""
    if len(text) <= level:
        return text
    kept = (level - len(MARK)) // 2
    return text[:kept] + MARK + text[len(text) - kept :]


def _cut_content(content: Content, level: int) -> Content:
    text = _text(content)
    if len(text) <= level:
        return content
    # That a text was broken from the start stays known: it is why the call was turned down.
    reason = content.reason if isinstance(content, Unparsed) else "truncated"
    return Unparsed(text=cut_text(text, level), reason=reason)


def _cut_error(error: CallError | None, level: int) -> CallError | None:
    return None if error is None else replace(error, message=cut_text(error.message, level))


def _kind(content: Content) -> Hashable:
    """Distinguish what has the same text: a number or an object, and a text that reads like it."""
    return type(content), type(content.value) if isinstance(content, Recorded) else None


def _text(content: Content) -> str:
    match content:
        case Recorded(value=str() as text) | Unparsed(text=text):
            return text
        case Recorded(value=value):
            return _as_json(value)
        case NotRecorded():
            return ""


def _as_json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        # Deeper than anything a tool takes or returns; its bytes count against the limit of all traces.
        return ""


class TruncatedIndex:
    """The ids and numbers of the cut texts of one trace; as many as suit the text that is kept of it."""

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
        return LeftOut(hashes=_packed(self._hashes), texts=texts, is_complete=self._is_complete)

    def _drop_largest(self) -> None:
        self._hashes = set(nsmallest(self._max, self._hashes))
        self._limit = max(self._hashes) + 1
        self._is_complete = False


def merged(parts: Iterable[LeftOut]) -> LeftOut:
    """Return one index of several traces."""
    parts = [part for part in parts if part.texts]
    if len(parts) <= 1:
        return parts[0] if parts else NOTHING_LEFT_OUT
    hashes = sorted({hashed for part in parts for hashed in _unpacked(part)})
    return LeftOut(
        hashes=_packed(hashes[:_MOST_MERGED]),
        texts=sum(part.texts for part in parts),
        is_complete=len(hashes) <= _MOST_MERGED and all(part.is_complete for part in parts),
    )


def _packed(hashes: Iterable[int]) -> bytes:
    return b"".join(hashed.to_bytes(HASH_BYTES, "big") for hashed in sorted(hashes))


def _unpacked(part: LeftOut) -> list[int]:
    raw = part.hashes
    return [int.from_bytes(raw[at : at + HASH_BYTES], "big") for at in range(0, len(raw), HASH_BYTES)]
