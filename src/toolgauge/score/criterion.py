"""Criteria: the trajectories each applies to, the part of them its evaluator sees, and its revision.

Criteria that score here and criteria that ask a judge select trajectories in the same way.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.errors import EvaluationError
from toolgauge.model.expected import Expected
from toolgauge.model.json import JsonObject
from toolgauge.model.judging import Judged, JudgeEvaluator
from toolgauge.model.observations import Tools
from toolgauge.model.outcomes import Enforce, Errored, NotEvaluated, Outcome, Result, Rule, Scored, finding_of
from toolgauge.model.ports import Evaluator, Needs, needs_of
from toolgauge.model.trajectory import ToolCall, Trajectory, TrajectoryScope
from toolgauge.score.contracts import ToolKinds
from toolgauge.score.equality import same
from toolgauge.score.facts import Facts, TakesFacts
from toolgauge.score.final_answers import answering_tools
from toolgauge.score.patterns import Globs
from toolgauge.score.selection import without_code

_NAME: Callable[[ToolCall], str] = attrgetter("name")


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


# `evaluator_file` is the Python file of the evaluator's class.
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
    is_default: bool = False
    evaluator_file: str | None = None


def revision(canonical: JsonObject, evaluator_version: str) -> str:
    """Name what a criterion means: 12 hex characters that do not depend on the order of keys."""
    written = json.dumps([canonical, evaluator_version], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(written.encode("ascii")).hexdigest()[:12]


# Makes the result of an outcome, from a span and a call: without a call, it is about the trajectory.
MakeResult: TypeAlias = partial[Result]

# Room for rounding: a mean of thirds must be able to reach a threshold of 1.
_ROUNDING = 1e-9
# So many outcomes of a criterion are remembered, with words of so many characters.
_MAX_KNOWN = 256
_LONGEST_KNOWN = 200
OUTCOMES = frozenset((Scored, NotEvaluated, Errored))
NO_SCORE = "the evaluator gave a score that is not a number from 0 to 1"


# Evaluators mostly yield the same objects; kept here, no other can take their place in memory. Without it: a fifth more for
# scoring and encoding.
class Makes(dict[int, MakeResult]):
    """Makes the results of one criterion, by the identity of an outcome that its evaluator yielded."""

    __slots__ = ("_keeps_parts", "_kept", "_least", "_names", "_rule")

    def __init__(self, criterion: Criterion, *, keeps_parts: bool = False) -> None:
        """`keeps_parts` where the evaluator changes no parts afterwards."""
        super().__init__()
        evaluator, name, revised, enforce = criterion.evaluator, criterion.name, criterion.revision, criterion.enforce
        self._names = name, revised, criterion.evaluator_name, evaluator.version, evaluator.level, enforce
        self._rule: Rule = name, revised, evaluator.level, enforce, needs_of(evaluator).binary, criterion.pass_at > 0
        self._least = criterion.pass_at - _ROUNDING
        self._keeps_parts = keeps_parts
        self._kept: dict[int, Outcome] = {}

    def made(self, outcome: Outcome) -> MakeResult:
        """Return the maker of results of an outcome as it is."""
        *_, binary, fails = self._rule
        return partial(Result, *self._names, outcome, binary, fails, finding_of(self._rule, outcome))

    def of(self, outcome: Outcome) -> MakeResult:
        """Return the maker of results of a sound outcome of the evaluator; a score passed or not."""
        marked, may_keep = outcome, True
        if isinstance(outcome, Scored):
            # An integer, or the number of a library, is told from no other that equals it; and no zero is negative.
            value = float(outcome.value) or 0.0
            if not value <= 1 or value < 0:
                raise EvaluationError("invalid_outcome", NO_SCORE)
            passed = outcome.is_exempt or value >= self._least
            # Not the evaluator's own parts where they are empty: it might fill them later, and nobody would check them.
            parts = outcome.parts or {}
            marked = Scored(value, outcome.explanation, parts, outcome.differences, passed, is_exempt=outcome.is_exempt)
            # Differences take memory, and are seldom the same again.
            may_keep = not outcome.differences and (self._keeps_parts or not parts)
        make = self.made(marked)
        words = outcome.error_type + outcome.message if isinstance(outcome, Errored) else outcome.explanation
        # A class of the evaluator's own may have more in it, and may not be frozen: then it says something else later.
        if may_keep and len(words) <= _LONGEST_KNOWN and type(outcome) in OUTCOMES:
            if len(self) >= _MAX_KNOWN:
                self.clear()
                self._kept.clear()
            self[id(outcome)], self._kept[id(outcome)] = make, outcome
        return make


_SAMPLED_OUT = NotEvaluated(reason="sampled_out", explanation="not in the sample")
_NO_CASE = NotEvaluated(reason="no_reference", explanation="the trajectory names no known case")


class Registered(Struct, frozen=True):
    """A criterion with its globs compiled and its evaluator, which either scores or asks."""

    criterion: Criterion
    evaluator: Evaluator | None
    # The method of its evaluator that takes shared facts, where there is one.
    outcomes: Callable[[Facts], Iterable[Judged]] | None
    judge: JudgeEvaluator | None
    service: Globs | None
    agent: Globs | None
    case: Globs | None
    needs: Needs
    # Its evaluator judges trajectories of which no span is missing, and no calls alone.
    needs_whole: bool
    # Nothing but the scope and the runs selects its trajectories; its evaluator sees each as it is, and nothing else.
    is_plain: bool
    makes: Makes


class Seen(Struct, frozen=True, gc=False):
    """What an evaluator gets to see."""

    trajectory: Trajectory
    expected: Expected | None


def register(criterion: Criterion) -> Registered:
    """Compile the globs of a criterion and see what its evaluator is."""
    when, evaluator = criterion.when, criterion.evaluator
    asks = isinstance(evaluator, JudgeEvaluator)
    needs = needs_of(evaluator)
    own = evaluator if isinstance(evaluator, TakesFacts) else None
    makes = Makes(criterion, keeps_parts=own is not None)
    is_plain = when == When() and criterion.sample >= 1 and isinstance(criterion.reference, NoReference)
    return Registered(
        criterion,
        evaluator=None if asks else evaluator,
        outcomes=None if own is None else own.outcomes,
        judge=evaluator if asks else None,
        service=None if when.service is None else Globs((when.service,)),
        agent=None if when.agent is None else Globs((when.agent,)),
        case=None if when.case is None else Globs((when.case,)),
        needs=needs,
        needs_whole=asks or evaluator.level != "call" or needs.whole,
        is_plain=is_plain,
        makes=makes,
    )


def applies(registered: Registered, trajectory: Trajectory) -> bool:
    """Return whether the criterion is for this trajectory."""
    criterion = registered.criterion
    # A trace without a conversation id is a conversation of its own.
    if criterion.scope != trajectory.scope and (criterion.scope == "trace" or trajectory.conversation_id is not None):
        return False
    return (
        (not registered.needs.agent_run or trajectory.has_agent_run)
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
    yield from needs_of(criterion.evaluator).attributes
    if isinstance(criterion.reference, Lookup):
        yield criterion.reference.key


def seen_by(registered: Registered, trajectory: Trajectory, kinds: ToolKinds) -> Seen | NotEvaluated:
    """Narrow the trajectory to the part that the criterion judges, or return why it judges nothing."""
    if registered.is_plain:
        return Seen(_seen_code(registered, trajectory, None) if trajectory.code_steps else trajectory, None)
    criterion = registered.criterion
    if (outside := outside_sample(criterion, trajectory)) is not None:
        return outside
    expected = criterion.reference.expected if isinstance(criterion.reference, Inline) else None
    if isinstance(criterion.reference, Lookup):
        case = _case(criterion, trajectory)
        expected = None if case is None else criterion.reference.cases.get(case)
        if expected is None:
            return _NO_CASE
    if expected is not None:
        names = tuple(call.name for call in expected.calls)
        if not trajectory.answer_tools.isdisjoint(names):
            trajectory = replace(trajectory, answer_tools=trajectory.answer_tools.difference(names))
        trajectory = with_writing_tools(trajectory, names, kinds)
    return Seen(narrowed_to_agent(registered, _seen_code(registered, trajectory, expected)), expected)


def outside_sample(criterion: Criterion, trajectory: Trajectory) -> NotEvaluated | None:
    """Return the outcome of a trajectory outside the criterion's sample; `None` when it is inside."""
    if criterion.sample >= 1:
        return None
    # The hash leaves the criterion out: all criteria see the same conversations.
    identity = trajectory.conversation_id or trajectory.trace_id
    digest = hashlib.sha256(identity.encode("utf-8", "backslashreplace")).digest()
    return None if int.from_bytes(digest[:8], "big") < criterion.sample * 2**64 else _SAMPLED_OUT


