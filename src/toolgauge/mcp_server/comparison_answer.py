"""Two recordings compared: `toolgauge compare` for a client."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated

from msgspec import Meta, Struct, convert, field

from toolgauge.mcp_server.plain_text import more
from toolgauge.mcp_server.scored_recordings import ScoredRecordings, Work
from toolgauge.mcp_server.scoring_files import Scoring
from toolgauge.recordings.comparison import BASE, NEW, Comparison, Filters, compare, observe_as, set_beside
from toolgauge.recordings.comparison_tables import comparison_object, conclusion, table_lines
from toolgauge.recordings.conversation_means import Observations
from toolgauge.recordings.verdict import Answer, Question, Verdict

_MAX_STREAMS = 40
_WORST_FIRST: Mapping[Verdict, int] = {"worse": 0, "not_enough_data": 1, "better": 2, "no_difference_seen": 3}


class ComparedSide(Struct, frozen=True, kw_only=True):
    """The scores of one stream in one recording."""

    conversations: int
    mean: float | None
    not_evaluated: int | None
    errors: int | None


class MoreConversations(Struct, frozen=True, kw_only=True):
    """About how many more conversations would decide."""

    base: int
    new: int


class ComparedStream(Struct, frozen=True, kw_only=True):
    """One criterion, for all tools of an agent, or for one tool. `interval` is that of the difference of the means."""

    criterion: str
    level: str
    service: str | None
    agent: str | None
    tool: str | None
    verdict: Verdict
    baseline: ComparedSide = field(name="base")
    candidate: ComparedSide = field(name="new")
    difference: float | None
    interval: list[float]
    within_margin: bool
    decides: Annotated[bool, Meta(description="whether this stream has to be shown to be no worse")]
    more_conversations: MoreConversations | None


class ComparisonAnswer(Struct, frozen=True, kw_only=True):
    """Whether the candidate is worse. `base` is the baseline, `new` the candidate."""

    verdict: Answer
    margin: float
    confidence: float
    streams: Annotated[list[ComparedStream], Meta(description="the worst first")]
    more_streams: int = 0
    conclusion: list[str] = []
    notes: list[str] = []


class ComparedRecordings(Struct, frozen=True, kw_only=True):
    """The answer, and the lines of a table for it."""

    answer: ComparisonAnswer
    lines: tuple[str, ...]


def compare_recordings(
    recordings: ScoredRecordings,
    baseline: tuple[str, ...],
    candidate: tuple[str, ...],
    scoring: Scoring,
    work: Work,
    question: Question,
    filters: Filters,
) -> ComparedRecordings:
    """Compare two recordings as `toolgauge compare` does."""
    observations = Observations()
    for files, version in ((baseline, BASE), (candidate, NEW)):
        observe_as(observations, recordings.results(files, scoring, work), version)
    both = set_beside(observations)
    compared = compare(both.observed, both.versions, filters, question)
    notes = [f"no `{name}` is in both recordings: streams are compared without it" for name in both.without]
    return ComparedRecordings(answer=_answer(compared, notes), lines=tuple(_lines(compared, notes)))


def _answer(compared: Comparison, notes: list[str]) -> ComparisonAnswer:
    found = convert(comparison_object(compared), ComparisonAnswer)
    streams = sorted(found.streams, key=lambda one: (_WORST_FIRST[one.verdict], not one.decides))
    shown = streams[:_MAX_STREAMS]
    return ComparisonAnswer(
        verdict=found.verdict,
        margin=found.margin,
        confidence=found.confidence,
        streams=shown,
        more_streams=more(shown, len(streams)),
        conclusion=list(conclusion(compared))[:_MAX_STREAMS],
        notes=notes,
    )


def _lines(compared: Comparison, notes: list[str]) -> Iterator[str]:
    yield from conclusion(compared)
    yield from notes
    # Of single tools, those that differ.
    shown = [one for one in compared.streams if one.pairing.decides or one.verdict in ("worse", "better")]
    yield from table_lines(replace(compared, streams=tuple(shown)))
