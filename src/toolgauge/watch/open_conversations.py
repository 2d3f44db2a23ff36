"""Turns results into observations of conversations: detectors count conversations, not calls.

Calls of one conversation share their fate; one by one they cause false alarms. A trace without an id stands for itself. Thousands of
conversations are open at a time, mostly with the same few verdicts: each keeps how often it had which, and streams are made of them
when it is complete. Together they take a bounded number of bytes; beyond it the longest idle ones are counted early.
"""

import sys
from collections import OrderedDict
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.metrics import fit_label
from toolgauge.model.names import stable_tool
from toolgauge.model.outcomes import Level, Scorecard, Subject, Verdict
from toolgauge.model.records import ENVIRONMENT
from toolgauge.model.regressions import Stream
from toolgauge.model.trajectory import ClosedBecause, Trajectory, invented_tools
from toolgauge.watch.fingerprint import fingerprint, joined
from toolgauge.watch.offers import Offer, offers

# Service, environment, agent, tool, criterion, revision, level: the fields of `Stream` in their order.
StreamKey: TypeAlias = tuple[str | None, str | None, str | None, str | None, str, str, str]
ConversationKey: TypeAlias = tuple[str, str]
# Service, environment and agent.
Whose: TypeAlias = tuple[str | None, str | None, str | None]

# Of one conversation. Scores of further tools count for all tools of their agent only.
_MOST_STREAMS = 200
# So many different verdicts complete a conversation. Further ones of one trajectory count for their agent, and up to as many again.
_MOST_VERDICTS = 1000
_MAX_CONVERSATION_ID = 256
# Tools of one trace; one with more counts as not seen.
_MOST_TOOLS = 32
# A trace that closed for another reason is cut short.
_WHOLE: frozenset[ClosedBecause] = frozenset(("run_ended", "idle", "open_idle", "parent_missing"))
_MOST_KNOWN = 4096


class Scores(Struct, frozen=True, array_like=True, cache_hash=True, gc=False):
    """The watched scores of a verdict, by criterion, revision and level."""

    service: str | None
    environment: str | None
    agent: str | None
    tool: str | None
    values: tuple[tuple[str, str, str, float], ...]
    # In place of scores: the tools that a trace called, in the order of their first calls, and where calls may be missing.
    called: tuple[str, ...] | None = None
    gap: Literal["", "before", "within"] = ""


# How often each was seen, or how many calls were made, and the first trace that had it.
Seen: TypeAlias = dict[Scores, tuple[int, str]]


class TrajectoryScores(Struct, array_like=True, gc=False):
    """The scores of one scorecard, with how many calls had them.

    `conversation` is `None` if it has no other trajectory. `offers` are the tools that its runs were offered.
    """

    conversation: ConversationKey | None
    fingerprint: dict[str, str]
    opened_ns: int
    trace_id: str
    scores: dict[Scores, int]
    offers: list[Offer] = []


_KNOWN: dict[tuple[str | None, str | None, Verdict], Scores] = {}


def trajectory_scores(scorecard: Scorecard) -> TrajectoryScores | None:
    """Return the scores of a scorecard; `None` when it has neither scores nor offers."""
    trajectory = scorecard.trajectory
    service, environment = _label(trajectory.service), _label(trajectory.resource.get(ENVIRONMENT))
    scores: dict[Scores, int] = {}
    for verdict, subjects in scorecard.verdicts.items():
        each = _KNOWN.get((service, environment, verdict)) or _scores(service, environment, verdict, subjects[0])
        if len(scores) >= _MOST_VERDICTS and each not in scores:
            each = replace(each, tool=None, values=each.values if len(scores) < 2 * _MOST_VERDICTS else ())
        if each.values:
            scores[each] = scores.get(each, 0) + len(subjects)
    # The first scorecard of a trajectory counts its runs; that of its judges comes after it.
    offered: list[Offer] = []
    if trajectory.scope == "trace" and not scorecard.by_judges:
        offered = offers(trajectory)
        scores |= _tools_called(trajectory, service, environment)
    if not scores and not offered:
        return None
    conversation: ConversationKey | None = None
    if trajectory.scope != "conversation" and trajectory.conversation_id is not None:
        # A lone surrogate could not be saved.
        conversation_id = trajectory.conversation_id[:_MAX_CONVERSATION_ID].encode(errors="replace").decode()
        conversation = service or "", conversation_id
    opened_ns = trajectory.opened_ns or scorecard.scored_at_ns
    return TrajectoryScores(conversation, fingerprint(trajectory), opened_ns, trajectory.trace_id, scores, offered)


