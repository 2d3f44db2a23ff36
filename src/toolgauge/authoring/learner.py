"""Which runs of a recording are learned from: those with some attributes, and those that passed by some labels."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from toolgauge.authoring.criteria_yaml import Commented, Written, as_glob, is_plain, may_be_written, slug, yaml_text
from toolgauge.authoring.evidence import Evidence, Largest, Requirements, raised
from toolgauge.authoring.labels import LabelSet
from toolgauge.authoring.quantiles import outwards
from toolgauge.authoring.service_usage import Figure, ServiceUsage
from toolgauge.authoring.tool_usage import ToolUsage
from toolgauge.config.model import Config, Defaults
from toolgauge.model.trajectory import Trajectory
from toolgauge.recordings.conversation_means import attribute
from toolgauge.recordings.recorded_requests import RecordedRequest, scorecards
from toolgauge.score.criterion import with_writing_tools
from toolgauge.score.selection import CUT_SHORT, without_code
from toolgauge.service.criteria_factory import default_criteria
from toolgauge.service.pipeline_factory import offline_pipeline, tool_kinds

_MAX_RULES = 100
# A limit is this much above what was seen.
_MARGIN = 1.25
_QUANTILES = (0.5, 0.9, 0.99)
_HIGHEST = 0.999
_CONVERSATION = "conversation"

Criterion = dict[str, Written]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that may be written, and what speaks for it."""

    evidence: Evidence
    written: Written
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """The criteria of one service; `alarms` of `runs` would have failed criteria learned from the others."""

    criteria: Sequence[Written]
    requirements: Requirements
    runs: int
    alarms: int


class Candidates:
    """All rules that the traffic of a service suggests."""

    def __init__(self, usage: ServiceUsage) -> None:
        self._usage = usage
        self._tools = {
            name: tool
            for name, tool in sorted(usage.tools.items())
            if tool.calls
            and not tool.is_invented
            and may_be_written(name, is_offered=tool.is_offered, runs=tool.all.runs)
        }
        plain = [name for name in self._tools if is_plain(name)]
        self._plain = {name: self._tools[name] for name in plain}
        self.before = [rule for name in plain for rule in self._before(name)]
        self.confirmed = [rule for name in plain for rule in self._confirmed(name)]
        self.sources = [rule for name in plain for rule in self._sources(name)]
        self.always = [rule for name in plain for rule in self._always(name)]
        self.figures = {name: figure for name, figure in usage.figures.items() if figure.quantiles.count}

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
            yield _of_largest(figure.largest)

    def criteria(self, prefix: str, service: str | None, requirements: Requirements) -> Iterator[Criterion]:
        """Yield the criteria that have enough evidence."""
        common: Criterion = {} if service is None else {"when": {"service": as_glob(service)}}
        common["scope"] = _CONVERSATION if self._usage.has_conversations else "trace"
        for kind, evaluator, parameters in (
            ("tools", "policy", self._allowed(requirements)),
            ("arguments", "arguments_schema", self._schemas(requirements)),
            ("order", "order_rules", _as_list("rules", (*self.before, *self.confirmed), requirements)),
            ("origins", "data_flow", _as_mapping("rules", self.sources, requirements)),
            ("always", "tool_call_count", _as_mapping("counts", self.always, requirements)),
            ("budget", "budget", self._budget(requirements)),
            ("failures", "tool_success", self._failures(requirements)),
        ):
            if parameters:
                yield {"name": f"{prefix}.{kind}", "evaluator": evaluator, **common, **parameters}

    def _before(self, name: str) -> Iterator[Rule]:
        others = self._plain.keys() - {name}
        tools, evidence = self._plain[name].before.best(others)
        if tools:
            call = tools[0] if len(tools) == 1 else tools
            yield Rule(evidence, Commented({"before": name, "call": call}, _share(evidence, "runs")))

    def _confirmed(self, name: str) -> Iterator[Rule]:
        evidence = self._plain[name].confirmed
        if evidence.runs:
            yield Rule(evidence, Commented({"requires_confirmation": name}, _share(evidence, "runs")))

    def _sources(self, name: str) -> Iterator[Rule]:
        tool = self._plain[name]
        for argument, alternatives in sorted(tool.sources.items()):
            tools, evidence = alternatives.best(self._plain.keys())
            # The same few values again and again show little: runs of one customer are one observation here.
            evidence.runs = min(evidence.runs, tool.arguments.distinct(argument))
            if tools and tool.arguments.is_public(argument):
                sources = [{"tool": source} for source in tools]
                rule = {"from": sources[0] if len(sources) == 1 else sources}
                yield Rule(evidence, Commented(rule, _share(evidence, "calls")), f"{_quoted(name)}.{argument}")

    def _always(self, name: str) -> Iterator[Rule]:
        evidence = self._usage.called[name]
        yield Rule(evidence, Commented(">= 1", _share(evidence, "runs")), name)

    def _allowed(self, requirements: Requirements) -> Criterion:
        usage = self._usage
        if usage.all.runs < requirements.runs or not self._tools:
            return {}
        agents = sorted(usage.agents)
        if len(agents) <= 1 or not all(may_be_written(a, is_offered=False, runs=usage.agents[a]) for a in agents):
            return self._allowing([{"tool": [self._tool_line(tool) for tool in self._tools.values()]}])
        # Calls of which the agent is not known are bound by no rule that names one.
        rules = [
            {"agent": agent, "tool": lines}
            for agent in agents
            if (lines := [self._tool_line(tool, agent) for tool in self._tools.values() if tool.agents[agent]])
        ]
        return self._allowing(rules)

    def _allowing(self, rules: Sequence[Written]) -> Criterion:
        others = sum(1 for tool in self._usage.tools.values() if tool.calls) - len(self._tools)
        note = f"not allowed: {others} called in one run alone, or never on offer" if others else ""
        return {"allow_only": Commented(rules, note)}

    def _tool_line(self, tool: ToolUsage, agent: str | None = None) -> Written:
        calls = tool.calls if agent is None else tool.agents[agent]
        failed = f", {tool.failed} failed" if tool.failed else ""
        return Commented(
            as_glob(tool.name), f"{calls} calls, in {tool.all.runs} of {self._usage.all.runs} runs{failed}"
        )

    def _schemas(self, requirements: Requirements) -> Criterion:
        schemas = {
            name: Commented(tool.schema(requirements), f"{tool.calls} calls in {tool.all.runs} runs")
            for name, tool in self._tools.items()
            if tool.arguments.objects.runs >= requirements.runs
        }
        return {"schemas": schemas} if schemas else {}

    def _failures(self, requirements: Requirements) -> Criterion:
        """Propose results that are failures: in the shadow, as the same words may be an answer elsewhere."""
        globs = self._usage.error_results.globs() if self._usage.all.runs >= requirements.runs else []
        return {"retries": "ignore", "enforce": "shadow", "failures": {"match": globs}} if globs else {}

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


