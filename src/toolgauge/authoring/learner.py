"""Learns a criteria file for review from recorded runs, each line with its evidence."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from toolgauge.authoring.criteria_yaml import Commented, Written, as_glob, is_plain, slug, yaml_text
from toolgauge.authoring.evidence import Evidence, Largest, Requirements, raised
from toolgauge.authoring.labels import LabelSet
from toolgauge.authoring.receipt_usage import ReceiptUsage
from toolgauge.authoring.tool_usage import ToolsUsage, scores
from toolgauge.authoring.value_profiles import Quantiles, outwards
from toolgauge.config.model import Config, Defaults
from toolgauge.evaluators.run_checks import Budget
from toolgauge.model.records import VERSION
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.recordings.conversation_means import attribute
from toolgauge.recordings.recorded_requests import RecordedRequest, scorecards
from toolgauge.report.terminal import counted
from toolgauge.score.contracts import BY_NAME, ToolKinds
from toolgauge.score.criterion import with_writing_tools
from toolgauge.score.selection import CUT_SHORT, without_code
from toolgauge.service.criteria_factory import default_criteria
from toolgauge.service.pipeline_factory import offline_pipeline, tool_kinds

_MAX_NAMES = 100
# With limits of 0 its parts are the figures themselves.
_MEASURE = Budget.model_validate({"calls": 0, "errors": 0, "duration": "0s", "tokens": 0})
FIGURES: Mapping[str, str] = {"calls": "calls", "errors": "errors", "duration": "seconds", "tokens": "tokens"}


class Figure:
    """A figure over many runs."""

    def __init__(self) -> None:
        self.quantiles = Quantiles()
        self.largest = Largest()

    def add(self, run: int, figure: float) -> None:
        """Add the figure of a run."""
        self.quantiles.add(figure)
        self.largest.add(run, figure)


class ServiceUsage:
    """Counts over the runs of a service."""

    def __init__(self) -> None:
        self.runs = 0
        self.calls = 0
        self.has_conversations = False
        self.versions: Counter[str] = Counter()
        self.figures: dict[str, Figure] = {name: Figure() for name in FIGURES}
        self.calls_of: defaultdict[str, Figure] = defaultdict(Figure)
        self.receipts = ReceiptUsage()

    def add(self, trajectory: Trajectory, by_tool: Mapping[str, Sequence[ToolCall]]) -> None:
        """Add one run."""
        run = self.runs
        self.runs += 1
        self.calls += len(trajectory.calls)
        self.has_conversations = self.has_conversations or trajectory.scope == "conversation"
        version = trajectory.resource.get(VERSION)
        if version is not None and (version in self.versions or len(self.versions) < _MAX_NAMES):
            self.versions[version] += 1
        self.receipts.add(trajectory)
        if trajectory.hidden_turns:
            return
        for score in scores(_MEASURE, trajectory):
            for name, part in FIGURES.items():
                if part in score.parts:
                    self.figures[name].add(run, score.parts[part])
        for name, calls in by_tool.items():
            self.calls_of[name].add(run, len(calls))


_MAX_SERVICES, _MAX_RULES = 200, 100
# A limit is this much above the figures seen.
_MARGIN = 1.25
_QUANTILES = (0.5, 0.9, 0.99)
_HIGHEST = 0.999
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


@dataclass(frozen=True, slots=True)
class Rule:
    """One of these tools worked before, with the value of an argument where one is named; and the evidence."""

    evidence: Evidence
    tools: tuple[str, ...]
    argument: str = ""


class Contracts:
    """What the traffic of all services suggests for the contracts of tools."""

    def __init__(self, usage: ToolsUsage, kinds: ToolKinds) -> None:
        self._tools = usage.writable()
        self._unwritten = [tool for name, tool in usage.tools.items() if name not in self._tools]
        plain = {name for name in self._tools if is_plain(name)}
        self._requires: dict[str, list[Rule]] = {}
        for name in sorted(plain):
            tool, others = self._tools[name], plain - {name}
            rules: list[Rule] = []
            by_tools: dict[tuple[str, ...], list[tuple[str, Evidence]]] = {}
            for argument, alternatives in sorted(tool.sources.items()):
                tools, evidence = alternatives.best(others)
                # The same few values again and again show little: runs of one customer are one observation here.
                evidence.runs = min(evidence.runs, tool.arguments.distinct(argument))
                if tools and tool.arguments.is_public(argument):
                    by_tools.setdefault(tools, []).append((argument, evidence))
            rules += [Rule(one, tools, argument) for tools, found in by_tools.items() for argument, one in found]
            tools, evidence = tool.before.best(others)
            if tools:
                rules.append(Rule(evidence, tools))
            # A run may hand over, answer or think at any time.
            self._requires[name] = [] if kinds.is_neutral(name) else rules

    @property
    def names(self) -> list[str]:
        """The tools that may be written by their names."""
        return [*self._requires]

    def evidence(self) -> Iterator[Evidence]:
        """Yield the evidence for all of it."""
        yield from (rule.evidence for rules in self._requires.values() for rule in rules)
        for tool in (*self._tools.values(), *self._unwritten):
            yield from tool.arguments.candidates()
            yield from tool.results.keys()
            yield from tool.failing.values()

    def written(self, requirements: Requirements) -> dict[str, Mapping[str, Written]]:
        """Write what has enough evidence, by tool."""
        found: dict[str, Mapping[str, Written]] = {}
        for name, tool in self._tools.items():
            contract: dict[str, Written] = {}
            if required := self._required(name, requirements):
                contract["requires"] = required[0] if len(required) == 1 else required
            properties = tool.arguments_schemas(requirements)
            if properties and tool.arguments.objects.runs >= requirements.runs:
                contract["arguments"] = properties
            if (result := tool.result_schema(requirements)) is not None:
                contract["result"] = Commented(result, f"of {tool.results.objects.judged} results")
            if failing := {text: one for text, one in tool.failing.items() if one.broken and requirements.met_by(one)}:
                count = sum(one.judged - one.held for one in failing.values())
                globs = [f"{text}*" for text in sorted(failing)]
                contract["fails_when"] = Commented({"text": globs}, f"{count} of {counted(tool.calls, 'call')}")
            if contract:
                found[as_glob(name)] = contract
        return found

    def comment(self, name: str, runs: int) -> str:
        """Name the calls that were seen of a tool."""
        tool = self._tools[name]
        failed = f", {tool.failed} failed" if tool.failed else ""
        return f"{counted(tool.calls, 'call')}, in {tool.all.runs} of {counted(runs, 'run')}{failed}"

    def _required(self, name: str, requirements: Requirements) -> list[Written]:
        by_tools: dict[tuple[str, ...], list[Rule]] = {}
        for rule in _met(self._requires.get(name, ()), requirements):
            by_tools.setdefault(rule.tools, []).append(rule)
        written: list[Written] = []
        for tools, rules in by_tools.items():
            same = [rule.argument for rule in rules if rule.argument]
            least = min(rules, key=lambda rule: rule.evidence.held / max(rule.evidence.judged, 1)).evidence
            call: Written = tools[0] if len(tools) == 1 else tools
            requirement: dict[str, Written] = {"call": call, "same": same} if same else {"call": call}
            written.append(Commented(requirement, f"{least.held} of {least.judged}, in {least.runs} runs"))
        return written


class Limits:
    """What the traffic of a service suggests beside contracts: a budget, and words of answers."""

    def __init__(self, usage: ServiceUsage, tools: Contracts) -> None:
        self._usage = usage
        self._names = tools.names
        self.figures = {name: figure for name, figure in usage.figures.items() if figure.quantiles.count}

    def evidence(self) -> Iterator[Evidence]:
        """Yield the evidence for all figures."""
        for figure in (*self.figures.values(), *(self._usage.calls_of[name] for name in self._names)):
            # No run takes more than the limit; a single one may contradict that.
            largest = figure.largest
            is_alarm = largest.runs > 1 and largest.first > _above(largest.second, is_errors=False)
            yield Evidence(runs=largest.runs, broken=int(is_alarm), breaking=[largest.run] * is_alarm)

    def criteria(self, prefix: str, service: str | None, requirements: Requirements) -> Iterator[Criterion]:
        """Yield the criteria that have enough evidence."""
        common: Criterion = {} if service is None else {"when": {"service": as_glob(service)}}
        common["scope"] = "conversation" if self._usage.has_conversations else "trace"
        if budget := self._budget(requirements):
            yield {"name": f"{prefix}.budget", "evaluator": "budget", **common, **budget}
        receipts = {name: found for name, found in self._usage.receipts.written().items() if name in self._names}
        if receipts:
            yield {"name": f"{prefix}.answers", "evaluator": "honest_answer", **common, "receipts": receipts}

    def _budget(self, requirements: Requirements) -> Criterion:
        limits: Criterion = {
            name: Commented(_limit(name, figure), _spread(name, figure))
            for name, figure in self.figures.items()
            if figure.quantiles.count >= requirements.runs
        }
        per_tool = {
            name: Commented({"calls": _limit("calls", figure)}, _spread("calls", figure))
            for name in self._names
            if (figure := self._usage.calls_of[name]).quantiles.count >= requirements.runs
        }
        if per_tool:
            limits["per_tool"] = dict(list(per_tool.items())[:_MAX_RULES])
        return limits


def _met(rules: Sequence[Rule], requirements: Requirements) -> list[Rule]:
    """Return the rules with enough evidence; of too many those with the most."""
    good = [rule for rule in rules if requirements.met_by(rule.evidence)]
    most = sorted(good, key=lambda rule: -rule.evidence.runs)[:_MAX_RULES]
    return [rule for rule in good if rule in most]


def _above(figure: float, *, is_errors: bool) -> float:
    """Return a limit that is a little above a figure; one more error than ever is no sign yet."""
    return outwards(figure + 1, up=True) if is_errors else outwards(figure * _MARGIN, up=True)


def _limit(name: str, figure: Figure) -> Written:
    limit = _above(figure.quantiles.quantile(_HIGHEST) or 0.0, is_errors=name == "errors")
    return f"{max(limit, 0.001):g}s" if name == "duration" else math.ceil(limit)


def _spread(name: str, figure: Figure) -> str:
    unit = "s" if name == "duration" else ""
    shown = [f"{share:.0%} {_short(figure.quantiles.quantile(share))}{unit}" for share in _QUANTILES]
    return f"{', '.join(shown)}, most {_short(figure.quantiles.quantile(1.0))}{unit}, of {figure.quantiles.count} runs"


def _short(number: float | None) -> str:
    return "?" if number is None else f"{number:.3g}" if abs(number) < 1000 else f"{number:.0f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a rule needs, and how many runs may fail by mistake."""

    requirements: Requirements = field(default_factory=Requirements)
    most_alarms: float = 0.05


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
    # The tools that may be written, with what was seen of them.
    tools: Mapping[str, str]
    criteria: Sequence[Written]
    services: tuple[ServiceSummary, ...]
    has_conversations: bool
    runs: int
    needed: int
    alarms: int

    @property
    def count(self) -> int:
        """How many contracts and criteria there are."""
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
        """Add one run, unless it was not seen to its end: that is not what runs usually are."""
        if trajectory.closed_because in CUT_SHORT or trajectory.incomplete is not None:
            self.cut_short += 1
            return
        service = trajectory.service
        if service in self._services or len(self._services) < _MAX_SERVICES:
            trajectory = without_code(trajectory)
            by_tool = self._tools.add(trajectory)
            self._services.setdefault(service, ServiceUsage()).add(trajectory, by_tool)

    @property
    def calls(self) -> int:
        """How many calls were seen."""
        return sum(usage.calls for usage in self._services.values())

    @property
    def has_conversations(self) -> bool:
        """Whether any trace had the id of a conversation."""
        return self._tools.has_conversations

    @property
    def runs(self) -> int:
        """How many runs were seen."""
        return self.cut_short + self._tools.all.runs

    def result(self, options: Options) -> Learned:
        """Return the contracts and criteria that have enough evidence, and a summary of each service."""
        contracts, runs = Contracts(self._tools, self._kinds), self._tools.all.runs
        least = options.requirements
        needed, alarms = raised(list(contracts.evidence()), least, runs=runs, most_alarms=options.most_alarms)
        written = contracts.written(needed)
        entries: list[Written] = []
        summaries: list[ServiceSummary] = []
        slugs = _slugs(self._services.keys())
        for service in sorted(self._services, key=lambda name: (name is not None, name or "")):
            usage = self._services[service]
            limits = Limits(usage, contracts)
            evidence = list(limits.evidence())
            of_service, failing = raised(evidence, least, runs=usage.runs, most_alarms=options.most_alarms)
            criteria = list(limits.criteria(f"learned.{slugs[service]}", service, of_service))
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
            contracts=written,
            tools={name: contracts.comment(name, runs) for name in contracts.names},
            criteria=entries,
            services=tuple(summaries),
            has_conversations=self.has_conversations,
            runs=runs,
            needed=needed.runs,
            alarms=alarms,
        )


def _slugs(services: Iterable[str | None]) -> Mapping[str | None, str]:
    names = sorted(name for name in services if name is not None)
    counts = Counter(map(slug, names))
    taken: defaultdict[str, int] = defaultdict(int)
    slugs: dict[str | None, str] = {None: "any-service"}
    for name in names:
        own = slug(name)
        taken[own] += 1
        slugs[name] = own if counts[own] == 1 else f"{own}-{taken[own]}"
    return slugs


@dataclass(slots=True)
class Wanted:
    """The runs to learn from: those with these attributes, and those that passed by these labels."""

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
    kinds = tool_kinds(config)
    make = offline_pipeline(config, criteria, attributes=[key for key, _ in wanted.attributes])
    learner = Learner(kinds)
    for scorecard in scorecards(recording, make):
        trajectory = scorecard.trajectory
        # A trace without the id of a conversation is judged as one of its own.
        is_whole = trajectory.scope == "conversation" or trajectory.conversation_id is None
        if is_whole and wanted.takes(trajectory):
            learner.add(with_writing_tools(trajectory, (), kinds))
    return learner
