"""The calls of one tool in the runs of a service: arguments, the tools called before, and where values come from."""

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeAlias

from toolgauge.authoring.criteria_yaml import Commented, Written, may_be_written
from toolgauge.authoring.evidence import Evidence, Requirements
from toolgauge.authoring.value_profiles import MIN_SOURCES, VARYING, Form, Profile, form_of, is_id_name
from toolgauge.model.content import NotRecorded, Recorded
from toolgauge.model.json import Json, JsonObject, Leaf, leaves
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.outcomes import NotEvaluated, Scored
from toolgauge.model.ports import Evaluator
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.error_texts import error_beginning, error_in, opened
from toolgauge.score.origins.provenance import FromResults, ResultsOf, Subject
from toolgauge.score.patterns import Globs, Place, Step
from toolgauge.score.rules import Exact
from toolgauge.score.selection import readable_arguments

_MAX_DEPTH, _MAX_KEYS, _MAX_NODES = 6, 60, 1000
_KEY = re.compile(r"[A-Za-z_][A-Za-z_-]{0,60}\d{0,2}")
_TYPES: Mapping[Form, str] = {
    "null": "null",
    "boolean": "boolean",
    "integer": "integer",
    "number": "number",
    "list": "array",
    "object": "object",
}
# A range is wider than what was seen by this share of it, on both sides.
_MARGIN = 0.5

_Schema: TypeAlias = "dict[str, Written]"


@dataclass(slots=True)
class _Room:
    """How many more nodes one tool may have: keys come from models, and may be new in every call."""

    left: int = _MAX_NODES


