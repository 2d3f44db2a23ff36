"""Watches one stream of scores in [0, 1] and raises an alarm soon after their mean has dropped.

The observations of a stream arrive, one for each conversation. The threshold is the average run length to a false alarm. The
baseline is learned from the stream itself and never stops learning: frozen after the first observations, it would be too
high for one half of all streams, which alarm early, and too low for the other half, which are blind.
"""

import hashlib
import math
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Self, get_args

from toolgauge.model.regressions import StreamState
from toolgauge.watch.baseline import Onset, Stratum
from toolgauge.watch.betting import ODDS, Bets, interval
from toolgauge.watch.settings import Baseline

MAX_STRATA = 50
_OTHER = "_other"
# Observations of a stratum before it takes part in bets, where `baseline_min` asks for more of the stream.
_STRATUM_MIN = 50
# No bets against a lower baseline: it cannot drop any further.
_LEAST_MEAN = 1e-4
_GREATEST_MEAN = 1 - 1e-4
# An alarm needs this much in the guard, too: evidence is high all the time where nothing ever fails.
_LEAST_GUARD = 1.0
_NEWEST = 50

_VERSION = 1
_STATES: tuple[StreamState, ...] = get_args(StreamState)
_MODES: tuple[Baseline, ...] = get_args(Baseline)
# Version, state, mode, open cluster; run length, least baseline, accepted, pending, newest mean and its count; two onsets; guards.
_HEAD = struct.Struct("<BBB16s" + "dqqqdq" + "ddd" * 2 + "dd")
_STAKES = struct.Struct(f"<{len(ODDS)}d")
_STRATUM = struct.Struct("<8sddddddI")
_CHECKSUM = struct.Struct("<I")


