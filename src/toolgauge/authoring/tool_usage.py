"""What the runs of one service do with one tool: its arguments, what comes before it, where its values come from."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from toolgauge.authoring.argument_tree import ArgumentNode
from toolgauge.authoring.evidence import Evidence, Requirements
from toolgauge.authoring.value_profiles import VARYING, form_of, is_id_name
from toolgauge.authoring.yaml_text import Written
from toolgauge.evaluators.order_rules import OrderRules
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.outcomes import NotEvaluated, Scored
from toolgauge.model.ports import Evaluator
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.equality import Leaf
from toolgauge.score.origins.provenance import FromResults, ResultsOf, Subject
from toolgauge.score.patterns import Globs
from toolgauge.score.places import Place, Step
from toolgauge.score.rules import Exact
from toolgauge.score.seen import leaves
from toolgauge.score.selection import readable_arguments

_MAX_SETS = 500
_MAX_ALTERNATIVES = 3
_MAX_ARGUMENTS = 60
_MAX_DEFINITION = 20_000
_SHORTEST_VALUE = 3
_ANYWHERE = Subject("", Place(tool=Step(), path="", steps=(), specificity=()), Exact())


@dataclass(slots=True)
class Alternatives:
    """Sets of tools, one or more of each run: of which few tools does nearly every set hold one?"""

    all: Evidence = field(default_factory=Evidence)
    sets: dict[frozenset[str], Evidence] | None = field(default_factory=dict[frozenset[str], Evidence])

    def add(self, run: int, tools: frozenset[str]) -> None:
        """Add a set."""
        self.all.add(run, holds=True)
        if self.sets is None:
            return
        if tools not in self.sets and len(self.sets) == _MAX_SETS:
            self.sets = None
            return
        self.sets.setdefault(tools, Evidence()).add(run, holds=True)

    def best(self, allowed: AbstractSet[str]) -> tuple[tuple[str, ...], Evidence]:
        """Return at most three tools of which most sets hold one, and the evidence for them."""
        chosen: tuple[str, ...] = ()
        left: dict[frozenset[str], Evidence] = {} if self.sets is None else self.sets
        while len(chosen) < _MAX_ALTERNATIVES and left:
            counts = _counted(left, allowed)
            if not counts:
                break
            most = max(counts.values())
            chosen = (*chosen, min(tool for tool, count in counts.items() if count == most))
            left = {tools: evidence for tools, evidence in left.items() if chosen[-1] not in tools}
        return chosen, self._evidence(left.values())

    def _evidence(self, left: Iterable[Evidence]) -> Evidence:
        missed = list(left)
        breaking = sorted({run for evidence in missed for run in evidence.first})
        return Evidence(
            runs=self.all.runs,
            broken=max(len(breaking), *(evidence.runs for evidence in missed), 0) if missed else 0,
            breaking=breaking,
            judged=self.all.judged,
            held=self.all.judged - sum(evidence.judged for evidence in missed),
        )


def _counted(sets: Mapping[frozenset[str], Evidence], allowed: AbstractSet[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for tools, evidence in sets.items():
        for tool in tools & allowed:
            counts[tool] += evidence.judged
    return counts


def scores(evaluator: Evaluator, trajectory: Trajectory) -> Iterator[Scored]:
    """Yield what an evaluator that needs no reference scores; what cannot be judged is left out."""
    for evaluation in evaluator.evaluate(trajectory, None):
        if evaluation is not None and isinstance(outcome := evaluation[1], Scored):
            yield outcome


class ToolUsage:
    """Collects the calls of one tool; the trajectories of a service are added one after the other."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0
        self.failed = 0
        self.all = Evidence()
        self.agents: Counter[str] = Counter()
        self.is_offered = False
        # Whether it was called where other tools were on offer, and it was not.
        self.was_missing = False
        self.arguments = ArgumentNode()
        self.before = Alternatives()
        self.sources: dict[str, Alternatives] = {}
        self.confirmed = Evidence()
        self._definition: str | None = None
        self._confirmation = OrderRules.model_validate({"rules": [{"requires_confirmation": name}]})

    @property
    def is_invented(self) -> bool:
        """Whether models called it, and it was never on offer."""
        return self.was_missing and not self.is_offered

    def offer(self, definition: ToolDefinition) -> None:
        """Take note of its definition: what stands there is no user's. The first one decides for the whole recording."""
        self.is_offered = True
        if self._definition is None:
            schema = "" if definition.parameters is None else json.dumps(definition.parameters, ensure_ascii=False)
            self._definition = f"{definition.description or ''} {schema}"[:_MAX_DEFINITION]

    def schema(self, requirements: Requirements) -> Mapping[str, Written]:
        """Write the JSON Schema that the arguments of its calls keep to."""
        return self.arguments.schema(requirements, self._definition or "")

    def add_calls(self, run: int, calls: Sequence[ToolCall], before: frozenset[str], source: str) -> None:
        """Add the calls that a run made of it; `before` are the tools that had worked before the first of them."""
        self.before.add(run, before)
        for call in calls:
            self.calls += 1
            self.failed += call.has_failed
            self.all.add(run, holds=True)
            arguments = readable_arguments(call)
            if arguments is not None and not call.has_failed:
                self.arguments.add(arguments, run=run, source=source)

    def add_confirmation(self, run: int, trajectory: Trajectory) -> None:
        """Judge whether the user had confirmed its calls."""
        for score in scores(self._confirmation, trajectory):
            self.confirmed.add(run, holds=score.value == 1.0)

    def add_sources(self, run: int, call: ToolCall, trails: Mapping[str, FromResults]) -> None:
        """Look for the values of a call in earlier results, by the tool that returned them."""
        for argument, values in identifying_values(call):
            verdicts = {tool: trail.judge(call, values) for tool, trail in trails.items()}
            if any(isinstance(verdict, NotEvaluated) for verdict in verdicts.values()):
                continue
            if argument in self.sources or len(self.sources) < _MAX_ARGUMENTS:
                found = frozenset(tool for tool, verdict in verdicts.items() if verdict is None)
                self.sources.setdefault(argument, Alternatives()).add(run, found)


def identifying_values(call: ToolCall) -> Iterator[tuple[str, Sequence[Leaf]]]:
    """Yield the arguments of a call that hold ids, names or dates and nothing else, with their values."""
    for argument, value in (readable_arguments(call) or {}).items():
        values = [leaf for leaf in leaves(value) if leaf is not None]
        if values and all(_identifies(argument, leaf) for leaf in values):
            yield argument, values


def _identifies(argument: str, value: Leaf) -> bool:
    if isinstance(value, str):
        return len(value) >= _SHORTEST_VALUE and (form_of(value) in VARYING - {"text"} or is_id_name(argument))
    return not isinstance(value, bool) and is_id_name(argument)


def trails(trajectory: Trajectory) -> Mapping[str, FromResults]:
    """Prepare the search for values in the results of each tool of a trajectory."""
    wanted = [leaf for call in trajectory.calls for _, values in identifying_values(call) for leaf in values]
    if not wanted:
        return {}
    tools = sorted({call.name for call in trajectory.calls})
    return {
        tool: FromResults(_ANYWHERE, (ResultsOf(tool, Globs((tool,)), None),), wanted, trajectory) for tool in tools
    }