class ArgumentNode:
    """What the values at one place have in common. `definition` is everywhere the text of the tool's definition."""

    def __init__(self, name: str = "", depth: int = 0, room: _Room | None = None) -> None:
        self._name = name
        self._room = room or _Room()
        self._room.left -= 1
        self._depth = depth
        self.profile = Profile(name)
        # The runs that had an object here, and those in which each of its keys was missing.
        self.objects = Evidence()
        self.members: dict[str, ArgumentNode] | None = {}
        self.present: dict[str, Evidence] = {}
        self._items: ArgumentNode | None = None
        # The runs with a value of each form, up to two.
        self._forms: dict[Form, set[int]] = {}
        self._all = Evidence()

    def add(self, value: Json, *, run: int, source: str) -> None:
        """Add one value."""
        self._all.add(run, holds=True)
        self.profile.add(value, source)
        runs = self._forms.setdefault(form_of(value), set())
        if len(runs) < 2:
            runs.add(run)
        if self._depth == _MAX_DEPTH:
            return
        if isinstance(value, list):
            items = self._items
            if items is None and self._room.left > 0:
                items = self._items = ArgumentNode(self._name, self._depth + 1, self._room)
            if items is not None:
                for item in value:
                    items.add(item, run=run, source=source)
        elif isinstance(value, dict):
            self._add_object(value, run, source)

    def _add_object(self, value: JsonObject, run: int, source: str) -> None:
        earlier = self.objects.never_held()
        self.objects.add(run, holds=True)
        if self.members is None:
            return
        for key, member in value.items():
            if key not in self.members:
                if len(self.members) == _MAX_KEYS or self._room.left <= 0:
                    self.members = None
                    return
                self.members[key] = ArgumentNode(key, self._depth + 1, self._room)
                self.present[key] = earlier.copy()
            self.members[key].add(member, run=run, source=source)
        for key, evidence in self.present.items():
            evidence.add(run, holds=key in value)

    def candidates(self) -> Iterator[Evidence]:
        """Yield the evidence of what the schemas of arguments ask for: types, and which keys within them are required."""
        for runs in self._forms.values():
            yield self._of_single(runs, self._all.runs)
        if self._items is not None:
            yield from self._items.candidates()
        for key, member in (self.members or {}).items():
            # Whether an argument is given at all, no contract says.
            if self._depth:
                yield self.present[key]
            yield from member.candidates()

    @staticmethod
    def _of_single(runs: set[int], of: int) -> Evidence:
        """Return the evidence that something is never seen, which a single run contradicts."""
        return Evidence(of, len(runs), list(runs)) if len(runs) == 1 else Evidence()

    def schema(self, requirements: Requirements, definition: str) -> _Schema:
        """Write the JSON Schema of the values."""
        summary = self.profile.summary(definition)
        types = sorted({_TYPES.get(form, "string") for form in summary.forms})
        if "number" in types and "integer" in types:
            types.remove("integer")
        schema: _Schema = {"type": types[0] if len(types) == 1 else types}
        if summary.labels is not None:
            schema["enum"] = [*summary.labels, *([None] if "null" in summary.forms else [])]
        elif summary.pattern is not None and summary.distinct >= requirements.runs:
            schema["pattern"] = f"^(?:{summary.pattern})$"
        if summary.low is not None and summary.high is not None and summary.distinct >= MIN_SOURCES:
            margin = _MARGIN * (summary.high - summary.low or abs(summary.high))
            lower = summary.low - margin
            schema["minimum"] = 0 if summary.low >= 0 > lower else math.floor(lower)
            schema["maximum"] = math.ceil(summary.high + margin)
        if self._items is not None and summary.form == "list":
            schema["items"] = self._items.schema(requirements, definition)
        if summary.form == "object":
            schema |= self.of_members(requirements, definition)
        return schema

    def of_members(self, requirements: Requirements, definition: str) -> _Schema:
        """Write what the schema of an object asks of its keys."""
        public = {key: node for key, node in sorted((self.members or {}).items()) if self.is_public(key, definition)}
        schema: _Schema = {}
        if public:
            schema["properties"] = {
                key: Commented(node.schema(requirements, definition), node.comment(self.present[key], definition))
                for key, node in public.items()
            }
        if required := self.required(requirements, definition):
            schema["required"] = required
        if self.members is None or len(public) < len(self.members) or self.objects.runs < requirements.runs:
            schema["additionalProperties"] = True
        return schema

    def required(self, requirements: Requirements, definition: str) -> list[str]:
        """Name the keys that nearly all values have."""
        if not requirements.met_by(self._is_object):
            return []
        keys = [key for key in sorted(self.present) if self.is_public(key, definition)]
        return [key for key in keys if requirements.met_by(self.present[key])]

    def keys(self) -> Iterator[Evidence]:
        """Yield the evidence that values are objects, and of each of their keys."""
        yield self._is_object
        yield from self.present.values()

    @property
    def _is_object(self) -> Evidence:
        others = set[int]().union(*[runs for form, runs in self._forms.items() if form != "object"])
        return Evidence(self._all.runs, len(others), [*others])

    def distinct(self, key: str) -> int:
        """Count the different texts under a key."""
        member = (self.members or {}).get(key)
        return 0 if member is None else member.profile.summary().distinct

    def is_public(self, key: str, definition: str = "") -> bool:
        """Return whether a key may be written."""
        if not _KEY.fullmatch(key):
            return False
        is_declared = re.search(rf"(?<!\w){re.escape(key)}(?!\w)", definition) is not None
        member = (self.members or {}).get(key)
        return is_declared or (member is not None and member.profile.summary().sources >= MIN_SOURCES)

    def comment(self, present: Evidence, definition: str) -> str:
        """Name the evidence."""
        summary = self.profile.summary(definition)
        forms = ", ".join(f"{count} {form}" for form, count in summary.forms.items())
        varied = f", {summary.distinct} different texts" if summary.labels is None and summary.distinct > 1 else ""
        return f"in {present.held} of {present.judged} calls: {forms}{varied}"


