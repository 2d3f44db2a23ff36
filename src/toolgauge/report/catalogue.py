"""Turns scorecards into the catalogue of agents: model, prompt and versions since when, tools, and the cost of a passed run.

Clients choose the names, so their number is bounded: the name unused for longest gives way, and is counted. Texts for a
terminal and Markdown escape them.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import ceil
from threading import Lock
from typing import TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.export.run_usage import CostSettings, Measure, RunOutcome, RunSummary, RunTotals, RunUsageReader
from toolgauge.export.settings import MetricsSettings
from toolgauge.model.metrics import fit_label
from toolgauge.model.names import stable_tool
from toolgauge.model.outcomes import Scorecard, Verdict
from toolgauge.model.records import ENVIRONMENT
from toolgauge.model.regressions import ToolDefinitionChange
from toolgauge.model.trajectory import invented_tools
from toolgauge.report.html import duration, moment
from toolgauge.report.markdown import code
from toolgauge.report.terminal import PLAIN, Style, counted, shortened
from toolgauge.settings import SECOND
from toolgauge.watch.fingerprint import made_with

MAX_VALUES = 50
# A property with more values, such as a prompt that names the user, does not change: it differs from run to run.
_MOST_CHANGES = 8
# The times of a tool cover its newest calls.
_MAX_TIMES = 200

_Whose: TypeAlias = tuple[str, str, str]
_K = TypeVar("_K")
_V = TypeVar("_V")


class SeenValue(Struct, kw_only=True):
    """One value of a property of runs."""

    property: str
    value: str
    runs: int
    first_seen_ns: int
    last_seen_ns: int


class ContractChange(Struct, frozen=True, kw_only=True):
    """A change of what an agent is offered, as in `ToolDefinitionChange`."""

    time_ns: int
    kind: str
    path: str | None


class CataloguedTool(Struct, frozen=True, kw_only=True):
    """A tool of an agent; times in seconds cover its newest calls, `None` where not recorded."""

    tool: str
    calls: int
    failures: int
    p50: float | None
    p95: float | None
    changes: tuple[ContractChange, ...]
    criteria: tuple[str, ...]


class CataloguedAgent(Struct, frozen=True, kw_only=True):
    """An agent of a service; names are empty where not recorded. `within` are runs of others that it made calls in.

    `values` are in order of property and first sight. `left_out` counts values and tools that gave way to others.
    """

    service: str
    environment: str
    agent: str
    usage: RunSummary
    within: int
    first_seen_ns: int
    last_seen_ns: int
    values: tuple[SeenValue, ...]
    tools: tuple[CataloguedTool, ...]
    criteria: tuple[str, ...]
    left_out: int

    def changes(self, tool: str | None = None) -> Iterator[tuple[int, str, str]]:
        """Yield when a property or tool changed, its name and how: values that came later, and contracts of a tool or all tools."""
        by_property: dict[str, list[SeenValue]] = {}
        for one in self.values:
            by_property.setdefault(one.property, []).append(one)
        for name, (_, *later) in by_property.items():
            if len(later) < _MOST_CHANGES:
                yield from ((one.first_seen_ns, name, one.value) for one in later)
        for each in self.tools:
            if tool in (None, each.tool):
                yield from ((change.time_ns, each.tool, change.kind) for change in each.changes)


class CatalogueContent(Struct, frozen=True, kw_only=True):
    """All agents, by service. `left_out` counts agents that gave way to others."""

    agents: tuple[CataloguedAgent, ...]
    left_out: int


class _Recent(dict[_K, _V]):
    """Keeps the entries that were used last."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self.dropped = 0

    def use(self, key: _K, make: Callable[[], _V]) -> _V:
        """Return the entry of this key, made where it is missing."""
        entry = self.pop(key, None)
        if entry is None:
            entry = make()
            if len(self) >= self._most:
                del self[next(iter(self))]
                self.dropped += 1
        self[key] = entry
        return entry


class _Tool:
    def __init__(self) -> None:
        self.calls = self.failures = 0
        self.times = deque[int](maxlen=_MAX_TIMES)
        self.changes = deque[ContractChange](maxlen=_MOST_CHANGES)
        self.criteria: frozenset[str] = frozenset()

    def quantile(self, share: float) -> float | None:
        times = sorted(self.times)
        return times[ceil(share * len(times)) - 1] / SECOND if times else None


class _Agent:
    def __init__(self, max_tools: int, now_ns: int) -> None:
        self.first_ns = self.last_ns = now_ns
        self.totals = RunTotals()
        self.within = 0
        self.values = _Recent[tuple[str, str], SeenValue](MAX_VALUES * 4)
        self.tools = _Recent[str, _Tool](max_tools)
        self.criteria: frozenset[str] = frozenset()


