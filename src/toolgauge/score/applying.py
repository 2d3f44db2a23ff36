"""Which criteria are for a trajectory, and what each of them gets to see of it.

The same for criteria that score here and for those that ask a judge: a criterion means the same trajectories
whoever looks at them.
"""

import hashlib
import json
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.expected import Expected
from toolgauge.model.judging import JudgeEvaluator
from toolgauge.model.outcomes import NotEvaluated
from toolgauge.model.ports import Evaluator
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.criterion import Criterion, Inline, Lookup, NoReference, ToolKinds
from toolgauge.score.globs import Globs
from toolgauge.score.leaves import same
from toolgauge.score.verdicts import Marks

_SAMPLED_OUT = NotEvaluated(reason="sampled_out", explanation="not in the sample")
_NO_CASE = NotEvaluated(reason="no_reference", explanation="the trajectory names no known case")


class Registered(Struct, frozen=True):
    """A criterion with its globs compiled and its evaluator, which either scores or asks."""

    criterion: Criterion
    evaluator: Evaluator | None
    judge: JudgeEvaluator | None
    service: Globs | None
    agent: Globs | None
    case: Globs | None
    # Nothing but the scope decides which trajectories it is for.
    is_for_all: bool
    # Its evaluator gets to see each of these as it is, and nothing else.
    sees_all: bool
    marks: Marks


class Seen(Struct, frozen=True):
    """What an evaluator gets to see."""

    trajectory: Trajectory
    expected: Expected | None


def register(criterion: Criterion) -> Registered:
    """Compile the globs of a criterion and see what its evaluator is."""
    when, evaluator = criterion.when, criterion.evaluator
    asks = isinstance(evaluator, JudgeEvaluator)
    return Registered(
        criterion,
        evaluator=None if asks else evaluator,
        judge=evaluator if asks else None,
        service=None if when.service is None else Globs((when.service,)),
        agent=None if when.agent is None else Globs((when.agent,)),
        case=None if when.case is None else Globs((when.case,)),
        is_for_all=when.service is None and when.agent is None and when.case is None and not when.attributes,
        sees_all=criterion.sample >= 1 and when.agent is None and isinstance(criterion.reference, NoReference),
        marks=Marks(criterion.pass_at),
    )


def applies(registered: Registered, trajectory: Trajectory) -> bool:
    """Tell whether the criterion is for this trajectory."""
    criterion = registered.criterion
    if criterion.scope != trajectory.scope:
        return False
    return registered.is_for_all or (
        (registered.service is None or registered.service.match(trajectory.service or ""))
        and (registered.agent is None or _has_agent(registered.agent, trajectory))
        and (registered.case is None or _is_case(registered.case, criterion, trajectory))
        and all(
            key in trajectory.attributes and same(trajectory.attributes[key], value)
            for key, value in criterion.when.attributes.items()
        )
    )


def attribute_keys(criterion: Criterion) -> Iterator[str]:
    """Yield the attributes that the criterion asks for."""
    yield from criterion.when.attributes
    if isinstance(criterion.reference, Lookup):
        yield criterion.reference.key


def seen_by(registered: Registered, trajectory: Trajectory, kinds: ToolKinds) -> Seen | NotEvaluated:
    """Narrow the trajectory to what the criterion is for, or say why there is nothing to look at."""
    if registered.sees_all:
        return Seen(trajectory, None)
    criterion = registered.criterion
    if (outside := outside_sample(criterion, trajectory)) is not None:
        return outside
    expected = _reference(criterion, trajectory)
    if expected is None and not isinstance(criterion.reference, NoReference):
        return _NO_CASE
    return Seen(_narrowed(registered, trajectory, expected, kinds), expected)


def outside_sample(criterion: Criterion, trajectory: Trajectory) -> NotEvaluated | None:
    """Say that the trajectory is not in the criterion's sample; `None` when it is."""
    if criterion.sample >= 1:
        return None
    # The criterion is not part of what is hashed: all criteria see the same conversations.
    identity = trajectory.conversation_id or trajectory.trace_id
    digest = hashlib.sha256(identity.encode("utf-8", "backslashreplace")).digest()
    return None if int.from_bytes(digest[:8], "big") < criterion.sample * 2**64 else _SAMPLED_OUT


def with_writing_tools(trajectory: Trajectory, expected_names: tuple[str, ...], kinds: ToolKinds) -> Trajectory:
    """Fill in which of the called, or of the expected, tools change state."""
    called = (
        trajectory.writing_tools.union(expected_names) if expected_names else {call.name for call in trajectory.calls}
    )
    writing = frozenset(filter(kinds.writes, called))
    return trajectory if writing == trajectory.writing_tools else replace(trajectory, writing_tools=writing)


def _narrowed(
    registered: Registered, trajectory: Trajectory, expected: Expected | None, kinds: ToolKinds
) -> Trajectory:
    if expected is not None:
        trajectory = with_writing_tools(trajectory, tuple(call.name for call in expected.calls), kinds)
    if registered.agent is None or registered.criterion.evaluator.level != "call":
        return trajectory
    agent = registered.agent
    calls = tuple(call for call in trajectory.calls if agent.match(_agent_of(call, trajectory)))
    return replace(trajectory, calls=calls)


def _has_agent(agent: Globs, trajectory: Trajectory) -> bool:
    return any(agent.match(name) for name in trajectory.agents)


def _agent_of(call: ToolCall, trajectory: Trajectory) -> str:
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


def _is_case(case: Globs, criterion: Criterion, trajectory: Trajectory) -> bool:
    value = _case(criterion, trajectory)
    return value is not None and case.match(value)


def _reference(criterion: Criterion, trajectory: Trajectory) -> Expected | None:
    match criterion.reference:
        case NoReference():
            return None
        case Inline(expected=expected):
            return expected
        case Lookup(cases=cases):
            case = _case(criterion, trajectory)
            return None if case is None else cases.get(case)
