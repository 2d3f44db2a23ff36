"""The pages of trajectories: the latest ones."""

from collections.abc import Mapping

from toolgauge.web.filters import Filters, facets
from toolgauge.web.pages import Page, PageRequest, Pages
from toolgauge.web.running import Shown


class TrajectoryPages:
    """Shows the trajectories that are kept."""

    def __init__(self, pages: Pages, shown: Shown) -> None:
        self._pages = pages
        self._shown = shown

    def routes(self) -> Mapping[str, Page]:
        """Return the pages by the first part of their path."""
        return {"/": self._latest, "/trajectories": self._latest}

    def _latest(self, request: PageRequest) -> str | None:
        if len(request.path) > 1:
            return None
        filters = Filters.of(request.query)
        newest = self._shown.store.newest()
        found = filters.page_of(newest)
        return self._pages.page(
            "trajectories.html",
            section="trajectories",
            title="Trajectories",
            kept=found.kept,
            filters=filters,
            facets=facets(newest),
            older=found.older,
        )
