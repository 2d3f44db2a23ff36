"""Both sides of a comparison in the form that other packages' evaluators take: names, arguments and outputs.

What an original could not have been given (arguments that were not recorded, a reference with optional calls) leaves as
the outcome that says so, never as a call that looks different.
"""

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import ClassVar, NamedTuple, TypeAlias

from msgspec import Struct
from pydantic import BaseModel, ConfigDict

from toolgauge.model.content import NotRecorded, Recorded
from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.json import Json, JsonObject, kind
from toolgauge.model.outcomes import Errored, Level, NotEvaluated, Outcome
from toolgauge.model.ports import Evaluation, Needs
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.selection import NO_REFERENCE, hidden_calls, recorded_result, shown, unseen_arguments


# `args` is `None` for null arguments, which some originals keep apart from none; `type` is the kind of tool, for originals with kinds.
class PlainCall(NamedTuple):
    """One call of either side; a named tuple, as dataclasses take three times as long."""

    name: str
    args: JsonObject | None
    output: Json = None
    type: str = ""


PlainCalls: TypeAlias = tuple[PlainCall, ...]


class Looked(Struct, frozen=True, kw_only=True):
    """The parts that an original compares beside names; `unexpected`: of unexpected calls too."""

    arguments: bool = True
    outputs: bool = False
    unexpected: bool = False


class OneOutcome(BaseModel):
    """An original that judges a trajectory as a whole; its fields are its own parameters."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"
    looks: ClassVar[Looked] = Looked()

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        """Yield one outcome for the trajectory."""
        yield None, self.outcome_of(trajectory, expected)

    def looked(self) -> Looked:
        """Return the parts that are compared beside names."""
        return self.looks

    @abstractmethod
    def outcome_of(self, trajectory: Trajectory, expected: Expected | None) -> Outcome:
        """Return the outcome of a trajectory."""


class PlainComparison(OneOutcome):
    """An original that compares all calls of a run with all expected ones."""

    needs: ClassVar[Needs] = Needs(reference="calls")

    def outcome_of(self, trajectory: Trajectory, expected: Expected | None) -> Outcome:
        """Compare the calls, as far as they were recorded."""
        if expected is None or not expected.names_calls:
            return NO_REFERENCE
        wanted = plain_expected(expected.calls)
        if isinstance(wanted, Errored):
            return wanted
        made = plain_calls(trajectory, trajectory.calls, wanted, self.looked())
        return made if isinstance(made, NotEvaluated) else self.compared(wanted, made)

    @abstractmethod
    def compared(self, expected: PlainCalls, made: PlainCalls) -> Outcome:
        """Compare both sides."""


def unsupported(expected: Sequence[ExpectedCall], original: str = "the original") -> Errored | None:
    """Refuse what an original has no words for."""
    for call in expected:
        if call.optional or call.repeat != (1, 1):
            return Errored(
                error_type="unsupported_reference",
                message=f"{original} takes neither `optional` nor `repeat`, which {shown(call.name)} has: list each call"
                " as often as it is expected, or use `tool_trajectory`",
            )
    return None


def plain_expected(expected: Sequence[ExpectedCall]) -> PlainCalls | Errored:
    """Take the expected calls as an original is given them."""
    outputs = (None if call.output is None else call.output.value for call in expected)
    calls = (PlainCall(one.name, one.args, out, one.tool_type) for one, out in zip(expected, outputs, strict=True))
    return unsupported(expected) or tuple(calls)


def plain_calls(
    trajectory: Trajectory, calls: Sequence[ToolCall], expected: PlainCalls, looked: Looked
) -> PlainCalls | NotEvaluated:
    """Return the calls as an original gets them, or the outcome where a part of them was not recorded."""
    if trajectory.hidden_turns:
        return hidden_calls(trajectory)
    names = {call.name for call in expected}
    # Left out of a call that a case writes, they are null to the originals.
    is_null = trajectory.case_shape in ("calls", "invocations")
    made: list[PlainCall] = []
    for call in calls:
        is_looked_at = looked.unexpected or call.name in names
        content, has_result = call.arguments, not isinstance(call.result, NotRecorded)
        args: JsonObject | NotEvaluated | None = None
        if isinstance(content, Recorded) and (content.value is None or isinstance(content.value, dict)):
            args = content.value
        elif not is_null or not isinstance(content, NotRecorded):
            explanation = f"the arguments of {shown(call.name)} are no object, and the original takes only those"
            args = unseen_arguments(call) or NotEvaluated(reason="unparsable", explanation=explanation)
        # Mostly nobody asks for results that were not recorded.
        is_asked = has_result or (looked.outputs and is_looked_at and not is_null)
        output = recorded_result(call) if is_asked else None
        if is_looked_at and looked.arguments and isinstance(args, NotEvaluated):
            return args
        if is_looked_at and looked.outputs and isinstance(output, NotEvaluated):
            return output
        args = None if isinstance(args, NotEvaluated) else args
        made.append(PlainCall(call.name, args, None if isinstance(output, NotEvaluated) else output, call.tool_type))
    return tuple(made)


def kind_of(value: Json) -> str:
    """Name the kind of a value that is refused."""
    word = kind(value)
    return word if word in ("null", "text") else f"an {word}" if word == "object" else f"a {word}"


Fits: TypeAlias = Callable[[int, int], bool]


def first_without(wanted: Sequence[Hashable], offered: Sequence[Hashable], fits: Fits) -> int | None:
    """Return the first of `wanted` (kinds, by index) that finds no free one of its kind; `None` when all do."""
    # `fits` is asked about (wanted, offered) until it agrees, and no further than the first that finds none.
    free: dict[Hashable, list[int]] = {}
    for place, key in enumerate(offered):
        free.setdefault(key, []).append(place)
    for index, key in enumerate(wanted):
        left = free.get(key, [])
        for position, place in enumerate(left):
            if fits(index, place):
                del left[position]
                break
        else:
            return index
    return None