def _tools_called(trajectory: Trajectory, service: str | None, environment: str | None) -> dict[Scores, int]:
    """Return the existing tools that a trace called, with its number of calls; nothing where it is not about an agent."""
    if not trajectory.calls and not trajectory.tools_offered and not trajectory.has_agent_run:
        return {}
    invented = invented_tools(trajectory)
    calls = [call.name for call in trajectory.calls if call.kind == "tool" and call.name not in invented]
    names = [*dict.fromkeys([fit_label(stable_tool(name)) for name in dict.fromkeys(calls)])]
    is_whole = trajectory.incomplete is None and not trajectory.hidden_turns and len(names) <= _MOST_TOOLS
    gap: Literal["", "before", "within"] = ""
    if trajectory.has_beginning is False and trajectory.conversation_id is not None:
        # Unless its conversation has the earlier traces.
        gap = "before"
    if not is_whole or trajectory.closed_because not in _WHOLE:
        gap = "within"
    agent = trajectory.agents[0] if trajectory.agents else None
    return {Scores(service, environment, _label(agent), None, (), tuple(names[:_MOST_TOOLS]), gap): len(calls)}


def _label(name: str | None) -> str | None:
    """Return a name as metrics show it: streams of one name are one, and people can ask for it; it is kept in memory once."""
    return sys.intern(fit_label(name)) if name else None


def _scores(service: str | None, environment: str | None, verdict: Verdict, subject: Subject) -> Scores:
    """Select the scores of a verdict that are watched."""
    values = [
        (one.criterion, one.revision, one.level, one.value)
        for one, result in zip(verdict.findings, subject.results, strict=True)
        if one.value is not None and one.enforce == "live" and is_watched(result.evaluator, one.level, one.can_fail)
    ]
    whose = service, environment, _label(verdict.agent), _label(verdict.tool)
    if len(_KNOWN) >= _MOST_KNOWN:
        _KNOWN.clear()
    found = _KNOWN[service, environment, verdict] = Scores(*whose, tuple([_shared(*value) for value in values]))
    return found


@lru_cache(maxsize=_MOST_KNOWN)
def _shared(criterion: str, revision: str, level: str, value: float) -> tuple[str, str, str, float]:
    return criterion, revision, level, value


def is_watched(evaluator: str, level: Level, can_fail: bool) -> bool:  # noqa: FBT001 (as a finding has it)
    """Return whether scores of a criterion are watched: where none of them fails, only as one figure a run that is about the agent."""
    return can_fail or (level == "trajectory" and evaluator != "coverage")


class Tally(Struct, gc=False):
    """The scores of one stream in one conversation: by tool, their sum and number; `worst_trace` is the trace of the lowest."""

    scores: dict[str, tuple[float, int]]
    worst: float
    worst_trace: str


class Called(Struct, gc=False):
    """The tools that an agent called in one conversation, in the order of their first calls, and the number of all calls."""

    tools: dict[str, None]
    calls: int
    trace_id: str
    is_whole: bool


class Conversation(Struct):
    """A conversation that is complete: its scores by stream, and the properties of its runs. `opened_ns` is wall-clock.

    `called` is by service, environment and agent; `left_out` counts scores without a place of their own.
    """

    opened_ns: int
    fingerprint: dict[str, str]
    tallies: dict[StreamKey, Tally]
    left_out: int
    called: dict[Whose, Called]