def learn(
    usage: ServiceUsage, *, prefix: str, service: str | None, requirements: Requirements, most_alarms: float
) -> Learned:
    """Write the criteria of a service, with requirements that keep false alarms few."""
    candidates = Candidates(usage)
    needed, alarms = raised(list(candidates.evidence()), requirements, runs=usage.all.runs, most_alarms=most_alarms)
    return Learned(
        criteria=list(candidates.criteria(prefix, service, needed)),
        requirements=needed,
        runs=usage.all.runs,
        alarms=alarms,
    )


def _written(rules: Sequence[Rule], requirements: Requirements) -> list[Rule]:
    """Return the rules with enough evidence; of too many those with the most."""
    good = [rule for rule in rules if requirements.met_by(rule.evidence)]
    most = sorted(good, key=lambda rule: -rule.evidence.runs)[:_MAX_RULES]
    return [rule for rule in good if rule in most]


def _as_list(key: str, rules: Sequence[Rule], requirements: Requirements) -> Criterion:
    good = _written(rules, requirements)
    return {key: [rule.written for rule in good]} if good else {}


def _as_mapping(key: str, rules: Sequence[Rule], requirements: Requirements) -> Criterion:
    good = _written(rules, requirements)
    return {key: {rule.key: rule.written for rule in good}} if good else {}


def _share(evidence: Evidence, unit: str) -> str:
    if unit == "runs":
        return f"{evidence.runs - evidence.broken} of {evidence.runs} runs"
    return f"{evidence.held} of {evidence.judged} calls, in {evidence.runs} runs"


def _quoted(name: str) -> str:
    return f'["{name}"]' if "." in name or ":" in name or "/" in name else name


def _above(figure: float, *, is_errors: bool) -> float:
    """Return a limit that is a little above a figure; one more error than ever is no sign yet."""
    return outwards(figure + 1, up=True) if is_errors else outwards(figure * _MARGIN, up=True)


