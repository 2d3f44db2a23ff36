"""Conversations whose scores are still coming, as few bytes each.

Thousands are open at a time, mostly of the same streams: what they have in common is kept once, and the figures are packed. All
together take a bounded number of bytes; the longest idle ones are complete when they take more.
"""

import sys
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from toolgauge.watch.fingerprint import joined
from toolgauge.watch.tallies import (
    Conversation,
    ConversationKey,
    Figures,
    StreamKey,
    TrajectoryScores,
    add_figures,
    figures_of,
    tallies_of,
)

_MAX_BYTES = 32 * 1024 * 1024
# Beside its figures: its names, its place among the others, and the keys under which it is stored.
_CONVERSATION_BYTES, _REFERENCE_BYTES, _USE_BYTES = 900, 8, 300
# One that never falls idle would never be counted: it is cut into blocks of so many idle times.
_LONGEST = 6
# Counting one takes 0.3 ms: while memory is given back, others should not wait for long.
_CUT_AT_ONCE = 250
_Texts = TypeVar("_Texts", bound=tuple[str | None, ...])


class _Use(Struct, Generic[_Texts]):
    texts: _Texts
    users: int = 0


class Shared(Generic[_Texts]):
    """One of equal tuples each, for as long as it is in use. `size_bytes` is about their memory."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._uses: dict[_Texts, _Use[_Texts]] = {}

    def take(self, each: Iterable[_Texts]) -> tuple[_Texts, ...]:
        """Return those that are kept for these."""
        taken: list[_Texts] = []
        for texts in each:
            use = self._uses.get(texts)
            if use is None:
                use = self._uses[texts] = _Use(texts)
                self.size_bytes += _size_bytes(texts)
            use.users += 1
            taken.append(use.texts)
        return tuple(taken)

    def give_back(self, each: Iterable[_Texts]) -> None:
        """End one use of each of these; forget those without another."""
        for texts in each:
            use = self._uses[texts]
            use.users -= 1
            if not use.users:
                del self._uses[texts]
                self.size_bytes -= _size_bytes(texts)


def _size_bytes(texts: tuple[str | None, ...]) -> int:
    return _USE_BYTES + sum([sys.getsizeof(text) for text in texts if text is not None])


class _Open(Struct, gc=False):
    """An open conversation: `figures` are those of its streams, in their order, and the traces that they name."""

    opened_ns: int
    first_ns: int
    last_ns: int
    streams: tuple[StreamKey, ...]
    properties: tuple[tuple[str, str], ...]
    figures: bytes


_ENCODER = msgspec.msgpack.Encoder()
# Traces, and figures with the place of their trace.
_PACKED = msgspec.msgpack.Decoder(tuple[list[str], list[tuple[float, int, float, int]]])


def _packed(figures: Iterable[Figures]) -> bytes:
    traces: dict[str, int] = {}
    rows = [
        (total, count, lowest, traces.setdefault(trace_id, len(traces))) for total, count, lowest, trace_id in figures
    ]
    return _ENCODER.encode(([*traces], rows))


def _unpacked(conversation: _Open) -> dict[StreamKey, Figures]:
    traces, figures = _PACKED.decode(conversation.figures)
    rows = [(total, count, lowest, traces[place]) for total, count, lowest, place in figures]
    return dict(zip(conversation.streams, rows, strict=True))


class OpenConversations:
    """Conversations whose scores are still coming, the longest idle first."""

    def __init__(self, idle_ns: int, max_bytes: int = _MAX_BYTES) -> None:
        self.idle_ns = idle_ns
        self._max_bytes = max_bytes
        # Less than `max_bytes` while memory is given back.
        self._room_bytes = max_bytes
        # In a plain dict, looking for the first passes over all that was taken from there.
        self._open: OrderedDict[ConversationKey, _Open] = OrderedDict()
        self._streams: Shared[StreamKey] = Shared()
        self._properties: Shared[tuple[str, str]] = Shared()
        self._own_bytes = 0
        self._next_cut_ns = 0
        # Scores of tools that one conversation had too many of.
        self.left_out = 0

    def __getitem__(self, key: ConversationKey) -> Conversation:
        return _complete(self._open[key])

    def __len__(self) -> int:
        return len(self._open)

    @property
    def size_bytes(self) -> int:
        """About how much memory they take."""
        return self._own_bytes + self._streams.size_bytes + self._properties.size_bytes

    def add(self, scores: TrajectoryScores, now_ns: int) -> Conversation | None:
        """Collect the scores of a trajectory; return its conversation where it is complete."""
        key, figures = scores.conversation, scores.figures()
        self.left_out += scores.left_out
        known = self._open.get(key) if key is not None else None
        properties, opened_ns, first_ns = scores.fingerprint, scores.opened_ns, now_ns
        if known is not None:
            properties, opened_ns, first_ns = (
                joined(dict(known.properties), properties),
                known.opened_ns,
                known.first_ns,
            )
            more, figures = figures, _unpacked(known)
            self.left_out += add_figures(figures, more)
        if key is None:
            return Conversation(
                opened_ns=opened_ns,
                first_ns=first_ns,
                last_ns=now_ns,
                tallies=tallies_of(figures),
                fingerprint=properties,
            )
        self._put(key, figures, properties, (opened_ns, first_ns, now_ns))
        return None

    def idle(self, now_ns: int) -> Iterator[tuple[ConversationKey, Conversation, bool]]:
        """Take out the conversations that are complete, or cut because they last too long or take too much (`True`)."""
        cut = 0
        while self._open:
            key, conversation = next(iter(self._open.items()))
            # One from the future is from before a restart, when the clock was ahead: it would keep the others waiting.
            is_idle = abs(now_ns - conversation.last_ns) >= self.idle_ns
            if not is_idle and (self.size_bytes <= self._room_bytes or cut == _CUT_AT_ONCE):
                break
            cut += not is_idle
            yield key, self._taken(key), not is_idle
        if cut < _CUT_AT_ONCE:
            self._room_bytes = self._max_bytes
        if now_ns >= self._next_cut_ns:
            self._next_cut_ns = now_ns + self.idle_ns
            too_long_ns = _LONGEST * self.idle_ns
            for key in [key for key, each in self._open.items() if now_ns - each.first_ns >= too_long_ns]:
                yield key, self._taken(key), True

    def shed(self) -> None:
        """Have half of the memory given back with the next calls of `idle`."""
        self._room_bytes = self.size_bytes // 2

    def restore(self, key: ConversationKey, conversation: Conversation) -> None:
        """Restore a conversation that an earlier process left open."""
        times = conversation.opened_ns, conversation.first_ns, conversation.last_ns
        self._put(key, figures_of(conversation.tallies), conversation.fingerprint, times)

    @property
    def next_due_ns(self) -> int | None:
        """When the next one will be idle."""
        first = next(iter(self._open.values()), None)
        return None if first is None else first.last_ns + self.idle_ns

    def _put(
        self,
        key: ConversationKey,
        figures: Mapping[StreamKey, Figures],
        properties: Mapping[str, str],
        times: tuple[int, int, int],
    ) -> None:
        """Store a conversation as the newest, in place of an earlier state."""
        streams, named = self._streams.take(figures), self._properties.take(properties.items())
        if key in self._open:
            self._give_back(key)
        conversation = self._open[key] = _Open(*times, streams, named, _packed(figures.values()))
        self._own_bytes += _size(key, conversation)

    def _taken(self, key: ConversationKey) -> Conversation:
        return _complete(self._give_back(key))

    def _give_back(self, key: ConversationKey) -> _Open:
        conversation = self._open.pop(key)
        self._own_bytes -= _size(key, conversation)
        self._streams.give_back(conversation.streams)
        self._properties.give_back(conversation.properties)
        return conversation


def _size(key: ConversationKey, conversation: _Open) -> int:
    references = len(conversation.streams) + len(conversation.properties)
    return _CONVERSATION_BYTES + len(key[1]) + len(conversation.figures) + _REFERENCE_BYTES * references


def _complete(conversation: _Open) -> Conversation:
    return Conversation(
        opened_ns=conversation.opened_ns,
        first_ns=conversation.first_ns,
        last_ns=conversation.last_ns,
        tallies=tallies_of(_unpacked(conversation)),
        fingerprint=dict(conversation.properties),
    )
