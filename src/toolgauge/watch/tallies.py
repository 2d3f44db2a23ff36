"""Turns results into observations: detectors count conversations, not calls.

Calls of one conversation share their fate; one by one they cause false alarms. A trace without an id stands for itself.
"""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from toolgauge.model.metrics import fit_label
from toolgauge.model.outcomes import Scorecard, Verdict
from toolgauge.model.records import ENVIRONMENT
from toolgauge.model.regressions import Stream
from toolgauge.watch.fingerprint import fingerprint
from toolgauge.watch.offers import Offer, offers

# Service, environment, agent, tool, criterion, revision, level: the fields of `Stream` in their order.
StreamKey: TypeAlias = tuple[str | None, str | None, str | None, str | None, str, str, str]
ConversationKey: TypeAlias = tuple[str, str]
# By tool, the sum of its scores and how many they are.
Scores: TypeAlias = dict[str, tuple[float, int]]
# The sum of scores, how many they are, the lowest of them, and its trace.
Figures: TypeAlias = tuple[float, int, float, str]

_TOOL = Stream.__struct_fields__.index("tool")
# Of one conversation. What further tools have counts for all tools of their agent only.
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
    service, environment = _cut(trajectory.service), _cut(trajectory.resource.get(ENVIRONMENT))
    scores: dict[StreamKey, tuple[float, int, float]] = {}
    left_out = 0
    for verdict, subjects in scorecard.verdicts.items():
        times = len(subjects)
        for stream, value in _streams(service, environment, verdict):
            place = stream if stream in scores else _place(scores, stream)
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
    made_with = fingerprint(trajectory)
    return TrajectoryScores(conversation, made_with, opened_ns, trajectory.trace_id, scores, left_out, offered)


@lru_cache(maxsize=4096)
def _streams(service: str | None, environment: str | None, verdict: Verdict) -> tuple[tuple[StreamKey, float], ...]:
    """Return the stream of each live score of a verdict, and the score."""
    agent, tool = _cut(verdict.agent), _cut(verdict.tool)
    return tuple(
        ((service, environment, agent, tool, finding.criterion, finding.revision, finding.level), finding.value)
        for finding in verdict.findings
        if finding.value is not None and finding.enforce == "live"
    )


def _cut(name: str | None) -> str | None:
    # As metrics show it: streams of one name are one, and people can ask for it. It may be a megabyte of somebody's text.
    return fit_label(name) if name else None


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
    """Add scores to those of the same conversation; return how many found no place of their own."""
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
        of_agent = _of_tool(stream, None)
        tally = tallies.setdefault(of_agent, Tally({}, lowest, trace_id))
        tally.scores[tool or ""] = total, count
        if lowest < tally.worst:
            tally.worst, tally.worst_trace = lowest, trace_id
    return tallies


def figures_of(tallies: Mapping[StreamKey, Tally]) -> dict[StreamKey, Figures]:
    """Return what `tallies_of` was given."""
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
