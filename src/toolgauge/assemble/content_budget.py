"""Bounds the text kept of one open trace.

Every model input repeats the history before it: repeated observations are kept once. If that is not enough,
the longest texts are cut in the middle, to the highest level at which all together fit. The level only
depends on what came, not on its order. Ids and numbers of what is cut go to an index.
"""

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


class ContentBudget:
    """Keeps the readings of one trace, and trims them when their text becomes too much."""

    def __init__(self, max_size: int) -> None:
        self.readings: dict[Hashable, Reading] = {}
        self._max = max_size
        self._received = 0
        self._untrimmed: list[Hashable] = []
        self._untrimmed_size = 0
        # Sizes of all texts as they came, each once, and their sum as cut to the level.
        self._sizes: list[int] = []
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
        cut_texts = sum(size > self._level for size in self._sizes)
        return self._left_out.left_out(cut_texts) if cut_texts else NOTHING_LEFT_OUT

    def put(self, key: Hashable, reading: Reading) -> None:
        """Keep a reading."""
        self.readings[key] = reading
        self._received += reading.size_bytes
        self._untrimmed_size += reading.size_bytes
        self._untrimmed.append(key)
        # Half as much again is let in before looking, whatever is kept already: else each reading would cost a look.
        if self._untrimmed_size > self._max // 2:
            self.trim()

    def trim(self) -> None:
        """Bring the text within the limit; nothing to do for a trace whose spans together are no larger."""
        if self._received <= self._max:
            return
        for key in self._untrimmed:
            self._trim_one(key)
        self._untrimmed.clear()
        self._untrimmed_size = 0
        if self._kept > self._max and self._level > _LOWEST_LEVEL:
            self._lower_level()

    def _trim_one(self, key: Hashable) -> None:
        reading = self.readings[key]
        kept = tuple(self._trimmed(observation) for observation in reading.observations)
        self.readings[key] = replace(reading, observations=kept)
        self._trimmed_size += _OBJECT_SIZE + _REFERENCE_SIZE * len(kept)

    def _trimmed(self, observation: Observation) -> Observation:
        repeated = identity(observation)
        if repeated is not None and repeated in self._shared:
            return self._shared[repeated]
        self._trimmed_size += _OBJECT_SIZE
        for size in sizes(observation):
            self._sizes.append(size)
            self._kept += min(size, self._level)
        trimmed = self._cut(observation)
        if repeated is not None:
            self._shared[repeated] = trimmed
        return trimmed

    def _lower_level(self) -> None:
        """Find the highest level at which everything fits, and cut everything to it."""
        while self._level > _LOWEST_LEVEL and self._kept > self._max:
            self._level //= 2
            self._kept = sum(min(size, self._level) for size in self._sizes)
        # Shared observations stay shared.
        done: dict[int, Observation] = {}
        # The list keeps what is replaced alive: an id must not come to name something new.
        for key, reading in list(self.readings.items()):
            for one in reading.observations:
                if id(one) not in done:
                    done[id(one)] = self._cut(one)
            kept = tuple(done[id(one)] for one in reading.observations)
            self.readings[key] = replace(reading, observations=kept)
        self._shared = {key: done.get(id(one), one) for key, one in self._shared.items()}

    def _cut(self, observation: Observation) -> Observation:
        shortened = cut(observation, self._level)
        if shortened is not observation:
            for text in texts(observation):
                if len(text) > self._level and not is_cut(text):
                    self._left_out.add(text)
        return shortened
