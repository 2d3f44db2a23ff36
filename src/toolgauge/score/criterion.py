"""Criteria: the trajectories each applies to, the part of them its evaluator sees, and its revision.

The same for criteria that score here and for those that ask a judge: a criterion means the same trajectories to both.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Literal, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.judging import Judged, JudgeEvaluator
from toolgauge.model.outcomes import Enforce, Finding, NotEvaluated, Outcome, Result, Rule, finding_of
from toolgauge.model.ports import Evaluator
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall, Trajectory, TrajectoryScope
from toolgauge.score.answer_tools import ANSWER_NAMES, ANSWER_PREFIX, answering_tools
from toolgauge.score.equality import same
from toolgauge.score.error_texts import with_failures
from toolgauge.score.facts import Facts, FactsEvaluator
from toolgauge.score.patterns import Globs
from toolgauge.score.selection import without_code
from toolgauge.score.verdicts import MakeResult, Marks

# What a tool's name begins with when the tool only looks. Everything else may change something.
READING_VERBS = frozenset(
    (
        *("analyze", "browse", "calculate", "check", "compare", "compute", "count", "describe", "estimate", "explain"),
        *("fetch", "filter", "find", "get", "grep", "inspect", "list", "look", "lookup", "peek", "preview", "query"),
        *("read", "retrieve", "search", "show", "summarize", "think", "verify", "view"),
    )
)
# What the name of a tool begins with that hands over to another agent or to a person, ...
_HAND_OFFS = (("handoff",), ("hand", "off"), ("escalate",), ("delegate",))
# ... also in front of the agent's name, which may look like a tool's in a namespace (`transfer_to_billing.eu`).
_HAND_OFFS_TO = tuple((*words, "to") for words in (("transfer",), ("transfer", "back"), *_HAND_OFFS))
# Answering and thinking change nothing outside of the agents: the whole names of such tools. Handing over neither.
NEUTRAL_NAMES = frozenset(
    (
        *ANSWER_NAMES,
        *(("respond",), ("finish",), ("submit",), ("think",), ("plan",), ("calculate",)),
    )
)
# What the name of a tool begins with that waits, ...
_WAITING = (("wait",), ("await",), ("sleep",), ("poll",))
# ... and of one that asks how far something is, where it ends with `status`.
_ASKING = (("get",), ("check",))
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# MCP servers, agents and namespaces stand in front of a tool's own name.
_NAMESPACE = re.compile(r"__|[./:]")
_READ_LENGTH = 256
_MAX_KNOWN = 1000
ToolKind: TypeAlias = Literal["writes", "reads", "neutral"]
# How deep the cases of a reference stand in a canonical criterion: below `reference` and `cases`.
_REFERENCE_DEPTH = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """Selects trajectories; `service`, `agent` and `case` (the reference key's value) are globs; `None` always matches."""

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
    """The reference is looked up by the trajectory's attribute `key`."""

    key: str
    cases: Mapping[str, Expected]


Reference: TypeAlias = NoReference | Inline | Lookup


# `failures` are globs over results of calls that failed unmarked. `evaluator_file` is the Python file of the evaluator's class.
# Revisions with one `measure` differ in thresholds and titles alone: their values can be compared.
@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """A named rule. `sample` is the share of conversations that are scored; `pass_at` the least score that passes."""

    name: str
    evaluator_name: str
    evaluator: Evaluator | JudgeEvaluator
    revision: str
    measure: str = ""
    when: When = field(default_factory=When)
    scope: TrajectoryScope = "trace"
    reference: Reference = field(default_factory=NoReference)
    pass_at: float = 1.0
    sample: float = 1.0
    enforce: Enforce = "live"
    notify: bool = False
    failures: tuple[str, ...] = ()
    is_default: bool = False
    evaluator_file: str | None = None


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


# The names configured as `writes`, `read_only` and `neutral` decide first; without `neutral`, words of the name show neutral tools.
# All others write where only `read_only` is given, none where only `writes` is; else the verb of the name decides.
class ToolKinds:
    """Decides which tools change state, and which are neutral: hand-offs, answers and thinking."""

    __slots__ = ("_known", "_neutral", "_read_only", "_writes")

    def __init__(
        self,
        *,
        read_only: Sequence[str] | None = None,
        writes: Sequence[str] | None = None,
        neutral: Sequence[str] | None = None,
    ) -> None:
        self._read_only = None if read_only is None else Globs(read_only)
        self._writes = None if writes is None else Globs(writes)
        self._neutral = None if neutral is None else Globs(neutral)
        # Agents call the same few tools again and again.
        self._known = lru_cache(maxsize=_MAX_KNOWN)(self._decided)

    def writes(self, name: str) -> bool:
        """Return whether the tool changes state."""
        return self._kind(name) == "writes"

    def writing(self, names: Iterable[str]) -> frozenset[str]:
        """Return the tools that change state. All on offer are asked for with each trajectory."""
        known, decided = self._known, self._decided
        return frozenset([one for one in names if (known if len(one) <= _READ_LENGTH else decided)(one) == "writes"])

    def is_neutral(self, name: str) -> bool:
        """Return whether the tool hands over, answers or thinks."""
        return self._kind(name) == "neutral"

    def gives_answers(self, name: str, *, was_taken: bool) -> bool:
        """Return whether a tool carries the structured answer, by its name or because one of its calls `was_taken` for it."""
        is_answer = was_taken or name_words(name) in ANSWER_NAMES or _begins(name_words(name), (ANSWER_PREFIX,))
        if not is_answer or self.is_neutral(name):
            return is_answer
        others = (self._writes, self._read_only)
        return self._neutral is None and not any(globs is not None and globs.match(name) for globs in others)

    def _kind(self, name: str) -> ToolKind:
        return self._known(name) if len(name) <= _READ_LENGTH else self._decided(name)

    def _decided(self, name: str) -> ToolKind:
        if self._writes is not None and self._writes.match(name):
            return "writes"
        if self._read_only is not None and self._read_only.match(name):
            return "reads"
        is_neutral = name_words(name) in NEUTRAL_NAMES or hands_over(name)
        if is_neutral if self._neutral is None else self._neutral.match(name):
            return "neutral"
        if (self._writes is None) == (self._read_only is None):
            return "reads" if any(word in READING_VERBS for word in name_words(name)[:1]) else "writes"
        return "writes" if self._writes is None else "reads"


def hands_over(name: str) -> bool:
    """Return whether the name of a tool shows that it hands over, or back, to another agent or to a person."""
    own = name_words(name)
    return _begins(own, (*_HAND_OFFS, *_HAND_OFFS_TO)) or _begins(_split(name[:_READ_LENGTH]), _HAND_OFFS_TO)


def waits(name: str) -> bool:
    """Return whether the name of a tool shows that it waits: `wait_for_job`, `sleep`, `pollQueue`."""
    return _begins(name_words(name), _WAITING)


def polls(name: str) -> bool:
    """Return whether the name shows a tool to be called again until something is done: one that waits, `get_job_status`."""
    own = name_words(name)
    return _begins(own, _WAITING) or (_begins(own, _ASKING) and own[-1] == "status")


def _begins(words: tuple[str, ...], beginnings: Iterable[tuple[str, ...]]) -> bool:
    return any(words[: len(beginning)] == beginning for beginning in beginnings)


def name_words(name: str) -> tuple[str, ...]:
    """Split the name of a tool into lower-case words, without its namespace."""
    return _split(_NAMESPACE.split(name[-_READ_LENGTH:])[-1])


# Agents call the same few tools all day long.
@lru_cache(maxsize=_MAX_KNOWN)
def _split(text: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(text))


_SAMPLED_OUT = NotEvaluated(reason="sampled_out", explanation="not in the sample")
_NO_CASE = NotEvaluated(reason="no_reference", explanation="the trajectory names no known case")


class Registered(Struct, frozen=True):
    """A criterion with its globs compiled and its evaluator, which either scores or asks."""

    criterion: Criterion
    evaluator: Evaluator | None
    # The method of its evaluator that takes shared facts, where there is one.
    outcomes: Callable[[Facts], Iterator[Judged]] | None
    judge: JudgeEvaluator | None
    service: Globs | None
    agent: Globs | None
    case: Globs | None
    # Nothing but the scope decides which trajectories it is for.
    is_for_all: bool
    failures: Globs | None
    # It is for trajectories with an agent run only.
    needs_agent_run: bool
    # Its evaluator judges trajectories of which no span is missing, and no calls alone.
    needs_whole: bool
    # Its evaluator sees an earlier offer where the trajectory has none.
    accepts_recent_offer: bool
    # Its evaluator judges steps of code agents, too.
    judges_code: bool
    # Its evaluator gets to see each of these as it is, and nothing else.
    sees_all: bool
    marks: Marks
    made: MakeResult


class Seen(Struct, frozen=True, gc=False):
    """What an evaluator gets to see."""

    trajectory: Trajectory
    expected: Expected | None


def register(criterion: Criterion) -> Registered:
    """Compile the globs of a criterion and see what its evaluator is."""
    when, evaluator = criterion.when, criterion.evaluator
    asks = isinstance(evaluator, JudgeEvaluator)
    is_for_all = when.service is None and when.agent is None and when.case is None and not when.attributes
    needs_agent_run = bool(getattr(evaluator, "needs_agent_run", False))
    is_binary, can_fail = bool(getattr(evaluator, "binary", False)), criterion.pass_at > 0
    rule = criterion.name, criterion.revision, evaluator.level, criterion.enforce, is_binary, can_fail
    return Registered(
        criterion,
        evaluator=None if asks else evaluator,
        outcomes=evaluator.outcomes if isinstance(evaluator, FactsEvaluator) else None,
        judge=evaluator if asks else None,
        service=None if when.service is None else Globs((when.service,)),
        agent=None if when.agent is None else Globs((when.agent,)),
        case=None if when.case is None else Globs((when.case,)),
        failures=Globs(criterion.failures) if criterion.failures else None,
        is_for_all=is_for_all and not needs_agent_run,
        needs_agent_run=needs_agent_run,
        needs_whole=asks or evaluator.level != "call" or bool(getattr(evaluator, "needs_whole", True)),
        accepts_recent_offer=bool(getattr(evaluator, "accepts_recent_offer", False)),
        judges_code=bool(getattr(evaluator, "judges_code", False)),
        sees_all=(
            criterion.sample >= 1
            and when.agent is None
            and not criterion.failures
            and isinstance(criterion.reference, NoReference)
        ),
        marks=Marks(criterion.pass_at, partial(finding_of, rule), keeps_parts=isinstance(evaluator, FactsEvaluator)),
        made=_make_result(criterion, rule),
    )


def _make_result(criterion: Criterion, rule: Rule) -> MakeResult:
    name, revised, level, enforce, binary, fails = rule
    evaluator, version = criterion.evaluator_name, criterion.evaluator.version

    def made(target: SpanRef | None, call: ToolCall | None, outcome: Outcome, known: Finding | None = None) -> Result:
        found = known or finding_of(rule, outcome)
        return Result(name, revised, evaluator, version, level, enforce, target, call, outcome, binary, fails, found)

    return made


def applies(registered: Registered, trajectory: Trajectory) -> bool:
    """Return whether the criterion is for this trajectory."""
    criterion = registered.criterion
    # A trace without a conversation id is a conversation of its own.
    if criterion.scope != trajectory.scope and (criterion.scope == "trace" or trajectory.conversation_id is not None):
        return False
    return registered.is_for_all or (
        (not registered.needs_agent_run or trajectory.has_agent_run)
        and (registered.service is None or registered.service.match(trajectory.service or ""))
        and (registered.agent is None or any(registered.agent.match(name) for name in trajectory.agents))
        and (
            registered.case is None
            or ((case := _case(criterion, trajectory)) is not None and registered.case.match(case))
        )
        and all(
            key in trajectory.attributes and same(trajectory.attributes[key], value)
            for key, value in criterion.when.attributes.items()
        )
    )


def attribute_keys(criterion: Criterion) -> Iterator[str]:
    """Yield the attributes that the criterion asks for."""
    yield from criterion.when.attributes
    # Not a part of the interface that every evaluator has: few ask for any.
    yield from getattr(criterion.evaluator, "attributes", ())
    if isinstance(criterion.reference, Lookup):
        yield criterion.reference.key


def seen_by(registered: Registered, trajectory: Trajectory, kinds: ToolKinds) -> Seen | NotEvaluated:
    """Narrow the trajectory to the part that the criterion is for, or explain why there is none."""
    if registered.sees_all:
        return Seen(_seen_code(registered, trajectory, None) if trajectory.code_steps else trajectory, None)
    criterion = registered.criterion
    if (outside := outside_sample(criterion, trajectory)) is not None:
        return outside
    expected = _reference(criterion, trajectory)
    if expected is None and not isinstance(criterion.reference, NoReference):
        return _NO_CASE
    if expected is not None:
        names = tuple(call.name for call in expected.calls)
        if not trajectory.answer_tools.isdisjoint(names):
            trajectory = replace(trajectory, answer_tools=trajectory.answer_tools.difference(names))
        trajectory = with_writing_tools(trajectory, names, kinds)
    if registered.failures is not None:
        trajectory = with_failures(trajectory, registered.failures)
    return Seen(narrowed_to_agent(registered, _seen_code(registered, trajectory, expected)), expected)


def outside_sample(criterion: Criterion, trajectory: Trajectory) -> NotEvaluated | None:
    """Return the outcome of a trajectory outside the criterion's sample; `None` when it is inside."""
    if criterion.sample >= 1:
        return None
    # The criterion is not part of what is hashed: all criteria see the same conversations.
    identity = trajectory.conversation_id or trajectory.trace_id
    digest = hashlib.sha256(identity.encode("utf-8", "backslashreplace")).digest()
    return None if int.from_bytes(digest[:8], "big") < criterion.sample * 2**64 else _SAMPLED_OUT


def with_writing_tools(trajectory: Trajectory, expected_names: tuple[str, ...], kinds: ToolKinds) -> Trajectory:
    """Fill in which of the tools that were called, on offer or expected change state."""
    if expected_names:
        names = trajectory.writing_tools.union(expected_names)
    else:
        names = {*[call.name for call in trajectory.calls], *[tool.name for tool in trajectory.tools_offered or ()]}
    writing = kinds.writing(names) - trajectory.answer_tools
    return trajectory if writing == trajectory.writing_tools else replace(trajectory, writing_tools=writing)


def with_neutral_tools(trajectory: Trajectory, kinds: ToolKinds) -> Trajectory:
    """Fill in which of the called tools hand over, answer or think, and which of them carry the structured answer."""
    names, taken = {call.name for call in trajectory.calls}, set(answering_tools(trajectory))
    answers = frozenset([name for name in names if kinds.gives_answers(name, was_taken=name in taken)])
    neutral = answers.union(filter(kinds.is_neutral, names))
    return replace(trajectory, neutral_tools=neutral, answer_tools=answers) if neutral else trajectory


def _seen_code(registered: Registered, trajectory: Trajectory, expected: Expected | None) -> Trajectory:
    """Leave out steps of code agents, unless the evaluator judges them or the reference or `tools` names them in full."""
    if not trajectory.code_steps or registered.judges_code:
        return trajectory
    tools: object = getattr(registered.criterion.evaluator, "tools", None)
    # Nothing is known about a plug-in's tuple.
    named = set(cast("tuple[object, ...]", tools)) if isinstance(tools, tuple) else set[object]()
    if expected is not None:
        named.update(call.name for call in expected.calls)
    return without_code(trajectory, named)


def narrowed_to_agent(registered: Registered, trajectory: Trajectory) -> Trajectory:
    """Leave out the calls of other agents where the criterion judges those of one."""
    if registered.agent is None or registered.criterion.evaluator.level != "call":
        return trajectory
    agent = registered.agent
    return replace(trajectory, calls=tuple(one for one in trajectory.calls if agent.match(agent_of(one, trajectory))))


def agent_of(call: ToolCall, trajectory: Trajectory) -> str:
    """Return the agent that made the call; empty where that is not known."""
    if call.agent is not None:
        return call.agent
    if call.agent_path:
        return call.agent_path[-1]
    # With a single agent there is no doubt whose call it was.
    return trajectory.agents[0] if len(trajectory.agents) == 1 else ""


def _case(criterion: Criterion, trajectory: Trajectory) -> str | None:
    if not isinstance(criterion.reference, Lookup):
        return None
    value = trajectory.attributes.get(criterion.reference.key)
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _reference(criterion: Criterion, trajectory: Trajectory) -> Expected | None:
    match criterion.reference:
        case NoReference():
            return None
        case Inline(expected=expected):
            return expected
        case Lookup(cases=cases):
            case = _case(criterion, trajectory)
            return None if case is None else cases.get(case)
