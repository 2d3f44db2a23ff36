"""Bounds the text kept of one open trace.

Every model input repeats the history before it: repeated observations are kept once. If that is not enough,
the longest texts are cut in the middle, to the highest level at which all together fit. The level only
depends on what came, not on its order. Ids and numbers of what is cut go to an index.
"""

from collections import deque
from collections.abc import Hashable
from dataclasses import replace

from toolgauge.assemble.cutting import cut, identity, sizes, texts
from toolgauge.assemble.left_out import LeftOutIndex
from toolgauge.model.left_out import NOTHING_LEFT_OUT, LeftOut, is_cut
from toolgauge.model.observations import Observation, Reading

_LOWEST_LEVEL = 64
# What a reading and an observation cost besides their text, and a repeated observation.
_OBJECT_SIZE = 300
_REFERENCE_SIZE = 8
# Readings trimmed when one is put, so that no single one has to wait for thousands.
_AT_ONCE = 8


class _Sizes:
    """Sizes of texts, grouped by the lowest level (a power of two) at which a text is not cut."""

    def __init__(self) -> None:
        self._counts: list[int] = [0] * 65
        self._sums: list[int] = [0] * 65

    def add(self, size: int) -> None:
        group = max(size - 1, 0).bit_length()
        self._counts[group] += 1
        self._sums[group] += size

    def longer_than(self, level: int) -> int:
        return sum(self._counts[_group(level) + 1 :])

    def cut_to(self, level: int) -> int:
        """Add up all sizes, each as far as the level goes."""
        return sum(self._sums[: _group(level) + 1]) + level * self.longer_than(level)


def _group(level: int) -> int:
    return level.bit_length() - 1


class ContentBudget:
    """Keeps the readings of one trace, and trims them when their text becomes too much."""

    def __init__(self, max_size: int) -> None:
        self.readings: dict[Hashable, Reading] = {}
        self._max = max_size
        self._received = 0
        self._untrimmed: deque[Hashable] = deque()
        self._untrimmed_size = 0
        # Sizes of all texts as they came, each once, and their sum as cut to the level.
        self._sizes = _Sizes()
        # The longest text of each reading that may still be cut.
        self._longest: dict[Hashable, int] = {}
        self._kept = 0
        self._trimmed_size = 0
        self._level = 1 << max_size.bit_length()
        self._shared: dict[Hashable, Observation] = {}
        self._left_out = LeftOutIndex(max_size)

    @property
    def size_bytes(self) -> int:
        """About how much memory the readings take: as received, or as left by trimming."""
        return self._trimmed_size + self._kept + self._untrimmed_size + self._left_out.size_bytes

    @property
    def left_out(self) -> LeftOut:
        """The ids and numbers of the texts that were cut."""
        cut_texts = self._sizes.longer_than(self._level)
        return self._left_out.left_out(cut_texts) if cut_texts else NOTHING_LEFT_OUT

    def put(self, key: Hashable, reading: Reading) -> None:
        """Keep a reading."""
        self.readings[key] = reading
        self._received += reading.size_bytes
        self._untrimmed_size += reading.size_bytes
        self._untrimmed.append(key)
        if self._received > self._max:
            self._trim(_AT_ONCE)

    def trim(self) -> None:
        """Bring the text within the limit; nothing to do for a trace whose spans together are no larger."""
        if self._received > self._max:
            self._trim(len(self._untrimmed))

    def _trim(self, count: int) -> None:
        for _ in range(min(count, len(self._untrimmed))):
            self._trim_one(self._untrimmed.popleft())
        if self._kept > self._max and self._level > _LOWEST_LEVEL:
            self._lower_level()

    def _trim_one(self, key: Hashable) -> None:
        reading = self.readings[key]
        self._untrimmed_size -= reading.size_bytes
        kept: list[Observation] = []
        longest = 0
        for observation in reading.observations:
            measured = tuple(sizes(observation))
            longest = max(longest, *measured) if measured else longest
            kept.append(self._trimmed(observation, measured))
        self.readings[key] = replace(reading, observations=tuple(kept))
        self._trimmed_size += _OBJECT_SIZE + _REFERENCE_SIZE * len(kept)
        if longest > _LOWEST_LEVEL:
            self._longest[key] = min(longest, self._level)

    def _trimmed(self, observation: Observation, measured: tuple[int, ...]) -> Observation:
        repeated = identity(observation)
        if repeated is not None and repeated in self._shared:
            return self._shared[repeated]
        self._trimmed_size += _OBJECT_SIZE
        for size in measured:
            self._sizes.add(size)
            self._kept += min(size, self._level)
        trimmed = self._cut(observation) if any(size > self._level for size in measured) else observation
        if repeated is not None:
            self._shared[repeated] = trimmed
        return trimmed

    def _lower_level(self) -> None:
        """Find the highest level at which everything fits, and cut to it what is longer."""
        while self._level > _LOWEST_LEVEL and self._kept > self._max:
            self._level //= 2
            self._kept = self._sizes.cut_to(self._level)
        # Shared observations stay shared.
        done: dict[int, Observation] = {}
        # The list keeps what is replaced alive: an id must not come to name something new.
        longer = [(key, self.readings[key]) for key, longest in self._longest.items() if longest > self._level]
        for key, reading in longer:
            for one in reading.observations:
                if id(one) not in done:
                    done[id(one)] = self._cut(one)
            kept = tuple(done[id(one)] for one in reading.observations)
            self.readings[key] = replace(reading, observations=kept)
            self._longest[key] = self._level
        self._shared = {key: done.get(id(one), one) for key, one in self._shared.items()}

    def _cut(self, observation: Observation) -> Observation:
        shortened = cut(observation, self._level)
        if shortened is not observation:
            for text in texts(observation):
                if len(text) > self._level and not is_cut(text):
                    self._left_out.add(text)
        return shortened
