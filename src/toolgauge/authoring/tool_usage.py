"""The calls of one tool in the runs of a service: arguments, the tools called before, and the origins of values."""

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import TypeAlias

from toolgauge.authoring.criteria_yaml import Commented, Written, may_be_written
from toolgauge.authoring.evidence import Evidence, Requirements
from toolgauge.authoring.value_profiles import MIN_SOURCES, VARYING, Form, Profile, form_of, is_id_name
from toolgauge.model.content import NotRecorded, Recorded
from toolgauge.model.json import Json, Leaf, leaves
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.outcomes import NotEvaluated
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.error_texts import error_beginning, error_in, opened
from toolgauge.score.origins.provenance import FromResults, ResultsOf, Subject
from toolgauge.score.patterns import Globs, Place, Step
from toolgauge.score.rules import Exact
from toolgauge.score.selection import readable_arguments

# Keys come from models, and may be new in every call.
_MAX_DEPTH, _MAX_KEYS, _MAX_NODES = 6, 60, 1000
KEY = re.compile(r"[A-Za-z_][A-Za-z_-]{0,60}\d{0,2}")
# The forms that are types of JSON Schema by the same name; a list is an `array`, and all others are texts.
_TYPES = frozenset[Form](("null", "boolean", "integer", "number", "object"))
# A range is wider than the values seen by this share, on both sides.
_MARGIN = 0.5

_Schema: TypeAlias = "dict[str, Written]"


class ArgumentNode:
    """The common features of the values at one place. `definition` is everywhere the text of the tool's definition."""

    def __init__(self, name: str = "", depth: int = 0, nodes: "list[ArgumentNode] | None" = None) -> None:
        """`nodes` are all nodes of the tool."""
        self._name = name
        self._depth = depth
        self._nodes = [] if nodes is None else nodes
        self._nodes.append(self)
        self.profile = Profile(name)
        # The runs that had an object here, and the evidence for each of its keys.
        self.objects = Evidence()
        self._members: dict[str, ArgumentNode] = {}
        self._is_full = False
        self._present: dict[str, Evidence] = {}
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
            if self._items is None and len(self._nodes) < _MAX_NODES:
                self._items = ArgumentNode(self._name, self._depth + 1, self._nodes)
            if self._items is not None:
                for item in value:
                    self._items.add(item, run=run, source=source)
        elif isinstance(value, dict):
            for key, member in value.items() if not self._is_full else ():
                if key not in self._members:
                    if len(self._members) == _MAX_KEYS or len(self._nodes) >= _MAX_NODES:
                        self._is_full, self._members = True, {}
                        break
                    self._members[key] = ArgumentNode(key, self._depth + 1, self._nodes)
                    self._present[key] = self.objects.never_held()
                self._members[key].add(member, run=run, source=source)
            self.objects.add(run, holds=True)
            for key, evidence in self._present.items() if not self._is_full else ():
                evidence.add(run, holds=key in value)

    def candidates(self) -> Iterator[Evidence]:
        """Yield the evidence for the schemas of arguments: types, and the required keys within arguments."""
        for runs in self._forms.values():
            # A single run contradicts that a form is never seen.
            yield Evidence(self._all.runs, 1, list(runs)) if len(runs) == 1 else Evidence()
        if self._items is not None:
            yield from self._items.candidates()
        for key, member in self._members.items():
            # No contract requires an argument itself.
            if self._depth:
                yield self._present[key]
            yield from member.candidates()

    def schema(self, requirements: Requirements, definition: str) -> _Schema:
        """Write the JSON Schema of the values."""
        summary = self.profile.summary(definition)
        types = sorted({"array" if one == "list" else one if one in _TYPES else "string" for one in summary.forms})
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
        """Write the part of an object's schema about its keys."""
        properties: _Schema = {}
        for key, node in sorted(self._members.items()):
            if self.is_public(key, definition):
                summary, present = node.profile.summary(definition), self._present[key]
                forms = ", ".join(f"{count} {form}" for form, count in summary.forms.items())
                is_varied = summary.labels is None and summary.distinct > 1
                varied = f", {summary.distinct} different texts" if is_varied else ""
                evidence = f"in {present.held} of {present.judged} calls: {forms}{varied}"
                properties[key] = Commented(node.schema(requirements, definition), evidence)
        schema: _Schema = {"properties": properties} if properties else {}
        if required := self.required(requirements, definition):
            schema["required"] = required
        is_whole = not self._is_full and len(properties) == len(self._members)
        if not is_whole or self.objects.runs < requirements.runs:
            schema["additionalProperties"] = True
        return schema

    def required(self, requirements: Requirements, definition: str) -> list[str]:
        """Name the keys that nearly all values have."""
        if not requirements.met_by(self._is_object):
            return []
        keys = [key for key in sorted(self._present) if self.is_public(key, definition)]
        return [key for key in keys if requirements.met_by(self._present[key])]

    def keys(self) -> Iterator[Evidence]:
        """Yield the evidence that values are objects, and for each of their keys."""
        yield self._is_object
        yield from self._present.values()

    @property
    def _is_object(self) -> Evidence:
        others = set[int]().union(*[runs for form, runs in self._forms.items() if form != "object"])
        return Evidence(self._all.runs, len(others), [*others])

    def distinct(self, key: str) -> int:
        """Count the different texts under a key."""
        member = self._members.get(key)
        return 0 if member is None else member.profile.summary().distinct

    def is_public(self, key: str, definition: str = "") -> bool:
        """Return whether a key may be written."""
        if not KEY.fullmatch(key):
            return False
        is_declared = re.search(rf"(?<!\w){re.escape(key)}(?!\w)", definition) is not None
        member = self._members.get(key)
        return is_declared or (member is not None and member.profile.summary().sources >= MIN_SOURCES)