def complete(opened_ns: int, properties: dict[str, str], seen: Seen) -> Conversation:
    """Sort scores by stream: all tools of an agent are a stream as well, in which each tool has a baseline of its own."""
    tools: dict[StreamKey, Tally] = {}
    agents: dict[StreamKey, Tally] = {}
    called: dict[Whose, Called] = {}
    left_out = 0
    for one, (times, trace_id) in seen.items():
        whose, tool = (one.service, one.environment, one.agent), one.tool
        if one.called is not None:
            known = called.setdefault(whose, Called({}, 0, trace_id, is_whole=not one.gap))
            known.tools.update(dict.fromkeys(one.called))
            known.calls += times
            known.is_whole &= one.gap != "within"
        for criterion, revision, level, value in one.values:
            part = tool or ""
            if tool is not None and not _add(
                tools, (*whose, tool, criterion, revision, level), "", value, times, trace_id
            ):
                part, left_out = "", left_out + times
            _add(agents, (*whose, None, criterion, revision, level), part, value, times, trace_id)
    return Conversation(opened_ns, properties, tools | agents, left_out, called)


def _add(tallies: dict[StreamKey, Tally], key: StreamKey, part: str, value: float, times: int, trace_id: str) -> bool:
    """Add scores to the stream of a key; return `False` where it is new and there is no place for it."""
    tally = tallies.get(key)
    if tally is None:
        if len(tallies) >= _MOST_STREAMS:
            return False
        tally = tallies[key] = Tally({}, value, trace_id)
    total, count = tally.scores.get(part, (0.0, 0))
    tally.scores[part] = total + times * value, count + times
    if value < tally.worst:
        tally.worst, tally.worst_trace = value, trace_id
    return True


def stream_of(key: StreamKey) -> Stream:
    """Name the stream of a key."""
    return msgspec.convert(dict(zip(Stream.__struct_fields__, key, strict=True)), Stream)


_MAX_BYTES = 32 * 1024 * 1024
# Memory of a conversation beside its id and properties, of a verdict in it, and of one that several have, and of each of its scores.
_CONVERSATION_BYTES, _SEEN_BYTES, _SCORES_BYTES, _SCORE_BYTES = 900, 100, 300, 100
# A conversation that never falls idle would never be counted: it is cut into blocks of so many idle times.
_LONGEST = 6
# Counting one takes 0.3 ms: while memory is given back, others should not wait for long.
_CUT_AT_ONCE = 250


class OpenConversation(Struct, array_like=True, gc=False):
    """An open conversation, as it is saved; `properties` are packed. Times are wall-clock."""

    key: ConversationKey
    opened_ns: int
    first_ns: int
    last_ns: int
    properties: bytes
    seen: Seen


_ENCODER = msgspec.msgpack.Encoder()
_PROPERTIES = msgspec.msgpack.Decoder(dict[str, str])


