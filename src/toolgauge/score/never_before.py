"""Calls that must not be made before others: `{confirm_payment: [issue_refund]}`, never before `confirm_payment`: `issue_refund`.

A call breaks such a rule while no call that it has to wait for was made in its turn or an earlier one; also when
none ever was. Calls of one turn have no order.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeAlias, cast

from msgspec import Struct
from pydantic import BeforeValidator, Field

from toolgauge.model.trajectory import ToolCall
from toolgauge.score.globs import Globs
from toolgauge.score.selection import shown

_Name: TypeAlias = Annotated[str, Field(min_length=1)]


def _one_or_more(value: object) -> object:
    """Read one name as a list of one."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple) and not value:
        raise ValueError("is empty; it must name the calls that have to wait")
    return cast("object", value)  # any other kind is left to pydantic, which says what is wrong


# The call to wait for, and those that wait for it: names and globs.
NeverBefore: TypeAlias = Mapping[_Name, Annotated[tuple[_Name, ...], BeforeValidator(_one_or_more)]]


class TooEarly(Struct, frozen=True, kw_only=True):
    """A call that did not wait; `awaited` as it was written."""

    call: ToolCall
    awaited: str

    def __str__(self) -> str:
        """Name both for an explanation."""
        return f"{shown(self.call.name)} before {shown(self.awaited)}"


class Waiting(Struct, frozen=True, kw_only=True):
    """How many calls had to wait for another, and which of them did not."""

    bound: int
    too_early: tuple[TooEarly, ...]

    @property
    def in_time(self) -> float:
        """The share of the calls that waited."""
        early = len({breach.call.order for breach in self.too_early})
        return 1 - early / self.bound if self.bound else 1.0


class Precedences:
    """The rules of one criterion, compiled once."""

    __slots__ = ("_rules",)

    def __init__(self, never_before: Mapping[str, Sequence[str]]) -> None:
        self._rules = tuple((name, Globs((name,)), Globs(waiting)) for name, waiting in never_before.items())

    def check(self, calls: Sequence[ToolCall], made: Sequence[ToolCall]) -> Waiting:
        """Judge `calls`; what they wait for may be any of all that was `made`."""
        bound: set[int] = set()
        too_early: list[TooEarly] = []
        for name, awaited, waiting in self._rules:
            release = _matched(awaited, made)
            first = min((call.turn for call in made if call.name in release), default=None)
            names = _matched(waiting, calls)
            held = [call for call in calls if call.name in names]
            bound.update(call.order for call in held)
            too_early += [TooEarly(call=call, awaited=name) for call in held if first is None or call.turn < first]
        return Waiting(bound=len(bound), too_early=tuple(sorted(too_early, key=lambda breach: breach.call.order)))


def _matched(globs: Globs, calls: Sequence[ToolCall]) -> set[str]:
    matched: set[str] = set()
    for name in {call.name for call in calls}:
        if globs.match(name):
            matched.add(name)
    return matched
