"""The page of what was not evaluated: how often and why, and what its producers would have to switch on.

Counts are those of the metric `toolgauge.evaluations`, since the start. What producers leave out is found as `toolgauge doctor`
finds it, in the trajectories that are kept.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from toolgauge.model.outcomes import MEANINGS
from toolgauge.web.figures import Figures
from toolgauge.web.pages import Page, PageRequest, Pages
from toolgauge.web.producer_advice import advice
from toolgauge.web.running import Shown

_CRITERION = "gen_ai.evaluation.name"
_OUTCOME, _REASON = "toolgauge.outcome", "toolgauge.not_evaluated.reason"
_MOST_PRODUCERS = 50


class Gap(Struct, frozen=True, kw_only=True):
    """Results of one criterion that are `not_evaluated` for one reason: `count` of all its `of` results."""

    criterion: str
    reason: str
    count: int
    of: int

    @property
    def share(self) -> float:
        """The part of the criterion's results."""
        return self.count / self.of if self.of else 0.0


class ReasonGaps(Struct, frozen=True, kw_only=True):
    """One reason, its meaning, and the criteria that could not judge for it."""

    reason: str
    meaning: str
    gaps: tuple[Gap, ...]


class GapPages:
    """Shows what was not evaluated."""

    def __init__(self, pages: Pages, shown: Shown) -> None:
        self._pages = pages
        self._shown = shown

    def routes(self) -> Mapping[str, Page]:
        """Return the pages by the first part of their path."""
        return {"/not-evaluated": self._gaps}

    def _gaps(self, request: PageRequest) -> str | None:
        if len(request.path) > 1:
            return None
        running = self._shown.running
        trajectories = [kept.trajectory for kept in self._shown.store.newest()]
        wants_content = running is None or running.wants_content()
        producers = advice(trajectories, wants_content=wants_content)
        reasons = () if running is None else by_reason(gaps(Figures.of(running.registry)))
        return self._pages.page(
            "gaps.html",
            section="gaps",
            title="Not evaluated",
            reasons=reasons,
            producers=producers[:_MOST_PRODUCERS],
            more_producers=len(producers[_MOST_PRODUCERS:]),
            trajectories=sum(trajectory.scope == "trace" for trajectory in trajectories),
            wants_content=wants_content,
        )


def gaps(figures: Figures) -> Iterator[Gap]:
    """Yield the reasons of each criterion, the most frequent first."""
    of: dict[str, int] = {}
    counts: dict[tuple[str, str], int] = {}
    for figure in figures.each("toolgauge.evaluations"):
        criterion = figure.labels.get(_CRITERION, "")
        of[criterion] = of.get(criterion, 0) + int(figure.value)
        if figure.labels.get(_OUTCOME) == "not_evaluated" and figure.value:
            key = (criterion, figure.labels.get(_REASON, ""))
            counts[key] = counts.get(key, 0) + int(figure.value)
    for (criterion, reason), count in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])):
        yield Gap(criterion=criterion, reason=reason, count=count, of=of[criterion])


def by_reason(found: Iterable[Gap]) -> tuple[ReasonGaps, ...]:
    """Put gaps together by their reasons, the most frequent first."""
    groups: dict[str, list[Gap]] = {}
    for gap in found:
        groups.setdefault(gap.reason, []).append(gap)
    meanings = {str(reason): meaning for reason, meaning in MEANINGS.items()}
    together = [
        ReasonGaps(reason=reason, meaning=meanings.get(reason, ""), gaps=tuple(group))
        for reason, group in groups.items()
    ]
    return tuple(sorted(together, key=lambda one: -sum(gap.count for gap in one.gaps)))
