"""The stage `watch`: scorecards come in, regressions go out.

A complete conversation gives one observation to each of its streams. All streams share one promise about false alarms
(`budget`), and alarms of one service that begin together are one incident. Belongs to one thread and does no I/O.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TypeAlias, get_args
from zlib import crc32

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from toolgauge.model.metrics import Exemplar
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.regressions import (
    UNUSED,
    USED,
    Arm,
    Regression,
    Stream,
    StreamHistory,
    StreamState,
    StreamStatus,
    ToolDefinitionChange,
)
from toolgauge.selfmetrics import WatchMetrics
from toolgauge.settings import HOUR, MINUTE, SECOND
from toolgauge.watch.behaviour import Behaviour
from toolgauge.watch.detector import Detector
from toolgauge.watch.fingerprint import of_tool
from toolgauge.watch.open_conversations import (
    Conversation,
    ConversationKey,
    OpenConversation,
    OpenConversations,
    StreamKey,
    TrajectoryScores,
    trajectory_scores,
)
from toolgauge.watch.settings import WatchSettings
from toolgauge.watch.stream import WatchedStream
from toolgauge.watch.tool_contracts import ToolContracts

_WEEK_NS = 7 * 24 * HOUR
# Each observation takes this part of the remaining budget: about so many observations share the income of their time.
_SHARED_BY = 2000
_SHORTEST = 1000.0
# Where thousands are made at once, the last of them have to be made with some run length.
_LEAST = 1e-12
# The part of a week that a new process has to begin with, and pays back within that week: nothing could be an alarm in its first
# hours without it.
_ADVANCE = 0.5


class Budget(Struct, kw_only=True):
    """False alarms that may still be raised: time adds to them, and each observation of a stream spends a part.

    At a steady rate an observation spends 1 / A, where A are the observations of a week / false alarms a week. At any other,
    and from the first minute on, no more is spent in a week than comes in.
    """

    left: float | None = None
    owed: float = 0.0
    last_ns: int = 0
    run_length: float = _SHORTEST

    def spend(self, now_ns: int, observations: int, per_week: float) -> float:
        """Spend a part on so many observations; set and return the run length of each."""
        if self.left is None:
            self.left = self.owed = per_week * _ADVANCE
            self.last_ns = now_ns
        # A clock that was set back brings nothing.
        came_in = per_week * max(0, now_ns - self.last_ns) / _WEEK_NS
        paid_back = min(self.owed, came_in / 2)
        self.owed -= paid_back
        self.last_ns = now_ns
        # What no observation spent in a week lapses.
        self.left = min(per_week, self.left + came_in - paid_back)
        kept = (1 - 1 / _SHARED_BY) ** observations
        each = max(_LEAST, min(self.left * (1 - kept) / observations, 1 / _SHORTEST))
        self.left = max(0.0, self.left - each * observations)
        self.run_length = 1 / each
        return self.run_length


def least_baseline(run_length: float) -> int:
    """Return how many observations a baseline needs before an alarm means something."""
    return 1000 if run_length >= 100_000 else 200


_TOGETHER_NS = 10 * MINUTE
_SHOWN_EVERY = SECOND
_BUDGET = b"b"
_CHECKSUM_BYTES = 4
# Fields of `StreamKey` by the names that people select streams by.
_FIELDS = Stream.__struct_fields__
_TOOL = _FIELDS.index("tool")


# Called with changes, and how many tools were not compared because of a cap.
OnToolChanges: TypeAlias = Callable[[Sequence[ToolDefinitionChange], int], None]


class Watcher:
    """Watches the streams of one process, and the tools that its agents are offered.

    `on_tool_changes` is called with a tick, where tools changed.
    """

    def __init__(self, settings: WatchSettings, metrics: WatchMetrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._conversations = OpenConversations(settings.conversation_idle)
        self._budget = Budget()
        # The least recently used first.
        self._streams: dict[StreamKey, WatchedStream] = {}
        # Changes that are not stored yet: streams and conversations that changed, and keys of removed rows.
        self._changed_streams: dict[StreamKey, None] = {}
        self._changed_conversations: dict[ConversationKey, None] = {}
        self._removed: set[bytes] = set()
        # Keys of rows that a store may have: without one, nothing needs to be removed.
        self._given: set[bytes] = set()
        # Streams whose gauges are behind: at many conversations a second, setting them costs more than the detectors do.
        self._unshown: dict[StreamKey, None] = {}
        self._shown_ns = 0
        self._ended: list[Regression] = []
        self._contracts = ToolContracts()
        self._behaviour = Behaviour(settings)
        self.on_tool_changes: OnToolChanges = lambda _changes, _capped: None
        # The measure of each criterion by name and revision; `None` for any.
        self._criteria: Mapping[tuple[str, str], str] | None = None
        # Another thread may be writing: the streams are copied in one step.
        metrics.streams.observe = lambda: {
            (state,): sum(stream.detector.state == state for stream in tuple(self._streams.values()))
            for state in get_args(StreamState)
        }
        self.shed = self._conversations.shed
        # Not known before the first observation.
        metrics.run_length.observe = lambda: {} if self._budget.left is None else {(): self._budget.run_length}

    def observe(self, scorecard: Scorecard) -> Sequence[Regression]:
        """Take the scores of a scorecard; return the regressions that begin, change or end with it."""
        scores = trajectory_scores(scorecard)
        return () if scores is None else self.add(scores, scorecard.scored_at_ns)

    def add(self, scores: TrajectoryScores, now_ns: int) -> Sequence[Regression]:
        """Take the scores of a trajectory; return the regressions that begin, change or end with them."""
        for offer in scores.offers:
            self._contracts.add(offer, now_ns)
        if not scores.scores:
            return ()
        complete = self._conversations.add(scores, now_ns)
        if complete is not None:
            return tuple(self._complete(complete, now_ns))
        if scores.conversation is not None:
            self._changed_conversations[scores.conversation] = None
        return ()

    def tick(self, now_ns: int) -> Sequence[Regression]:
        """Count the conversations that are complete; return the regressions that begin, change or end with them."""
        regressions, self._ended = self._ended, []
        tool_changes, capped = self._contracts.take()
        if tool_changes or capped:
            self.on_tool_changes(tool_changes, capped)
        for kind, of in ((b"o", self._contracts), (b"u", self._behaviour)):
            for whose in of.removed:
                self._remove(_row(kind, whose))
            of.removed.clear()
        if self._unshown and abs(now_ns - self._shown_ns) >= _SHOWN_EVERY:
            self._shown_ns = now_ns
            for key in self._unshown:
                self._show(self._streams[key])
            self._unshown.clear()
        for key, conversation, is_cut in self._conversations.idle(now_ns):
            if is_cut:
                self._metrics.observations_cut.add()
                # Calls that are missing are still to come.
                conversation.called.clear()
            self._changed_conversations.pop(key, None)
            self._remove(_row(b"v", key))
            regressions.extend(self._complete(conversation, now_ns))
        return regressions

    @property
    def next_due_ns(self) -> int | None:
        """When a conversation will be complete, or gauges are to be set; `None` when neither is."""
        due_ns = self._conversations.next_due_ns
        shown_ns = self._shown_ns + _SHOWN_EVERY if self._unshown else None
        return min([due for due in (due_ns, shown_ns) if due is not None], default=None)

    def _complete(self, conversation: Conversation, now_ns: int) -> Iterator[Regression]:
        # Criterion and revision of a key are `key[4:6]`.
        watched, criteria, least = conversation.tallies, self._criteria, self._settings.baseline_min
        if conversation.left_out:
            self._metrics.streams_evicted.add(conversation.left_out)
        if criteria is not None:
            watched = {key: tally for key, tally in watched.items() if key[4:6] in criteria}
        streams = self._streams
        habits = self._behaviour.observe(conversation, least or least_baseline(self._budget.run_length), streams)
        # A habit that is learned raises no alarm: it would cost scores their power for nothing.
        spending = [key for key in habits if key in streams and streams[key].detector.state != "learning"]
        spent = max(1, len(watched) + len(spending))
        watched = watched | habits
        if not watched:
            return
        run_length = self._budget.spend(now_ns, spent, self._settings.false_alarms_per_week)
        least = least or least_baseline(run_length)
        # By tool: several criteria judge the same.
        properties: dict[str | None, dict[str, str]] = {None: conversation.fingerprint}
        for key, tally in watched.items():
            # What a call of the tool shows explains no conversation without it.
            tool = "" if key[4] in (USED, UNUSED) else key[_TOOL]
            if tool is not None and tool not in properties:
                properties[tool] = of_tool(conversation.fingerprint, tool)
            # Taken out and put back: the dict stays in the order of use.
            stream = self._streams.pop(key, None)
            if stream is None:
                if len(self._streams) >= self._settings.max_streams:
                    self._evict()
                detector = Detector(run_length, least, self._settings.baseline)
                kept, of = self._behaviour.known.pop(key, (0, 0))
                for number in range(of):
                    detector.update(float(number >= of - kept))
                stream = WatchedStream(key, detector, measure=(criteria or {}).get(key[4:6], ""))
            self._streams[key] = stream
            stream.detector.arl, stream.detector.needed = run_length, least
            regression = stream.add(tally, conversation, properties[tool], now_ns, self._incident)
            self._changed_streams[key] = None
            self._unshown[key] = None
            if regression is not None:
                if regression.phase == "began":
                    worst = Exemplar(tally.worst, now_ns, tally.worst_trace, "")
                    self._metrics.alarms.add(1, stream.labels, worst)
                self._show(stream)
                yield regression
        for key in self._behaviour.dropped:
            if key in self._streams:
                self._drop(key)
        self._behaviour.dropped.clear()

    def _evict(self) -> None:
        # A stream in alarm stays while others can go: its alarm would never be seen to end.
        quiet = (key for key, stream in self._streams.items() if stream.alarm is None)
        self._drop(next(quiet, next(iter(self._streams))))
        self._metrics.streams_evicted.add()

    def _drop(self, key: StreamKey) -> None:
        stream = self._streams.pop(key)
        ended = stream.accept(stream.last_ns)
        if ended is not None:
            self._ended.append(ended)
        self._changed_streams.pop(key, None)
        self._unshown.pop(key, None)
        self._remove(_row(b"s", key))
        labels, metrics = stream.labels, self._metrics
        for gauge in (metrics.active, metrics.evidence, metrics.baseline, metrics.current, metrics.observations):
            gauge.cells.pop(labels, None)
        metrics.alarms.drop((labels,))

    def _incident(self, stream: Stream, now_ns: int) -> str:
        """Return the incident of a regression that begins now."""
        whose = (stream.service, stream.environment)
        alarms = [one.alarm for key, one in self._streams.items() if key[:2] == whose and one.alarm is not None]
        newest = max(alarms, key=lambda alarm: alarm.at_ns, default=None)
        if newest is not None and now_ns - newest.at_ns <= _TOGETHER_NS:
            return newest.incident
        return blake2b(repr((whose, now_ns)).encode(errors="replace"), digest_size=6).hexdigest()

    def statuses(self) -> Sequence[StreamStatus]:
        """Describe all streams, in alarm first, then by evidence."""
        statuses = [stream.status() for stream in self._streams.values()]
        return sorted(statuses, key=lambda status: (status.state != "alarm", -status.evidence))

    def histories(self, streams: Iterable[Stream]) -> Sequence[StreamHistory]:
        """Describe the watched ones of these streams over time."""
        found = (self._streams.get(astuple(stream)) for stream in streams)
        return [stream.history() for stream in found if stream is not None]

    def arms(self) -> Sequence[Arm]:
        """Return the observations of every stream by version of its service."""
        return [arm for stream in self._streams.values() for arm in stream.arms()]

    def active(self) -> Sequence[Regression]:
        """Return the regressions that have begun and not ended."""
        return [stream.alarm for stream in self._streams.values() if stream.alarm is not None]

    def acknowledge(self, filters: Mapping[str, str], now_ns: int) -> int:
        """Have the streams with these fields of `Stream` learn again and return their number; the next `tick` ends their regressions."""
        wanted = [(_FIELDS.index(name), value) for name, value in filters.items()]
        chosen = [key for key in self._streams if all((key[place] or "") == value for place, value in wanted)]
        for key in chosen:
            ended = self._streams[key].accept(now_ns)
            if ended is not None:
                self._ended.append(ended)
            self._changed_streams[key] = None
            self._show(self._streams[key])
        return len(chosen)

    def keep(self, criteria: Mapping[tuple[str, str], str]) -> Mapping[str, int]:
        """Drop the streams of all criteria but these, given as measures by name and revision; late scores do not bring them back.
        Streams continue under the revision that has their measure. Return the number of dropped streams, by name of a criterion
        that stays.
        """
        self._criteria = criteria
        revisions = {(name, measure): revision for (name, revision), measure in criteria.items()}
        names = {name for name, _ in criteria}
        changed: Counter[str] = Counter()
        for key, stream in [*self._streams.items()]:
            *_, criterion, _, _ = key
            revision = revisions.get((criterion, stream.measure)) if stream.measure else None
            if self._behaviour.has(key):
                continue
            if key[4:6] in criteria:
                stream.measure = criteria[key[4:6]]
            elif revision is None:
                self._drop(key)
                changed.update([criterion] if criterion in names else [])
            else:
                renamed = stream.renamed(revision)
                self._drop(key)
                self._streams[renamed.key] = renamed
                self._changed_streams[renamed.key] = None
                self._show(renamed)
                self._ended += [] if renamed.alarm is None else [renamed.alarm]
        return changed

    def changes(self) -> tuple[dict[bytes, bytes], set[bytes]]:
        """Return the rows that changed since the last call, by key, and the keys of removed rows."""
        rows = {_row(b"s", key): self._streams[key].dump() for key in self._changed_streams}
        for key in self._changed_conversations:
            rows[_row(b"v", key)] = msgspec.msgpack.encode(self._conversations[key])
        contracts = self._contracts
        rows.update((_row(b"o", whose), contracts.dump(whose)) for whose in contracts.changed)
        rows.update((_row(b"u", whose), self._behaviour.dump(whose)) for whose in self._behaviour.changed)
        if rows:
            rows[_BUDGET] = msgspec.msgpack.encode(self._budget)
        removed = self._removed.difference(rows)
        self._given = self._given - removed | rows.keys()
        self.forget_changes()
        return {row: _sealed(row, saved) for row, saved in rows.items()}, removed

    def forget_changes(self) -> None:
        """Forget the changes: they are being saved, or no state is kept."""
        self._contracts.changed, self._behaviour.changed = {}, {}
        self._changed_streams, self._changed_conversations, self._removed = {}, {}, set()

    def restore(self, rows: Mapping[bytes, bytes]) -> int:
        """Restore the state of an earlier process; return the number of damaged rows, which are dropped."""
        self._given = set(rows)
        damaged = 0
        streams: list[WatchedStream] = []
        conversations: list[OpenConversation] = []
        for row, sealed in rows.items():
            try:
                saved = sealed[_CHECKSUM_BYTES:]
                if _sealed(row, saved) != sealed:
                    raise ValueError("the row is damaged")
                if row == _BUDGET:
                    self._budget = msgspec.msgpack.decode(saved, type=Budget)
                elif row.startswith(b"s"):
                    streams.append(WatchedStream.load(saved))
                elif row.startswith(b"o"):
                    self._contracts.restore(saved)
                elif row.startswith(b"u"):
                    self._behaviour.restore(saved)
                elif row.startswith((b"t", b"d", b"c")):
                    # Definitions, which are learned again, and open conversations in a form that earlier releases wrote.
                    self._removed.add(row)
                else:
                    conversations.append(msgspec.msgpack.decode(saved, type=OpenConversation))
            except (ValueError, msgspec.MsgspecError):
                damaged += 1
                self._removed.add(row)
        for stream in sorted(streams, key=lambda stream: stream.last_ns):
            self._streams[stream.key] = stream
            self._show(stream)
        while len(self._streams) > self._settings.max_streams:
            self._evict()
        for each in sorted(conversations, key=lambda each: each.last_ns):
            self._conversations.restore(each)
        return damaged

    def _remove(self, row: bytes) -> None:
        if row in self._given:
            self._removed.add(row)

    def _show(self, stream: WatchedStream) -> None:
        detector, labels, metrics = stream.detector, stream.labels, self._metrics
        # A stream has metrics from when it is watched; one that learns again keeps them.
        if detector.state == "learning" and labels not in metrics.active.cells:
            return
        metrics.alarms.begin(labels)
        metrics.active.set(float(stream.alarm is not None), labels)
        metrics.evidence.set(detector.evidence, labels)
        metrics.observations.set(detector.observations, labels)
        if detector.observations:
            metrics.baseline.set(detector.baseline, labels)
            metrics.current.set(detector.current, labels)
        else:
            # While it learns again, the normal score is unknown, which is not 0.
            metrics.baseline.cells.pop(labels, None)
            metrics.current.cells.pop(labels, None)


def _row(kind: bytes, key: tuple[str | None, ...]) -> bytes:
    return kind + blake2b(msgspec.msgpack.encode(key), digest_size=16).digest()


def _sealed(row: bytes, saved: bytes) -> bytes:
    """Put a checksum in front: a changed byte on the disk would be read as other figures."""
    return crc32(saved, crc32(row)).to_bytes(_CHECKSUM_BYTES) + saved
