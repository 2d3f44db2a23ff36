"""Turns results into observations of conversations: detectors count conversations, not calls.

Calls of one conversation share their fate; one by one they cause false alarms. A trace without an id stands for itself. Thousands of
conversations are open at a time, mostly of the same streams: equal keys are kept once, and the figures are packed. Together they
take a bounded number of bytes; beyond it the longest idle ones are counted early.
"""

import sys
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from toolgauge.model.metrics import fit_label
from toolgauge.model.outcomes import Scorecard, Verdict
from toolgauge.model.records import ENVIRONMENT
from toolgauge.model.regressions import Stream
from toolgauge.watch.fingerprint import fingerprint, joined
from toolgauge.watch.offers import Offer, offers

# Service, environment, agent, tool, criterion, revision, level: the fields of `Stream` in their order.
StreamKey: TypeAlias = tuple[str | None, str | None, str | None, str | None, str, str, str]
ConversationKey: TypeAlias = tuple[str, str]
# By tool, the sum of its scores and their number.
Scores: TypeAlias = dict[str, tuple[float, int]]
# The sum of scores, their number, the lowest score, and its trace.
Figures: TypeAlias = tuple[float, int, float, str]

_TOOL = Stream.__struct_fields__.index("tool")
# Of one conversation. Scores of further tools count for all tools of their agent only.
_MOST_STREAMS = 200
_MAX_CONVERSATION_ID = 256


class Tally(Struct, gc=False):
    """The scores of one stream in one conversation; `worst_trace` is the trace of the lowest."""

    scores: Scores
    worst: float
    worst_trace: str


class Conversation(Struct, kw_only=True):
    """Scores of one conversation, by stream, and the properties of its runs. Times are wall-clock."""

    opened_ns: int
    first_ns: int
    last_ns: int
    tallies: dict[StreamKey, Tally]
    # Absent in rows that were written before properties were read.
    fingerprint: dict[str, str] = {}


class TrajectoryScores(Struct, array_like=True, gc=False):
    """The scores of one scorecard: sum, number and lowest by stream, but for the streams of all tools of an agent.

    `conversation` is `None` if it has no other trajectory. `left_out` counts scores of excess tools. `offers` are the tools that
    its runs were offered.
    """

    conversation: ConversationKey | None
    fingerprint: dict[str, str]
    opened_ns: int
    trace_id: str
    scores: dict[StreamKey, tuple[float, int, float]]
    left_out: int
    offers: list[Offer] = []

    def figures(self) -> dict[StreamKey, Figures]:
        """Return the scores with their trace."""
        return {stream: (*scores, self.trace_id) for stream, scores in self.scores.items()}


def trajectory_scores(scorecard: Scorecard) -> TrajectoryScores | None:
    """Return the scores of a scorecard; `None` when it has neither scores nor offers."""
    trajectory = scorecard.trajectory
    service, environment = trajectory.service, trajectory.resource.get(ENVIRONMENT)
    # As metrics show them: streams of one name are one, and people can ask for it. A name may be a megabyte of somebody's text.
    service, environment = fit_label(service) if service else None, fit_label(environment) if environment else None
    scores: dict[StreamKey, tuple[float, int, float]] = {}
    left_out = 0
    for verdict, subjects in scorecard.verdicts.items():
        times = len(subjects)
        for stream, value in _streams(service, environment, verdict):
            place = stream if stream in scores or len(scores) < _MOST_STREAMS else _place(scores, stream)
            left_out += 0 if place is stream else times
            if place is not None:
                total, count, lowest = scores.get(place, (0.0, 0, value))
                scores[place] = total + times * value, count + times, min(lowest, value)
    # The first scorecard of a trajectory counts its runs; that of its judges comes after it.
    offered = [] if scorecard.by_judges else offers(trajectory)
    if not scores and not offered:
        return None
    conversation: ConversationKey | None = None
    if trajectory.scope != "conversation" and trajectory.conversation_id is not None:
        # A lone surrogate could not be saved.
        conversation_id = trajectory.conversation_id[:_MAX_CONVERSATION_ID].encode(errors="replace").decode()
        conversation = service or "", conversation_id
    opened_ns = trajectory.opened_ns or scorecard.scored_at_ns
    properties = fingerprint(trajectory)
    return TrajectoryScores(conversation, properties, opened_ns, trajectory.trace_id, scores, left_out, offered)


@lru_cache(maxsize=4096)
def _streams(service: str | None, environment: str | None, verdict: Verdict) -> tuple[tuple[StreamKey, float], ...]:
    agent = fit_label(verdict.agent) if verdict.agent else None
    tool = fit_label(verdict.tool) if verdict.tool else None
    return tuple(
        ((service, environment, agent, tool, finding.criterion, finding.revision, finding.level), finding.value)
        for finding in verdict.findings
        if finding.value is not None and finding.enforce == "live"
    )


def _place(taken: Collection[StreamKey], stream: StreamKey) -> StreamKey | None:
    """Return the stream to which scores of a stream are added; `None` without room."""
    is_of_tool = stream[_TOOL] is not None
    if stream in taken or len(taken) < (_MOST_STREAMS if is_of_tool else 2 * _MOST_STREAMS):
        return stream
    return _place(taken, _of_tool(stream, None)) if is_of_tool else None


