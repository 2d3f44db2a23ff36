"""The scores of one stream over time, in bounded memory: from them people see when they dropped.

Observations arrive with their time, and are summed up in buckets. What is new is kept in seconds to a minute; with its age two
neighbours become one, so that the same number of buckets holds minutes or months, and the newest of them are always fine.
"""

import struct
from array import array
from typing import Self

from toolgauge.model.regressions import ScoreBucket
from toolgauge.settings import SECOND

MAX_BUCKETS = 120
_MERGED_AT_ONCE = 20
# The width of a new bucket: this part of the time that the stream has been known, within these seconds.
_WIDTHS_KNOWN = 240
_LEAST_S, _MOST_S = 1, 60
_LAST_S = 2**32 - 1
# Start, end and observations, all of all buckets, then their sums: 20 bytes a bucket.
_COUNT = struct.Struct("<I")


class ScoreHistory:
    """Takes scores in about the order of their times; buckets are in order, and do not overlap."""

    __slots__ = ("_counts", "_ends", "_starts", "_sums")

    def __init__(self) -> None:
        # Seconds since the epoch. Four arrays take a tenth of the memory of as many objects.
        self._starts, self._ends, self._counts = array("I"), array("I"), array("I")
        self._sums = array("d")

    def add(self, score: float, time_ns: int) -> None:
        """Count one observation."""
        starts, ends = self._starts, self._ends
        time_s = min(max(time_ns // SECOND, 0), _LAST_S)
        place = len(starts) - 1
        while place >= 0 and starts[place] > time_s:
            place -= 1
        if place >= 0 and (time_s <= ends[place] or time_s < starts[place] + self._width()):
            ends[place] = max(ends[place], time_s)
            self._counts[place] = min(self._counts[place] + 1, _LAST_S)
            self._sums[place] += score
            return
        starts.insert(place + 1, time_s)
        ends.insert(place + 1, time_s)
        self._counts.insert(place + 1, 1)
        self._sums.insert(place + 1, score)
        if len(starts) > MAX_BUCKETS:
            self._merge()

    def buckets(self) -> tuple[ScoreBucket, ...]:
        """Return all buckets, the oldest first."""
        columns = zip(self._starts, self._ends, self._counts, self._sums, strict=True)
        return tuple(
            ScoreBucket(start_ns=start * SECOND, end_ns=end * SECOND, observations=count, sum=total)
            for start, end, count, total in columns
        )

    def dump(self) -> bytes:
        """Write everything down."""
        count = len(self._starts)
        return _COUNT.pack(count) + struct.pack(_layout(count), *self._starts, *self._ends, *self._counts, *self._sums)

    @classmethod
    def load(cls, saved: bytes) -> Self:
        """Read what `dump` wrote; raise `ValueError` when it is damaged. Without any bytes it is empty."""
        history = cls()
        if not saved:
            return history
        try:
            (count,) = _COUNT.unpack_from(saved)
            if count > MAX_BUCKETS:
                raise ValueError("the history of scores is damaged")
            numbers = struct.unpack(_layout(count), saved[_COUNT.size :])
        except struct.error as error:
            raise ValueError("the history of scores is damaged") from error
        history._starts = array("I", numbers[:count])
        history._ends = array("I", numbers[count : 2 * count])
        history._counts = array("I", numbers[2 * count : 3 * count])
        history._sums = array("d", numbers[3 * count :])
        return history

    def _width(self) -> int:
        known_s = self._ends[-1] - self._starts[0]
        return min(max(known_s // _WIDTHS_KNOWN, _LEAST_S), _MOST_S)

    def _merge(self) -> None:
        """Make one of each two neighbours that are shortest for their age: several at once, for the search takes longest."""
        starts, ends = self._starts, self._ends
        newest = ends[-1]
        lengths = [
            ((end - start + 1) / (newest - end + _MOST_S), place)
            for place, (start, end) in enumerate(zip(starts, ends[1:], strict=False))
        ]
        lengths.sort()
        chosen: set[int] = set()
        for _, place in lengths:
            if chosen.isdisjoint((place - 1, place + 1)):
                chosen.add(place)
                if len(chosen) == _MERGED_AT_ONCE:
                    break
        for place in sorted(chosen, reverse=True):
            ends[place] = ends.pop(place + 1)
            del starts[place + 1]
            self._counts[place] = min(self._counts[place] + self._counts.pop(place + 1), _LAST_S)
            self._sums[place] += self._sums.pop(place + 1)


def _layout(count: int) -> str:
    return f"<{3 * count}I{count}d"
