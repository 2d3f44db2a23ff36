"""Bounds the text kept of one open trace.

Every model input repeats the history before it: repeated observations are kept once. If that is not enough,
the longest texts are cut in the middle, to the highest level at which all together fit. The level only
depends on what came, not on its order. Ids and numbers of what is cut go to an index.
"""

from collections import deque
from collections.abc import Hashable

from msgspec.structs import replace

from toolgauge.assemble.cutting import cut, identity, sizes, texts
from toolgauge.assemble.left_out import LeftOutIndex
from toolgauge.assemble.weight import READING_BYTES, OfferedTools, Scale, weight_of
from toolgauge.model.left_out import NOTHING_LEFT_OUT, LeftOut, is_cut
from toolgauge.model.observations import Observation, Reading

_LOWEST_LEVEL = 64
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
    """Keeps the readings of one trace, and has them trimmed when their text becomes too much."""

    # There is one for each open trace, and most never need to trim.
    __slots__ = ("_max", "_received", "_scale", "_trimming", "readings")

    def __init__(self, max_size: int, offered: OfferedTools | None = None) -> None:
        self.readings: dict[Hashable, Reading] = {}
        self._max = max_size
        self._received = 0
        self._scale = Scale(offered)
        self._trimming: _Trimming | None = None

    @property
    def left_out(self) -> LeftOut:
        """The ids and numbers of the texts that were cut."""
        return NOTHING_LEFT_OUT if self._trimming is None else self._trimming.left_out

    def put(self, key: Hashable, reading: Reading) -> int:
        """Keep a reading; return by about how much that changes the memory that all of them take."""
        self.readings[key] = reading
        self._received += reading.size_bytes
        weight = self._scale.weight(reading)
        if self._received <= self._max:
            return weight
        return weight + self._trimmed(self._begin_trimming(key), _AT_ONCE)

    def trim(self) -> int:
        """Bring the text within the limit, if it is not; return by about how much that changes the memory it takes."""
        return 0 if self._trimming is None else self._trimmed(self._trimming, None)

    def _trimmed(self, trimming: "_Trimming", count: int | None) -> int:
        saved = trimming.saved
        trimming.trim(count)
        return saved - trimming.saved

    def _begin_trimming(self, key: Hashable) -> "_Trimming":
        if self._trimming is None:
            self._trimming = _Trimming(self.readings, self._max)
        else:
            self._trimming.untrimmed.append(key)
        return self._trimming


class _Trimming:
    """Trims the readings of one trace in their order, in their places."""

    def __init__(self, readings: dict[Hashable, Reading], max_size: int) -> None:
        self._readings = readings
        self._max = max_size
        self.untrimmed = deque(readings)
        self._scale = Scale()
        self._freed = 0
        # Sizes of all texts as they came, each once, and their sum as cut to the level.
        self._sizes = _Sizes()
        # The longest text of each reading that may still be cut.
        self._longest: dict[Hashable, int] = {}
        self._kept = 0
        self._level = 1 << max_size.bit_length()
        self._shared: dict[Hashable, Observation] = {}
        self._left_out = LeftOutIndex(max_size)

    @property
    def saved(self) -> int:
        """About how much less memory the readings take than as received."""
        return self._freed - self._left_out.size_bytes

    @property
    def left_out(self) -> LeftOut:
        """The ids and numbers of the texts that were cut."""
        cut_texts = self._sizes.longer_than(self._level)
        return self._left_out.left_out(cut_texts) if cut_texts else NOTHING_LEFT_OUT

    def trim(self, count: int | None = None) -> None:
        """Trim so many readings more, else all."""
        waiting = len(self.untrimmed)
        for _ in range(waiting if count is None else min(count, waiting)):
            self._trim_one(self.untrimmed.popleft())
        if self._kept > self._max and self._level > _LOWEST_LEVEL:
            self._lower_level()

    def _trim_one(self, key: Hashable) -> None:
        reading = self._readings[key]
        # Not more: what was weighed because a sample does not show it may still be there.
        self._freed += self._scale.sampled(reading)
        kept: list[Observation] = []
        longest = 0
        for observation in reading.observations:
            measured = tuple(sizes(observation))
            longest = max(longest, *measured) if measured else longest
            kept.append(self._trimmed(observation, measured))
        self._readings[key] = replace(reading, observations=tuple(kept))
        self._freed -= READING_BYTES + _REFERENCE_SIZE * len(kept)
        if longest > _LOWEST_LEVEL:
            self._longest[key] = min(longest, self._level)

    def _trimmed(self, observation: Observation, measured: tuple[int, ...]) -> Observation:
        repeated = identity(observation)
        if repeated is not None and repeated in self._shared:
            return self._shared[repeated]
        for size in measured:
            self._sizes.add(size)
            self._kept += min(size, self._level)
        trimmed = self._cut(observation) if any(size > self._level for size in measured) else observation
        self._freed -= weight_of(trimmed)
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
        longer = [(key, self._readings[key]) for key, longest in self._longest.items() if longest > self._level]
        for key, reading in longer:
            for one in reading.observations:
                if id(one) not in done:
                    done[id(one)] = shortened = self._cut(one)
                    self._freed += weight_of(one) - weight_of(shortened)
            kept = tuple(done[id(one)] for one in reading.observations)
            self._readings[key] = replace(reading, observations=kept)
            self._longest[key] = self._level
        self._shared = {key: done.get(id(one), one) for key, one in self._shared.items()}

    def _cut(self, observation: Observation) -> Observation:
        shortened = cut(observation, self._level)
        if shortened is not observation:
            for text in texts(observation):
                if len(text) > self._level and not is_cut(text):
                    self._left_out.add(text)
        return shortened
