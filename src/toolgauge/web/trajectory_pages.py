"""The pages of trajectories (an overview, the list of the latest, and one for each) and of agents, with the cost of a passed run."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace

from toolgauge.export.regression_events import trace_links
from toolgauge.export.run_usage import MEASURES
from toolgauge.model.outcomes import NotEvaluated, Scorecard
from toolgauge.model.records import ENVIRONMENT, VERSION
from toolgauge.model.regressions import StreamStatus
from toolgauge.report.catalogue import CataloguedAgent, of_success, passed_words
from toolgauge.report.html import visible
from toolgauge.report.run_failures import FailureGroups
from toolgauge.report.trajectory_rows import MAX_TEXT, UNKNOWN_SERVICE, TrajectoryFilters, row
from toolgauge.report.trajectory_view import TrajectoryWriter, head
from toolgauge.score.selection import was_stopped
from toolgauge.web.health_pages import REPORTED_ERRORS, Gap, MetricValues, ranked
from toolgauge.web.pages import BusyError, PageContent, PageRequest, agent_id
from toolgauge.web.stream_pages import stream_id
from toolgauge.web.trajectory_store import KeptTrajectory
from toolgauge.web.verdict_pages import REASONS

_FAILURES, _GAPS, _SERVICES = 8, 6, 20
_MAX_OPTIONS = 200
_PAGE_SIZE = 50
# Results without anything to judge do not count as gaps.
_NOTHING_TO_JUDGE = ("no_calls", "nothing_expected", "not_executed", "sampled_out")
_FIELDS = {
    "service": "Service",
    "version": "Version",
    "agent": "Agent",
    "tool": "Tool",
    "criterion": "Criterion",
    "scope": "Scope",
    "run_property": "Property",
}


def overview(shown: PageContent, _request: PageRequest) -> str | None:
    """Show the latest failures, gaps, services and alarms."""
    newest = shown.store.newest()
    running, found = shown.running, _gaps(newest)
    statuses, is_busy = (), False
    try:
        statuses = () if running is None else running.ask(lambda watcher: watcher.statuses())
    except BusyError:
        is_busy = True
    # The streams in alarm by incident, with their ids, the newest incident first.
    incidents: defaultdict[str, list[tuple[str, StreamStatus]]] = defaultdict(list)
    for status in sorted((one for one in statuses if one.state == "alarm"), key=lambda one: -(one.since_ns or 0)):
        incidents[status.incident].append((stream_id(status.stream), status))
    figures = MetricValues() if running is None else MetricValues.of(running.registry)
    failures = FailureGroups(shown.writing.redactor)
    for kept in newest:
        failures.add(kept)
    groups = failures.groups()
    return shown.page(
        "overview.html",
        section="overview",
        title="Overview",
        total=len(newest),
        incidents=[*incidents.values()],
        is_busy=is_busy,
        failures=groups[:_FAILURES],
        more_failures=max(0, len(groups) - _FAILURES),
        gaps=found[:_GAPS],
        more_gaps=max(0, len(found) - _GAPS),
        services=_services(newest)[:_SERVICES],
        reported_errors=figures.total(REPORTED_ERRORS),
        uncounted_errors=figures.total(REPORTED_ERRORS, outcome="pass"),
        ports=() if running is None else running.ports(),
    )


def trajectories(shown: PageContent, request: PageRequest) -> str | None:
    """Show the latest trajectories, or one."""
    if len(request.path) > 1:
        return _one(shown, request) if len(request.path) == 2 else None
    filters = TrajectoryFilters.of(request.query)
    newest = shown.store.newest()
    matching = [kept for kept in newest if filters.matches(kept)]
    rest = [kept for kept in matching if not filters.before or kept.number < filters.before]
    on_page = rest[:_PAGE_SIZE]
    redactor, running = shown.writing.redactor, shown.running
    return shown.page(
        "trajectories.html",
        section="trajectories",
        title="Trajectories",
        rows=[row(one, redactor) for one in on_page],
        filters=filters,
        options=options(filters, newest),
        found=len(matching),
        older=replace(filters, before=on_page[-1].number) if len(rest) > _PAGE_SIZE else None,
        total=len(newest),
        ports=() if running is None else running.ports(),
        verdicts={one.id: one.is_good for one in shown.verdicts.newest()},
    )


def _one(shown: PageContent, request: PageRequest) -> str | None:
    store, writing = shown.store, shown.writing
    kept = store.find(request.path[1])
    if kept is None:
        return None
    asked, trajectory = request.value("call"), kept.trajectory
    number = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 9 else None
    writer = TrajectoryWriter(writing.redactor, writing.pass_at)
    same = [one for one in store.newest() if one.trajectory.service == trajectory.service]
    return shown.page(
        "trajectory.html",
        section="trajectories",
        title=f"Trajectory of {(trajectory.service or 'an unknown service')[:80]}",
        id=kept.id,
        scored_at_ns=kept.scored_at_ns,
        **head(trajectory),
        shown=writer.shown(trajectory, kept.results, number),
        links=trace_links((trajectory.trace_id,), writing.trace_url),
        agent_id=agent_id(
            trajectory.service, trajectory.resource.get(ENVIRONMENT), next(iter(trajectory.agents), None)
        ),
        newer=next((one for one in reversed(same) if one.number > kept.number), None),
        older=next((one for one in same if one.number < kept.number), None),
        verdict=shown.verdicts.find(kept.id),
        reasons=REASONS,
        is_kept=shown.state is not None,
    )


def options(filters: TrajectoryFilters, newest: Sequence[Scorecard]) -> list[tuple[str, str, str, list[str]]]:
    """Return the fields of the filters, each with its label, the choice, and all choices as browsers send them back."""
    found: dict[str, set[str | None]] = {name: set() for name in _FIELDS}
    values: defaultdict[str, set[str]] = defaultdict(set)
    for one in newest:
        trajectory = one.trajectory
        found["service"].add(trajectory.service)
        found["version"].add(trajectory.resource.get(VERSION))
        found["agent"].update(trajectory.agents)
        found["tool"].update(call.name for call in trajectory.calls)
        found["criterion"].update(result.criterion for result in one.results)
        found["scope"].add(trajectory.scope)
        for name, value in trajectory.properties.items():
            values[name].add(value)
    # Runs differ in these properties.
    found["run_property"].update(
        f"{name}={one}" for name, several in values.items() if len(several) > 1 for one in several
    )
    fields: list[tuple[str, str, str, list[str]]] = []
    for name, label in _FIELDS.items():
        chosen = visible(getattr(filters, name))
        # A query cuts longer names. A chosen name stays, although no trajectory has it any more.
        short = [one for one in map(visible, sorted(filter(None, found[name]))) if len(one) <= MAX_TEXT]
        fields.append((name, label, chosen, sorted({*short[:_MAX_OPTIONS], chosen} - {""})))
    return fields


def _gaps(newest: Sequence[Scorecard]) -> list[Gap]:
    totals, unseen = Counter[str](), Counter[tuple[str, str]]()
    for result in (result for one in newest for result in one.results):
        totals[result.criterion] += 1
        if isinstance(result.outcome, NotEvaluated) and result.outcome.reason not in _NOTHING_TO_JUDGE:
            unseen[result.criterion, result.outcome.reason] += 1
    return ranked(totals, unseen)


def _services(newest: Sequence[KeptTrajectory]) -> list[dict[str, object]]:
    """Describe each service among the trajectories, with its newest version; the service of the newest comes first."""
    by_name: defaultdict[str, list[KeptTrajectory]] = defaultdict(list)
    for kept in newest:
        by_name[kept.trajectory.service or UNKNOWN_SERVICE].append(kept)
    return [
        {
            "name": name,
            "version": of[0].trajectory.resource.get(VERSION, ""),
            "trajectories": len(of),
            "failed": sum(one.is_failed for one in of),
            "calls": sum(len(one.trajectory.calls) for one in of),
            # Calls that wait for a person or were refused.
            "stopped": sum(was_stopped(call) for one in of for call in one.trajectory.calls),
            "newest_ns": of[0].scored_at_ns,
            "query": TrajectoryFilters(service=name).query()
            if of[0].trajectory.service and len(name) <= MAX_TEXT
            else "",
        }
        for name, of in by_name.items()
    ]


def agents_json(shown: PageContent, request: PageRequest) -> str | None:
    """Return the catalogue of agents as JSON."""
    return None if len(request.path) > 1 else msgspec.json.encode(shown.catalogue.content()).decode()


def agents(shown: PageContent, request: PageRequest) -> str | None:
    """Show the catalogue of agents, or one."""
    content = shown.catalogue.content()
    rows = [
        (agent_id(one.service, one.environment, one.agent), one, [of_success(one.usage, each) for each in MEASURES])
        for one in content.agents
    ]
    if len(request.path) < 2:
        return shown.page(
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
    return shown.page(
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
