"""The pages of trajectories (an overview, the latest ones, and each of them) and of agents, with what a run that passed takes."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

import msgspec

from toolgauge.export.regression_events import trace_links
from toolgauge.export.run_usage import MEASURES
from toolgauge.model.records import ENVIRONMENT
from toolgauge.model.regressions import StreamStatus
from toolgauge.report.catalogue import CataloguedAgent, of_success, passed_words
from toolgauge.report.failure_groups import FailureGroups
from toolgauge.report.html import visible
from toolgauge.report.trajectory_rows import MAX_TEXT, Facets, Filters, facets, gaps, row, services
from toolgauge.report.trajectory_view import TrajectoryWriter, head
from toolgauge.web.health_pages import REPORTED_ERRORS, Figures
from toolgauge.web.pages import BusyError, Page, PageGroup, PageRequest, agent_id
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
        running, found = self._shown.running, [*gaps(newest)]
        statuses, is_busy = (), False
        try:
            statuses = () if running is None else running.ask(lambda watching: watching.statuses())
        except BusyError:
            is_busy = True
        figures = Figures({}) if running is None else Figures.of(running.registry)
        failures = FailureGroups(self._shown.writing.redactor)
        for kept in newest:
            failures.add(kept)
        groups = failures.groups()
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
            ports=() if running is None else running.ports(),
        )

    def _trajectories(self, request: PageRequest) -> str | None:
        if len(request.path) > 1:
            return self._one(request) if len(request.path) == 2 else None
        filters = Filters.of(request.query)
        newest = self._shown.store.newest()
        found = filters.page_of(newest)
        redactor, running = self._shown.writing.redactor, self._shown.running
        return self._pages.page(
            "trajectories.html",
            section="trajectories",
            title="Trajectories",
            rows=[row(one, redactor) for one in found.kept],
            filters=filters,
            options=options(filters, facets(newest)),
            found=found,
            total=len(newest),
            ports=() if running is None else running.ports(),
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


class AgentPages(PageGroup):
    """Shows the catalogue of agents."""

    def routes(self) -> Mapping[str, Page]:
        """Return the pages by the first part of their path."""
        return {"/agents": self._agents, "/agents.json": self._json}

    def _json(self, request: PageRequest) -> str | None:
        return None if len(request.path) > 1 else msgspec.json.encode(self._shown.catalogue.content()).decode()

    def _agents(self, request: PageRequest) -> str | None:
        content = self._shown.catalogue.content()
        rows = [
            (agent_id(one.service, one.environment, one.agent), one, [of_success(one.usage, each) for each in MEASURES])
            for one in content.agents
        ]
        if len(request.path) < 2:
            return self._pages.page(
                "agents.html",
                section="agents",
                title="Agents",
                rows=rows,
                left_out=content.left_out,
                names_success=any(agent.usage.names_success for agent in content.agents),
            )
        row = next((row for row in rows if row[0] == request.path[1]), None) if len(request.path) == 2 else None
        if row is None:
            return None
        _, agent, takes = row
        return self._pages.page(
            "agent.html",
            section="agents",
            title=f"Agent {agent.agent[:60] or 'without a name'}",
            agent=agent,
            takes=takes,
            passed=passed_words(agent.usage),
            tools=[(tool, _query(agent, tool=tool.tool)) for tool in agent.tools],
            query=_query(agent),
            of_service=urlencode({"service": agent.service}),
        )


def _query(agent: CataloguedAgent, **more: str) -> str:
    """Write the query of the agent's trajectories."""
    values = {"service": agent.service, "agent": agent.agent, **more}
    return urlencode({name: value for name, value in values.items() if value})


def _incidents(statuses: Sequence[StreamStatus]) -> list[list[tuple[str, StreamStatus]]]:
    """Put the streams whose alarm is on together by incident, with their ids; the newest incident first."""
    found: dict[str, list[tuple[str, StreamStatus]]] = {}
    for status in sorted((one for one in statuses if one.state == "alarm"), key=lambda one: -(one.since_ns or 0)):
        found.setdefault(status.incident, []).append((stream_id(status.stream), status))
    return [*found.values()]