_MAX_TOOLS, _MAX_SETS, _MAX_ALTERNATIVES, _MAX_ARGUMENTS, _MAX_BEGINNINGS = 300, 500, 3, 60, 5
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
        if self.sets is not None and tools not in self.sets and len(self.sets) == _MAX_SETS:
            self.sets = None
        if self.sets is not None:
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


@dataclass(slots=True)
class ToolUsage:
    """Collects the calls of one tool; the trajectories of a service are added one after the other."""

    failed: int = 0
    all: Evidence = field(default_factory=Evidence)
    is_offered: bool = False
    # The text of its definition; no user wrote it.
    definition: str = ""
    # Whether it was called where other tools were on offer, and it was not.
    was_missing: bool = False
    arguments: ArgumentNode = field(default_factory=ArgumentNode)
    before: Alternatives = field(default_factory=Alternatives)
    sources: dict[str, Alternatives] = field(default_factory=dict[str, Alternatives])
    # The keys of results of calls that worked, and how results began that read like errors.
    results: ArgumentNode = field(default_factory=lambda: ArgumentNode(depth=_MAX_DEPTH - 1))
    failing: dict[str, Evidence] = field(default_factory=dict[str, Evidence])

    def offer(self, definition: ToolDefinition) -> None:
        """Keep its definition; the first one decides for the whole recording."""
        if not self.is_offered:
            self.is_offered = True
            schema = "" if definition.parameters is None else json.dumps(definition.parameters, ensure_ascii=False)
            self.definition = f"{definition.description or ''} {schema}"[:_MAX_DEFINITION]

    def add_calls(
        self, run: int, calls: Sequence[ToolCall], before: frozenset[str], source: str, *, changes_state: bool
    ) -> None:
        """Add the calls of a run; `before` are the tools that had worked before the first call."""
        self.before.add(run, before)
        for call in calls:
            if not call.has_failed and not isinstance(call.result, NotRecorded):
                error = error_in(call, changes_state=changes_state)
                beginning = None if error is None else error_beginning(call.result)
                if beginning is not None and beginning not in self.failing and len(self.failing) < _MAX_BEGINNINGS:
                    self.failing[beginning] = Evidence(self.all.runs, judged=self.all.judged, held=self.all.judged)
                for text, evidence in self.failing.items():
                    evidence.add(run, holds=text != beginning)
                if error is None and isinstance(call.result, Recorded):
                    self.results.add(opened(call.result.value), run=run, source=source)
            self.failed += call.has_failed
            self.all.add(run, holds=True)
            arguments = readable_arguments(call)
            if arguments is not None and not call.has_failed:
                self.arguments.add(arguments, run=run, source=source)

    def add_sources(self, run: int, call: ToolCall, trails: Mapping[str, FromResults]) -> None:
        """Look for the values of a call in earlier results, by the tool that returned them."""
        for argument, values in identifying_values(call):
            verdicts = {tool: trail.judge(call, values) for tool, trail in trails.items()}
            if any(isinstance(verdict, NotEvaluated) for verdict in verdicts.values()):
                continue
            if argument in self.sources or len(self.sources) < _MAX_ARGUMENTS:
                found = frozenset(tool for tool, verdict in verdicts.items() if verdict is None)
                self.sources.setdefault(argument, Alternatives()).add(run, found)