def _of_tool(stream: StreamKey, tool: str | None) -> StreamKey:
    service, environment, agent, _, criterion, revision, level = stream
    return service, environment, agent, tool, criterion, revision, level


def add_figures(known: dict[StreamKey, Figures], more: Mapping[StreamKey, Figures]) -> int:
    """Add scores of the same conversation; return the number of those without a place of their own."""
    left_out = 0
    for stream, (total, count, lowest, trace_id) in more.items():
        place = stream if stream in known else _place(known, stream)
        left_out += 0 if place is stream else count
        if place is not None:
            before = known.get(place, (0.0, 0, lowest, trace_id))
            worst = (lowest, trace_id) if lowest < before[2] else before[2:]
            known[place] = before[0] + total, before[1] + count, *worst
    return left_out


def tallies_of(figures: Mapping[StreamKey, Figures]) -> dict[StreamKey, Tally]:
    """Return the scores by stream: all tools of an agent are a stream as well, in which each tool has a baseline of its own."""
    tallies: dict[StreamKey, Tally] = {}
    for stream, (total, count, lowest, trace_id) in figures.items():
        tool = stream[_TOOL]
        if tool is not None:
            tallies[stream] = Tally({"": (total, count)}, lowest, trace_id)
        of_agent = stream if tool is None else _of_tool(stream, None)
        tally = tallies.setdefault(of_agent, Tally({}, lowest, trace_id))
        tally.scores[tool or ""] = total, count
        if lowest < tally.worst:
            tally.worst, tally.worst_trace = lowest, trace_id
    return tallies


def figures_of(tallies: Mapping[StreamKey, Tally]) -> dict[StreamKey, Figures]:
    """Return the figures from which `tallies_of` makes these tallies."""
    found: dict[StreamKey, Figures] = {}
    for stream, tally in tallies.items():
        for tool, (total, count) in tally.scores.items():
            of_tool = _of_tool(stream, tool) if tool else stream
            # The lowest score of a tool is known in its own stream.
            if not tool or of_tool not in tallies:
                found[of_tool] = total, count, tally.worst, tally.worst_trace
    return found


def stream_of(key: StreamKey) -> Stream:
    """Name the stream of a key."""
    service, environment, agent, tool, criterion, revision, level = key
    return Stream(
        service=service,
        environment=environment,
        agent=agent,
        tool=tool,
        criterion=criterion,
        revision=revision,
        level="call" if level == "call" else "trajectory",
    )


_MAX_BYTES = 32 * 1024 * 1024
# Memory beside the figures: names, the entry among the others, and the keys under which it is stored.
_CONVERSATION_BYTES, _REFERENCE_BYTES, _USE_BYTES = 900, 8, 300
# A conversation that never falls idle would never be counted: it is cut into blocks of so many idle times.
_LONGEST = 6
# Counting one takes 0.3 ms: while memory is given back, others should not wait for long.
_CUT_AT_ONCE = 250
_Texts = TypeVar("_Texts", bound=tuple[str | None, ...])


class _Use(Struct, Generic[_Texts]):
    texts: _Texts
    users: int = 0


