"""The pages of trajectories: an overview, the latest ones, and each of them."""

from collections.abc import Mapping, Sequence

from toolgauge.export.regression_events import trace_links
from toolgauge.model.records import ENVIRONMENT
from toolgauge.model.regressions import StreamStatus
from toolgauge.report.failure_groups import failure_groups
from toolgauge.report.html import visible
from toolgauge.report.trajectory_rows import MAX_TEXT, Facets, Filters, facets, gaps, row, services
from toolgauge.report.trajectory_view import TrajectoryWriter, head
from toolgauge.web.agent_pages import agent_id
from toolgauge.web.health_pages import REPORTED_ERRORS, Figures
from toolgauge.web.pages import BusyError, Page, PageGroup, PageRequest
from toolgauge.web.stream_pages import stream_id

_FAILURES, _GAPS, _SERVICES = 8, 6, 20
_MAX_OPTIONS = 200


class TrajectoryPages(PageGroup):
    """Shows the trajectories that are kept."""

    def routes(self) -> Mapping[str, Page]:
        """Return the pages by the first part of their path."""
        return {"/": self._overview, "/trajectories": self._trajectories}

    def _overview(self, _request: PageRequest) -> str | None:
        newest = self._shown.store.newest()
        redactor = self._shown.writing.redactor
        running, found = self._shown.running, [*gaps(newest)]
        statuses, is_busy = (), False
        try:
            statuses = () if running is None else running.ask(lambda watching: watching.statuses())
        except BusyError:
            is_busy = True
        figures = Figures({}) if running is None else Figures.of(running.registry)
        groups = failure_groups(newest, redactor)
        return self._pages.page(
            "overview.html",
            section="overview",
            title="Overview",
            total=len(newest),
            incidents=_incidents(statuses),
            is_busy=is_busy,
            failures=groups[:_FAILURES],
            more_failures=max(0, len(groups) - _FAILURES),
            gaps=found[:_GAPS],
            more_gaps=max(0, len(found) - _GAPS),
            services=services(newest)[:_SERVICES],
            reported_errors=figures.total(REPORTED_ERRORS),
            uncounted_errors=figures.total(REPORTED_ERRORS, outcome="pass"),
            ports=self._ports(),
        )

    def _ports(self) -> Sequence[int]:
        return () if self._shown.running is None else self._shown.running.ports()

    def _trajectories(self, request: PageRequest) -> str | None:
        if len(request.path) > 1:
            return self._one(request) if len(request.path) == 2 else None
        filters = Filters.of(request.query)
        newest = self._shown.store.newest()
        found = filters.page_of(newest)
        redactor = self._shown.writing.redactor
        return self._pages.page(
            "trajectories.html",
            section="trajectories",
            title="Trajectories",
            rows=[row(one, redactor) for one in found.kept],
            filters=filters,
            options=options(filters, facets(newest)),
            found=found,
            total=len(newest),
            ports=self._ports(),
        )

    def _one(self, request: PageRequest) -> str | None:
        store, writing = self._shown.store, self._shown.writing
        kept = store.find(request.path[1])
        if kept is None:
            return None
        asked, trajectory = request.value("call"), kept.trajectory
        number = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 9 else None
        writer = TrajectoryWriter(writing.redactor, writing.pass_at)
        same = [one for one in store.newest() if one.trajectory.service == trajectory.service]
        return self._pages.page(
            "trajectory.html",
            section="trajectories",
            title=f"Trajectory of {(trajectory.service or 'an unknown service')[:80]}",
            kept=kept,
            **head(trajectory),
            shown=writer.shown(trajectory, kept.results, number),
            links=trace_links((trajectory.trace_id,), writing.trace_url),
            agent_id=agent_id(
                trajectory.service, trajectory.resource.get(ENVIRONMENT), next(iter(trajectory.agents), None)
            ),
            newer=next((one for one in reversed(same) if one.number > kept.number), None),
            older=next((one for one in same if one.number < kept.number), None),
        )


def options(filters: Filters, known: Facets) -> Sequence[tuple[str, str, str, Sequence[str]]]:
    """Return the fields of the filters, each with its label, the choice, and all choices as browsers send them back."""

    def choices(names: Sequence[str], chosen: str) -> Sequence[str]:
        # A name that is too long for a query cannot be asked for; a chosen one stays, although nothing has it any more.
        written = [name for name in map(visible, names) if len(name) <= MAX_TEXT]
        return sorted({*written[:_MAX_OPTIONS], chosen} - {""})

    fields = (
        ("service", "Service", known.services, filters.service),
        ("version", "Version", known.versions, filters.version),
        ("agent", "Agent", known.agents, filters.agent),
        ("tool", "Tool", known.tools, filters.tool),
        ("criterion", "Criterion", known.criteria, filters.criterion),
        ("scope", "Scope", known.scopes, filters.scope),
        ("run_property", "Property", known.properties, filters.run_property),
    )
    return [(name, label, visible(chosen), choices(values, visible(chosen))) for name, label, values, chosen in fields]


def _incidents(statuses: Sequence[StreamStatus]) -> list[list[tuple[str, StreamStatus]]]:
    """Put the streams whose alarm is on together by incident, with their ids; the newest incident first."""
    found: dict[str, list[tuple[str, StreamStatus]]] = {}
    for status in sorted((one for one in statuses if one.state == "alarm"), key=lambda one: -(one.since_ns or 0)):
        found.setdefault(status.incident, []).append((stream_id(status.stream), status))
    return [*found.values()]