class Catalogue:
    """Collects scorecards, in order of time or nearly so. Any thread may call."""

    def __init__(self, metrics: MetricsSettings, costs: CostSettings) -> None:
        self._lock = Lock()
        self._max_tools = metrics.max_tools
        self._agents = _Recent[_Whose, _Agent](metrics.max_agents)
        self.adopt(costs)

    def adopt(self, costs: CostSettings) -> None:
        """Read runs by these settings from here on."""
        self._usages = RunUsageReader(costs)

    def add(self, scorecard: Scorecard) -> None:
        """Add a trajectory with its results, or late results alone."""
        trajectory = scorecard.trajectory
        service, environment = _cut(trajectory.service), _cut(trajectory.resource.get(ENVIRONMENT))
        first = _cut(trajectory.agents[0]) if trajectory.agents else ""
        now_ns = trajectory.opened_ns or scorecard.scored_at_ns

        def agent_of(name: str | None) -> _Agent:
            agent = found.get(name)
            if agent is None:
                whose = service, environment, _cut(name) or first
                agent = found[name] = self._agents.use(whose, lambda: _Agent(self._max_tools, now_ns))
                agent.last_ns = max(agent.last_ns, now_ns)
            return agent

        def seen(name: str, value: str) -> SeenValue:
            return SeenValue(property=name, value=value, runs=0, first_seen_ns=now_ns, last_seen_ns=now_ns)

        found: dict[str | None, _Agent] = {}
        with self._lock:
            usage = self._usages.read(scorecard)
            if usage is not None:
                invented = invented_tools(trajectory)
                runs = agent_of(None)
                runs.totals.add(usage)
                for pair in made_with(trajectory).items():
                    value = runs.values.use(pair, lambda pair=pair: seen(*map(fit_label, pair)))
                    value.first_seen_ns = min(value.first_seen_ns, now_ns)
                    value.last_seen_ns = max(value.last_seen_ns, now_ns)
                    value.runs += 1
                for name in {_cut(call.agent) for call in trajectory.calls} - {"", first}:
                    agent_of(name).within += 1
                for call in trajectory.calls:
                    if call.name in invented:
                        continue
                    tool = agent_of(call.agent).tools.use(fit_label(stable_tool(call.name)), _Tool)
                    tool.calls += 1
                    tool.failures += call.has_failed
                    if 0 < call.start_ns < call.end_ns:
                        tool.times.append(call.end_ns - call.start_ns)
            for verdict in scorecard.verdicts:
                agent = agent_of(verdict.agent)
                # A tool that was not called here, which may be invented, has no line of its own.
                tool = None if verdict.tool is None else agent.tools.get(fit_label(verdict.tool))
                judged = agent if verdict.tool is None else tool
                if judged is not None:
                    judged.criteria |= _criteria(verdict)

    def tools_changed(self, changes: Sequence[ToolDefinitionChange]) -> None:
        """Note changes of the tools that agents are offered."""
        with self._lock:
            for one in changes:
                whose, now_ns = (one.service, one.environment, one.agent), one.time_ns
                agent = self._agents.use(whose, lambda now_ns=now_ns: _Agent(self._max_tools, now_ns))
                change = ContractChange(time_ns=now_ns, kind=one.kind, path=one.path and fit_label(one.path))
                agent.tools.use(one.tool, _Tool).changes.append(change)

    def find(self, service: str | None, environment: str | None, agent: str | None) -> CataloguedAgent | None:
        """Return one agent."""
        whose = _cut(service), _cut(environment), _cut(agent)
        with self._lock:
            found = self._agents.get(whose)
            return None if found is None else _agent(whose, found)

    def content(self) -> CatalogueContent:
        """Return everything, agents in order of their names."""
        with self._lock:
            agents = tuple(_agent(whose, self._agents[whose]) for whose in sorted(self._agents))
            return CatalogueContent(agents=agents, left_out=self._agents.dropped)


# The same few verdicts come all day long. Without it: a third of the time of `add`.
@lru_cache(4096)
def _criteria(verdict: Verdict) -> frozenset[str]:
    return frozenset(fit_label(finding.criterion) for finding in verdict.findings if finding.word != "not_evaluated")


def _cut(name: str | None) -> str:
    return "" if name is None else fit_label(name)


def _agent(whose: _Whose, agent: _Agent) -> CataloguedAgent:
    service, environment, name = whose
    tools = [
        CataloguedTool(
            tool=each,
            calls=tool.calls,
            failures=tool.failures,
            p50=tool.quantile(0.5),
            p95=tool.quantile(0.95),
            changes=tuple(tool.changes),
            criteria=tuple(sorted(tool.criteria)),
        )
        for each, tool in agent.tools.items()
    ]
    return CataloguedAgent(
        service=service,
        environment=environment,
        agent=name,
        usage=agent.totals.summary(),
        within=agent.within,
        first_seen_ns=agent.first_ns,
        last_seen_ns=agent.last_ns,
        values=tuple(
            sorted(map(replace, agent.values.values()), key=lambda one: (one.property, one.first_seen_ns, one.value))
        ),
        tools=tuple(sorted(tools, key=lambda one: (-one.calls, one.tool))),
        criteria=tuple(sorted(agent.criteria)),
        left_out=agent.values.dropped + agent.tools.dropped,
    )


