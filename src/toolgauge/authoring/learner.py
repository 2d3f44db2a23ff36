"""Learns a criteria file for review from recorded runs, each line with its evidence."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from toolgauge.authoring.criteria_yaml import Commented, Written, as_glob, is_plain, may_be_written, slug, yaml_text
from toolgauge.authoring.evidence import Evidence, Largest, Requirements, raised
from toolgauge.authoring.labels import LabelSet
from toolgauge.authoring.receipt_usage import ReceiptUsage
from toolgauge.authoring.tool_usage import ToolUsage, identifying_values, scores, trails
from toolgauge.authoring.value_profiles import Quantiles, outwards
from toolgauge.config.model import Config, Defaults
from toolgauge.evaluators.run_checks import Budget
from toolgauge.model.records import VERSION
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.recordings.conversation_means import attribute
from toolgauge.recordings.recorded_requests import RecordedRequest, scorecards
from toolgauge.score.criterion import agent_of, with_writing_tools
from toolgauge.score.selection import CUT_SHORT, without_code
from toolgauge.service.criteria_factory import default_criteria
from toolgauge.service.pipeline_factory import offline_pipeline, tool_kinds

_MAX_TOOLS, _MAX_NAMES = 300, 100
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
        self.all = Evidence()
        self.calls = 0
        self.has_conversations = False
        self.versions: Counter[str] = Counter()
        self.agents: Counter[str] = Counter()
        self.tools: dict[str, ToolUsage] = {}
        # The runs in which a tool was called, of all.
        self.called: dict[str, Evidence] = {}
        self.figures: dict[str, Figure] = {name: Figure() for name in FIGURES}
        self.calls_of: defaultdict[str, Figure] = defaultdict(Figure)
        self.receipts = ReceiptUsage()

    def add(self, trajectory: Trajectory) -> None:
        """Add one run."""
        run = self.all.runs
        earlier = self.all.never_held()
        self.all.add(run, holds=True)
        self.has_conversations = self.has_conversations or trajectory.scope == "conversation"
        version = trajectory.resource.get(VERSION)
        if version is not None and (version in self.versions or len(self.versions) < _MAX_NAMES):
            self.versions[version] += 1
        if trajectory.tools_offered is not None:
            offered = {tool.name: tool for tool in trajectory.tools_offered}
            for name in dict.fromkeys((*(call.name for call in trajectory.calls), *offered)):
                tool = self._tool(name)
                if tool is not None and name in offered:
                    tool.offer(offered[name])
                elif tool is not None:
                    tool.was_missing = True
        self.receipts.add(trajectory)
        by_tool: defaultdict[str, list[ToolCall]] = defaultdict(list)
        for call in trajectory.calls:
            if self._tool(call.name) is not None:
                by_tool[call.name].append(call)
        self._add_calls(run, trajectory, by_tool)
        for name in by_tool.keys() - self.called.keys():
            self.called[name] = earlier.copy()
        for name, evidence in self.called.items():
            evidence.add(run, holds=name in by_tool)
        if trajectory.hidden_turns:
            return
        for score in scores(_MEASURE, trajectory):
            for name, part in FIGURES.items():
                if part in score.parts:
                    self.figures[name].add(run, score.parts[part])
        for name, calls in by_tool.items():
            self.calls_of[name].add(run, len(calls))

    def _tool(self, name: str) -> ToolUsage | None:
        if name not in self.tools:
            if len(self.tools) == _MAX_TOOLS:
                return None
            self.tools[name] = ToolUsage(name)
        return self.tools[name]

    def _add_calls(self, run: int, trajectory: Trajectory, by_tool: Mapping[str, list[ToolCall]]) -> None:
        self.calls += len(trajectory.calls)
        source = trajectory.conversation_id or trajectory.trace_id
        before = dict(_tools_before(trajectory))
        for name, calls in by_tool.items():
            tool = self.tools[name]
            tool.add_calls(run, calls, before[name], source)
            if name in trajectory.writing_tools:
                tool.add_confirmation(run, trajectory)
            for call in calls:
                tool.agents[agent_of(call, trajectory)] += 1
        for agent in trajectory.agents:
            if agent in self.agents or len(self.agents) < _MAX_NAMES:
                self.agents[agent] += 1
        sources = trails(trajectory)
        for call in trajectory.calls:
            if call.name in by_tool and any(True for _ in identifying_values(call)):
                self.tools[call.name].add_sources(run, call, sources)


def _tools_before(trajectory: Trajectory) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each tool with those that had worked in turns before its first call."""
    worked: set[str] = set()
    seen: set[str] = set()
    here: set[str] = set()
    turn = -1
    for call in trajectory.calls:
        if call.turn != turn:
            worked |= here
            here, turn = set[str](), call.turn
        if call.name not in seen:
            seen.add(call.name)
            yield call.name, frozenset(worked)
        if not call.has_failed:
            here.add(call.name)


