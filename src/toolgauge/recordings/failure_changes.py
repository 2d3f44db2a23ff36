"""Kinds of failure of two versions beside each other: new ones, those that are gone, and those that are more or less often."""

from collections.abc import Iterator, Sequence
from math import sqrt
from typing import Literal, TypeAlias

from msgspec import Struct

from toolgauge.export.redact import Redactor
from toolgauge.model.outcomes import Scorecard
from toolgauge.recordings.comparison import Filters, Versions
from toolgauge.report.failure_groups import FailureGroups, FailureKind, runs_and_share
from toolgauge.report.kept import KeptTrajectory
from toolgauge.report.markdown import code
from toolgauge.report.terminal import PLAIN, Style, shortened

# In the order in which they are shown.
Direction: TypeAlias = Literal["new", "more_often", "as_often", "less_often", "gone"]
_ORDER: tuple[Direction, ...] = ("new", "more_often", "as_often", "less_often", "gone")
_MAX_SHOWN, _NAME, _WHY = 20, 60, 300
# Standard errors by which shares differ.
_APART = 2


class FailureChange(Struct, frozen=True, kw_only=True):
    """One kind of failure under two versions: runs that have it, of all runs. `example` is one of the new version, if there is any."""

    direction: Direction
    service: str | None
    base_version: str
    new_version: str
    kind: FailureKind
    why: str
    base_runs: int
    base_of: int
    new_runs: int
    new_of: int
    example: str

    @property
    def words(self) -> str:
        """What has changed: `new in 1.1: 35 runs (58 %)`, `more often: 3 -> 20 runs (33 %)`."""
        base, new = (shortened(version, _NAME) for version in (self.base_version, self.new_version))
        if self.direction == "gone":
            return f"gone since {base}: {runs_and_share(self.base_runs, self.base_of)}"
        now = runs_and_share(self.new_runs, self.new_of)
        if self.direction == "new":
            return f"new in {new}: {now}"
        return f"{self.direction.replace('_', ' ')}: {self.base_runs:,} -> {now}"


class FailuresByVersion:
    """Collects failed runs of recordings by version."""

    def __init__(self) -> None:
        self._groups: dict[str, FailureGroups] = {}

    def add(self, scorecard: Scorecard, version: str, redactor: Redactor) -> None:
        """Add the run of a scorecard."""
        self._groups.setdefault(version, FailureGroups(redactor)).add(KeptTrajectory.of(scorecard))

    def beside(self, versions: Sequence[Versions], filters: Filters) -> list[FailureChange]:
        """Set the kinds of two versions side by side: what is new first, and the most frequent."""
        changes: list[FailureChange] = []
        # A running process has none.
        for one in versions if self._groups else ():
            base_of, base = self._groups[one.base].of_service(one.service)
            new_of, new = self._groups[one.new].of_service(one.service)
            for kind in sorted({*base, *new}):
                before, after = (groups[kind].runs if kind in groups else 0 for groups in (base, new))
                group = new.get(kind) or base[kind]
                if filters.let_through_kind(group.service, kind.criterion, kind.tool):
                    changes.append(
                        FailureChange(
                            direction=_direction(before, base_of, after, new_of),
                            service=one.service,
                            base_version=one.base,
                            new_version=one.new,
                            kind=kind,
                            why=group.why,
                            base_runs=before,
                            base_of=base_of,
                            new_runs=after,
                            new_of=new_of,
                            example=group.example,
                        )
                    )
        return sorted(changes, key=lambda one: (_ORDER.index(one.direction), -one.new_runs, -one.base_runs))


def _direction(before: int, base_of: int, after: int, new_of: int) -> Direction:
    if not before:
        return "new"
    if not after:
        # A version without any run shows nothing.
        return "gone" if new_of else "as_often"
    share = (before + after) / (base_of + new_of)
    apart = _APART * sqrt(share * (1 - share) * (1 / base_of + 1 / new_of))
    difference = after / new_of - before / base_of
    return "as_often" if abs(difference) <= apart else "more_often" if difference > 0 else "less_often"


def failure_lines(changes: Sequence[FailureChange], style: Style = PLAIN) -> Iterator[str]:
    """Describe the kinds for a person."""
    if changes:
        yield style.head("kinds of failure")
    for one in changes[:_MAX_SHOWN]:
        words = style.bad(one.words) if one.direction in ("new", "more_often") else one.words
        example = "" if one.example.startswith("conversation-") else f", as in trace {one.example[:8]}"
        yield f"  {words}: {_named(one)}{example}"
        yield f"    {style.aside(shortened(one.why, _WHY))}"
    if len(changes) > _MAX_SHOWN:
        yield f"  {len(changes) - _MAX_SHOWN:,} more kinds"
    if changes:
        yield ""


def _named(one: FailureChange) -> str:
    tool = f" of {shortened(one.kind.tool, _NAME)}" if one.kind.tool else ""
    service = "" if one.service is None else f", {shortened(one.service, _NAME)}"
    return f"{shortened(one.kind.criterion, _NAME)}{tool}{service}"


def failure_markdown(changes: Sequence[FailureChange]) -> Iterator[str]:
    """Describe the kinds for a pull request."""
    if changes:
        yield from (
            "",
            "| kind of failure | criterion | service | tool | reason | example |",
            "|---|---|---|---|---|---|",
        )
    for one in changes[:_MAX_SHOWN]:
        names = (one.kind.criterion, one.service, one.kind.tool or None)
        cells = (*map(code, names), code(one.why, _WHY), code(one.example))
        yield f"| {code(one.words, 2 * _NAME)} | {' | '.join(cells)} |"
    if len(changes) > _MAX_SHOWN:
        yield from ("", f"{len(changes) - _MAX_SHOWN:,} more kinds")