def trails_of(trajectory: Trajectory, wanted: Sequence[Leaf], *, or_arguments: bool) -> dict[str, FromResults]:
    """Look for values in the results of each tool that was called, `or_arguments` of the calls."""
    return {
        tool: FromResults(_ANYWHERE, (ResultsOf(tool, Globs((tool,)), None, or_arguments),), wanted, trajectory)
        for tool in (sorted({call.name for call in trajectory.calls}) if wanted else ())
    }


def identifying_values(call: ToolCall) -> Iterator[tuple[str, Sequence[Leaf]]]:
    """Yield the arguments of a call that hold ids, names or dates and nothing else, with their values."""

    def identifies(value: Leaf) -> bool:
        if isinstance(value, str):
            return len(value) >= _SHORTEST_VALUE and (form_of(value) in VARYING - {"text"} or is_id_name(argument))
        return not isinstance(value, bool) and is_id_name(argument)

    for argument, value in (readable_arguments(call) or {}).items():
        values = [leaf for leaf in leaves(value) if leaf is not None]
        if values and all(map(identifies, values)):
            yield argument, values


@dataclass(slots=True)
class ToolsUsage:
    """Counts over the calls of all services: a tool is the same in each."""

    all: Evidence = field(default_factory=Evidence)
    tools: dict[str, ToolUsage] = field(default_factory=dict[str, ToolUsage])

    def add(self, trajectory: Trajectory) -> Mapping[str, list[ToolCall]]:
        """Add one run; return its calls by tool."""
        run = self.all.runs
        self.all.add(run, holds=True)
        calls = trajectory.calls
        offered = {tool.name: tool for tool in trajectory.tools_offered or ()}
        for name in dict.fromkeys((*(call.name for call in calls), *offered)):
            if name not in self.tools and len(self.tools) < _MAX_TOOLS:
                self.tools[name] = ToolUsage()
            if name in self.tools and name in offered:
                self.tools[name].offer(offered[name])
            elif name in self.tools and trajectory.tools_offered is not None:
                self.tools[name].was_missing = True
        by_tool: defaultdict[str, list[ToolCall]] = defaultdict(list)
        # By tool, the tools that had worked in turns before its first call.
        before: dict[str, frozenset[str]] = {}
        worked = frozenset[str]()
        for _, of_turn in groupby(calls, key=attrgetter("turn")):
            together = list(of_turn)
            for call in together:
                before.setdefault(call.name, worked)
                if call.name in self.tools:
                    by_tool[call.name].append(call)
            worked |= {call.name for call in together if not call.has_failed}
        source = trajectory.conversation_id or trajectory.trace_id
        for name, of_tool in by_tool.items():
            is_writing = name in trajectory.writing_tools
            self.tools[name].add_calls(run, of_tool, before[name], source, changes_state=is_writing)
        wanted = [leaf for call in calls for _, values in identifying_values(call) for leaf in values]
        trails = trails_of(trajectory, wanted, or_arguments=True)
        for call in calls if wanted else ():
            if call.name in by_tool:
                self.tools[call.name].add_sources(run, call, trails)
        return by_tool

    def writable(self) -> dict[str, ToolUsage]:
        """Return the tools that were called, as far as their names may be written."""
        return {
            name: tool
            for name, tool in sorted(self.tools.items())
            if tool.all.judged
            and (tool.is_offered or not tool.was_missing)
            and may_be_written(name, is_offered=tool.is_offered, runs=tool.all.runs)
        }