_MAX_SERVICES, _MAX_RULES = 200, 100
# A limit is this much above the figures seen.
_MARGIN = 1.25
_QUANTILES = (0.5, 0.9, 0.99)
_HIGHEST = 0.999
_HEADER = (
    "Learned from traffic by `toolgauge learn`: what was usual, not what is right. Read it, delete what should not",
    "hold, and run it with `toolgauge replay --criteria` or as one of `criteria_files` of `toolgauge serve`.",
    "A comment is the evidence for its line. A share of 1 % of runs may break a rule that is written, by default.",
)
# `toolgauge init` writes such a file: with the criteria of packs, or without any.
_NOTHING_LEARNED = (
    "Nothing is learned from traffic here: no rule has enough runs as evidence. `toolgauge learn` writes criteria from more.",
)

Criterion = dict[str, Written]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that may be written, and its evidence."""

    evidence: Evidence
    written: Written
    key: str = ""


class Candidates:
    """All rules that the traffic of a service suggests."""

    def __init__(self, usage: ServiceUsage) -> None:
        self._usage = usage
        self._tools = _writable_tools(usage)
        self._plain = {name: tool for name, tool in self._tools.items() if is_plain(name)}
        self.before: list[Rule] = []
        self.confirmed: list[Rule] = []
        self.sources: list[Rule] = []
        self.always: list[Rule] = []
        self.figures = {name: figure for name, figure in usage.figures.items() if figure.quantiles.count}
        for name, tool in self._plain.items():
            tools, evidence = tool.before.best(self._plain.keys() - {name})
            if tools:
                rule = {"before": name, "call": tools[0] if len(tools) == 1 else tools}
                self.before.append(Rule(evidence, Commented(rule, _share_of_runs(evidence))))
            if tool.confirmed.runs:
                rule = Commented({"requires_confirmation": name}, _share_of_runs(tool.confirmed))
                self.confirmed.append(Rule(tool.confirmed, rule))
            for argument, alternatives in sorted(tool.sources.items()):
                tools, evidence = alternatives.best(self._plain.keys())
                # The same few values again and again show little: runs of one customer are one observation here.
                evidence.runs = min(evidence.runs, tool.arguments.distinct(argument))
                if tools and tool.arguments.is_public(argument):
                    sources = [{"tool": source} for source in tools]
                    share = f"{evidence.held} of {evidence.judged} calls, in {evidence.runs} runs"
                    rule = Commented({"from": sources[0] if len(sources) == 1 else sources}, share)
                    place = f'["{name}"]' if any(letter in name for letter in ".:/") else name
                    self.sources.append(Rule(evidence, rule, f"{place}.{argument}"))
            called = usage.called[name]
            self.always.append(Rule(called, Commented(">= 1", _share_of_runs(called)), name))

    def evidence(self) -> Iterator[Evidence]:
        """Yield the evidence for all of them."""
        for rule in (*self.before, *self.confirmed, *self.sources, *self.always):
            yield rule.evidence
        runs = self._usage.all.runs
        for tool in self._usage.tools.values():
            if tool.all.runs == 1:
                yield Evidence(runs=runs, broken=1, breaking=list(tool.all.first))
            yield from tool.arguments.candidates()
        for figure in (*self.figures.values(), *(self._usage.calls_of[name] for name in self._plain)):
            # No run takes more than the limit; a single one may contradict that.
            largest = figure.largest
            is_alarm = largest.runs > 1 and largest.first > _above(largest.second, is_errors=False)
            yield Evidence(runs=largest.runs, broken=int(is_alarm), breaking=[largest.run] * is_alarm)

    def criteria(self, prefix: str, service: str | None, requirements: Requirements) -> Iterator[Criterion]:
        """Yield the criteria that have enough evidence."""
        common: Criterion = {} if service is None else {"when": {"service": as_glob(service)}}
        common["scope"] = "conversation" if self._usage.has_conversations else "trace"
        order = [rule.written for rule in _met((*self.before, *self.confirmed), requirements)]
        origins = {rule.key: rule.written for rule in _met(self.sources, requirements)}
        always = {rule.key: rule.written for rule in _met(self.always, requirements)}
        schemas = {
            name: Commented(tool.schema(requirements), f"{tool.calls} calls in {tool.all.runs} runs")
            for name, tool in self._tools.items()
            if tool.arguments.objects.runs >= requirements.runs
        }
        receipts = {name: found for name, found in self._usage.receipts.written().items() if name in self._tools}
        for kind, evaluator, parameters in (
            ("tools", "policy", self._allowed(requirements)),
            ("arguments", "arguments_schema", {"schemas": schemas} if schemas else {}),
            ("order", "order_rules", {"rules": order} if order else {}),
            ("origins", "data_flow", {"rules": origins} if origins else {}),
            ("always", "tool_call_count", {"counts": always} if always else {}),
            ("budget", "budget", self._budget(requirements)),
            ("answers", "honest_answer", {"receipts": receipts} if receipts else {}),
        ):
            if parameters:
                yield {"name": f"{prefix}.{kind}", "evaluator": evaluator, **common, **parameters}

    def _allowed(self, requirements: Requirements) -> Criterion:
        usage = self._usage
        if usage.all.runs < requirements.runs or not self._tools:
            return {}
        agents: list[str | None] = [*sorted(usage.agents)]
        if len(agents) <= 1 or not all(may_be_written(a, is_offered=False, runs=n) for a, n in usage.agents.items()):
            agents = [None]
        rules: list[Written] = []
        for agent in agents:
            lines: list[Written] = []
            for tool in self._tools.values():
                calls = tool.calls if agent is None else tool.agents[agent]
                failed = f", {tool.failed} failed" if tool.failed else ""
                note = f"{calls} calls, in {tool.all.runs} of {usage.all.runs} runs{failed}"
                if calls:
                    lines.append(Commented(as_glob(tool.name), note))
            if lines:
                # Calls of which the agent is not known are bound by no rule that names one.
                rules.append({"tool": lines} if agent is None else {"agent": agent, "tool": lines})
        others = sum(1 for tool in usage.tools.values() if tool.calls) - len(self._tools)
        note = f"not allowed: {others} called in one run alone, or never on offer" if others else ""
        return {"allow_only": Commented(rules, note)}

    def _budget(self, requirements: Requirements) -> Criterion:
        limits: Criterion = {
            name: Commented(_limit(name, figure), _spread(name, figure))
            for name, figure in self.figures.items()
            if figure.quantiles.count >= requirements.runs
        }
        per_tool = {
            name: Commented({"calls": _limit("calls", figure)}, _spread("calls", figure))
            for name in self._plain
            if (figure := self._usage.calls_of[name]).quantiles.count >= requirements.runs
        }
        if per_tool:
            limits["per_tool"] = dict(list(per_tool.items())[:_MAX_RULES])
        return limits


def _writable_tools(usage: ServiceUsage) -> dict[str, ToolUsage]:
    """Return the tools that were called, as far as their names may be written."""
    return {
        name: tool
        for name, tool in sorted(usage.tools.items())
        if tool.calls
        and (tool.is_offered or not tool.was_missing)
        and may_be_written(name, is_offered=tool.is_offered, runs=tool.all.runs)
    }


def _met(rules: Sequence[Rule], requirements: Requirements) -> list[Rule]:
    """Return the rules with enough evidence; of too many those with the most."""
    good = [rule for rule in rules if requirements.met_by(rule.evidence)]
    most = sorted(good, key=lambda rule: -rule.evidence.runs)[:_MAX_RULES]
    return [rule for rule in good if rule in most]


def _share_of_runs(evidence: Evidence) -> str:
    return f"{evidence.runs - evidence.broken} of {evidence.runs} runs"


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

    requirements: Requirements
    most_alarms: float


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


class Learner:
    """Collects the runs of services."""

    def __init__(self) -> None:
        self._services: dict[str | None, ServiceUsage] = {}
        self.cut_short = 0

    def add(self, trajectory: Trajectory) -> None:
        """Add one run, unless it was not seen to its end: that is not what runs usually are."""
        if trajectory.closed_because in CUT_SHORT or trajectory.incomplete is not None:
            self.cut_short += 1
            return
        service = trajectory.service
        if service in self._services or len(self._services) < _MAX_SERVICES:
            self._services.setdefault(service, ServiceUsage()).add(without_code(trajectory))

    @property
    def calls(self) -> int:
        """How many calls were seen."""
        return sum(usage.calls for usage in self._services.values())

    @property
    def has_conversations(self) -> bool:
        """Whether any trace had the id of a conversation."""
        return any(usage.has_conversations for usage in self._services.values())

    def tool_names(self) -> list[str]:
        """Name the tools that were called, as far as their names may be written."""
        return sorted({name for usage in self._services.values() for name in _writable_tools(usage) if is_plain(name)})

    @property
    def runs(self) -> int:
        """How many runs were seen."""
        return self.cut_short + sum(usage.all.runs for usage in self._services.values())

    def result(self, options: Options) -> tuple[str, tuple[ServiceSummary, ...]]:
        """Return the text of the criteria file and a summary of each service."""
        entries: list[Written] = []
        summaries: list[ServiceSummary] = []
        slugs = _slugs(self._services.keys())
        for service in sorted(self._services, key=lambda name: (name is not None, name or "")):
            usage = self._services[service]
            runs, candidates = usage.all.runs, Candidates(usage)
            evidence = list(candidates.evidence())
            needed, alarms = raised(evidence, options.requirements, runs=runs, most_alarms=options.most_alarms)
            criteria = list(candidates.criteria(f"learned.{slugs[service]}", service, needed))
            summary = ServiceSummary(
                service=service,
                runs=runs,
                calls=usage.calls,
                criteria=len(criteria),
                needed=needed.runs,
                alarms=alarms,
                versions=dict(sorted(usage.versions.items())),
            )
            summaries.append(summary)
            named = "a service without a name" if service is None else service
            versions = ", ".join(f"{version} ({count} runs)" for version, count in list(summary.versions.items())[:5])
            head = (
                "",
                f"{runs} runs with {usage.calls} calls of {named}" + (f"; versions: {versions}" if versions else ""),
                f"A rule needs {needed.runs} runs. {alarms} of {runs} runs would fail what is learned from the others.",
            )
            entries.extend(Commented(one, above=() if place else head) for place, one in enumerate(criteria))
        return yaml_text({"criteria": entries}, _HEADER if entries else _NOTHING_LEARNED), tuple(summaries)


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
    learner = Learner()
    for scorecard in scorecards(recording, make):
        trajectory = scorecard.trajectory
        # A trace without the id of a conversation is judged as one of its own.
        is_whole = trajectory.scope == "conversation" or trajectory.conversation_id is None
        if is_whole and wanted.takes(trajectory):
            learner.add(with_writing_tools(trajectory, (), kinds))
    return learner
