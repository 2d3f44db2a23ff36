"""Learns a criteria file for review from recorded runs, each line with its evidence."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import cast

from toolgauge.authoring.convert.draft import unique
from toolgauge.authoring.criteria_yaml import Commented, Written, as_glob, is_plain, slug, yaml_text
from toolgauge.authoring.evidence import Evidence, Requirements
from toolgauge.authoring.labels import LabelSet
from toolgauge.authoring.tool_usage import ToolsUsage
from toolgauge.authoring.value_profiles import coarse, outwards
from toolgauge.config.model import Config, Defaults
from toolgauge.model.outcomes import Scored
from toolgauge.model.ports import Evaluator
from toolgauge.model.records import VERSION
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.recordings.conversation_means import attribute
from toolgauge.recordings.recorded_requests import RecordedRequest, scorecards
from toolgauge.report.terminal import counted
from toolgauge.score.contracts import BY_NAME, ToolKinds
from toolgauge.score.criterion import with_writing_tools
from toolgauge.score.selection import CUT_SHORT, without_code
from toolgauge.service.criteria_factory import default_criteria, make_evaluator
from toolgauge.service.pipeline_factory import offline_pipeline, tool_kinds

_MAX_SERVICES, _MAX_VERSIONS, _MAX_RULES = 200, 100, 100
# A limit is this much above the figures seen.
_MARGIN = 1.25
_QUANTILES = (0.5, 0.9, 0.99)
_HIGHEST = 0.999
# The figures of a budget, by the names that its parameters have.
_FIGURES: Mapping[str, str] = {"calls": "calls", "errors": "errors", "duration": "seconds", "tokens": "tokens"}
_HEADER = (
    "Learned from traffic by `toolgauge learn`: what was usual, not what is right. Read it, delete what should not",
    "hold, and run it with `toolgauge check --criteria` or as one of `criteria_files` of `toolgauge serve`.",
    "A comment is the evidence for its line. A share of 1 % of runs may break a rule that is written, by default.",
)
# `toolgauge init` writes such a file: with the criteria of packs, or without any.
_NOTHING_LEARNED = (
    "Nothing is learned from traffic here: no rule has enough runs as evidence. `toolgauge learn` writes criteria from more.",
)

Criterion = dict[str, Written]
_OF_CONVERSATIONS: Criterion = {
    "name": "learned.contracts",
    "evaluator": "tool_contract",
    "scope": "conversation",
}


@dataclass(slots=True)
class Figure:
    """A figure over many runs, with the two largest ones: the second is the largest without one run."""

    run: int = -1
    first: float = 0.0
    second: float = 0.0
    _counts: Counter[float] = field(default_factory=Counter[float])

    @property
    def count(self) -> int:
        """The number of runs."""
        return self._counts.total()

    def add_run(self, run: int, figure: float) -> None:
        """Add the figure of a run."""
        self._counts[coarse(figure)] += 1
        if self.run < 0 or figure > self.first:
            self.first, self.second, self.run = figure, self.first, run
        elif figure > self.second:
            self.second = figure

    def quantile(self, share: float) -> float:
        """Return the smallest figure that at least this share of all does not exceed; 0 without figures."""
        wanted = math.ceil(share * self.count)
        for number in sorted(self._counts):
            wanted -= self._counts[number]
            if wanted <= 0:
                return number
        return 0.0

    def limit(self, name: str) -> Commented:
        """Write a limit a little above the figures, with their spread as its evidence."""
        highest, unit = self.quantile(_HIGHEST), "s" if name == "duration" else ""
        # One more error than ever does not show a fault yet.
        limit = outwards(highest + 1 if name == "errors" else highest * _MARGIN, up=True)
        numbers = [self.quantile(share) for share in (*_QUANTILES, 1.0)]
        *shown, most = [f"{one:.3g}{unit}" if abs(one) < 1000 else f"{one:.0f}{unit}" for one in numbers]
        spread = ", ".join(f"{share:.0%} {text}" for share, text in zip(_QUANTILES, shown, strict=True))
        text = f"{spread}, most {most}, of {self.count} runs"
        return Commented(f"{max(limit, 0.001):g}s" if unit else math.ceil(limit), text)


@cache
def _budget() -> Evaluator:
    # With limits of 0 the parts of its outcome are the figures themselves.
    return cast("Evaluator", make_evaluator("budget", {"calls": 0, "errors": 0, "duration": "0s", "tokens": 0}))


def figures_of(trajectory: Trajectory) -> Iterator[tuple[str, float]]:
    """Yield the figures of a run by the names that the parameters of a budget have."""
    for evaluation in _budget().evaluate(trajectory, None):
        if evaluation is not None and isinstance(outcome := evaluation[1], Scored):
            yield from ((name, outcome.parts[part]) for name, part in _FIGURES.items() if part in outcome.parts)


@dataclass(slots=True)
class ServiceUsage:
    """Counts over the runs of a service; they suggest a budget."""

    runs: int = 0
    calls: int = 0
    versions: Counter[str] = field(default_factory=Counter[str])
    has_conversations: bool = False
    _figures: dict[str, Figure] = field(default_factory=lambda: {name: Figure() for name in _FIGURES})
    _calls_of: defaultdict[str, Figure] = field(default_factory=lambda: defaultdict[str, Figure](Figure))

    def add(self, trajectory: Trajectory, by_tool: Mapping[str, Sequence[ToolCall]]) -> None:
        """Add one run."""
        run = self.runs
        self.runs += 1
        self.calls += len(trajectory.calls)
        self.has_conversations = self.has_conversations or trajectory.scope == "conversation"
        version = trajectory.resource.get(VERSION)
        if version is not None and (version in self.versions or len(self.versions) < _MAX_VERSIONS):
            self.versions[version] += 1
        if trajectory.hidden_turns:
            return
        for name, figure in figures_of(trajectory):
            self._figures[name].add_run(run, figure)
        for name, calls in by_tool.items():
            self._calls_of[name].add_run(run, len(calls))

    def evidence(self, tools: Iterable[str]) -> Iterator[Evidence]:
        """Yield the evidence for all figures, of the service and of these tools."""
        for figure in (*self._figures.values(), *(self._calls_of[name] for name in tools)):
            # No run takes more than the limit; a single one may contradict that.
            is_alarm = figure.count > 1 and figure.first > outwards(figure.second * _MARGIN, up=True)
            yield Evidence(runs=figure.count, broken=int(is_alarm), breaking=[figure.run] * is_alarm)

    def criteria(self, prefix: str, service: str | None, tools: Sequence[str], runs: int) -> Iterator[Criterion]:
        """Yield the criteria with at least so many runs as evidence."""
        common: Criterion = {} if service is None else {"when": {"service": as_glob(service)}}
        common["scope"] = "conversation" if self.has_conversations else "trace"
        limits: Criterion = {name: one.limit(name) for name, one in self._figures.items() if one.count >= runs}
        called = [(name, self._calls_of[name]) for name in tools if self._calls_of[name].count >= runs]
        if called:
            most = [(name, figure.limit("calls")) for name, figure in called[:_MAX_RULES]]
            limits["per_tool"] = {name: Commented({"calls": one.value}, one.comment) for name, one in most}
        if limits:
            yield {"name": f"{prefix}.budget", "evaluator": "budget", **common, **limits}


# By the tools of which one must have worked before, the evidence by argument; "" stands for any call.
_Rules = dict[tuple[str, ...], list[tuple[str, Evidence]]]


class Contracts:
    """The rules that the traffic of all services suggests for the contracts of tools."""

    def __init__(self, usage: ToolsUsage, kinds: ToolKinds) -> None:
        self._usage = usage
        self._tools = usage.writable()
        # The tools that may be written by their names.
        self.names = sorted(filter(is_plain, self._tools))
        self._requires: dict[str, _Rules] = {}
        for name in self.names:
            tool, others = self._tools[name], {*self.names} - {name}
            by_tools: _Rules = {}
            for argument, alternatives in sorted(tool.sources.items()):
                tools, evidence = alternatives.best(others)
                # The same few values again and again show little: runs of one customer are one observation here.
                evidence.runs = min(evidence.runs, tool.arguments.distinct(argument))
                if tools and tool.arguments.is_public(argument):
                    by_tools.setdefault(tools, []).append((argument, evidence))
            tools, evidence = tool.before.best(others)
            if tools:
                by_tools.setdefault(tools, []).append(("", evidence))
            # A run may hand over, answer or think at any time.
            self._requires[name] = {} if kinds.is_neutral(name) else by_tools

    def evidence(self) -> Iterator[Evidence]:
        """Yield the evidence for all rules."""
        for rules in self._requires.values():
            yield from (evidence for found in rules.values() for _, evidence in found)
        for tool in self._usage.tools.values():
            yield from tool.arguments.candidates()
            yield from tool.results.keys()
            yield from tool.failing.values()

    def written(self, requirements: Requirements) -> dict[str, Mapping[str, Written]]:
        """Write the rules with enough evidence, by tool."""
        found: dict[str, Mapping[str, Written]] = {}
        for name, tool in self._tools.items():
            contract: dict[str, Written] = {}
            if required := self._required(name, requirements):
                contract["requires"] = required[0] if len(required) == 1 else required
            properties = tool.arguments.of_members(requirements, tool.definition).get("properties")
            if properties and tool.arguments.objects.runs >= requirements.runs:
                contract["arguments"] = properties
            if keys := tool.results.required(requirements, tool.definition):
                result = {"type": "object", "required": keys}
                contract["result"] = Commented(result, f"of {tool.results.objects.judged} results")
            if failing := {text: one for text, one in tool.failing.items() if one.broken and requirements.met_by(one)}:
                count = sum(one.judged - one.held for one in failing.values())
                globs = [f"{text}*" for text in sorted(failing)]
                contract["fails_when"] = Commented({"text": globs}, f"{count} of {counted(tool.all.judged, 'call')}")
            if contract:
                found[as_glob(name)] = contract
        return found

    def comment(self, name: str) -> str:
        """Count the calls of a tool."""
        tool = self._tools[name]
        failed = f", {tool.failed} failed" if tool.failed else ""
        runs = counted(self._usage.all.runs, "run")
        return f"{counted(tool.all.judged, 'call')}, in {tool.all.runs} of {runs}{failed}"

    def _required(self, name: str, requirements: Requirements) -> list[Written]:
        written: list[Written] = []
        for tools, found in self._requires.get(name, {}).items():
            rules = [rule for rule in found if requirements.met_by(rule[1])]
            if not rules:
                continue
            same = [argument for argument, _ in rules if argument]
            least = min((evidence for _, evidence in rules), key=lambda one: one.held / max(one.judged, 1))
            call: Written = tools[0] if len(tools) == 1 else tools
            requirement: dict[str, Written] = {"call": call, "same": same} if same else {"call": call}
            written.append(Commented(requirement, f"{least.held} of {least.judged}, in {least.runs} runs"))
        return written


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSummary:
    """The traffic of one service and its criteria; `alarms` of `runs` would have failed criteria learned from the others."""

    service: str | None
    runs: int
    calls: int
    criteria: int
    needed: int
    alarms: int
    versions: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """Contracts of tools and criteria of services; `alarms` of `runs` would have broken contracts learned from the others."""

    contracts: Mapping[str, Mapping[str, Written]]
    # The tools that may be written by their names, with their calls.
    tools: Mapping[str, str]
    criteria: Sequence[Written]
    services: tuple[ServiceSummary, ...]
    has_conversations: bool
    runs: int
    needed: int
    alarms: int

    @property
    def count(self) -> int:
        """The number of contracts and criteria."""
        return len(self.contracts) + len(self.criteria)

    @property
    def criteria_text(self) -> str:
        """The criteria file without the contracts."""
        return yaml_text({"criteria": self.criteria}, _HEADER if self.criteria else _NOTHING_LEARNED)

    @property
    def text(self) -> str:
        """The criteria file with the contracts."""
        if not self.contracts:
            return self.criteria_text
        tools = {name: Commented(contract, self.tools.get(name, "")) for name, contract in self.contracts.items()}
        # What a trace of a conversation requires may be in an earlier one.
        whole = [_OF_CONVERSATIONS] if self.has_conversations else []
        head = f"A rule needs {self.needed} runs. {self.alarms} of {self.runs} runs would break what is learned from the others."
        return yaml_text({"tools": tools, "criteria": [*whole, *self.criteria]}, (*_HEADER, head))


class Learner:
    """Collects the runs of services."""

    def __init__(self, kinds: ToolKinds = BY_NAME) -> None:
        self._kinds = kinds
        self._services: dict[str | None, ServiceUsage] = {}
        self._tools = ToolsUsage()
        self.cut_short = 0

    def add(self, trajectory: Trajectory) -> None:
        """Add one run, unless it was not seen to its end."""
        if trajectory.closed_because in CUT_SHORT or trajectory.incomplete is not None:
            self.cut_short += 1
            return
        service = trajectory.service
        if service not in self._services:
            if len(self._services) == _MAX_SERVICES:
                return
            self._services[service] = ServiceUsage()
        trajectory = without_code(trajectory)
        self._services[service].add(trajectory, self._tools.add(trajectory))

    @property
    def calls(self) -> int:
        """The number of calls seen."""
        return sum(usage.calls for usage in self._services.values())

    @property
    def runs(self) -> int:
        """The number of runs seen."""
        return self.cut_short + self._tools.all.runs

    def result(self, least: Requirements) -> Learned:
        """Return the contracts and criteria that have enough evidence, and a summary of each service."""
        contracts, runs = Contracts(self._tools, self._kinds), self._tools.all.runs
        needed, alarms = least.raised(list(contracts.evidence()), runs)
        entries: list[Written] = []
        summaries: list[ServiceSummary] = []
        taken = set[str]()
        for service in sorted(self._services, key=lambda name: (name is not None, name or "")):
            usage = self._services[service]
            of_service, failing = least.raised(list(usage.evidence(contracts.names)), usage.runs)
            prefix = f"learned.{unique('any-service' if service is None else slug(service), taken)}"
            criteria = list(usage.criteria(prefix, service, contracts.names, of_service.runs))
            summary = ServiceSummary(
                service=service,
                runs=usage.runs,
                calls=usage.calls,
                criteria=len(criteria),
                needed=of_service.runs,
                alarms=failing,
                versions=dict(sorted(usage.versions.items())),
            )
            summaries.append(summary)
            named = "a service without a name" if service is None else service
            versions = ", ".join(f"{version} ({count} runs)" for version, count in list(summary.versions.items())[:5])
            head = (
                "",
                f"{counted(usage.runs, 'run')} with {counted(usage.calls, 'call')} of {named}"
                + (f"; versions: {versions}" if versions else ""),
                f"A limit needs {of_service.runs} runs. {failing} of {usage.runs} runs would fail what is learned from the others.",
            )
            entries.extend(Commented(one, above=() if place else head) for place, one in enumerate(criteria))
        return Learned(
            contracts=contracts.written(needed),
            tools={name: contracts.comment(name) for name in contracts.names},
            criteria=entries,
            services=tuple(summaries),
            has_conversations=any(usage.has_conversations for usage in self._services.values()),
            runs=runs,
            needed=needed.runs,
            alarms=alarms,
        )


@dataclass(slots=True)
class Wanted:
    """The runs to learn from: they have these attributes, and passed by these labels."""

    attributes: tuple[tuple[str, str], ...] = ()
    labels: LabelSet | None = None
    seen: int = 0
    with_attributes: int = 0
    labelled: int = 0

    def takes(self, trajectory: Trajectory) -> bool:
        """Return whether to learn from a run, and count what keeps runs out."""
        self.seen += 1
        if not all(attribute(trajectory, key) == value for key, value in self.attributes):
            return False
        self.with_attributes += 1
        if self.labels is None:
            return True
        labelled = self.labels.label_of(trajectory.trace_id, trajectory.conversation_id, conversation_first=True)
        self.labelled += labelled is not None
        return labelled is not None and self.labels.verdicts[labelled] is True

    def why_none(self) -> str | None:
        """Explain why no run is left to learn from; `None` where it is the traffic itself."""
        if self.seen and not self.with_attributes:
            return "no run has " + " and ".join(f"`{key}={value}`" for key, value in self.attributes)
        if self.labels is None or not self.seen:
            return None
        name = self.labels.name
        if not self.labelled:
            return f"none of the {len(self.labels.verdicts)} labels of `{name}` is on a run of the recording"
        return f"no run with tool calls passed by the labels of `{name}` ({self.labelled} runs have one)"


def learn_recording(recording: Iterable[RecordedRequest], wanted: Wanted, config: Config) -> Learner:
    """Take the wanted runs of a recording."""
    # A criterion that looks at conversations is what puts them together; one is enough.
    criteria = [one for one in default_criteria(Defaults(scope="conversation")) if one.evaluator_name == "tool_use"]
    make = offline_pipeline(config, criteria, attributes=[key for key, _ in wanted.attributes])
    kinds = tool_kinds(config)
    learner = Learner(kinds)
    for scorecard in scorecards(recording, make):
        trajectory = scorecard.trajectory
        # A trace without the id of a conversation is judged as one of its own.
        is_whole = trajectory.scope == "conversation" or trajectory.conversation_id is None
        if is_whole and wanted.takes(trajectory):
            learner.add(with_writing_tools(trajectory, (), kinds))
    return learner