class Detector:
    """One stream. `arl` is the average number of observations to a false alarm, and may be changed at any time."""

    def __init__(self, arl: float, baseline_min: int, baseline: Baseline = "guarded") -> None:
        if baseline_min < 1:
            raise ValueError("`baseline_min` must be at least 1")
        if baseline not in _MODES:
            raise ValueError(f"`baseline` must be one of {', '.join(_MODES)}")
        self._mode: Baseline = baseline
        self._baseline_min = baseline_min
        self._stratum_min = min(baseline_min, _STRATUM_MIN)
        self.arl = arl
        self.reset()

    def reset(self) -> None:
        """Forget everything, the open cluster too, and learn again: what comes from here on is normal."""
        self._state: StreamState = "learning"
        self._strata: dict[bytes, Stratum] = {}
        self._cluster = b""
        self._accepted = self._pending = 0
        self._newest, self._seen = 0.0, 0
        self._down, self._onset = Bets(), Onset()
        # While an alarm is on: bets on a return, and the observations since the onset of a suspected one.
        self._up, self._return = Bets(), Onset()

    @property
    def arl(self) -> float:
        """The average number of observations to a false alarm."""
        return self._arl

    @arl.setter
    def arl(self, arl: float) -> None:
        if not 1 < arl < math.inf:
            raise ValueError("`arl` must be a number above 1")
        self._arl = float(arl)
        self._kappa = max(200.0, 400 + 260 * math.log(arl / 10_000))

    @property
    def state(self) -> StreamState:
        """`learning` never raises an alarm; `alarm` stays on until the mean is back or `reset`."""
        return self._state

    @property
    def is_suspicious(self) -> bool:
        """Whether the newest observations look worse than the baseline."""
        return self._state == "alarm" or self._down.guard > 0

    @property
    def evidence(self) -> float:
        """ln E / ln A, between 0 and 1; an alarm is raised at 1."""
        if self._state == "alarm":
            return 1.0
        if self._down.evidence <= 1:
            return 0.0
        return min(1.0, math.log(self._down.evidence) / math.log(self._arl)) * min(1.0, self._down.guard / _LEAST_GUARD)

    @property
    def observations(self) -> int:
        """How many observations the baseline is made of."""
        return self._accepted

    @property
    def since_onset(self) -> int:
        """How many observations have been made since the estimated onset of the drop."""
        return int(self._onset.count + self._return.count)

    @property
    def baseline(self) -> float:
        """The mean to be expected: of the observations since the onset, by their strata, or else of all."""
        if self._onset.count:
            return (self._onset.expected + self._return.expected) / self.since_onset
        shares = sum(stratum.share for stratum in self._strata.values())
        return sum(stratum.share * stratum.mean for stratum in self._strata.values()) / shares if shares else 0.0

    @property
    def current(self) -> float:
        """The mean since the onset, or else of the newest observations (exponentially weighted)."""
        if self._onset.count:
            return (self._onset.scores + self._return.scores) / self.since_onset
        return self._newest

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of `current`."""
        return interval(self.current, self.since_onset or min(self._seen, _NEWEST))

    def update(self, score: float, stratum: str = "", cluster: str = "") -> bool:
        """Add one score; true when the observation that this call completes raises an alarm.

        Consecutive scores of one `cluster` are one observation, complete when the cluster changes or at `flush`.
        """
        if not 0 <= score <= 1:
            raise ValueError("a score must be between 0 and 1")
        if not cluster:
            return self.observe({stratum: (score, 1)})
        key = _digest(cluster, 16)
        alarm = key != self._cluster and self.flush()
        self._cluster = key
        part = self._stratum(stratum)
        part.open_sum += score
        part.open_count += 1
        return alarm

    def flush(self) -> bool:
        """Complete the observation of the open cluster, if there is one; true when it raises an alarm."""
        if not self._cluster:
            return False
        self._cluster = b""
        parts = [(part, part.open_sum, part.open_count) for part in self._strata.values() if part.open_count]
        for part, _, _ in parts:
            part.open_sum, part.open_count = 0.0, 0
        return self._observe(parts)

    def observe(self, parts: Mapping[str, tuple[float, int]]) -> bool:
        """Add one whole observation, sum and number of its scores by stratum; true when it raises an alarm.

        Completes an open cluster before.
        """
        if not parts or not all(count >= 1 and 0 <= total <= count for total, count in parts.values()):
            raise ValueError("an observation needs scores between 0 and 1")
        alarm = self.flush()
        if len(parts) == 1:
            ((name, (total, count)),) = parts.items()
            return self._observe([(self._stratum(name), total, count)]) or alarm
        for name, (total, count) in parts.items():
            part = self._stratum(name)
            part.open_sum += total
            part.open_count += count
        self._cluster = _digest("", 16)
        return self.flush() or alarm

    def _stratum(self, name: str) -> Stratum:
        key = _digest(name, 8)
        if key not in self._strata:
            if len(self._strata) >= MAX_STRATA - 1:
                key = _digest(_OTHER, 8)
            return self._strata.setdefault(key, Stratum())
        return self._strata[key]

    def _observe(self, parts: list[tuple[Stratum, float, int]]) -> bool:
        count = sum(part[2] for part in parts)
        for stratum, _, part_count in parts:
            stratum.share += part_count / count
        self._seen += 1
        self._newest += (sum(part[1] for part in parts) / count - self._newest) / min(self._seen, _NEWEST)
        match self._state:
            case "learning":
                self._learn(parts)
                self._accepted += 1
                if self._accepted >= self._baseline_min:
                    self._state = "watching"
                return False
            case "watching" | "recovered":
                return self._watch(parts)
            case "alarm":
                self._await_return(parts)
                return False

    def _learn(self, parts: list[tuple[Stratum, float, int]]) -> None:
        for stratum, total, count in parts:
            stratum.accept(total / count)

    def _watch(self, parts: list[tuple[Stratum, float, int]]) -> bool:
        known = [part for part in parts if self._is_known(part[0])]
        if len(known) < len(parts):
            self._learn([part for part in parts if part not in known])
        if not known:
            self._accepted += 1
            return False
        score, expected = _mean(known), _weighted(known, _mean_of)
        predicted = min(_weighted(known, self._predicted), _GREATEST_MEAN)
        was_suspicious = self._down.guard > 0
        self._down.bet(1 - score, 1 - predicted)
        if self._down.guard == 0:
            if was_suspicious:
                self._accept_pending()
            self._learn(known)
            self._accepted += 1
            return False
        self._onset.add(score, expected)
        if self._mode == "conservative":
            self._learn(known)
            self._accepted += 1
        else:
            self._pending += 1
            for stratum, total, count in known:
                stratum.hold(total / count)
        if self._down.evidence < self._arl or self._down.guard < _LEAST_GUARD:
            return False
        self._state = "alarm"
        return True

    def _accept_pending(self) -> None:
        for stratum in self._strata.values():
            stratum.accept_pending()
        self._accepted += self._pending
        self._pending = 0
        self._onset.clear()

    def _await_return(self, parts: list[tuple[Stratum, float, int]]) -> None:
        """Watch the other way round: bet that scores are higher than since the onset. Nothing is learned during an alarm."""
        known = [part for part in parts if self._is_known(part[0])]
        if not known:
            return
        score, expected = _mean(known), _weighted(known, _mean_of)
        self._up.bet(score, expected * self._onset.fraction_kept(self._kappa))
        self._return.add(score, expected)
        if self._up.guard == 0:
            self._onset.take(self._return)
        elif self._up.evidence >= self._arl and self._up.guard >= _LEAST_GUARD:
            self._recover()

    def _recover(self) -> None:
        self._state = "recovered"
        for stratum in self._strata.values():
            stratum.drop_pending()
        self._pending = 0
        self._down, self._onset = Bets(), Onset()
        self._up, self._return = Bets(), Onset()

    def _is_known(self, stratum: Stratum) -> bool:
        if stratum.accepted < self._stratum_min:
            return False
        return min(stratum.mean, self._predicted(stratum)) > _LEAST_MEAN

    def _predicted(self, stratum: Stratum) -> float:
        return stratum.predicted(self._kappa if self._mode == "guarded" else 0.0)

    def dump(self) -> bytes:
        """The whole state as bytes, from which `load` makes a detector that goes on in the same way."""
        onsets = (
            value for onset in (self._onset, self._return) for value in (onset.count, onset.scores, onset.expected)
        )
        head = _HEAD.pack(
            _VERSION,
            _STATES.index(self._state),
            _MODES.index(self._mode),
            self._cluster,
            self._arl,
            self._baseline_min,
            self._accepted,
            self._pending,
            self._newest,
            self._seen,
            *onsets,
            self._down.guard,
            self._up.guard,
        )
        strata = b"".join(_packed(key, stratum) for key, stratum in self._strata.items())
        data = head + _STAKES.pack(*self._down.stakes) + _STAKES.pack(*self._up.stakes) + strata
        return data + _CHECKSUM.pack(zlib.crc32(data))

    @classmethod
    def load(cls, data: bytes) -> Self:
        """Make a detector from what `dump` returned; `ValueError` where the bytes are something else."""
        fixed = _HEAD.size + 2 * _STAKES.size
        body, checksum = data[: -_CHECKSUM.size], data[-_CHECKSUM.size :]
        if len(body) < fixed or (len(body) - fixed) % _STRATUM.size or _CHECKSUM.pack(zlib.crc32(body)) != checksum:
            raise ValueError("the state of the detector is damaged")
        head = _HEAD.unpack_from(body)
        if head[0] != _VERSION:
            raise ValueError(f"the state of the detector has version {head[0]}, known is {_VERSION}")
        _, state, mode, cluster, arl, baseline_min, accepted, pending, newest, seen, *sums, down, up = head
        modes: tuple[Baseline, ...] = _MODES
        detector = cls(arl, baseline_min, modes[int(mode)])
        detector._state = _STATES[int(state)]
        detector._cluster = b"" if cluster == bytes(16) else cluster
        detector._accepted, detector._pending, detector._newest, detector._seen = accepted, pending, newest, seen
        for onset, values in ((detector._onset, sums[:3]), (detector._return, sums[3:])):
            onset.count, onset.scores, onset.expected = values
        detector._down = Bets(_STAKES.unpack_from(body, _HEAD.size), down)
        detector._up = Bets(_STAKES.unpack_from(body, _HEAD.size + _STAKES.size), up)
        detector._strata = dict(map(_unpacked, _STRATUM.iter_unpack(body[fixed:])))
        return detector

    def __reduce__(self) -> tuple[Callable[[bytes], Self], tuple[bytes]]:
        return type(self).load, (self.dump(),)


def _digest(name: str, size: int) -> bytes:
    return hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=size).digest()


def _mean(parts: list[tuple[Stratum, float, int]]) -> float:
    return sum(total for _, total, _ in parts) / sum(count for _, _, count in parts)


def _weighted(parts: list[tuple[Stratum, float, int]], mean: Callable[[Stratum], float]) -> float:
    """The mean that the strata have together, each weighted by the number of its scores."""
    return sum(count * mean(stratum) for stratum, _, count in parts) / sum(count for _, _, count in parts)


def _mean_of(stratum: Stratum) -> float:
    return stratum.mean


def _packed(key: bytes, part: Stratum) -> bytes:
    return _STRATUM.pack(
        key,
        part.accepted,
        part.accepted_sum,
        part.pending,
        part.pending_sum,
        part.share,
        part.open_sum,
        part.open_count,
    )


def _unpacked(values: tuple[bytes, float, float, float, float, float, float, int]) -> tuple[bytes, Stratum]:
    key, *sums, open_count = values
    part = Stratum()
    part.accepted, part.accepted_sum, part.pending, part.pending_sum, part.share, part.open_sum = sums
    part.open_count = open_count
    return key, part