def with_writing_tools(trajectory: Trajectory, expected_names: tuple[str, ...], kinds: ToolKinds) -> Trajectory:
    """Fill in which of the tools that were called, on offer or expected change state."""
    if expected_names:
        writing = kinds.writing(trajectory.writing_tools.union(expected_names))
    else:
        offered = kinds.writing(Tools.of(trajectory.tools_offered).names)
        writing = offered | kinds.writing(frozenset(map(_NAME, trajectory.calls)))
    writing -= trajectory.answer_tools
    return trajectory if writing == trajectory.writing_tools else replace(trajectory, writing_tools=writing)


def with_neutral_tools(trajectory: Trajectory, kinds: ToolKinds) -> Trajectory:
    """Fill in which of the called tools hand over, answer or think, and which of them carry the structured answer."""
    if not trajectory.calls:
        return trajectory
    taken, names = set(answering_tools(trajectory)), set(map(_NAME, trajectory.calls))
    answers = frozenset([name for name in names if kinds.gives_answers(name, was_taken=name in taken)])
    neutral = answers.union([name for name in names if kinds.is_neutral(name)])
    return replace(trajectory, neutral_tools=neutral, answer_tools=answers) if neutral else trajectory


def _seen_code(registered: Registered, trajectory: Trajectory, expected: Expected | None) -> Trajectory:
    """Leave out steps of code agents, unless the evaluator judges them or the reference or `tools` names them in full."""
    if not trajectory.code_steps or registered.needs.code:
        return trajectory
    tools: object = getattr(registered.criterion.evaluator, "tools", None)
    # Nothing is known about a plug-in's tuple.
    named = set(cast("tuple[object, ...]", tools)) if isinstance(tools, tuple) else set[object]()
    if expected is not None:
        named.update(call.name for call in expected.calls)
    return without_code(trajectory, named)


def narrowed_to_agent(registered: Registered, trajectory: Trajectory) -> Trajectory:
    """Leave out the calls of other agents where the criterion judges one agent's calls."""
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
    # A single agent made all calls.
    return trajectory.agents[0] if len(trajectory.agents) == 1 else ""


def _case(criterion: Criterion, trajectory: Trajectory) -> str | None:
    if not isinstance(criterion.reference, Lookup):
        return None
    value = trajectory.attributes.get(criterion.reference.key)
    return value if value is None or isinstance(value, str) else json.dumps(value)