def _limit(name: str, figure: Figure) -> Written:
    highest = figure.quantiles.quantile(_HIGHEST) or 0.0
    limit = _above(highest, is_errors=name == "errors")
    if name == "duration":
        return f"{max(limit, 0.001):g}s"
    return math.ceil(limit)


def _spread(name: str, figure: Figure) -> str:
    unit = "s" if name == "duration" else ""
    shown = [f"{share:.0%} {_short(figure.quantiles.quantile(share))}{unit}" for share in _QUANTILES]
    return f"{', '.join(shown)}, most {_short(figure.quantiles.quantile(1.0))}{unit}, of {figure.quantiles.count} runs"


def _short(number: float | None) -> str:
    return "?" if number is None else f"{number:.3g}" if abs(number) < 1000 else f"{number:.0f}"


def _of_largest(largest: Largest) -> Evidence:
    """Return the evidence that no run takes more than the limit, which a single one may contradict."""
    is_alarm = largest.runs > 1 and largest.first > _above(largest.second, is_errors=False)
    return Evidence(runs=largest.runs, broken=int(is_alarm), breaking=[largest.run] * is_alarm)


_MAX_SERVICES = 200
_PREFIX = "learned"
_HEADER = (
    "Learned from traffic by `toolgauge learn`: what was usual, not what is right. Read it, delete what should not",
    "hold, and run it with `toolgauge replay --criteria` or as one of `criteria_files` of `toolgauge serve`.",
    "A comment is the evidence for its line. A share of 1 % of runs may break a rule that is written, by default.",
)
# `toolgauge init` writes such a file: with the criteria of packs, or without any.
_NOTHING_LEARNED = (
    "Nothing is learned from traffic here: no rule has enough runs as evidence. `toolgauge learn` writes criteria from more.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a rule needs, and how many runs may fail by mistake."""

    requirements: Requirements
    most_alarms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSummary:
    """The traffic of one service and the criteria made of it."""

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
        self.further_services = 0

    def add(self, trajectory: Trajectory) -> None:
        """Add one run, unless it was not seen to its end: that is not what runs usually are."""
        if trajectory.closed_because in CUT_SHORT or trajectory.incomplete is not None:
            self.cut_short += 1
            return
        service = trajectory.service
        if service not in self._services:
            if len(self._services) == _MAX_SERVICES:
                self.further_services += 1
                return
            self._services[service] = ServiceUsage()
        self._services[service].add(without_code(trajectory))

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
        names = {
            name
            for usage in self._services.values()
            for name, tool in usage.tools.items()
            if tool.calls
            and not tool.is_invented
            and is_plain(name)
            and may_be_written(name, is_offered=tool.is_offered, runs=tool.all.runs)
        }
        return sorted(names)

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
            learned = learn(
                usage,
                prefix=f"{_PREFIX}.{slugs[service]}",
                service=service,
                requirements=options.requirements,
                most_alarms=options.most_alarms,
            )
            summary = ServiceSummary(
                service=service,
                runs=usage.all.runs,
                calls=usage.calls,
                criteria=len(learned.criteria),
                needed=learned.requirements.runs,
                alarms=learned.alarms,
                versions=dict(sorted(usage.versions.items())),
            )
            summaries.append(summary)
            for place, criterion in enumerate(learned.criteria):
                entries.append(Commented(criterion, above=_head(summary) if place == 0 else ()))
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


def _head(summary: ServiceSummary) -> tuple[str, ...]:
    versions = ", ".join(f"{version} ({runs} runs)" for version, runs in list(summary.versions.items())[:5])
    lines = [
        f"{summary.runs} runs with {summary.calls} calls of {'a service without a name' if summary.service is None else summary.service}"
        + (f"; versions: {versions}" if versions else ""),
        f"A rule needs {summary.needed} runs. {summary.alarms} of {summary.runs} runs would fail what is learned from the others.",
    ]
    return ("", *lines)


@dataclass(slots=True)
class Wanted:
    """Which runs are learned from: those with some attributes, and those that passed by some labels."""

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
        """Name what left no run to learn from; `None` where it is the traffic itself."""
        if self.seen and not self.with_attributes:
            return "no run has " + " and ".join(f"`{key}={value}`" for key, value in self.attributes)
        if self.labels is None or not self.seen:
            return None
        if not self.labelled:
            return (
                f"none of the {len(self.labels.verdicts)} labels of `{self.labels.name}` is on a run of the recording"
            )
        return f"no run with tool calls passed by the labels of `{self.labels.name}` ({self.labelled} runs have one)"


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
