"""Watches one stream of scores in [0, 1] and raises an alarm soon after their mean has dropped.

The threshold is the average run length to a false alarm. The baseline never stops learning: frozen after the first
observations, it would be too high for one half of all streams, which alarm early, and too low for the other half.
"""

import hashlib
import math
import struct
import zlib
from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
from typing import Self, TypeAlias, get_args

from toolgauge.model.regressions import StreamState
from toolgauge.watch.settings import Baseline

# Odds multipliers r, less one: 12 of them, geometric from 1.3 to 6.
ODDS = tuple(1.3 * (6 / 1.3) ** (k / 11) - 1 for k in range(12))
# A drop is suspected from this likelihood ratio on.
SUSPICION = 20.0
_PACKED = struct.Struct(f"<{2 * len(ODDS) + 3 * (len(ODDS) + 1)}d")

# The number of observations, the sum of their scores, and the sum of the baselines of their strata.
Sums: TypeAlias = tuple[float, float, float]


class Bets:
    """Evidence that the mean loss is higher than stated, by a bet for each odds multiplier r in `ODDS`.

    A bet multiplies its stake by (1 + loss (r - 1)) / (1 + mean loss (r - 1)), which is expected to be at most 1 unless the loss is higher
    than stated. `evidence` is the mean over the odds of the sums over all starts, each with the part of a false alarm that its
    observation may cost (Shiryaev and Roberts: it is 1 on average no sooner than these parts together are); `ratio` that of the best
    start, `since_onset` sums the observations after it. `guard` is up unless the newest are in order.
    """

    __slots__ = ("evidence", "paths", "ratio", "stakes", "starts", "totals")

    size = _PACKED.size

    def __init__(self) -> None:
        self.evidence = 0.0
        self.ratio = 1.0
        self.stakes = [0.0] * len(ODDS)
        self.paths = [1.0] * len(ODDS)
        self.totals: Sums = (0.0, 0.0, 0.0)
        self.starts = [self.totals] * len(ODDS)

    def bet(self, stake: float, loss: float, mean_loss: float, score: float, expected: float) -> None:
        """Bet `stake` that the loss is above its stated mean; `since_onset` sums up score and baseline."""
        count, scores, baselines = self.totals
        self.totals = totals = (count + 1, scores + score, baselines + expected)
        factors = [(1 + loss * odds) / (1 + mean_loss * odds) for odds in ODDS]
        self.stakes = [(stake + held) * factor for held, factor in zip(self.stakes, factors, strict=True)]
        if self.ratio == 1 and loss <= mean_loss:
            # No path is above 1, or rises.
            self.starts = [totals] * len(ODDS)
        else:
            paths = self.paths
            for k, factor in enumerate(factors):
                paths[k] *= factor
                if paths[k] <= 1:
                    paths[k] = 1.0
                    self.starts[k] = totals
        self._sum_up()

    @property
    def guard(self) -> bool:
        """Whether observations should wait before anything is learned from them."""
        return self.paths[0] > 1

    def since_onset(self) -> Sums:
        """The observations since the likeliest onset, which is where the best path was at 1."""
        before = self.starts[self.paths.index(self.ratio)]
        return self.totals[0] - before[0], self.totals[1] - before[1], self.totals[2] - before[2]

    def pack(self) -> bytes:
        """The state as `size` bytes."""
        return _PACKED.pack(*self.stakes, *self.paths, *chain(self.totals, *self.starts))

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Make one from what `pack` returned."""
        bets = cls()
        numbers = _PACKED.unpack(data)
        bets.stakes, bets.paths = list(numbers[: len(ODDS)]), list(numbers[len(ODDS) : 2 * len(ODDS)])
        sums = numbers[2 * len(ODDS) :]
        bets.totals, *bets.starts = zip(sums[::3], sums[1::3], sums[2::3], strict=True)
        bets._sum_up()
        return bets

    def _sum_up(self) -> None:
        self.evidence = sum(self.stakes) / len(ODDS)
        self.ratio = max(self.paths)


def interval(mean: float, count: float) -> tuple[float, float]:
    """The 95 % interval of the mean of `count` observations in [0, 1] (Chernoff's bound: valid for any distribution)."""
    if not count:
        return 0.0, 1.0
    limit = math.log(40) / count
    return _bound(mean, 0.0, limit), _bound(mean, 1.0, limit)


def _bound(mean: float, end: float, limit: float) -> float:
    """Return the value between the mean and the end from which on the divergence is above the limit."""
    near, far = mean, end
    for _ in range(40):
        middle = (near + far) / 2
        divergence = 0.0
        if mean > 0:
            divergence += math.inf if middle <= 0 else mean * math.log(mean / middle)
        if mean < 1:
            divergence += math.inf if middle >= 1 else (1 - mean) * math.log((1 - mean) / (1 - middle))
        if divergence > limit:
            far = middle
        else:
            near = middle
    return far


class Stratum:
    """The observations of one kind, accepted or waiting during a suspected drop; `share` weighs them by their part in it."""

    __slots__ = ("accepted", "accepted_sum", "pending", "pending_sum", "share")

    def __init__(self) -> None:
        self.accepted = self.accepted_sum = 0.0
        self.pending = self.pending_sum = 0.0
        self.share = 0.0

    @property
    def mean(self) -> float:
        """Of the accepted observations; 0 without any."""
        return self.accepted_sum / self.accepted if self.accepted else 0.0

    def predicted(self, kappa: float) -> float:
        """The mean that bets are made against; `kappa` is the strength of the insurance against a lucky start, 0 for none."""
        mean = (self.accepted_sum + 0.5) / (self.accepted + 1)
        return mean - shading(mean, self.accepted, kappa) if kappa else mean


def fraction_kept(count: float, scores: float, expected: float, kappa: float) -> float:
    """The part of the baseline that is left since an onset, shaded upwards, at most half of the way back."""
    before = expected / count
    mean = (scores + 0.5 * before) / (count + 1)
    return min(mean + shading(mean, count, kappa), (mean + before) / 2) / before


def shading(mean: float, count: float, kappa: float) -> float:
    """The insurance against a lucky start: some standard errors of a mean, fewer as the count grows, and what skewness adds."""
    errors = min(max(3.0, math.sqrt(kappa / 1000)), math.sqrt(kappa / count))
    return errors * math.sqrt(mean * (1 - mean) / (count + 1)) + errors * errors / (3 * (count + 1))


MAX_STRATA = 50
_OTHER = "_other"
# Observations of a stratum before it takes part in bets, where `baseline_min` asks for more of the stream.
_STRATUM_MIN = 50
# No bets against a lower baseline: it cannot drop any further.
_LEAST_MEAN = 1e-4
_LEAST_LOSS = 1e-4
# By simulation: evidence for an alarm, above the 1 of a baseline that is known exactly.
_THRESHOLD = 1.25
# The same for the end of an alarm: one that ended too early would be raised again at once.
_RETURN_THRESHOLD = 5 * _THRESHOLD
_NEWEST = 50

_VERSION = 2
_STATES: tuple[StreamState, ...] = get_args(StreamState)
_MODES: tuple[Baseline, ...] = get_args(Baseline)
# Version, state, mode, 16 bytes that are no longer used; run length, least baseline, accepted, pending, newest mean and its count; alarm, return.
_HEAD = struct.Struct("<BBB16s" + "dqqqdq" + "ddd" * 2)
# The last two are no longer used.
_STRATUM = struct.Struct("<8sddddddI")
_CHECKSUM = struct.Struct("<I")
_NONE: Sums = (0.0, 0.0, 0.0)
# The part of an observation in one stratum: the sum of its scores and their number.
_Part: TypeAlias = tuple[Stratum, float, int]


class Detector:
    """One stream. `arl` is the average number of observations to a false alarm; it may change with each of them.

    A new observation then costs 1 / `arl` of a false alarm, whatever those before it cost.
    """

    def __init__(self, arl: float, baseline_min: int, baseline: Baseline = "guarded") -> None:
        self._mode: Baseline = baseline
        # How many observations it learns from before an alarm is possible.
        self.needed = baseline_min
        self._stratum_min = min(baseline_min, _STRATUM_MIN)
        self.arl = arl
        self.reset()

    def reset(self) -> None:
        """Forget everything and learn again: scores from now on are normal."""
        # `learning` never raises an alarm; `alarm` stays on until the mean is back or `reset`.
        self.state: StreamState = "learning"
        self._strata: dict[bytes, Stratum] = {}
        # The same by name, as far as names have been seen since a restart.
        self._named: dict[str, Stratum] = {}
        # How many observations the baseline is made of, and how many wait while a drop is suspected.
        self.observations = self._pending = 0
        self._newest, self._seen = 0.0, 0
        self._down = Bets()
        # While an alarm is on: the observations since its onset, those since a suspected return, and bets on that return.
        self._onset = self._return = _NONE
        self._up = Bets()

    @property
    def evidence(self) -> float:
        """ln AE / ln A, 1 where an alarm is raised; capped while no drop is suspected, as E alone stays high where little fails."""
        if self.state == "alarm":
            return 1.0
        if self._down.evidence * self.arl <= 1:
            return 0.0
        evidence = min(1.0, math.log(self._down.evidence * self.arl) / math.log(_THRESHOLD * self.arl))
        return evidence * min(1.0, math.log(self._down.ratio) / math.log(SUSPICION))

    @property
    def missing(self) -> int:
        """How many more observations are needed before an alarm is possible."""
        return self.needed - self.observations if self.state == "learning" else 0

    @property
    def since_onset(self) -> int:
        """How many observations have been made since the estimated onset; 0 while no drop is suspected."""
        return int(self._since_onset()[0])

    @property
    def baseline(self) -> float:
        """The mean to be expected: of the observations since the onset, by their strata, or else of all."""
        count, _, expected = self._since_onset()
        if count:
            return expected / count
        shares = sum(stratum.share for stratum in self._strata.values())
        return sum(stratum.share * stratum.mean for stratum in self._strata.values()) / shares if shares else 0.0

    @property
    def current(self) -> float:
        """The mean since the onset, or else of the newest observations (exponentially weighted)."""
        count, scores, _ = self._since_onset()
        return scores / count if count else self._newest

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of `current`."""
        return interval(self.current, self.since_onset or min(self._seen, _NEWEST))

    def _since_onset(self) -> Sums:
        if self.state == "alarm":
            return _plus(self._onset, self._return)
        return self._down.since_onset() if self._down.ratio >= SUSPICION else _NONE

    def update(self, score: float, stratum: str = "") -> bool:
        """Add one observation of one score; true when it raises an alarm."""
        return self.observe({stratum: (score, 1)})

    def observe(self, parts: Mapping[str, tuple[float, int]]) -> bool:
        """Add one observation, sum and number of its scores by stratum; true when it raises an alarm."""
        observed: list[_Part] = []
        scores, number = 0.0, 0
        for name, (total, count) in parts.items():
            if count < 1 or not 0 <= total <= count:
                number = 0
                break
            observed.append((self._named.get(name) or self._stratum(name), total, count))
            scores, number = scores + total, number + count
        if not number:
            raise ValueError("an observation needs scores between 0 and 1")
        if len(observed) > 1 and len(self._strata) == MAX_STRATA:
            observed = _joined(observed)
        for stratum, _, count in observed:
            stratum.share += count / number
        self._seen += 1
        self._newest += (scores / number - self._newest) / min(self._seen, _NEWEST)
        if self.state == "alarm":
            self._await_return(observed)
        elif self.state != "learning":
            return self._watch(observed)
        else:
            self._learn(observed)
            self.observations += 1
            if self.observations >= self.needed:
                self.state = "watching"
        return False

    def _stratum(self, name: str) -> Stratum:
        key = _digest(name)
        if key not in self._strata and len(self._strata) >= MAX_STRATA - 1:
            return self._strata.setdefault(_digest(_OTHER), Stratum())
        self._named[name] = self._strata.setdefault(key, Stratum())
        return self._named[name]

    def _learn(self, parts: list[_Part]) -> None:
        for stratum, total, count in parts:
            stratum.accepted += 1
            stratum.accepted_sum += total / count

    def _watch(self, parts: list[_Part]) -> bool:
        known, score, expected, predicted = self._known(parts)
        if len(known) < len(parts):
            self._learn([part for part in parts if part not in known])
        if not known:
            self.observations += 1
            return False
        self._down.bet(1 / self.arl, 1 - score, max(1 - predicted, _LEAST_LOSS), score, expected)
        if self._mode == "guarded" and self._down.guard:
            # An observation waits while the guard is up: a drop must not drag the baseline down before it is noticed.
            self._pending += 1
            for stratum, total, count in known:
                stratum.pending += 1
                stratum.pending_sum += total / count
        else:
            self._learn(known)
            self.observations += 1 + self._pending
            if self._pending:
                for stratum in self._strata.values():
                    stratum.accepted += stratum.pending
                    stratum.accepted_sum += stratum.pending_sum
                    stratum.pending = stratum.pending_sum = 0.0
                self._pending = 0
        if self._down.evidence < _THRESHOLD or self._down.ratio < SUSPICION:
            return False
        self._onset = self._down.since_onset()
        self.state = "alarm"
        return True

    def _await_return(self, parts: list[_Part]) -> None:
        """Watch the other way round: bet that scores are higher than since the onset. Nothing is learned during an alarm."""
        known, score, expected, _ = self._known(parts)
        if not known:
            return
        self._up.bet(1 / self.arl, score, expected * fraction_kept(*self._onset, _kappa(self.arl)), score, expected)
        self._return = _plus(self._return, (1.0, score, expected))
        if not self._up.guard:
            self._onset, self._return = _plus(self._onset, self._return), _NONE
        if self._up.evidence >= _RETURN_THRESHOLD and self._up.ratio >= SUSPICION:
            self.state = "recovered"
            for stratum in self._strata.values():
                stratum.pending = stratum.pending_sum = 0.0
            self._pending = 0
            self._onset = self._return = _NONE
            self._down, self._up = Bets(), Bets()

    def _known(self, parts: list[_Part]) -> tuple[list[_Part], float, float, float]:
        """Select the parts with a known baseline, with the means of scores, of baselines and of predictions."""
        known: list[_Part] = []
        scores = expected = predicted = 0.0
        number = 0
        kappa = _kappa(self.arl) if self._mode == "guarded" else 0.0
        for part in parts:
            stratum, total, count = part
            if stratum.accepted < self._stratum_min:
                continue
            mean, bound = stratum.mean, stratum.predicted(kappa)
            if mean <= _LEAST_MEAN or bound <= _LEAST_MEAN:
                continue
            known.append(part)
            scores += total
            number += count
            expected += count * mean
            predicted += count * bound
        return (known, scores / number, expected / number, predicted / number) if known else (known, 0.0, 0.0, 0.0)

    def dump(self) -> bytes:
        """Return the whole state as bytes, for `load`."""
        head = _HEAD.pack(
            _VERSION,
            _STATES.index(self.state),
            _MODES.index(self._mode),
            b"",
            self.arl,
            self.needed,
            self.observations,
            self._pending,
            self._newest,
            self._seen,
            *self._onset,
            *self._return,
        )
        strata = b"".join(
            _STRATUM.pack(key, one.accepted, one.accepted_sum, one.pending, one.pending_sum, one.share, 0.0, 0)
            for key, one in self._strata.items()
        )
        data = head + self._down.pack() + self._up.pack() + strata
        return data + _CHECKSUM.pack(zlib.crc32(data))

    @classmethod
    def load(cls, data: bytes) -> Self:
        """Make a detector from what `dump` returned; `ValueError` where the bytes are something else."""
        fixed = _HEAD.size + 2 * Bets.size
        body, checksum = data[: -_CHECKSUM.size], data[-_CHECKSUM.size :]
        if len(body) < fixed or (len(body) - fixed) % _STRATUM.size or _CHECKSUM.pack(zlib.crc32(body)) != checksum:
            raise ValueError("the state of the detector is damaged")
        head = _HEAD.unpack_from(body)
        if head[0] != _VERSION:
            raise ValueError(f"the state of the detector has version {head[0]}, known is {_VERSION}")
        _, state, mode, _, arl, baseline_min, accepted, pending, newest, seen, *sums = head
        modes: tuple[Baseline, ...] = _MODES
        detector = cls(arl, baseline_min, modes[int(mode)])
        detector.state = _STATES[int(state)]
        detector.observations, detector._pending, detector._newest, detector._seen = accepted, pending, newest, seen
        detector._onset, detector._return = (sums[0], sums[1], sums[2]), (sums[3], sums[4], sums[5])
        detector._down = Bets.unpack(body[_HEAD.size : _HEAD.size + Bets.size])
        detector._up = Bets.unpack(body[_HEAD.size + Bets.size : fixed])
        for key, *sums, _, _ in _STRATUM.iter_unpack(body[fixed:]):
            part = detector._strata[key] = Stratum()
            part.accepted, part.accepted_sum, part.pending, part.pending_sum, part.share = sums
        return detector


# All streams have the same run length.
@lru_cache(maxsize=64)
def _kappa(arl: float) -> float:
    """Return the strength of the insurance, by simulation: of many streams with long run lengths, more had a lucky start than may alarm."""
    return max(225.0, 450 + 700 * math.log(arl / 10_000)) + 1200 * max(0.0, math.log(arl / 100_000))


def _joined(parts: list[_Part]) -> list[_Part]:
    """Join the parts of the stratum for all beyond the most that are kept."""
    found: dict[Stratum, tuple[float, int]] = {}
    for stratum, total, count in parts:
        before, earlier = found.get(stratum, (0.0, 0))
        found[stratum] = before + total, earlier + count
    return [(stratum, total, count) for stratum, (total, count) in found.items()]


def _digest(name: str) -> bytes:
    return hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=8).digest()


def _plus(one: Sums, other: Sums) -> Sums:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]
