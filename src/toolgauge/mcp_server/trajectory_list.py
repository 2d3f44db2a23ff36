"""The trajectories of a recording as a list: who, when, how many calls, how many results, and the worst of them in a line."""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct

from toolgauge.export.redact import Redactor
from toolgauge.mcp_server.plain_text import cut, within_room
from toolgauge.mcp_server.scored_recordings import RecordingAnswer, ScoredRecording
from toolgauge.model.outcomes import OutcomeWord, outcome_word
from toolgauge.model.records import VERSION
from toolgauge.report.html import iso_moment
from toolgauge.report.kept import KeptTrajectory
from toolgauge.report.terminal import counted, printable
from toolgauge.report.trajectory_rows import Filters, row

_NAME = 120
_LOOKED_AT = 1_000
_REASON = 200
_MAX_CRITERIA = 40
_MAX_AGENTS = 5


class ListedTrajectory(Struct, frozen=True, kw_only=True):
    """One trajectory. `id` is what `explain_failure` takes."""

    id: str
    outcome: Annotated[OutcomeWord, Meta(description="the worst outcome of its criteria that are live")]
    service: str | None
    version: str | None
    agents: list[str]
    conversation_id: str | None
    started: Annotated[str | None, Meta(description="ISO 8601 (UTC); null where no time was recorded")]
    calls: int
    results: Annotated[dict[str, int], Meta(description="how many results there are of each outcome")]
    worst_criterion: str | None
    worst_reason: str

    @property
    def who(self) -> str:
        """Service, version and agents."""
        service = " ".join(filter(None, (self.service or "unknown service", self.version)))
        return f"{service} [{', '.join(self.agents)}]" if self.agents else service


class ListedCriterion(Struct, frozen=True, kw_only=True):
    """The results of one criterion in the whole recording."""

    criterion: str
    results: dict[str, int]
    mean: float | None
    not_evaluated_because: dict[str, int]
    is_shadow: Annotated[bool, Meta(description="it is tried out: it decides nothing")]


class TrajectoryList(RecordingAnswer, frozen=True, kw_only=True):
    """One page of trajectories, and the counts of all criteria."""

    recording: str
    trajectories_total: int
    matching: int
    offset: int
    trajectories: list[ListedTrajectory]
    next_offset: Annotated[int | None, Meta(description="the offset of the next page; null on the last one")]
    criteria: list[ListedCriterion]
    more_criteria: int
    without_a_match: Annotated[list[str], Meta(description="criteria that judged nothing, and which keys to look at")]
    not_kept: Annotated[int, Meta(description="trajectories that no room is left for: counted, not in this list")]


def trajectory_list(
    name: str,
    scored: ScoredRecording,
    filters: Filters,
    *,
    order: Literal["failed_first", "newest_first"],
    offset: int,
    limit: int,
) -> TrajectoryList:
    """List the trajectories that the filters let through."""
    kept = scored.kept
    if order == "newest_first":
        kept.sort(key=lambda one: -one.trajectory.end_ns)
    matching = [one for one in kept if filters.matches(one)]
    shown = list(within_room(listed(one, scored.scoring.redactor) for one in matching[offset : offset + limit]))
    end = offset + len(shown)
    counts = [one for one in scored.summary.counts if one.words]
    return TrajectoryList(
        recording=name,
        trajectories_total=scored.trajectories,
        matching=len(matching),
        offset=offset,
        trajectories=shown,
        next_offset=end if shown and end < len(matching) else None,
        criteria=[
            ListedCriterion(
                criterion=cut(one.name, _NAME),
                results={str(word): count for word, count in one.words.items()},
                mean=one.mean,
                not_evaluated_because=dict(one.reasons),
                is_shadow=one.is_shadow,
            )
            for one in counts[:_MAX_CRITERIA]
        ],
        more_criteria=len(counts[_MAX_CRITERIA:]),
        without_a_match=[
            f"`{cut(one.criterion.name, _NAME)}` {one.description}: look at {one.keys}"
            for one in scored.unmatched[:_MAX_CRITERIA]
        ],
        not_kept=scored.store.evicted,
    )


def listed(kept: KeptTrajectory, redactor: Redactor) -> ListedTrajectory:
    """Describe one trajectory."""
    trajectory, shown = kept.trajectory, row(kept, redactor)
    words = Counter(outcome_word(result.outcome) for result in kept.results)
    return ListedTrajectory(
        id=kept.id,
        outcome=kept.outcome,
        service=named_if_known(trajectory.service, redactor),
        version=named_if_known(trajectory.resource.get(VERSION), redactor),
        agents=[named(agent, redactor) for agent in trajectory.agents[:_MAX_AGENTS]],
        conversation_id=named_if_known(trajectory.conversation_id, redactor),
        # Producers without a clock write 0.
        started=iso_moment(trajectory.start_ns) if trajectory.start_ns > 0 else None,
        calls=len(trajectory.calls),
        results={str(word): count for word, count in words.items()},
        worst_criterion=cut(shown.criterion, _NAME) or None,
        worst_reason=cut(shown.why, _REASON),
    )


def list_lines(answer: TrajectoryList) -> Iterator[str]:
    """Write the list for a model to read."""
    yield (
        f"{counted(answer.matching, 'trajectory', 'trajectories')} of {answer.trajectories_total} in {answer.recording}"
        + (f", from number {answer.offset} on" if answer.offset else "")
    )
    for one in answer.trajectories:
        worst = f"{one.worst_criterion}: {one.worst_reason}" if one.worst_criterion else one.worst_reason
        yield f"{one.id}  {one.outcome}  {one.who}  {one.started or 'no time'}  {counted(one.calls, 'call')}  {worst}"
    if answer.next_offset is not None:
        yield f"more with offset={answer.next_offset}"
    if answer.not_kept:
        yield f"{answer.not_kept} more are counted and not listed: there is no room for them (failed ones go last)"
    yield "criteria, over the whole recording:"
    for one in answer.criteria:
        results = ", ".join(f"{count} {word}" for word, count in one.results.items())
        mean = "" if one.mean is None else f", mean {one.mean:.3f}"
        reasons = ", ".join(f"{reason} {count}" for reason, count in one.not_evaluated_because.items())
        yield f"{one.criterion}{' (shadow)' if one.is_shadow else ''}: {results}{mean}{f' ({reasons})' if reasons else ''}"
    if answer.more_criteria:
        yield f"and {answer.more_criteria} more criteria"
    for text in answer.without_a_match:
        yield f"judged nothing: {text}"


def named(name: str, redactor: Redactor) -> str:
    """Write a name from a span; some conversations have the address of a person for one."""
    # Made printable first, as masking would replace characters that act by spaces, unseen.
    return cut(redactor.masked(printable(name[:_LOOKED_AT]), _NAME), _NAME)


def named_if_known(name: str | None, redactor: Redactor) -> str | None:
    """Write a name from a span, where there is one."""
    return None if name is None else named(name, redactor)
