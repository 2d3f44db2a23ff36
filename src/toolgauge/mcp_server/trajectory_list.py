"""The trajectories of a recording as a list: who, when, how many calls, how many results, and the worst of them in a line."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from toolgauge.export.redact import Redactor
from toolgauge.mcp_server.plain_text import cut, within_room
from toolgauge.mcp_server.scored_recordings import ScoredRecording
from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import outcome_word
from toolgauge.model.records import VERSION
from toolgauge.report.findings import CriterionCounts
from toolgauge.report.html import iso_moment
from toolgauge.report.kept import KeptTrajectory
from toolgauge.report.terminal import counted, printable
from toolgauge.report.trajectory_rows import Filters, row

_NAME = 120
_LOOKED_AT = 1_000
_REASON = 200
_MAX_CRITERIA = 40
_MAX_AGENTS = 5


def trajectory_list(
    name: str,
    scored: ScoredRecording,
    filters: Filters,
    *,
    order: Literal["failed_first", "newest_first"],
    offset: int,
    limit: int,
) -> tuple[JsonObject, Iterator[str]]:
    """List the trajectories that the filters let through, and the counts of all criteria; also as lines."""
    kept = scored.kept
    if order == "newest_first":
        kept.sort(key=lambda one: -one.trajectory.end_ns)
    matching = [one for one in kept if filters.matches(one)]
    page = [Listed.of(one, scored.scoring.redactor) for one in matching[offset : offset + limit]]
    shown = list(within_room(one.as_object() for one in page))
    end = offset + len(shown)
    next_offset = end if shown and end < len(matching) else None
    counts = [one for one in scored.summary.counts if one.words]
    unmatched = [
        f"`{cut(one.criterion.name, _NAME)}` {one.description}: look at {one.keys}"
        for one in scored.unmatched[:_MAX_CRITERIA]
    ]
    answer: JsonObject = {
        "recording": name,
        "trajectories_total": scored.trajectories,
        "matching": len(matching),
        "offset": offset,
        "trajectories": [*shown],
        # The offset of the next page; null on the last one.
        "next_offset": next_offset,
        "criteria": [_criterion_object(one) for one in counts[:_MAX_CRITERIA]],
        "more_criteria": len(counts[_MAX_CRITERIA:]),
        # Criteria that judged nothing, and which keys to look at.
        "without_a_match": [*unmatched],
        # Trajectories that no room is left for: counted, not in this list.
        "not_kept": scored.store.evicted,
    }

    def lines() -> Iterator[str]:
        yield (
            f"{counted(len(matching), 'trajectory', 'trajectories')} of {scored.trajectories} in {name}"
            + (f", from number {offset} on" if offset else "")
        )
        yield from (one.line for one in page[: len(shown)])
        if next_offset is not None:
            yield f"more with offset={next_offset}"
        if scored.store.evicted:
            yield f"{scored.store.evicted} more are counted and not listed: there is no room for them (failed ones go last)"
        yield "criteria, over the whole recording:"
        yield from map(_criterion_line, counts[:_MAX_CRITERIA])
        if len(counts) > _MAX_CRITERIA:
            yield f"and {len(counts) - _MAX_CRITERIA} more criteria"
        yield from (f"judged nothing: {text}" for text in unmatched)

    return answer, lines()


def _criterion_object(one: CriterionCounts) -> JsonObject:
    return {
        "criterion": cut(one.name, _NAME),
        "results": {str(word): count for word, count in one.words.items()},
        "mean": one.mean,
        "not_evaluated_because": {str(reason): count for reason, count in one.reasons.items()},
        "is_shadow": one.is_shadow,
    }


def _criterion_line(one: CriterionCounts) -> str:
    results = ", ".join(f"{count} {word}" for word, count in one.words.items())
    mean = "" if one.mean is None else f", mean {one.mean:.3f}"
    reasons = ", ".join(f"{reason} {count}" for reason, count in one.reasons.items())
    name = f"{cut(one.name, _NAME)}{' (shadow)' if one.is_shadow else ''}"
    return f"{name}: {results}{mean}{f' ({reasons})' if reasons else ''}"


class Listed(NamedTuple):
    """One trajectory by names that may be shown, with the worst of its results."""

    kept: KeptTrajectory
    service: str | None
    version: str | None
    agents: Sequence[str]
    conversation_id: str | None
    # ISO 8601 (UTC); `None` where no time was recorded.
    started: str | None
    worst_criterion: str | None
    worst_reason: str

    @classmethod
    def of(cls, kept: KeptTrajectory, redactor: Redactor) -> "Listed":
        """Describe one trajectory."""
        trajectory, shown = kept.trajectory, row(kept, redactor)
        return cls(
            kept,
            named_if_known(trajectory.service, redactor),
            named_if_known(trajectory.resource.get(VERSION), redactor),
            [named(agent, redactor) for agent in trajectory.agents[:_MAX_AGENTS]],
            named_if_known(trajectory.conversation_id, redactor),
            # Producers without a clock write 0.
            iso_moment(trajectory.start_ns) if trajectory.start_ns > 0 else None,
            cut(shown.criterion, _NAME) or None,
            cut(shown.why, _REASON),
        )

    @property
    def who(self) -> str:
        """Service, version and agents."""
        service = " ".join(filter(None, (self.service or "unknown service", self.version)))
        return f"{service} [{', '.join(self.agents)}]" if self.agents else service

    @property
    def line(self) -> str:
        """Write it for a model to read."""
        worst = f"{self.worst_criterion}: {self.worst_reason}" if self.worst_criterion else self.worst_reason
        calls = counted(len(self.kept.trajectory.calls), "call")
        return f"{self.kept.id}  {self.kept.outcome}  {self.who}  {self.started or 'no time'}  {calls}  {worst}"

    def as_object(self) -> JsonObject:
        """Write it as JSON; its `outcome` is the worst of its live criteria."""
        words = Counter(str(outcome_word(result.outcome)) for result in self.kept.results)
        return {
            "id": self.kept.id,
            "outcome": self.kept.outcome,
            "service": self.service,
            "version": self.version,
            "agents": [*self.agents],
            "conversation_id": self.conversation_id,
            "started": self.started,
            "calls": len(self.kept.trajectory.calls),
            "results": {**words},
            "worst_criterion": self.worst_criterion,
            "worst_reason": self.worst_reason,
        }


def named(name: str, redactor: Redactor) -> str:
    """Write a name from a span; some conversations have the address of a person for one."""
    # Made printable first, as masking would replace characters that act by spaces, unseen.
    return cut(redactor.masked(printable(name[:_LOOKED_AT]), _NAME), _NAME)


def named_if_known(name: str | None, redactor: Redactor) -> str | None:
    """Write a name from a span, where there is one."""
    return None if name is None else named(name, redactor)
