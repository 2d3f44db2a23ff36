"""Turns results into observations: detectors count conversations, not calls.

Calls of one conversation share their fate; one by one they cause false alarms. A trace without an id stands for itself.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

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
# By tool, the sum of its scores and how many they are.
Scores: TypeAlias = dict[str, tuple[float, int]]

# One that never falls idle would never be counted: it is cut into blocks of so many idle times.
_LONGEST = 6
_MOST_OPEN = 10_000
_MOST_STREAMS = 200
_NOTHING = (0.0, 0)
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
    """The scores of one scorecard, by stream; `conversation` is `None` if it has no other trajectory. `left_out` counts excess scores.

    `offers` are the tools that its runs were offered.
    """

    conversation: ConversationKey | None
    fingerprint: dict[str, str]
    opened_ns: int
    tallies: dict[StreamKey, Tally]
    left_out: int
    offers: list[Offer] = []


class OpenConversations:
    """Conversations whose scores are still coming, the longest idle first."""

    def __init__(self, idle_ns: int) -> None:
        self.idle_ns = idle_ns
        self._open: dict[ConversationKey, Conversation] = {}
        self._next_cut_ns = 0
        # Scores, and whole streams, that one conversation had too many of.
        self.left_out = 0

    def __getitem__(self, key: ConversationKey) -> Conversation:
        return self._open[key]

    def add(self, scores: TrajectoryScores, now_ns: int) -> Conversation | None:
        """Collect the scores of a trajectory; return its conversation where it is complete."""
        key = scores.conversation
        self.left_out += scores.left_out
        conversation = None if key is None else self._open.pop(key, None)
        if conversation is None:
            conversation = Conversation(
                fingerprint=scores.fingerprint,
                opened_ns=scores.opened_ns,
                first_ns=now_ns,
                last_ns=now_ns,
                tallies=scores.tallies,
            )
        else:
            conversation.fingerprint = joined(conversation.fingerprint, scores.fingerprint)
            conversation.last_ns = now_ns
            self.left_out += _join(conversation.tallies, scores.tallies)
        if key is None:
            return conversation
        # Taken out and put back: the dict stays in the order of the last score.
        self._open[key] = conversation
        return None

    def idle(self, now_ns: int) -> Iterator[tuple[ConversationKey, Conversation, bool]]:
        """Take out the conversations that are complete, or cut because they last too long or are too many (`True`)."""
        while self._open:
            key, conversation = next(iter(self._open.items()))
            # One from the future is from before a restart, when the clock was ahead: it would keep the others waiting.
            is_idle = abs(now_ns - conversation.last_ns) >= self.idle_ns
            if not is_idle and len(self._open) <= _MOST_OPEN:
                break
            del self._open[key]
            yield key, conversation, not is_idle
        if now_ns >= self._next_cut_ns:
            self._next_cut_ns = now_ns + self.idle_ns
            too_long_ns = _LONGEST * self.idle_ns
            for key in [key for key, each in self._open.items() if now_ns - each.first_ns >= too_long_ns]:
                yield key, self._open.pop(key), True

    def restore(self, key: ConversationKey, conversation: Conversation) -> None:
        """Restore a conversation that an earlier process left open."""
        self._open[key] = conversation

    @property
    def next_due_ns(self) -> int | None:
        """When the next one will be idle."""
        first = next(iter(self._open.values()), None)
        return None if first is None else first.last_ns + self.idle_ns


def trajectory_scores(scorecard: Scorecard) -> TrajectoryScores | None:
    """Return the scores of a scorecard; `None` when it has neither scores nor offers."""
    trajectory = scorecard.trajectory
    service, environment = _cut(trajectory.service), _cut(trajectory.resource.get(ENVIRONMENT))
    tallies: dict[StreamKey, Tally] = {}
    left_out = 0
    for verdict, subjects in scorecard.verdicts.items():
        times = len(subjects)
        for places, value in _streams(service, environment, verdict):
            has_place = True
            for key, stratum in places:
                tally = tallies.get(key)
                if tally is not None:
                    total, count = tally.scores.get(stratum, _NOTHING)
                    tally.scores[stratum] = (total + times * value, count + times)
                    if value < tally.worst:
                        tally.worst, tally.worst_trace = value, trajectory.trace_id
                elif len(tallies) < _MOST_STREAMS:
                    tallies[key] = Tally({stratum: (times * value, times)}, value, trajectory.trace_id)
                else:
                    has_place = False
            left_out += 0 if has_place else times
    # The first scorecard of a trajectory counts its runs; that of its judges comes after it.
    offered = [] if scorecard.by_judges else offers(trajectory)
    if not tallies and not offered:
        return None
    conversation: ConversationKey | None = None
    if trajectory.scope != "conversation" and trajectory.conversation_id is not None:
        # A lone surrogate could not be saved.
        conversation_id = trajectory.conversation_id[:_MAX_CONVERSATION_ID].encode(errors="replace").decode()
        conversation = service or "", conversation_id
    opened_ns = trajectory.opened_ns or scorecard.scored_at_ns
    return TrajectoryScores(conversation, fingerprint(trajectory), opened_ns, tallies, left_out, offered)


@lru_cache(maxsize=4096)
def _streams(
    service: str | None, environment: str | None, verdict: Verdict
) -> tuple[tuple[tuple[tuple[StreamKey, str], ...], float], ...]:
    """Return where each live score of a verdict is counted, by stream and tool, and the score."""
    agent, tool = _cut(verdict.agent), _cut(verdict.tool)
    # All tools of an agent are a stream as well, in which each tool has a baseline of its own.
    places = ((None, ""),) if tool is None else ((None, tool), (tool, ""))
    return tuple(
        (
            tuple(
                ((service, environment, agent, of, finding.criterion, finding.revision, finding.level), stratum)
                for of, stratum in places
            ),
            finding.value,
        )
        for finding in verdict.findings
        if finding.value is not None and finding.enforce == "live"
    )


def _cut(name: str | None) -> str | None:
    # As metrics show it: streams of one name are one, and people can ask for it. It may be a megabyte of somebody's text.
    return fit_label(name) if name else None


def _join(tallies: dict[StreamKey, Tally], more: Mapping[StreamKey, Tally]) -> int:
    left_out = 0
    for key, tally in more.items():
        known = tallies.get(key)
        if known is None:
            if len(tallies) < _MOST_STREAMS:
                tallies[key] = tally
            else:
                left_out += 1
            continue
        for stratum, (total, count) in tally.scores.items():
            before, number = known.scores.get(stratum, _NOTHING)
            known.scores[stratum] = (before + total, number + count)
        if tally.worst < known.worst:
            known.worst, known.worst_trace = tally.worst, tally.worst_trace
    return left_out


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
