"""Both sides of a comparison made ready for `align`: expected calls as slots, actual calls with readable arguments."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import ClassVar, TypeAlias

from msgspec import Struct

from toolgauge.model.content import Recorded
from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import Level, NotEvaluated, Outcome
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.align import Item
from toolgauge.score.equality import Identities
from toolgauge.score.selection import CallSelection, score_turns, unseen_arguments

NOTHING_MADE = NotEvaluated(reason="nothing_expected", explanation="all expected calls are optional; none was made")

# A number for each argument's value, equal for equal values on either side; `None` when only the name of the call
# matters, or when there is nothing readable.
Arguments: TypeAlias = dict[str, int] | None

# A call that must occur more often than this was not meant.
_MAX_REPEATS = 10_000


class Sides(Struct, frozen=True, kw_only=True):
    """Expected slots and actual calls; items, arguments and calls of a side go by the same index."""

    slots: tuple[ExpectedCall, ...]
    slot_items: tuple[Item, ...]
    slot_arguments: tuple[Arguments, ...]
    calls: tuple[ToolCall, ...]
    call_items: tuple[Item, ...]
    call_arguments: tuple[Arguments, ...]

    def slot_values(self, slot: int) -> JsonObject:
        """Return the expected arguments of a slot."""
        return self.slots[slot].args or {}

    def call_values(self, call: int) -> JsonObject:
        """Return the arguments of a call, as far as they can be read."""
        return readable_arguments(self.calls[call]) or {}

    def may_pair(self, slot: int, call: int) -> bool:
        """Return whether the call ids allow the pair; they decide only where both sides have one."""
        wanted, found = self.slots[slot].call_id, self.calls[call].call_id
        return wanted is None or found is None or wanted == found


class _Slots(Struct, frozen=True, kw_only=True):
    """The expected side, and the numbers of its values."""

    calls: tuple[ExpectedCall, ...]
    items: tuple[Item, ...]
    arguments: tuple[Arguments, ...]
    identities: Identities
    by_id: bool


def make_sides(
    expected: Sequence[ExpectedCall],
    calls: Sequence[ToolCall],
    *,
    names_only: bool,
    equals_meet: bool = True,
) -> Sides:
    """Make both sides ready. An expected call that may repeat becomes several slots, those beyond the least optional.

    Slots of one group of expected calls share a group, all others have one of their own.
    `equals_meet` is False where rules decide that even an equal call may not be what is expected.
    """
    slots = _slots(expected, calls, names_only=names_only, equals_meet=equals_meet)
    call_items: list[Item] = []
    call_arguments: list[Arguments] = []
    for call in calls:
        readable = None if names_only else readable_arguments(call)
        arguments = None if readable is None else slots.identities.of_members(readable)
        key = _key_of_call(call, arguments, names_only=names_only)
        call_items.append(Item(kind=call.name, key=(key, call.call_id) if slots.by_id else key, group=call.turn))
        call_arguments.append(arguments)
    return Sides(
        slots=slots.calls,
        slot_items=slots.items,
        slot_arguments=slots.arguments,
        calls=tuple(calls),
        call_items=tuple(call_items),
        call_arguments=tuple(call_arguments),
    )


def _slots(
    expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], *, names_only: bool, equals_meet: bool
) -> _Slots:
    identities = Identities()
    slots: list[ExpectedCall] = []
    slot_items: list[Item] = []
    slot_arguments: list[Arguments] = []
    by_id = any(call.call_id is not None for call in expected)
    made: Counter[str] | None = None
    stage, group = 0, None
    for call in expected:
        stage += call.group is None or call.group != group
        group = call.group
        arguments = None if names_only or call.args is None else identities.of_members(call.args)
        key: Hashable = ("any",) if arguments is None else _whole(arguments)
        if by_id or not equals_meet:
            # Ids bind beyond names and arguments, so no call equals the slot outright: all are weighed.
            key = ("expected", call.call_id, key)
        required, most = 1, 1
        if _is_open(call):
            made = Counter([call.name for call in calls]) if made is None else made
            required, most = _repeats(call, made[call.name])
        for number in range(most):
            slots.append(call)
            stage += group is None and number > 0
            slot_items.append(Item(kind=call.name, key=key, optional=number >= required, group=stage))
            slot_arguments.append(arguments)
    return _Slots(
        calls=tuple(slots),
        items=tuple(slot_items),
        arguments=tuple(slot_arguments),
        identities=identities,
        by_id=by_id,
    )


def _is_open(call: ExpectedCall) -> bool:
    """Return whether the calls that were made decide how many slots it becomes."""
    return call.optional or call.repeat != (1, 1)


def readable_arguments(call: ToolCall) -> JsonObject | None:
    """Return the arguments of a call; null is how some producers write that there are none."""
    content = call.arguments
    if not isinstance(content, Recorded):
        return None
    if isinstance(content.value, dict):
        return content.value
    return {} if content.value is None else None


def nothing_expected(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> NotEvaluated | None:
    """Say that no call was expected, for those that have nothing to say of others."""
    if expected:
        return None
    made = f"{len(calls)} calls were made" if calls else "none was made"
    return NotEvaluated(reason="nothing_expected", explanation=f"no call was expected; {made}")


def not_observable(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> NotEvaluated | None:
    """Say why arguments cannot be judged: a call that could be an expected one was recorded without them."""
    names = {call.name for call in expected if call.args is not None}
    for call in calls:
        if isinstance(call.arguments, Recorded) or call.name not in names:
            continue
        unseen = unseen_arguments(call)
        if unseen is not None:
            return unseen
    return None


def _repeats(call: ExpectedCall, calls: int) -> tuple[int, int]:
    least, most = call.repeat
    required = 0 if call.optional else min(least, _MAX_REPEATS)
    # More slots than there are calls of the tool could never be filled.
    return required, max(required, min(most, calls))


def _whole(arguments: dict[str, int]) -> Hashable:
    return frozenset(arguments.items())


def _key_of_call(call: ToolCall, arguments: Arguments, *, names_only: bool) -> Hashable:
    if names_only:
        return ("any",)
    # What cannot be read equals nothing, not even itself in another call.
    return ("unread", call.order) if arguments is None else _whole(arguments)


class CallComparison(CallSelection):
    """Compares the calls that count with the expected calls that count and says one thing about the trajectory."""

    level: ClassVar[Level] = "trajectory"
    needs_reference: ClassVar[bool] = True

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        """Yield one outcome for the trajectory."""
        if expected is None or not expected.names_calls:
            yield None, NotEvaluated(reason="no_reference", explanation="no calls are given to compare with")
            return

        def score(wanted: Sequence[ExpectedCall], made: Sequence[ToolCall]) -> Outcome:
            return self.compared(self.expected_calls(wanted, trajectory), made, trajectory)

        yield None, score_turns(trajectory, expected, self.calls(trajectory), score)

    @abstractmethod
    def compared(self, expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], trajectory: Trajectory) -> Outcome:
        """Compare the calls of one user turn, or of the whole trajectory where turns are not told apart."""
        ...