MEASURE_WORDS: Mapping[Measure, str] = {"tokens": "tokens", "duration": "time", "cost": "cost"}
_OUTCOME_WORDS: Mapping[RunOutcome, str] = {"fail": "failed", "not_evaluated": "undecided"}
_NO_FAULT = "without a fault seen"
_NAME_LENGTH = 60
_LONGEST_S = 1e9
_NO_AGENT, _NO_SERVICE = "an agent without a name", "unknown service"
_Name = Callable[[str], str]


def passed_words(usage: RunSummary) -> tuple[str, str]:
    """Return the words for runs that passed and for one such run: "succeeded" needs criteria of success in the configuration."""
    return ("succeeded", "a successful run") if usage.names_success else (_NO_FAULT, f"a run {_NO_FAULT}")


def of_success(usage: RunSummary, measure: Measure) -> str:
    """Write the cost of a run that passed: failed runs count, and an unrecorded measure is not 0."""
    value = usage.of_success.get(measure)
    if value is None:
        return f"none {passed_words(usage)[0]}" if usage.recorded.get(measure) else "not recorded"
    match measure:
        case "tokens":
            return f"{value:,.0f}"
        case "duration":
            return seconds(value)
        case "cost":
            return f"{value:.4g} {usage.currency}"


def seconds(value: float) -> str:
    """Write a duration with its unit."""
    return duration(round(min(value, _LONGEST_S) * SECOND))


def runs_words(usage: RunSummary) -> str:
    """Count runs by outcome."""
    words = {**_OUTCOME_WORDS, "pass": passed_words(usage)[0]}
    found = [f"{count:,} {words[outcome]}" for outcome, count in usage.runs.items() if count]
    return ", ".join((counted(sum(usage.runs.values()), "run"), *found))


def catalogue_lines(content: CatalogueContent, style: Style = PLAIN) -> Iterator[str]:
    """Write the catalogue for a terminal."""

    yield from _lines(content, lambda text: shortened(text, _NAME_LENGTH), lambda title: (style.head(title),), "  ")


def catalogue_markdown(content: CatalogueContent) -> Iterator[str]:
    """Write the catalogue as Markdown."""
    yield from _lines(content, code, lambda title: (f"### {title}", ""), "- ")


def _lines(content: CatalogueContent, name: _Name, head: Callable[[str], Sequence[str]], bullet: str) -> Iterator[str]:
    for agent in content.agents:
        environment = f" in {name(agent.environment)}" if agent.environment else ""
        service = name(agent.service) if agent.service else _NO_SERVICE
        yield from head(f"{name(agent.agent) if agent.agent else _NO_AGENT} of {service}{environment}")
        yield from (f"{bullet}{line}" for line in _facts(agent, name))
        yield ""
    if not content.agents:
        yield "no agent was seen"
    if content.left_out:
        yield f"{counted(content.left_out, 'more agent')} left out: see `metrics.max_agents`"


def _facts(agent: CataloguedAgent, name: _Name) -> Iterator[str]:
    yield runs_words(agent.usage) + (f"; calls within {counted(agent.within, 'run')} of others" if agent.within else "")
    if any(agent.usage.runs.values()):
        yield f"{passed_words(agent.usage)[1]} takes: " + ", ".join(
            f"{words} {of_success(agent.usage, measure)}" for measure, words in MEASURE_WORDS.items()
        )
    for seen in agent.values:
        yield (
            f"{name(seen.property)} {name(seen.value)}: {counted(seen.runs, 'run')}, "
            f"first seen {moment(seen.first_seen_ns)}, last {moment(seen.last_seen_ns)}"
        )
    for tool in agent.tools:
        yield f"tool {name(tool.tool)}: {', '.join(_tool_words(tool, name))}"
    if agent.criteria:
        yield f"runs are judged by {', '.join(map(name, agent.criteria))}"
    if agent.left_out:
        yield f"{agent.left_out:,} more values and tools left out"


def _tool_words(tool: CataloguedTool, name: _Name) -> Iterator[str]:
    yield counted(tool.calls, "call")
    yield f"{tool.failures:,} failed"
    if tool.p50 is None or tool.p95 is None:
        yield "times not recorded"
    else:
        yield f"p50 {seconds(tool.p50)}"
        yield f"p95 {seconds(tool.p95)}"
    for change in tool.changes[-1:]:
        place = f" at {name(change.path)}" if change.path else ""
        yield f"contract changed ({name(change.kind)}{place}) {moment(change.time_ns)}"
    if tool.criteria:
        yield f"judged by {', '.join(map(name, tool.criteria))}"