class OpenConversations:
    """Conversations with scores still to come, the longest idle first."""

    def __init__(self, idle_ns: int, max_bytes: int = _MAX_BYTES) -> None:
        self.idle_ns = idle_ns
        self._max_bytes = max_bytes
        # Less than `max_bytes` while memory is given back.
        self._room_bytes = max_bytes
        # In a plain dict, looking for the first passes over all entries that were removed there.
        self._open: OrderedDict[ConversationKey, OpenConversation] = OrderedDict()
        # Equal scores are kept once, with the number of conversations that have them.
        self._shared: dict[Scores, tuple[Scores, int]] = {}
        self._full: list[ConversationKey] = []
        # About how much memory they take.
        self.size_bytes = 0
        self._next_cut_ns = 0

    def __getitem__(self, key: ConversationKey) -> OpenConversation:
        return self._open[key]

    def __len__(self) -> int:
        return len(self._open)

    def add(self, scores: TrajectoryScores, now_ns: int) -> Conversation | None:
        """Collect the scores of a trajectory; return its conversation where it is complete."""
        key, properties, trace_id = scores.conversation, scores.fingerprint, scores.trace_id
        if key is None:
            seen = {one: (times, trace_id) for one, times in scores.scores.items()}
            return complete(scores.opened_ns, properties, seen)
        known = self._open.get(key)
        if known is None:
            known = self._open[key] = OpenConversation(key, scores.opened_ns, now_ns, now_ns, b"", {})
            self.size_bytes += _CONVERSATION_BYTES + len(key[1])
        else:
            properties = joined(_PROPERTIES.decode(known.properties), properties)
            known.last_ns = now_ns
            self._open.move_to_end(key)
        packed = _ENCODER.encode(properties)
        self.size_bytes += len(packed) - len(known.properties)
        known.properties, seen = packed, known.seen
        for one, times in scores.scores.items():
            before = seen.get(one)
            if before is None:
                seen[self._take(one)] = times, trace_id
            else:
                seen[one] = before[0] + times, before[1]
        if len(seen) > _MOST_VERDICTS:
            self._full.append(key)
        return None

    def idle(self, now_ns: int) -> Iterator[tuple[ConversationKey, Conversation, bool]]:
        """Take out the conversations that are complete, or cut because they last too long or take too much (`True`)."""
        cut = 0
        while self._open:
            conversation = next(iter(self._open.values()))
            # A time in the future is from before a restart, when the clock was ahead: it would keep the others waiting.
            is_idle = abs(now_ns - conversation.last_ns) >= self.idle_ns
            if not is_idle and (self.size_bytes <= self._room_bytes or cut == _CUT_AT_ONCE):
                break
            cut += not is_idle
            yield conversation.key, self._remove(conversation), not is_idle
        if cut < _CUT_AT_ONCE:
            self._room_bytes = self._max_bytes
        if now_ns >= self._next_cut_ns:
            self._next_cut_ns = now_ns + self.idle_ns
            too_long_ns = _LONGEST * self.idle_ns
            self._full += [key for key, each in self._open.items() if now_ns - each.first_ns >= too_long_ns]
        full, self._full = self._full, []
        for key in full:
            if key in self._open:
                yield key, self._remove(self._open[key]), True

    def shed(self) -> None:
        """Have half of the memory given back with the next calls of `idle`."""
        self._room_bytes = self.size_bytes // 2

    def restore(self, saved: OpenConversation) -> None:
        """Restore a conversation that an earlier process left open."""
        self.size_bytes += _CONVERSATION_BYTES + len(saved.key[1]) + len(saved.properties)
        saved.seen = {self._take(one): counted for one, counted in saved.seen.items()}
        self._open[saved.key] = saved

    @property
    def next_due_ns(self) -> int | None:
        """When the next one will be idle."""
        first = next(iter(self._open.values()), None)
        return None if first is None else first.last_ns + self.idle_ns

    def _take(self, one: Scores) -> Scores:
        """Return the kept scores equal to these, for one more conversation."""
        kept, users = self._shared.get(one, (None, 0))
        if kept is None:
            # From another process, each has parts of its own.
            kept = replace(one, values=tuple([_shared(*value) for value in one.values]))
            self.size_bytes += _size_bytes(kept)
        self.size_bytes += _SEEN_BYTES
        self._shared[kept] = kept, users + 1
        return kept

    def _remove(self, conversation: OpenConversation) -> Conversation:
        del self._open[conversation.key]
        self.size_bytes -= _CONVERSATION_BYTES + len(conversation.key[1]) + len(conversation.properties)
        self.size_bytes -= _SEEN_BYTES * len(conversation.seen)
        for one in conversation.seen:
            kept, users = self._shared.pop(one)
            if users > 1:
                self._shared[kept] = kept, users - 1
            else:
                self.size_bytes -= _size_bytes(kept)
        return complete(conversation.opened_ns, _PROPERTIES.decode(conversation.properties), conversation.seen)


def _size_bytes(one: Scores) -> int:
    names = one.service, one.environment, one.agent, one.tool, *(one.called or ())
    return _SCORES_BYTES + _SCORE_BYTES * len(one.values) + sum([sys.getsizeof(name) for name in names if name])
