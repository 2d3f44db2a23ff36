"""The arguments of one tool over many calls, and the JSON Schema that all of them keep to.

A node holds what all values at one place have in common; lists and objects have nodes below them. Keys are data, too: one that
is no plain name, or that few runs have, is never written.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from toolgauge.authoring.evidence import Evidence, Requirements
from toolgauge.authoring.value_profiles import MIN_SOURCES, Form, Profile, Summary, form_of
from toolgauge.authoring.yaml_text import Commented, Written
from toolgauge.model.json import Json, JsonObject

_MAX_DEPTH = 6
_MAX_KEYS = 60
_MAX_NODES = 1000
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
        """Yield the evidence of what the schema asks for: types, keys, and which of them are required."""
        for runs in self._forms.values():
            yield self._of_single(runs, self._all.runs)
        if self._items is not None:
            yield from self._items.candidates()
        for key, member in (self.members or {}).items():
            yield self._of_single(member.few_runs, self.objects.runs)
            yield self.present[key]
            yield from member.candidates()

    @staticmethod
    def _of_single(runs: set[int], of: int) -> Evidence:
        """Return the evidence that something is never seen, which a single run contradicts."""
        return Evidence(of, len(runs), list(runs)) if len(runs) == 1 else Evidence()

    @property
    def few_runs(self) -> set[int]:
        """The runs with a value here, as far as two are enough to know."""
        return set[int]().union(*self._forms.values())

    def schema(self, requirements: Requirements, definition: str) -> _Schema:
        """Write the JSON Schema of the values."""
        summary = self.profile.summary(definition)
        schema: _Schema = {"type": _types(summary)}
        if summary.labels is not None:
            schema["enum"] = [*summary.labels, *([None] if "null" in summary.forms else [])]
        elif summary.pattern is not None and summary.distinct >= requirements.runs:
            schema["pattern"] = f"^(?:{summary.pattern})$"
        if summary.low is not None and summary.high is not None and summary.distinct >= MIN_SOURCES:
            schema["minimum"], schema["maximum"] = _widened(summary.low, summary.high)
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
        required = [key for key in public if requirements.met_by(self.present[key])]
        if required:
            schema["required"] = required
        if self.members is None or len(public) < len(self.members) or self.objects.runs < requirements.runs:
            schema["additionalProperties"] = True
        return schema

    def distinct(self, key: str) -> int:
        """Count the different texts under a key."""
        member = (self.members or {}).get(key)
        return 0 if member is None else member.profile.summary().distinct

    def sources(self, key: str) -> int:
        """Count the conversations with a key."""
        member = (self.members or {}).get(key)
        return 0 if member is None else member.profile.summary().sources

    def is_public(self, key: str, definition: str = "") -> bool:
        """Return whether a key may be written."""
        if not _KEY.fullmatch(key):
            return False
        is_declared = re.search(rf"(?<!\w){re.escape(key)}(?!\w)", definition) is not None
        return is_declared or self.sources(key) >= MIN_SOURCES

    def comment(self, present: Evidence, definition: str) -> str:
        """Name the evidence."""
        summary = self.profile.summary(definition)
        forms = ", ".join(f"{count} {form}" for form, count in summary.forms.items())
        varied = f", {summary.distinct} different texts" if summary.labels is None and summary.distinct > 1 else ""
        return f"in {present.held} of {present.judged} calls: {forms}{varied}"


def _types(summary: Summary) -> Written:
    types = sorted({_TYPES.get(form, "string") for form in summary.forms})
    if "number" in types and "integer" in types:
        types.remove("integer")
    return types[0] if len(types) == 1 else types


def _widened(low: float, high: float) -> tuple[int, int]:
    margin = _MARGIN * (high - low or abs(high))
    lower = low - margin
    return 0 if low >= 0 > lower else math.floor(lower), math.ceil(high + margin)
