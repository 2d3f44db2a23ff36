"""An alignment as an edit script: the steps that turn the calls into the expected calls.

`insert` a missing call, `delete` an unexpected one, `change` the arguments of one, `move` one that stands at the wrong
place, `swap` two neighbours, `leave` an unexpected one that costs nothing, and `keep` the rest. Lines hold names, never values.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Literal, TypeAlias

from msgspec import Struct

from toolgauge.score.align import Alignment, Pair, Weigh, align
from toolgauge.score.selection import Sides, shown
from toolgauge.score.summary import listed

Action: TypeAlias = Literal["keep", "leave", "change", "insert", "delete", "move", "swap"]

_SHOWN_STEPS = 8
# Looking for the place of calls that stand wrong only serves the telling.
_MAX_PAIRS = 20_000


class Free(Struct, frozen=True, kw_only=True):
    """What costs nothing: unexpected calls are left, missing ones not inserted."""

    extra: bool = False
    missing: bool = False


class Edit(Struct, frozen=True, kw_only=True):
    """One step of the script. `slot` and `call` are indices into the sides, `None` where that side has none."""

    # `where_to` is the place of a moved call; for a swap it is the call that belongs here.

    action: Action
    name: str
    slot: int | None = None
    call: int | None = None
    where_to: str = ""


# Where an edit stands: after which call, insertions behind it, in the order of the slots.
_Placed: TypeAlias = tuple[tuple[int, int, int], Edit]


def edits(sides: Sides, alignment: Alignment, weigh: Weigh, *, in_order: bool, free: Free) -> tuple[Edit, ...]:
    """Make the script, in the order of the calls that were made; an insertion follows the call it comes after."""
    moved = _moved(sides, alignment, weigh, free) if in_order else {}
    swaps = _swaps(alignment, moved)
    swapped = {pair.actual for pair in swaps.values()}
    placed: list[_Placed] = []
    for pair in alignment.pairs:
        if pair.actual not in swapped:
            action: Action = "keep" if pair.value == 1.0 else "change"
            name = sides.calls[pair.actual].name
            placed.append(((pair.actual, 0, 0), Edit(action=action, name=name, slot=pair.expected, call=pair.actual)))
    last = _last_turns(sides, alignment)
    for call in alignment.unexpected:
        name, slot, place = sides.calls[call].name, moved.get(call), call
        if call in swaps:
            place = min(call, swaps[call].actual)
            with_ = sides.calls[swaps[call].actual].name
            edit = Edit(action="swap", name=name, slot=slot, call=call, where_to=with_)
        elif slot is None:
            edit = Edit(action="leave" if free.extra else "delete", name=name, call=call)
        else:
            is_early = last.get(sides.slot_items[slot].group, -1) > sides.call_items[call].group
            edit = Edit(action="move", name=name, slot=slot, call=call, where_to="later" if is_early else "earlier")
        placed.append(((place, 0, 0), edit))
    call_of = {pair.expected: pair.actual for pair in alignment.pairs}
    missing: set[int] = set() if free.missing else set(alignment.missing) - set(moved.values())
    after = -1 if in_order else len(sides.calls)
    for slot, expected in enumerate(sides.slots):
        after = max(after, call_of.get(slot, -1))
        if slot in missing:
            placed.append(((after, 1, slot), Edit(action="insert", name=expected.name, slot=slot)))
    return tuple(edit for _, edit in sorted(placed, key=itemgetter(0)))


def _moved(sides: Sides, alignment: Alignment, weigh: Weigh, free: Free) -> dict[int, int]:
    """Find calls that would be as expected at another place; return their slots."""
    paired, calls = {pair.expected for pair in alignment.pairs}, alignment.unexpected
    # Where calls that nobody needs cost nothing, one at the wrong place is but another of them.
    unpaired = [slot for slot in range(len(sides.slots)) if slot not in paired]
    slots = alignment.missing if free.extra else unpaired

    def whole(slot: int, call: int) -> float | None:
        return 1.0 if weigh(slots[slot], calls[call]) == 1.0 else None

    if not slots or not calls:
        return {}
    wanted, made = [sides.slot_items[slot] for slot in slots], [sides.call_items[call] for call in calls]
    # Equal calls fit the same slots, so that settling them first loses nothing.
    left = align(wanted, made, whole, peel=True, max_pairs=_MAX_PAIRS)
    return {calls[pair.actual]: slots[pair.expected] for pair in left.pairs}


def _swaps(alignment: Alignment, moved: dict[int, int]) -> dict[int, Pair]:
    """Find moved calls that only have to change places with a neighbour that is kept."""
    pair_of = {pair.actual: pair for pair in alignment.pairs if pair.value == 1.0}
    swaps: dict[int, Pair] = {}
    for call, slot in moved.items():
        for step in (1, -1):
            neighbour = pair_of.get(call + step)
            if neighbour is not None and neighbour.expected == slot - step and call not in swaps:
                swaps[call] = neighbour
                del pair_of[call + step]
    return swaps


def _last_turns(sides: Sides, alignment: Alignment) -> dict[int, int]:
    """Find the last turn that the expected calls before each group stand in."""
    turn_of = {pair.expected: sides.call_items[pair.actual].group for pair in alignment.pairs}
    last: dict[int, int] = {}
    before = within = -1
    for group, slots in groupby(range(len(sides.slots)), key=lambda slot: sides.slot_items[slot].group):
        last[group] = before
        within = max([within, *(turn_of[slot] for slot in slots if slot in turn_of)])
        before = within
    return last


def script_summary(script: Sequence[Edit]) -> str:
    """Write the script in one bounded line, changes first: `keep search; insert book; delete delete_all`."""
    steps = _steps(script)
    if len(steps) <= _SHOWN_STEPS:
        return "; ".join(steps)
    steps = _steps([edit for edit in script if edit.action not in ("keep", "leave")])
    more = f"{len(steps) - _SHOWN_STEPS} more changes" if len(steps) > _SHOWN_STEPS else "keep the rest"
    return "; ".join([*steps[:_SHOWN_STEPS], more])


def _steps(script: Sequence[Edit]) -> list[str]:
    steps: list[str] = []
    for action, group in groupby(script, key=attrgetter("action")):
        run = [*group]
        if action not in ("swap", "move"):
            steps.append(f"{action} {listed([edit.name for edit in run])}")
            continue
        of, shown_run = (
            (" with", [shown(edit.where_to) for edit in run])
            if action == "swap"
            else ("", [edit.where_to for edit in run])
        )
        ways = [f"{shown(edit.name)}{of} {to}" for edit, to in zip(run, shown_run, strict=True)]
        more = [f"{len(run) - _SHOWN_STEPS} more"] if len(run) > _SHOWN_STEPS else []
        steps.append(f"{action} {', '.join([*ways[:_SHOWN_STEPS], *more])}")
    return steps
