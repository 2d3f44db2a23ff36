"""What was seen of a service -> criteria, each line with its evidence.

Criteria are written in terms of the evaluators that anybody can name in a criterion; nothing in a criterion depends on this module.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from toolgauge.authoring.evidence import Evidence, Largest, Requirements, raised
from toolgauge.authoring.names import as_glob, is_plain, may_be_written
from toolgauge.authoring.quantiles import outwards
from toolgauge.authoring.service_usage import Figure, ServiceUsage
from toolgauge.authoring.tool_usage import ToolUsage
from toolgauge.authoring.yaml_text import Commented, Written

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
