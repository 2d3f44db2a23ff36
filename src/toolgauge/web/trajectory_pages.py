"""The pages of trajectories: an overview, the latest ones, and each of them."""

from collections.abc import Mapping, Sequence
from itertools import islice

from toolgauge.export.regression_events import trace_links
from toolgauge.model.regressions import StreamStatus
from toolgauge.model.trajectory import Trajectory
from toolgauge.report.html import visible
from toolgauge.report.kept import KeptTrajectory
from toolgauge.report.trajectory_rows import MAX_TEXT, Facets, Filters, facets, gaps, row, services
from toolgauge.report.trajectory_view import TrajectoryWriter, head
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
        alarms, is_busy = self._alarms()
        found = [*gaps(newest)]
        return self._pages.page(
            "overview.html",
            section="overview",
            title="Overview",
            total=len(newest),
            alarms=alarms,
            is_busy=is_busy,
            failures=[row(one, redactor) for one in islice((one for one in newest if one.is_failed), _FAILURES)],
            failed=sum(one.is_failed for one in newest),
            gaps=found[:_GAPS],
            more_gaps=max(0, len(found) - _GAPS),
            services=services(newest)[:_SERVICES],
            ports=self._ports(),
        )

    def _alarms(self) -> tuple[Sequence[tuple[str, StreamStatus]], bool]:
        """Return the streams in alarm, each with its id; and whether the worker was too busy to answer."""
        running = self._shown.running
        if running is None:
            return (), False
        try:
            statuses = running.ask(lambda watching: watching.statuses())
        except BusyError:
            return (), True
        return [(stream_id(one.stream), one) for one in statuses if one.state == "alarm"], False

    def _ports(self) -> Sequence[int]:
        """Return the ports of OTLP over gRPC and HTTP; empty before there is a service."""
        running = self._shown.running
        return () if running is None else [receiver.port for receiver in running.receivers]

    def _trajectories(self, request: PageRequest) -> str | None:
        if len(request.path) > 2:
            return None
        return self._latest(request) if len(request.path) < 2 else self._one(request)

    def _latest(self, request: PageRequest) -> str | None:
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
        asked = request.value("call")
        number = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 9 else None
        trajectory = kept.trajectory
        running = self._shown.running
        reads_content = running is None or running.wants_content()
        writer = TrajectoryWriter(writing.redactor, writing.pass_at, reads_content=reads_content)
        newer, older = neighbours(store.newest(), kept)
        return self._pages.page(
            "trajectory.html",
            section="trajectories",
            title=title(trajectory),
            kept=kept,
            **head(trajectory),
            shown=writer.shown(trajectory, kept.results, number),
            links=trace_links((trajectory.trace_id,), writing.trace_url),
            newer=newer,
            older=older,
        )


def title(trajectory: Trajectory) -> str:
    """Name a trajectory in a heading."""
    return f"Trajectory of {(trajectory.service or 'an unknown service')[:80]}"


def neighbours(
    newest: Sequence[KeptTrajectory], kept: KeptTrajectory
) -> tuple[KeptTrajectory | None, KeptTrajectory | None]:
    """Find the next newer and the next older trajectory of the same service."""
    same = [one for one in newest if one.trajectory.service == kept.trajectory.service]
    newer = [one for one in same if one.number > kept.number]
    older = (one for one in same if one.number < kept.number)
    return newer[-1] if newer else None, next(older, None)


def options(filters: Filters, known: Facets) -> Sequence[tuple[str, str, str, Sequence[str]]]:
    """Return the fields of the filters, each with its label, the choice, and all there is to choose from."""
    fields = (
        ("service", "Service", known.services, filters.service),
        ("version", "Version", known.versions, filters.version),
        ("agent", "Agent", known.agents, filters.agent),
        ("tool", "Tool", known.tools, filters.tool),
        ("criterion", "Criterion", known.criteria, filters.criterion),
        ("scope", "Scope", known.scopes, filters.scope),
    )
    return [(name, label, visible(chosen), _choices(values, visible(chosen))) for name, label, values, chosen in fields]


def _choices(names: Sequence[str], chosen: str) -> Sequence[str]:
    """List names as pages write them, and as a browser sends them back.

    One that is too long for a query cannot be asked for; one that is chosen stays, although nothing has it any more.
    """
    written = [name for name in map(visible, names) if len(name) <= MAX_TEXT]
    return sorted({*written[:_MAX_OPTIONS], chosen} - {""})
