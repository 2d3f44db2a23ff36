"""Kinds of failure of two versions beside each other: new ones, those that are gone, and those that are more or less often."""

from collections.abc import Iterator, Sequence
from math import sqrt
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.export.redact import Redactor
from toolgauge.model.outcomes import Scorecard
from toolgauge.recordings.comparison import Filters, Versions
from toolgauge.report.markdown import code
from toolgauge.report.run_failures import FailureGroup, FailureGroups
from toolgauge.report.terminal import PLAIN, Style, shortened

# In the order in which they are shown.
Direction: TypeAlias = Literal["new", "more_often", "as_often", "less_often", "gone"]
_ORDER: tuple[Direction, ...] = ("new", "more_often", "as_often", "less_often", "gone")
_MAX_SHOWN, _NAME, _WHY = 20, 60, 300
# Standard errors by which shares differ.
_APART = 2


class FailureChange(Struct, frozen=True, kw_only=True):
    """One kind of failure under two versions; a group of no runs stands for the side that does not have it."""

    direction: Direction
    service: str | None
    base_version: str
    new_version: str
    base: FailureGroup
    new: FailureGroup

    @property
    def shown(self) -> FailureGroup:
        """The side to show: the new one, if it has any run."""
        return self.new if self.new.runs else self.base

    @property
    def words(self) -> str:
        """What has changed: `new in 1.1: 35 runs (58 %)`, `more often: 3 -> 20 runs (33 %)`."""
        base, new = (shortened(version, _NAME) for version in (self.base_version, self.new_version))
        if self.direction == "gone":
            return f"gone since {base}: {self.base.share}"
        if self.direction == "new":
            return f"new in {new}: {self.new.share}"
        return f"{self.direction.replace('_', ' ')}: {self.base.runs:,} -> {self.new.share}"


class FailuresByVersion:
    """Collects failed runs of recordings by version."""

    def __init__(self) -> None:
        self._groups: dict[str, FailureGroups] = {}

    def add(self, scorecard: Scorecard, version: str, redactor: Redactor) -> None:
        """Add the run of a scorecard."""
        self._groups.setdefault(version, FailureGroups(redactor)).add(scorecard)

    def beside(self, versions: Sequence[Versions], filters: Filters) -> list[FailureChange]:
        """Set the kinds of two versions side by side: new ones first, and frequent ones before rare ones."""
        changes: list[FailureChange] = []
        for one in versions:
            if not {one.base, one.new} <= self._groups.keys():
                # A running process, or a recording without a run.
                continue
            (base_of, base), (new_of, new) = (
                self._groups[each].of_service(one.service) for each in (one.base, one.new)
            )
            for kind in sorted({*base, *new}):
                before = base.get(kind) or replace(new[kind], runs=0, of=base_of)
                after = new.get(kind) or replace(before, runs=0, of=new_of)
                if filters.let_through_kind(after.service, kind.criterion, kind.tool):
                    changes.append(
                        FailureChange(
                            direction=_direction(before, after),
                            service=one.service,
                            base_version=one.base,
                            new_version=one.new,
                            base=before,
                            new=after,
                        )
                    )
        return sorted(changes, key=lambda one: (_ORDER.index(one.direction), -one.new.runs, -one.base.runs))


def _direction(before: FailureGroup, after: FailureGroup) -> Direction:
    if not (before.runs and after.runs):
        return "gone" if before.runs else "new"
    share = (before.runs + after.runs) / (before.of + after.of)
    apart = _APART * sqrt(share * (1 - share) * (1 / before.of + 1 / after.of))
    difference = after.runs / after.of - before.runs / before.of
    return "as_often" if abs(difference) <= apart else "more_often" if difference > 0 else "less_often"


def failure_lines(changes: Sequence[FailureChange], style: Style = PLAIN) -> Iterator[str]:
    """Describe the kinds for a person."""
    if changes:
        yield style.head("kinds of failure")
    for one in changes[:_MAX_SHOWN]:
        words = style.bad(one.words) if one.direction in ("new", "more_often") else one.words
        kind, service = one.shown.kind, "" if one.service is None else f", {shortened(one.service, _NAME)}"
        tool = f" of {shortened(kind.tool, _NAME)}" if kind.tool else ""
        example = one.shown.example if one.shown.example.startswith("conversation-") else one.shown.example[:8]
        yield f"  {words}: {shortened(kind.criterion, _NAME)}{tool}{service}, as in {example}"
        yield f"    {style.aside(shortened(one.shown.why, _WHY))}"
    if len(changes) > _MAX_SHOWN:
        yield f"  {len(changes) - _MAX_SHOWN:,} more kinds"
    if changes:
        yield ""


def failure_markdown(changes: Sequence[FailureChange]) -> Iterator[str]:
    """Describe the kinds for a pull request."""
    if changes:
        yield from (
            "",
            "| kind of failure | criterion | service | tool | reason | example |",
            "|---|---|---|---|---|---|",
        )
    for one in changes[:_MAX_SHOWN]:
        names = (one.shown.kind.criterion, one.service, one.shown.kind.tool or None)
        cells = (*map(code, names), code(one.shown.why, _WHY), code(one.shown.example))
        yield f"| {code(one.words, 2 * _NAME)} | {' | '.join(cells)} |"
    if len(changes) > _MAX_SHOWN:
        yield from ("", f"{len(changes) - _MAX_SHOWN:,} more kinds")
