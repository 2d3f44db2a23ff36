"""The catalogue of agents in words, for a terminal and as Markdown; names are escaped."""

from collections.abc import Callable, Iterator, Mapping

from toolgauge.export.run_usage import Measure, RunOutcome, RunSummary
from toolgauge.report.catalogue import CatalogueContent, CataloguedAgent, CataloguedTool
from toolgauge.report.html import duration, moment
from toolgauge.report.markdown import code
from toolgauge.report.terminal import PLAIN, Style, counted, shortened
from toolgauge.settings import SECOND

MEASURE_WORDS: Mapping[Measure, str] = {"tokens": "tokens", "duration": "time", "cost": "cost"}
_OUTCOME_WORDS: Mapping[RunOutcome, str] = {"fail": "failed", "not_evaluated": "undecided"}
_NO_FAULT = "without a fault seen"
_NAME_LENGTH = 60
_LONGEST_S = 1e9
_NO_AGENT, _NO_SERVICE = "an agent without a name", "unknown service"
_Name = Callable[[str], str]


def passed_words(usage: RunSummary) -> tuple[str, str]:
    """Return the words for runs that passed and for one of them: "succeeded" needs criteria of success in the configuration."""
    return ("succeeded", "a successful run") if usage.names_success else (_NO_FAULT, f"a run {_NO_FAULT}")


def of_success(usage: RunSummary, measure: Measure) -> str:
    """Write what a run that passed takes: failed runs count, and what was not recorded is no 0."""
    value = usage.of_success.get(measure)
    if value is None:
        return f"none {passed_words(usage)[0]}" if usage.recorded.get(measure) else "not recorded"
    match measure:
        case "tokens":
            return f"{value:,.0f}"
        case "duration":
            return seconds(value)
        case "cost":
            return f"{value:.4g}"


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

    def name(text: str) -> str:
        return shortened(text, _NAME_LENGTH)

    for agent in content.agents:
        yield style.head(_title(agent, name))
        yield from (f"  {line}" for line in _lines(agent, name))
        yield ""
    yield from _end(content)


def catalogue_markdown(content: CatalogueContent) -> Iterator[str]:
    """Write the catalogue as Markdown."""
    for agent in content.agents:
        yield f"### {_title(agent, code)}"
        yield ""
        yield from (f"- {line}" for line in _lines(agent, code))
        yield ""
    yield from _end(content)


def _end(content: CatalogueContent) -> Iterator[str]:
    if not content.agents:
        yield "no agent was seen"
    if content.left_out:
        yield f"{counted(content.left_out, 'more agent')} left out: see `metrics.max_agents`"


def _title(agent: CataloguedAgent, name: _Name) -> str:
    environment = f" in {name(agent.environment)}" if agent.environment else ""
    service = name(agent.service) if agent.service else _NO_SERVICE
    return f"{name(agent.agent) if agent.agent else _NO_AGENT} of {service}{environment}"


def _lines(agent: CataloguedAgent, name: _Name) -> Iterator[str]:
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
