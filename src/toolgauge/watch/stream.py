"""One watched stream of scores: its detector, the traces, times and versions behind an alarm, and its history."""

from array import array
from collections.abc import Callable
from typing import Self, TypeAlias

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict, replace

from toolgauge.model.metrics import Labels, fit_label
from toolgauge.model.records import VERSION
from toolgauge.model.regressions import (
    AlarmPeriod,
    Arm,
    Regression,
    ScoreBucket,
    Stream,
    StreamHistory,
    StreamStatus,
)
from toolgauge.settings import SECOND
from toolgauge.watch.causes import NewestObservations, is_behaviour
from toolgauge.watch.detector import Detector
from toolgauge.watch.open_conversations import Conversation, StreamKey, Tally, stream_of

MAX_BUCKETS = 120
_MERGED_AT_ONCE = 20
# The width of a new bucket: this part of the time that the stream has been known, within these seconds.
_WIDTHS_KNOWN = 240
_LEAST_S, _MOST_S = 1, 60
_LAST_S = 2**32 - 1
# Of a saved history: its number of buckets comes first, and each takes three whole numbers and its sum.
_COUNT_BYTES, _BUCKET_BYTES = 4, 20


class ScoreHistory:
    """Takes scores in about the order of their times; buckets are in order, and do not overlap."""

    __slots__ = ("_columns", "_counts", "_ends", "_starts", "_sums")

    def __init__(self) -> None:
        # Seconds since the epoch. Four arrays take a tenth of the memory of as many objects.
        self._starts, self._ends, self._counts = array("I"), array("I"), array("I")
        self._sums = array("d")
        self._columns = self._starts, self._ends, self._counts, self._sums

    def add(self, score: float, time_ns: int) -> None:
        """Count one observation."""
        starts, ends = self._starts, self._ends
        time_s = min(max(time_ns // SECOND, 0), _LAST_S)
        known_s = ends[-1] - starts[0] if starts else 0
        width_s = min(max(known_s // _WIDTHS_KNOWN, _LEAST_S), _MOST_S)
        place = len(starts) - 1
        while place >= 0 and starts[place] > time_s:
            place -= 1
        if place >= 0 and (time_s <= ends[place] or time_s < starts[place] + width_s):
            ends[place] = max(ends[place], time_s)
            self._counts[place] = min(self._counts[place] + 1, _LAST_S)
            self._sums[place] += score
            return
        for column, value in ((starts, time_s), (ends, time_s), (self._counts, 1)):
            column.insert(place + 1, value)
        self._sums.insert(place + 1, score)
        if len(starts) > MAX_BUCKETS:
            self._merge()

    def buckets(self) -> tuple[ScoreBucket, ...]:
        """Return all buckets, the oldest first."""
        return tuple(
            ScoreBucket(start_ns=start * SECOND, end_ns=end * SECOND, observations=count, sum=total)
            for start, end, count, total in zip(*self._columns, strict=True)
        )

    def dump(self) -> bytes:
        """Write everything down."""
        return b"".join((len(self._starts).to_bytes(_COUNT_BYTES, "little"), *self._columns))

    @classmethod
    def load(cls, saved: bytes) -> Self:
        """Read what `dump` wrote; raise `ValueError` when it is damaged. Without any bytes it is empty."""
        history = cls()
        if not saved:
            return history
        count, rest = int.from_bytes(saved[:_COUNT_BYTES], "little"), saved[_COUNT_BYTES:]
        if count > MAX_BUCKETS or len(rest) != count * _BUCKET_BYTES:
            raise ValueError("the history of scores is damaged")
        for column in history._columns:
            size_bytes = count * column.itemsize
            column.frombytes(rest[:size_bytes])
            rest = rest[size_bytes:]
        return history

    def _merge(self) -> None:
        """Join neighbours that are shortest for their age: several pairs at once, for the search takes longest."""
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


_EXEMPLARS = 5
_VERSIONS = 3
_LOOKED_AGAIN = (16, 32, 64, 128, 256)
_NEWEST = 100
_PAST_ALARMS = 10


class _Arm(Struct, array_like=True):
    observations: int
    sum: float
    sum_of_squares: float
    first_seen_ns: int
    last_seen_ns: int


class _History(Struct, kw_only=True):
    """Traces, times and versions (empty where unknown) beside the detector's figures.
    `newest` are score, lowest scoring trace and version of the newest observations, `before` traces older than these, of which
    none is since an onset.
    """

    last_ns: int = 0
    newest: list[tuple[float, str, str]] = field(default_factory=list[tuple[float, str, str]])
    before: list[str] = field(default_factory=list[str])
    # By version, the newest three by first sight.
    arms: dict[str, _Arm] = field(default_factory=dict[str, _Arm])
    alarm: Regression | None = None
    # The newest ten that have ended.
    past: list[AlarmPeriod] = field(default_factory=list[AlarmPeriod])


class _Saved(Struct, array_like=True):
    key: StreamKey
    detector: bytes
    history: _History
    # Absent in rows that were written before there was a history.
    scores: bytes = b""
    # Absent in rows that were written before properties were read.
    newest: bytes = b""
    # Absent in rows from before streams could continue under another revision.
    measure: str = ""


# Names the incident of a regression of this stream that begins at this time.
Incident: TypeAlias = Callable[[Stream, int], str]


class WatchedStream:
    """Takes one observation after the other. `alarm` is the regression that is on."""

    def __init__(
        self,
        key: StreamKey,
        detector: Detector,
        history: _History | None = None,
        scores: ScoreHistory | None = None,
        newest: NewestObservations | None = None,
        measure: str = "",
    ) -> None:
        self.key = key
        # The criterion without its threshold: scores of one measure can be compared.
        self.measure = measure
        self.stream: Stream = stream_of(key)
        self.labels: Labels = tuple([fit_label(each) if each else "" for each in key])
        self.detector = detector
        self._history = history or _History()
        self._scores = scores or ScoreHistory()
        self._newest = newest or NewestObservations()

    @property
    def alarm(self) -> Regression | None:
        """The regression that has begun and not ended."""
        return self._history.alarm

    @property
    def last_ns(self) -> int:
        """When the last observation was made."""
        return self._history.last_ns

    def add(
        self, tally: Tally, conversation: Conversation, properties: dict[str, str], now_ns: int, incident: Incident
    ) -> Regression | None:
        """Take one observation, with the `properties` that may explain it; return the regression that begins, changes or ends with it."""
        history, detector, total, count = self._history, self.detector, 0.0, 0
        for scores, number in tally.scores.values():
            total, count = total + scores, count + number
        history.last_ns = now_ns
        score = total / count
        arms, version, seen_ns = history.arms, conversation.fingerprint.get(VERSION, ""), conversation.opened_ns
        arm = arms.get(version)
        if arm is None:
            if len(arms) >= _VERSIONS:
                del arms[min(arms, key=lambda each: arms[each].first_seen_ns)]
            arm = arms[version] = _Arm(0, 0.0, 0.0, seen_ns, seen_ns)
        arm.observations += 1
        arm.sum += score
        arm.sum_of_squares += score * score
        arm.last_seen_ns = max(arm.last_seen_ns, seen_ns)
        self._scores.add(score, seen_ns)
        self._newest.add(score, seen_ns, properties)
        alarm = history.alarm
        seen = 0 if alarm is None else detector.since_onset
        raised = detector.observe(tally.scores)
        history.newest.append((score, tally.worst_trace, version))
        if len(history.newest) > _NEWEST:
            _, trace, _ = history.newest.pop(0)
            if detector.since_onset <= _NEWEST:
                history.before = [*history.before, trace][-_EXEMPLARS:]
        if raised and alarm is None:
            history.alarm = self._regression(now_ns, incident(self.stream, now_ns))
            return history.alarm
        if alarm is None:
            return None
        if detector.state == "alarm":
            # More observations may name the cause, or another one.
            if seen < detector.since_onset in _LOOKED_AGAIN:
                return self._look_again(alarm, now_ns)
            return None
        baseline, current = detector.baseline, detector.current
        return self._end(alarm, replace(alarm, at_ns=now_ns, baseline=baseline, current=current, evidence=0.0))

    def _look_again(self, alarm: Regression, now_ns: int) -> Regression | None:
        """Look for the causes of a lasting alarm; return an update where the likeliest is not the one announced."""
        detector = self.detector
        current, interval, since = detector.current, detector.interval, detector.since_onset
        causes = self._newest.causes(since)
        named, found = (each[0].changes if each else () for each in (alarm.causes, causes))
        was_chosen = any(not is_behaviour(one.property) for one in named)
        if was_chosen and found and all(is_behaviour(one.property) for one in found):
            # The other value of the named property may be gone from the newest observations; behaviour is not another cause.
            return None
        lasting = self._history.alarm = replace(alarm, causes=causes)
        if {(one.property, one.of, one.after) for one in found} == {(one.property, one.of, one.after) for one in named}:
            return None
        return replace(lasting, phase="updated", at_ns=now_ns, current=current, interval=interval, observations=since)

    def accept(self, now_ns: int) -> Regression | None:
        """Start learning again; return the end of the open regression."""
        detector, alarm = self.detector, self._history.alarm
        current, interval, observations = detector.current, detector.interval, detector.since_onset
        detector.reset()
        if alarm is None:
            return None
        ended = replace(alarm, at_ns=now_ns, current=current, interval=interval, observations=observations)
        return self._end(alarm, replace(ended, acknowledged=True))

    def status(self) -> StreamStatus:
        """Describe the state of the detector."""
        detector, alarm = self.detector, self._history.alarm
        return StreamStatus(
            stream=self.stream,
            state=detector.state,
            observations=detector.observations,
            needed=detector.needed,
            baseline=detector.baseline if detector.observations else None,
            current=detector.current if detector.observations else None,
            evidence=detector.evidence,
            since_ns=None if alarm is None else alarm.onset_ns,
            incident="" if alarm is None else alarm.incident,
        )

    def history(self) -> StreamHistory:
        """Describe its scores over time, and its alarms."""
        history = self._history
        return StreamHistory(
            status=self.status(),
            missing=self.detector.missing,
            buckets=self._scores.buckets(),
            alarm=history.alarm,
            past=tuple(history.past),
            arms=tuple(self.arms()),
        )

    def arms(self) -> list[Arm]:
        """Return the observations under each version of the service."""
        arms = self._history.arms.items()
        return [Arm(stream=self.stream, version=version or None, **asdict(arm)) for version, arm in arms]

    def dump(self) -> bytes:
        """Write everything down."""
        parts = (self.detector.dump(), self._history, self._scores.dump(), self._newest.dump())
        return msgspec.msgpack.encode(_Saved(self.key, *parts, self.measure))

    @classmethod
    def load(cls, saved: bytes) -> Self:
        """Read what `dump` wrote; raise `ValueError` when it is damaged."""
        read = msgspec.msgpack.decode(saved, type=_Saved)
        scores, newest = ScoreHistory.load(read.scores), NewestObservations.load(read.newest)
        return cls(read.key, Detector.load(read.detector), read.history, scores, newest, read.measure)

    def renamed(self, revision: str) -> Self:
        """Return a copy for another revision of the criterion that has the same values."""
        read = msgspec.msgpack.decode(self.dump(), type=_Saved)
        service, environment, agent, tool, criterion, _, level = self.key
        read.key = service, environment, agent, tool, criterion, revision, level
        if read.history.alarm is not None:
            read.history.alarm = replace(read.history.alarm, stream=stream_of(read.key))
        return self.load(msgspec.msgpack.encode(read))

    def _end(self, alarm: Regression, ended: Regression) -> Regression:
        """Keep an alarm among the past ones; return its end, with the figures of then."""
        history = self._history
        period = AlarmPeriod(
            onset_ns=alarm.onset_ns,
            raised_ns=alarm.at_ns,
            ended_ns=ended.at_ns,
            baseline=alarm.baseline,
            current=alarm.current,
            acknowledged=ended.acknowledged,
        )
        history.alarm, history.past = None, [*history.past, period][-_PAST_ALARMS:]
        return replace(ended, phase="ended")

    def _regression(self, now_ns: int, incident: str) -> Regression:
        history, detector = self._history, self.detector
        since = history.newest[-max(detector.since_onset, 1) :]
        earlier = history.newest[: -len(since)]
        times = self._newest.times
        return Regression(
            phase="began",
            stream=self.stream,
            incident=incident,
            at_ns=now_ns,
            onset_ns=times[-min(max(detector.since_onset, 1), len(times))] * SECOND,
            observations=detector.since_onset,
            baseline=detector.baseline,
            current=detector.current,
            interval=detector.interval,
            evidence=detector.evidence,
            causes=self._newest.causes(detector.since_onset),
            properties=self._newest.compared(detector.since_onset),
            before=tuple([*history.before, *(trace for _, trace, _ in earlier)][: -_EXEMPLARS - 1 : -1]),
            after=tuple(trace for _, trace, _ in sorted(since, key=lambda each: each[0])[:_EXEMPLARS]),
        )
