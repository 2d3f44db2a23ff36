"""Several runs of one task -> the calls that are expected of the next one.

The calls of the runs are aligned one run after the other. A call that all runs have is expected, one that only some have is
optional, and the values of its arguments are what these runs agree on.
"""

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

from toolgauge.model.json import JsonObject
from toolgauge.offline.expect.agreement import Agreement, Given, agreement, without
from toolgauge.offline.expect.freedoms import Place
from toolgauge.offline.expect.runs import RecordedCall
from toolgauge.score.align import Item, align
from toolgauge.score.compare import compare
from toolgauge.score.origins.value_origin import Value, is_id
from toolgauge.score.rules import Exact

_EXACT = Exact()
_NOTHING = Given(value=None, is_there=False, free={})


class HasCalls(Protocol):
    """Anything with calls, which can be aligned."""

    @property
    def calls(self) -> tuple[RecordedCall, ...]:
        """The calls in order."""
        ...


@dataclass(slots=True)
class Slot:
    """One expected call, and the calls that are it, by the number of their run."""

    name: str
    calls: dict[int, RecordedCall] = field(default_factory=dict[int, RecordedCall])


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedSlot:
    """One expected call. `arguments` is `None` where any arguments will do; `why` has notes on the call for people."""

    name: str
    is_optional: bool
    arguments: dict[str, Agreement] | None
    why: tuple[str, ...] = ()


def expected_slots(runs: Sequence[HasCalls]) -> tuple[ExpectedSlot, ...]:
    """Find the calls that are expected of a run, in the order in which they were made."""
    # The longest run comes first: what others have beside it is then rare, and stands in its place.
    ordered = sorted(range(len(runs)), key=lambda number: (-len(_worked(runs[number])), number))
    slots: list[Slot] = []
    for number in ordered:
        _lay_over(slots, number, _worked(runs[number]))
    return tuple(_settled(slot, len(runs)) for slot in slots)


def slot_of(call: RecordedCall) -> ExpectedSlot:
    """Expect one call as it was made."""
    return _settled(Slot(call.name, {0: call}), 1)


def _worked(run: HasCalls) -> list[RecordedCall]:
    return [call for call in run.calls if call.failure is None]


def _lay_over(slots: list[Slot], number: int, calls: Sequence[RecordedCall]) -> None:
    """Add the calls of one run to the slots that they are, and make slots for the others behind those before them."""
    firsts = [next(iter(slot.calls.values())) for slot in slots]

    def weigh(slot: int, call: int) -> float:
        return max(likeness(other, calls[call]) for other in slots[slot].calls.values())

    alignment = align([_item(call) for call in firsts], [_item(call) for call in calls], weigh)
    slot_of = {pair.actual: slots[pair.expected] for pair in alignment.pairs}
    place = 0
    for index, call in enumerate(calls):
        slot = slot_of.get(index)
        if slot is None:
            slot = Slot(call.name)
            slots.insert(place, slot)
        slot.calls[number] = call
        place = next(position for position, one in enumerate(slots) if one is slot) + 1


def _item(call: RecordedCall) -> Item:
    key = ("unread", *map(str, call.key)) if call.args is None else json.dumps(call.args, sort_keys=True)
    return Item(kind=call.name, key=key)


def likeness(one: RecordedCall, other: RecordedCall) -> float:
    """Return the share of arguments that two calls of a tool have in common, of those that neither leaves free."""
    if one.args is None or other.args is None:
        return 0.0
    free = one.free.keys() | other.free.keys()
    names = {name for name in (*one.args, *other.args) if (name,) not in free}
    if not names:
        return 1.0
    shared = sum(_is_shared(name, one.args, other.args, free) for name in names)
    return shared / len(names)


def _is_shared(name: str, one: JsonObject, other: JsonObject, free: Set[Place]) -> bool:
    if name not in one or name not in other:
        return False
    first, second = (without(args[name], (name,), free) for args in (one, other))
    return compare(_EXACT, first, second, where="").value == 1.0


def _settled(slot: Slot, runs: int) -> ExpectedSlot:
    calls = [slot.calls[number] for number in sorted(slot.calls)]
    is_optional = len(calls) < runs
    why = (f"in {len(calls)} of {runs} runs",) if is_optional else ()
    unread = next((call.unread for call in calls if call.args is None), None)
    if unread is not None:
        return ExpectedSlot(
            name=slot.name, is_optional=is_optional, arguments=None, why=(*why, f"any arguments: {unread}")
        )
    names = dict.fromkeys(name for call in calls for name in call.args or {})
    arguments = {name: agreement((name,), [_given(call, name) for call in calls]) for name in names}
    if len(calls) == 1:
        _free_order(calls[0].args or {}, arguments)
    return ExpectedSlot(name=slot.name, is_optional=is_optional, arguments=arguments, why=why)


def _free_order(args: JsonObject, arguments: Mapping[str, Agreement]) -> None:
    """Let ids stand in any order, which one run cannot show; but where two lists may belong together by place."""
    lengths = [len(value) for value in args.values() if isinstance(value, list)]
    for name, found in arguments.items():
        value = args[name]
        if not isinstance(value, list) or len(value) < 2 or lengths.count(len(value)) > 1 or found.why_free is not None:
            continue
        if all(isinstance(one, str | int) and is_id(Value((name,), name, one)) for one in value):
            found.rules[name,] = "lenient"


def _given(call: RecordedCall, name: str) -> Given:
    if call.args is None or name not in call.args:
        return _NOTHING
    return Given(value=call.args[name], is_there=True, free=call.free)
