"""Registered rules: which trajectories, which evaluator, which reference, when it passes."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.judging import JudgeEvaluator
from toolgauge.model.outcomes import Enforce
from toolgauge.model.ports import Evaluator
from toolgauge.model.trajectory import TrajectoryScope
from toolgauge.score.globs import Globs

# What a tool's name begins with when the tool only looks. Everything else may change something.
READING_VERBS = frozenset(
    (
        "analyze",
        "browse",
        "calculate",
        "check",
        "compare",
        "compute",
        "count",
        "describe",
        "estimate",
        "explain",
        "fetch",
        "filter",
        "find",
        "get",
        "grep",
        "inspect",
        "list",
        "look",
        "lookup",
        "peek",
        "preview",
        "query",
        "read",
        "retrieve",
        "search",
        "show",
        "summarize",
        "think",
        "verify",
        "view",
    )
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# MCP servers, agents and namespaces stand in front of a tool's own name.
_NAMESPACE = re.compile(r"__|[./:]")
_READ_LENGTH = 256
_MAX_KNOWN = 1000
# How deep the cases of a reference stand in a canonical criterion: below `reference` and `cases`.
_REFERENCE_DEPTH = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """Which trajectories a criterion is for; all conditions must hold, `None` always does.

    `service`, `agent` and `case` are globs; `case` is matched with the reference key's value.
    """

    service: str | None = None
    agent: str | None = None
    case: str | None = None
    attributes: Mapping[str, str | int | float | bool] = field(default_factory=dict[str, str | int | float | bool])


@dataclass(frozen=True, slots=True)
class NoReference:
    """Nothing is expected of the calls as such."""


@dataclass(frozen=True, slots=True)
class Inline:
    """The same is expected of every trajectory."""

    expected: Expected


@dataclass(frozen=True, slots=True)
class Lookup:
    """What is expected is looked up by the trajectory's attribute `key`."""

    key: str
    cases: Mapping[str, Expected]


Reference: TypeAlias = NoReference | Inline | Lookup


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """A named rule. `sample` is the share of conversations that are scored; `pass_at` the least score that passes."""

    name: str
    evaluator_name: str
    evaluator: Evaluator | JudgeEvaluator
    revision: str
    when: When = field(default_factory=When)
    scope: TrajectoryScope = "trace"
    reference: Reference = field(default_factory=NoReference)
    pass_at: float = 1.0
    sample: float = 1.0
    enforce: Enforce = "live"


def revision(canonical: JsonObject, evaluator_version: str) -> str:
    """Name what a criterion means: 12 hex characters that do not depend on the order of keys."""
    digest = hashlib.sha256(b"[")
    for piece in _pieces(canonical, _REFERENCE_DEPTH):
        digest.update(piece.encode("ascii"))
    digest.update(f",{_compact(evaluator_version)}]".encode("ascii"))
    return digest.hexdigest()[:12]


def _pieces(value: Json, depth: int) -> Iterator[str]:
    """Write compact JSON with sorted keys bit by bit: the encoder does not let other threads run meanwhile."""
    if depth == 0 or not isinstance(value, dict):
        yield _compact(value)
        return
    before = "{"
    for key in sorted(value):
        yield f"{before}{_compact(key)}:"
        yield from _pieces(value[key], depth - 1)
        before = ","
    yield "}" if value else "{}"


def _compact(value: Json) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


class ToolKinds:
    """Tells which tools change state.

    A tool named in `writes` does, one named in `read_only` does not. Of the others: all write where only
    `read_only` is configured, none where only `writes` is, and otherwise the verb of the name decides.
    """

    __slots__ = ("_known", "_read_only", "_writes")

    def __init__(self, *, read_only: Sequence[str] | None = None, writes: Sequence[str] | None = None) -> None:
        self._read_only = None if read_only is None else Globs(read_only)
        self._writes = None if writes is None else Globs(writes)
        # Agents call the same few tools again and again.
        self._known: dict[str, bool] = {}

    def writes(self, name: str) -> bool:
        """Tell whether the tool changes state."""
        known = self._known.get(name)
        if known is not None:
            return known
        writes = self._decided(name)
        if len(name) <= _READ_LENGTH:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[name] = writes
        return writes

    def _decided(self, name: str) -> bool:
        if self._writes is not None and self._writes.match(name):
            return True
        if self._read_only is not None and self._read_only.match(name):
            return False
        if (self._writes is None) == (self._read_only is None):
            return not _reads_by_name(name)
        return self._writes is None


def _reads_by_name(name: str) -> bool:
    own = _NAMESPACE.split(name[-_READ_LENGTH:])[-1]
    first = _WORD.search(own)
    return first is not None and first.group().lower() in READING_VERBS
