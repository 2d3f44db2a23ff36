"""Derives the expected calls of a task from several of its runs, aligned one after the other.

A call that all runs have is expected, others are optional. An `Agreement` holds the tightest rule that all values meet.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from toolgauge.authoring.freedoms import Freedom, Place, place_of
from toolgauge.authoring.runs import RecordedCall, RecordedRun
from toolgauge.authoring.value_profiles import VARYING, form_of
from toolgauge.model.json import Json, JsonObject
from toolgauge.score.align import Item, align
from toolgauge.score.compare import compare
from toolgauge.score.equality import Identities
from toolgauge.score.origins.value_origin import Value, is_id
from toolgauge.score.rules import Casefold, DateTime, Exact, Lenient, Rule

# The rules that a reference may name, from the tightest on.
RuleWord: TypeAlias = Literal["exact", "casefold", "datetime", "lenient", "one_of"]

_MAX_ALTERNATIVES = 5
_EXACT = Exact()


@dataclass(slots=True)
class Agreement:
    """The values that are accepted for an argument, and its rules; a place with a reason in `why` is left free."""

    place: Place
    values: list[Json] = field(default_factory=list[Json])
    rules: dict[Place, RuleWord] = field(default_factory=dict[Place, RuleWord])
    why: dict[Place, str] = field(default_factory=dict[Place, str])

    @property
    def why_free(self) -> str | None:
        """The reason to expect nothing of the argument; `None` where a value is expected."""
        return self.why.get(self.place)


_Value: TypeAlias = tuple[Json, Mapping[Place, Freedom]]


def _settle(found: Agreement, place: Place, values: Sequence[_Value]) -> None:
    """Decide about a place, and about the places within it where its values differ or are free."""
    freedoms = [free[place] for _, free in values if place in free]
    certain = next((one for one in freedoms if one.is_certain), None)
    contents = [value for value, _ in values]
    objects = [(value, free) for value, free in values if isinstance(value, dict)]
    lists = [value for value in contents if isinstance(value, list)]
    hold_objects = all(any(isinstance(item, dict | list) for item in value) for value in lists)
    if certain is not None or (freedoms and len(values) == 1):
        _free(found, place, (certain or freedoms[0]).why)
        return
    if len(objects) == len(values):
        for key in dict.fromkeys(key for value, _ in objects for key in value):
            with_key = [(value[key], free) for value, free in objects if key in value]
            if len(with_key) < len(objects):
                _free(found, (*place, key), f"given in {len(with_key)} of {len(objects)} runs")
            else:
                _settle(found, (*place, key), with_key)
        return
    if len(lists) == len(values) and hold_objects and len({len(value) for value in lists}) == 1:
        for items in zip(*lists, strict=True):
            _settle(found, (*place, None), [(item, free) for item, (_, free) in zip(items, values, strict=True)])
        return
    for word, rule in _RULES:
        if all(_meets(rule, contents[0], other) for other in contents[1:]) and (
            word == "exact" or all(isinstance(value, list if word == "lenient" else str) for value in contents)
        ):
            if word != "exact":
                found.rules[place] = word
            return
    distinct = _distinct(contents)
    forms = {form_of(value) for value in distinct}
    # Few values of an argument are alternatives: words and switches, and values that come again.
    is_few = len(place) == 1 and len(distinct) <= _MAX_ALTERNATIVES and "object" not in forms and not forms & VARYING
    if is_few and (forms <= {"label", "boolean", "null"} or 2 * len(distinct) <= len(contents)):
        found.rules[place] = "one_of"
    else:
        _free(found, place, f"differs from run to run: {len(distinct)} values in {len(contents)} runs")


_RULES: tuple[tuple[RuleWord, Rule], ...] = (
    ("exact", _EXACT),
    ("casefold", Casefold()),
    ("datetime", DateTime()),
    ("lenient", Lenient()),
)


def _meets(rule: Rule, first: Json, other: Json) -> bool:
    return compare(rule, first, other, where="").value == 1.0


def _free(found: Agreement, place: Place, why: str) -> None:
    found.why.setdefault(place_of(place), why)


def _distinct(values: Sequence[Json]) -> list[Json]:
    distinct: list[Json] = []
    for value in values:
        if not any(_meets(_EXACT, value, other) for other in distinct):
            distinct.append(value)
    return distinct


def without(value: Json, place: Place, free: Collection[Place]) -> Json:
    """Return a value without the members that are free."""
    if isinstance(value, list):
        return [without(item, (*place, None), free) for item in value]
    if isinstance(value, dict):
        return {key: without(member, (*place, key), free) for key, member in value.items() if (*place, key) not in free}
    return value


_MAX_SHOWN = 5
# 500 by 500 calls that all differ take 3 s for each run without it.
_MAX_PAIRS = 40_000


@dataclass(frozen=True, slots=True)
class Shown:
    """The arguments of a call by name, a number for equal values; without the arguments that the run leaves free."""

    values: Mapping[str, int] | None
    free: frozenset[str]

    def likeness(self, other: "Shown") -> float:
        """Return the share of equal arguments of two calls, of the arguments that neither leaves free."""
        if self.values is None or other.values is None:
            return 0.0
        names = (self.values.keys() | other.values.keys()) - self.free - other.free
        if not names:
            return 1.0
        return sum(self.values.get(name) == other.values.get(name) for name in names) / len(names)


@dataclass(slots=True)
class Slot:
    """One expected call, and the calls in its place, by the number of their run."""

    name: str
    calls: dict[int, RecordedCall] = field(default_factory=dict[int, RecordedCall])
    # The distinct arguments of the first calls, which further ones are compared with.
    shown: list[Shown] = field(default_factory=list[Shown])


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedSlot:
    """One expected call. `arguments` is `None` where any arguments will do; `why` has notes on the call for people.

    `args` are the arguments as they are written, once that is decided for all calls.
    """

    name: str
    is_optional: bool = False
    arguments: dict[str, Agreement] | None
    why: tuple[str, ...] = ()
    # The reasons not to expect a call of a failing run as it was made; empty for an expected call.
    doubts: tuple[str, ...] = ()
    args: JsonObject | None = None

    def as_json(self) -> JsonObject:
        """Return the call as a reference has it."""
        written: JsonObject = {"name": self.name}
        if self.args is not None:
            written["args"] = self.args
        if self.is_optional:
            written["optional"] = True
        return written


def expected_slots(runs: Sequence[RecordedRun]) -> tuple[ExpectedSlot, ...]:
    """Find the calls that are expected of a run, in the order in which they were made."""
    worked = [[call for call in run.calls if call.failure is None] for run in runs]
    slots: list[Slot] = []
    identities = Identities()
    # The longest run comes first: calls that others have beside it are then rare, and are inserted in their places.
    for number in sorted(range(len(runs)), key=lambda number: (-len(worked[number]), number)):
        _lay_over(slots, number, [(call, _shown(call, identities)) for call in worked[number]])
    return tuple(
        expected_slot(slot.name, [slot.calls[number] for number in sorted(slot.calls)], len(runs)) for slot in slots
    )


def _lay_over(slots: list[Slot], number: int, calls: Sequence[tuple[RecordedCall, Shown]]) -> None:
    """Add the calls of one run to their slots, and make slots for the others behind the slots before them."""

    def weigh(slot: int, call: int) -> float:
        return max(shown.likeness(calls[call][1]) for shown in slots[slot].shown)

    expected = [_item(slot.name, slot.shown[0], -1 - place) for place, slot in enumerate(slots)]
    actual = [_item(call.name, shown, place) for place, (call, shown) in enumerate(calls)]
    # Equal calls are paired first: likeness is a share of equal arguments.
    alignment = align(expected, actual, weigh, peel=True, max_pairs=_MAX_PAIRS)
    slot_of = {pair.actual: pair.expected for pair in alignment.pairs}
    inserted: dict[int, list[Slot]] = {}
    place = 0
    for index, (call, shown) in enumerate(calls):
        found = slot_of.get(index)
        if found is None:
            slot = Slot(call.name)
            inserted.setdefault(place, []).append(slot)
        else:
            slot, place = slots[found], found + 1
        slot.calls[number] = call
        if len(slot.shown) < _MAX_SHOWN and shown not in slot.shown:
            slot.shown.append(shown)
    slots[:] = [
        slot for place in range(len(slots) + 1) for slot in (*inserted.get(place, ()), *slots[place : place + 1])
    ]


def _shown(call: RecordedCall, identities: Identities) -> Shown:
    if call.args is None:
        return Shown(None, frozenset())
    free = frozenset(place[0] for place in call.free if len(place) == 1 and place[0] is not None)
    values = {name: without(value, (name,), call.free) for name, value in call.args.items() if name not in free}
    return Shown(identities.of_members(values), free)


def _item(name: str, shown: Shown, place: int) -> Item:
    return Item(kind=name, key=place if shown.values is None else frozenset(shown.values.items()))


def expected_slot(name: str, calls: Sequence[RecordedCall], runs: int) -> ExpectedSlot:
    """Expect one call as it was made in some of the runs."""
    is_optional = len(calls) < runs
    why = (f"in {len(calls)} of {runs} runs",) if is_optional else ()
    unread = next((call.unread for call in calls if call.args is None), None)
    if unread is not None:
        why = (*why, f"any arguments: {unread}")
        return ExpectedSlot(name=name, is_optional=is_optional, arguments=None, why=why)
    arguments: dict[str, Agreement] = {}
    for argument in dict.fromkeys(argument for call in calls for argument in call.args or {}):
        given = [(call.args[argument], call.free) for call in calls if call.args and argument in call.args]
        place, found = (argument,), Agreement((argument,))
        arguments[argument] = found
        if len(given) < len(calls):
            found.why[place] = f"given in {len(given)} of {len(calls)} runs"
            continue
        _settle(found, place, given)
        found.values = _distinct([without(value, place, found.why) for value, _ in given])
    args = calls[0].args or {}
    lengths = [len(value) for value in args.values() if isinstance(value, list)]
    for argument, found in arguments.items() if len(calls) == 1 else ():
        value = args[argument]
        # One run cannot show whether ids may be in any order: they may, unless two lists may belong together by place.
        if not isinstance(value, list) or len(value) < 2 or lengths.count(len(value)) > 1 or found.why_free is not None:
            continue
        if all(isinstance(one, str | int) and is_id(Value((argument,), argument, one)) for one in value):
            found.rules[argument,] = "lenient"
    return ExpectedSlot(name=name, is_optional=is_optional, arguments=arguments, why=why)