_MAX_SETS, _MAX_ALTERNATIVES, _MAX_ARGUMENTS, _MAX_BEGINNINGS = 500, 3, 60, 5
_MAX_DEFINITION, _SHORTEST_VALUE = 20_000, 3
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
            counts: Counter[str] = Counter()
            for tools, evidence in left.items():
                counts.update(dict.fromkeys(tools & allowed, evidence.judged))
            if not counts:
                break
            most = max(counts.values())
            chosen = (*chosen, min(tool for tool, count in counts.items() if count == most))
            left = {tools: evidence for tools, evidence in left.items() if chosen[-1] not in tools}
        missed = list(left.values())
        breaking = sorted({run for evidence in missed for run in evidence.first})
        evidence = Evidence(
            runs=self.all.runs,
            broken=max(len(breaking), *(one.runs for one in missed)) if missed else 0,
            breaking=breaking,
            judged=self.all.judged,
            held=self.all.judged - sum(one.judged for one in missed),
        )
        return chosen, evidence


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
        self.is_offered = False
        # Whether it was called where other tools were on offer, and it was not.
        self.was_missing = False
        self.arguments = ArgumentNode()
        self.before = Alternatives()
        self.sources: dict[str, Alternatives] = {}
        # The keys of results of calls that worked, and how results began that read like errors.
        self.results = ArgumentNode(depth=_MAX_DEPTH - 1)
        self.failing: dict[str, Evidence] = {}
        self._definition: str | None = None

    def offer(self, definition: ToolDefinition) -> None:
        """Take note of its definition: what stands there is no user's. The first one decides for the whole recording."""
        self.is_offered = True
        if self._definition is None:
            schema = "" if definition.parameters is None else json.dumps(definition.parameters, ensure_ascii=False)
            self._definition = f"{definition.description or ''} {schema}"[:_MAX_DEFINITION]

    def arguments_schemas(self, requirements: Requirements) -> Written:
        """Write a JSON Schema for each argument of its calls."""
        return self.arguments.of_members(requirements, self._definition or "").get("properties")

    def result_schema(self, requirements: Requirements) -> Written:
        """Write the keys that all results of its calls had; `None` where there are none."""
        required = self.results.required(requirements, self._definition or "")
        return {"type": "object", "required": required} if required else None

    def add_calls(
        self, run: int, calls: Sequence[ToolCall], before: frozenset[str], source: str, *, changes_state: bool
    ) -> None:
        """Add the calls that a run made of it; `before` are the tools that had worked before the first of them."""
        self.before.add(run, before)
        for call in calls:
            self._add_result(run, call, source, changes_state=changes_state)
            self.calls += 1
            self.failed += call.has_failed
            self.all.add(run, holds=True)
            arguments = readable_arguments(call)
            if arguments is not None and not call.has_failed:
                self.arguments.add(arguments, run=run, source=source)

    def _add_result(self, run: int, call: ToolCall, source: str, *, changes_state: bool) -> None:
        if call.has_failed or isinstance(call.result, NotRecorded):
            return
        error = error_in(call, changes_state=changes_state)
        beginning = None if error is None else error_beginning(call.result)
        if beginning is not None and beginning not in self.failing and len(self.failing) < _MAX_BEGINNINGS:
            self.failing[beginning] = Evidence(self.all.runs, judged=self.calls, held=self.calls)
        for text, evidence in self.failing.items():
            evidence.add(run, holds=text != beginning)
        if error is None and isinstance(call.result, Recorded):
            self.results.add(opened(call.result.value), run=run, source=source)

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
        tool: FromResults(_ANYWHERE, (ResultsOf(tool, Globs((tool,)), None, or_arguments=True),), wanted, trajectory)
        for tool in tools
    }


_MAX_TOOLS = 300


class ToolsUsage:
    """Counts over the calls of all services: a tool is the same in each."""

    def __init__(self) -> None:
        self.all = Evidence()
        self.has_conversations = False
        self.tools: dict[str, ToolUsage] = {}

    def add(self, trajectory: Trajectory) -> Mapping[str, list[ToolCall]]:
        """Add one run; return its calls by tool."""
        run = self.all.runs
        self.all.add(run, holds=True)
        self.has_conversations = self.has_conversations or trajectory.scope == "conversation"
        if trajectory.tools_offered is not None:
            offered = {tool.name: tool for tool in trajectory.tools_offered}
            for name in dict.fromkeys((*(call.name for call in trajectory.calls), *offered)):
                tool = self._tool(name)
                if tool is not None and name in offered:
                    tool.offer(offered[name])
                elif tool is not None:
                    tool.was_missing = True
        by_tool: defaultdict[str, list[ToolCall]] = defaultdict(list)
        for call in trajectory.calls:
            if self._tool(call.name) is not None:
                by_tool[call.name].append(call)
        source = trajectory.conversation_id or trajectory.trace_id
        before = dict(_tools_before(trajectory))
        for name, calls in by_tool.items():
            self.tools[name].add_calls(run, calls, before[name], source, changes_state=name in trajectory.writing_tools)
        sources = trails(trajectory)
        for call in trajectory.calls:
            if call.name in by_tool and any(True for _ in identifying_values(call)):
                self.tools[call.name].add_sources(run, call, sources)
        return by_tool

    def _tool(self, name: str) -> ToolUsage | None:
        if name not in self.tools:
            if len(self.tools) == _MAX_TOOLS:
                return None
            self.tools[name] = ToolUsage(name)
        return self.tools[name]

    def writable(self) -> dict[str, ToolUsage]:
        """Return the tools that were called, as far as their names may be written."""
        return {
            name: tool
            for name, tool in sorted(self.tools.items())
            if tool.calls
            and (tool.is_offered or not tool.was_missing)
            and may_be_written(name, is_offered=tool.is_offered, runs=tool.all.runs)
        }


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
