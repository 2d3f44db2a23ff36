"""How UiPath pairs expected calls with made ones: each takes the first free one of its tool that is equal.

Wart: not the best pairing. Where an expected call fits several, it may take the one that a later call needs.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from toolgauge.model.json import JsonObject
from toolgauge.originals.uipath.spans import AnyCall, is_meant_by

Calls: TypeAlias = Sequence[AnyCall]
# Whether an expected call (by index) equals a made one.
Equal: TypeAlias = Callable[[int, int], bool]
# What a line of the details shows of both: what was made, what was expected.
Shown: TypeAlias = Callable[[int, int], tuple[object, object]]


class Attempt(Struct, frozen=True):
    """One comparison that was made."""

    expected: int
    made: int
    is_equal: bool


class Attempts(Struct):
    """All comparisons, and the expected calls that found nothing equal."""

    all: list[Attempt] = []
    missing: list[int] = []


def attempt(expected: Calls, made: Calls, equal: Equal, *, stops: bool = False) -> Attempts:
    """Compare expected calls with made ones.

    `stops` at the first comparison that is not equal, and at the first expected call that finds nothing to be
    compared with.
    """
    attempts = Attempts()
    used: set[int] = set()
    candidates: dict[tuple[str, str | None], list[int]] = {}
    for index, wanted in enumerate(expected):
        key = (wanted.name, wanted.id)
        if key not in candidates:
            candidates[key] = [place for place, call in enumerate(made) if is_meant_by(call, wanted)]
        is_found = False
        for place in candidates[key]:
            if place in used:
                continue
            is_found = equal(index, place)
            attempts.all.append(Attempt(index, place, is_found))
            if is_found or stops:
                break
        if is_found:
            used.add(attempts.all[-1].made)
        else:
            attempts.missing.append(index)
        if stops and not is_found:
            break
    return attempts


def explained(attempts: Attempts, made: Calls, said: Shown) -> JsonObject:
    """Write a line for each comparison; the number behind a name counts comparisons, not calls."""
    counts: dict[str, int] = {}
    lines: JsonObject = {}
    for one in attempts.all:
        name = made[one.made].name
        number = counts.get(name, 0)
        counts[name] = number + 1
        found, wanted = said(one.expected, one.made)
        lines[f"{name}_{number}"] = f"Actual: {found}, Expected: {wanted}, Score: {float(one.is_equal)}"
    return lines