class Shared(Generic[_Texts]):
    """Keeps one of equal tuples while any is in use. `size_bytes` is about their memory."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._uses: dict[_Texts, _Use[_Texts]] = {}

    def take(self, each: Iterable[_Texts]) -> tuple[_Texts, ...]:
        """Return the kept tuples equal to these."""
        taken: list[_Texts] = []
        for texts in each:
            use = self._uses.get(texts)
            if use is None:
                use = self._uses[texts] = _Use(texts)
                self.size_bytes += _size_bytes(texts)
            use.users += 1
            taken.append(use.texts)
        return tuple(taken)

    def give_back(self, each: Iterable[_Texts]) -> None:
        """End one use of each of these; forget the unused ones."""
        for texts in each:
            use = self._uses[texts]
            use.users -= 1
            if not use.users:
                del self._uses[texts]
                self.size_bytes -= _size_bytes(texts)


def _size_bytes(texts: tuple[str | None, ...]) -> int:
    return _USE_BYTES + sum([sys.getsizeof(text) for text in texts if text is not None])


class _Open(Struct, gc=False):
    """An open conversation: `figures` are those of its streams, in their order, and the traces that they name."""

    opened_ns: int
    first_ns: int
    last_ns: int
    streams: tuple[StreamKey, ...]
    properties: tuple[tuple[str, str], ...]
    figures: bytes


_ENCODER = msgspec.msgpack.Encoder()
# Traces, and figures with the place of their trace.
_PACKED = msgspec.msgpack.Decoder(tuple[list[str], list[tuple[float, int, float, int]]])


def _unpacked(conversation: _Open) -> dict[StreamKey, Figures]:
    traces, figures = _PACKED.decode(conversation.figures)
    rows = [(total, count, lowest, traces[place]) for total, count, lowest, place in figures]
    return dict(zip(conversation.streams, rows, strict=True))


class OpenConversations:
    """Conversations with scores still to come, the longest idle first."""

    def __init__(self, idle_ns: int, max_bytes: int = _MAX_BYTES) -> None:
        self.idle_ns = idle_ns
        self._max_bytes = max_bytes
        # Less than `max_bytes` while memory is given back.
        self._room_bytes = max_bytes
        # In a plain dict, looking for the first passes over all entries that were removed there.
        self._open: OrderedDict[ConversationKey, _Open] = OrderedDict()
        self._streams: Shared[StreamKey] = Shared()
        self._properties: Shared[tuple[str, str]] = Shared()
        self._own_bytes = 0
        self._next_cut_ns = 0
        # Scores of tools beyond the most of one conversation.
        self.left_out = 0

    def __getitem__(self, key: ConversationKey) -> Conversation:
        return _complete(self._open[key])

    def __len__(self) -> int:
        return len(self._open)

    @property
    def size_bytes(self) -> int:
        """About how much memory they take."""
        return self._own_bytes + self._streams.size_bytes + self._properties.size_bytes

    def add(self, scores: TrajectoryScores, now_ns: int) -> Conversation | None:
        """Collect the scores of a trajectory; return its conversation where it is complete."""
        key, figures = scores.conversation, scores.figures()
        self.left_out += scores.left_out
        known = self._open.get(key) if key is not None else None
        properties, opened_ns, first_ns = scores.fingerprint, scores.opened_ns, now_ns
        if known is not None:
            properties = joined(dict(known.properties), properties)
            opened_ns, first_ns = known.opened_ns, known.first_ns
            more, figures = figures, _unpacked(known)
            self.left_out += add_figures(figures, more)
        if key is None:
            return Conversation(
                opened_ns=opened_ns,
                first_ns=first_ns,
                last_ns=now_ns,
                tallies=tallies_of(figures),
                fingerprint=properties,
            )
        self._put(key, figures, properties, (opened_ns, first_ns, now_ns))
        return None

    def idle(self, now_ns: int) -> Iterator[tuple[ConversationKey, Conversation, bool]]:
        """Take out the conversations that are complete, or cut because they last too long or take too much (`True`)."""
        cut = 0
        while self._open:
            key, conversation = next(iter(self._open.items()))
            # A time in the future is from before a restart, when the clock was ahead: it would keep the others waiting.
            is_idle = abs(now_ns - conversation.last_ns) >= self.idle_ns
            if not is_idle and (self.size_bytes <= self._room_bytes or cut == _CUT_AT_ONCE):
                break
            cut += not is_idle
            yield key, _complete(self._remove(key)), not is_idle
        if cut < _CUT_AT_ONCE:
            self._room_bytes = self._max_bytes
        if now_ns >= self._next_cut_ns:
            self._next_cut_ns = now_ns + self.idle_ns
            too_long_ns = _LONGEST * self.idle_ns
            for key in [key for key, each in self._open.items() if now_ns - each.first_ns >= too_long_ns]:
                yield key, _complete(self._remove(key)), True

    def shed(self) -> None:
        """Have half of the memory given back with the next calls of `idle`."""
        self._room_bytes = self.size_bytes // 2

    def restore(self, key: ConversationKey, conversation: Conversation) -> None:
        """Restore a conversation that an earlier process left open."""
        times = conversation.opened_ns, conversation.first_ns, conversation.last_ns
        self._put(key, figures_of(conversation.tallies), conversation.fingerprint, times)

    @property
    def next_due_ns(self) -> int | None:
        """When the next one will be idle."""
        first = next(iter(self._open.values()), None)
        return None if first is None else first.last_ns + self.idle_ns

    def _put(
        self,
        key: ConversationKey,
        figures: Mapping[StreamKey, Figures],
        properties: Mapping[str, str],
        times: tuple[int, int, int],
    ) -> None:
        """Store a conversation as the newest, in place of an earlier state."""
        streams, named = self._streams.take(figures), self._properties.take(properties.items())
        if key in self._open:
            self._remove(key)
        traces: dict[str, int] = {}
        rows = [(*numbers, traces.setdefault(trace_id, len(traces))) for *numbers, trace_id in figures.values()]
        conversation = self._open[key] = _Open(*times, streams, named, _ENCODER.encode(([*traces], rows)))
        self._own_bytes += _size(key, conversation)

    def _remove(self, key: ConversationKey) -> _Open:
        conversation = self._open.pop(key)
        self._own_bytes -= _size(key, conversation)
        self._streams.give_back(conversation.streams)
        self._properties.give_back(conversation.properties)
        return conversation


def _size(key: ConversationKey, conversation: _Open) -> int:
    references = len(conversation.streams) + len(conversation.properties)
    return _CONVERSATION_BYTES + len(key[1]) + len(conversation.figures) + _REFERENCE_BYTES * references


def _complete(conversation: _Open) -> Conversation:
    return Conversation(
        opened_ns=conversation.opened_ns,
        first_ns=conversation.first_ns,
        last_ns=conversation.last_ns,
        tallies=tallies_of(_unpacked(conversation)),
        fingerprint=dict(conversation.properties),
    )
