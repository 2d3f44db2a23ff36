"""What a worker hands over to the front of the trajectories that it scored, and what the front wants of it.

Of every trajectory go the scores that are watched, and of some the whole scorecard: as many as pages and lines can show, and
what a client learns from. Scorecards are pickled: their classes need no second description, and both ends are processes of
ours, with the same code, that are joined by a socket of their own. What senders wrote is in them as plain values; no pickle
ever comes from outside.
"""

import pickle

import msgspec
from msgspec import Struct

from toolgauge.model.outcomes import Scorecard
from toolgauge.score.failing_calls import ResultCounts
from toolgauge.watch.tallies import TrajectoryScores

# How many trajectories a message stands for comes first: one that is dropped is counted without being read.
_COUNT_BYTES = 4


class Wanted(Struct, array_like=True, frozen=True):
    """What the front wants to know.

    `scores` are for the detectors. Whole scorecards: the `shown` first, and then `shown_per_second` of those that failed and of the others. With `counts`, the
    others are counted. With `is_learning` as many as possible, whatever else is wanted.
    """

    scores: bool = False
    shown: int = 0
    shown_per_second: int = 0
    counts: bool = False
    is_learning: bool = False


class WholeScorecard(Struct, array_like=True):
    """A scorecard that is handed over, pickled; what it is for."""

    pickled: bytes
    is_shown: bool
    is_learned: bool

    def read(self) -> Scorecard:
        """Unpickle it."""
        return pickle.loads(self.pickled)  # noqa: S301 (written by a worker of ours, see above)


class Observed(Struct, array_like=True):
    """What a worker found since its last message.

    `counts` are those of scorecards that lines would show and that are not among the whole ones; `not_learned` counts the runs
    for which there was no time.
    """

    scores: list[TrajectoryScores]
    scorecards: list[WholeScorecard]
    counts: ResultCounts
    not_learned: int = 0


_ENCODER = msgspec.msgpack.Encoder()
_OBSERVED = msgspec.msgpack.Decoder(Observed)


def whole(scorecard: Scorecard, *, is_shown: bool, is_learned: bool) -> WholeScorecard:
    """Pickle a scorecard; raise `RecursionError` where values in it are nested too deep for that."""
    return WholeScorecard(pickle.dumps(scorecard, pickle.HIGHEST_PROTOCOL), is_shown, is_learned)


def write_observed(observed: Observed) -> bytes:
    """Write a message."""
    count = max(len(observed.scores), len(observed.scorecards) + observed.counts.scorecards)
    return count.to_bytes(_COUNT_BYTES) + _ENCODER.encode(observed)


def trajectories_of(message: bytes) -> int:
    """Return how many trajectories a message stands for, without reading it."""
    return int.from_bytes(message[:_COUNT_BYTES])


def read_observed(message: bytes) -> Observed:
    """Read a message."""
    return _OBSERVED.decode(memoryview(message)[_COUNT_BYTES:])


def write_wanted(wanted: Wanted) -> bytes:
    """Write the wishes of the front."""
    return _ENCODER.encode(wanted)


def read_wanted(message: bytes) -> Wanted:
    """Read the wishes of the front."""
    return msgspec.msgpack.decode(message, type=Wanted)
