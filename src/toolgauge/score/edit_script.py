"""An alignment as an edit script: the steps that turn the calls into the expected calls.

`insert` a missing call, `delete` an unexpected one, `change` the arguments of one, `move` one that stands at the wrong
place, `swap` two neighbours, `leave` an unexpected one that costs nothing, and `keep` the rest. Lines hold names, never values.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from typing import Literal, TypeAlias

from msgspec import Struct

from toolgauge.score.align import Alignment, Pair, Weigh, align
from toolgauge.score.selection import Sides, shown
from toolgauge.score.summary import listed

Action: TypeAlias = Literal["keep", "leave", "change", "insert", "delete", "move", "swap"]

_MARKS: dict[Action, str] = {
    "keep": " ",
    "leave": " ",
    "change": "~",
    "insert": "+",
    "delete": "-",
    "move": ">",
    "swap": "x",
}
_SHOWN_STEPS = 8
# Looking for the place of calls that stand wrong only serves the telling.
_MAX_PAIRS = 20_000


class Free(Struct, frozen=True, kw_only=True):
    """What costs nothing: unexpected calls are left, missing ones not inserted."""

    extra: bool = False
    missing: bool = False


class Edit(Struct, frozen=True, kw_only=True):
    """One step of the script. `slot` and `call` are indices into the sides, `None` where that side has none.

    `where_to` is where a moved call belongs; for a swap it is the call that belongs where this one stands.
    """

    action: Action
    name: str
    slot: int | None = None
    call: int | None = None
    where_to: str = ""


def edits(sides: Sides, alignment: Alignment, weigh: Weigh, *, in_order: bool, free: Free) -> tuple[Edit, ...]:
    """Make the script, in the order of the calls that were made; an insertion follows the call it comes after."""
    moved: dict[int, int] = {}
    if in_order:
        # Where calls that nobody needs cost nothing, one at the wrong place is but another of them.
        slots = alignment.missing if free.extra else _unpaired(sides, alignment)
        moved = _moved(sides, alignment, slots, weigh)
    # Find moved calls that only have to change places with a neighbour that is kept.
    pair_of = {pair.actual: pair for pair in alignment.pairs if pair.value == 1.0}
    swaps: dict[int, Pair] = {}
    for call, slot in moved.items():
        for step in (1, -1):
            neighbour = pair_of.get(call + step)
            if neighbour is not None and neighbour.expected == slot - step and call not in swaps:
                swaps[call] = neighbour
                del pair_of[call + step]
    parts = [_paired(sides, alignment, swaps), _made(sides, alignment, moved, swaps, free)]
    if not free.missing:
        parts.append(_inserted(sides, alignment, moved, in_order=in_order))
    return tuple(edit for _, edit in sorted(chain.from_iterable(parts), key=lambda placed: placed[0]))


# Where an edit stands: after which call, insertions behind it, in the order of the slots.
_Placed: TypeAlias = tuple[tuple[int, int, int], Edit]


def _unpaired(sides: Sides, alignment: Alignment) -> list[int]:
    paired = {pair.expected for pair in alignment.pairs}
    return [slot for slot in range(len(sides.slots)) if slot not in paired]


def _moved(sides: Sides, alignment: Alignment, slots: Sequence[int], weigh: Weigh) -> dict[int, int]:
    """Find calls that would be as expected at another place; return their slots."""
    calls = alignment.unexpected

    def whole(slot: int, call: int) -> float | None:
        return 1.0 if weigh(slots[slot], calls[call]) == 1.0 else None

    if not slots or not calls:
        return {}
    # Equal calls fit the same slots, so that settling them first loses nothing.
    left = align(
        [sides.slot_items[slot] for slot in slots],
        [sides.call_items[call] for call in calls],
        whole,
        peel=True,
        max_pairs=_MAX_PAIRS,
    )
    return {calls[pair.actual]: slots[pair.expected] for pair in left.pairs}


def _paired(sides: Sides, alignment: Alignment, swaps: dict[int, Pair]) -> Iterator[_Placed]:
    swapped = {pair.actual for pair in swaps.values()}
    for pair in alignment.pairs:
        if pair.actual in swapped:
            continue
        action: Action = "keep" if pair.value == 1.0 else "change"
        name = sides.calls[pair.actual].name
        yield (pair.actual, 0, 0), Edit(action=action, name=name, slot=pair.expected, call=pair.actual)


def _made(
    sides: Sides, alignment: Alignment, moved: dict[int, int], swaps: dict[int, Pair], free: Free
) -> Iterator[_Placed]:
    last = _last_turns(sides, alignment)
    for call in alignment.unexpected:
        name = sides.calls[call].name
        slot = moved.get(call)
        if call in swaps:
            neighbour = swaps[call].actual
            with_ = sides.calls[neighbour].name
            yield (min(call, neighbour), 0, 0), Edit(action="swap", name=name, slot=slot, call=call, where_to=with_)
        elif slot is None:
            yield (call, 0, 0), Edit(action="leave" if free.extra else "delete", name=name, call=call)
        else:
            is_early = last.get(sides.slot_items[slot].group, -1) > sides.call_items[call].group
            where_to = "later" if is_early else "earlier"
            yield (call, 0, 0), Edit(action="move", name=name, slot=slot, call=call, where_to=where_to)


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


def _inserted(sides: Sides, alignment: Alignment, moved: dict[int, int], *, in_order: bool) -> Iterator[_Placed]:
    call_of = {pair.expected: pair.actual for pair in alignment.pairs}
    missing = set(alignment.missing) - set(moved.values())
    after = -1 if in_order else len(sides.calls)
    for slot, expected in enumerate(sides.slots):
        after = max(after, call_of.get(slot, -1))
        if slot in missing:
            yield (after, 1, slot), Edit(action="insert", name=expected.name, slot=slot)


def script_lines(script: Sequence[Edit], sides: Sides) -> list[str]:
    """Write the whole script, one line a step; numbers are those of the calls as they were made, from 1."""
    width = max((len(shown(edit.name)) for edit in script), default=0)
    return [_line(edit, sides, width) for edit in script]


def _line(edit: Edit, sides: Sides, width: int) -> str:
    line = f"{_MARKS[edit.action]} {edit.action:<6} {shown(edit.name):<{width}}"
    match edit.action:
        case "move":
            line += f"  {edit.where_to}"
        case "swap":
            line += f"  with {shown(edit.where_to)}"
        case _:
            pass
    if edit.call is not None:
        line += f"  (call {sides.calls[edit.call].order + 1})"
    return line.rstrip()


def script_summary(script: Sequence[Edit]) -> str:
    """Write the script in one bounded line: `keep search; insert book; delete delete_all`.

    Where that would be long, what stays as it is gives way to what changes.
    """
    steps = _steps(script)
    if len(steps) <= _SHOWN_STEPS:
        return "; ".join(steps)
    steps = _steps([edit for edit in script if edit.action not in ("keep", "leave")])
    more = f"{len(steps) - _SHOWN_STEPS} more changes" if len(steps) > _SHOWN_STEPS else "keep the rest"
    return "; ".join([*steps[:_SHOWN_STEPS], more])


def _steps(script: Sequence[Edit]) -> list[str]:
    return [_step(action, list(run)) for action, run in groupby(script, key=_action)]


def _action(edit: Edit) -> Action:
    return edit.action


def _step(action: Action, run: Sequence[Edit]) -> str:
    if action in ("swap", "move"):
        ways = [_way(edit) for edit in run[:_SHOWN_STEPS]]
        more = [f"{len(run) - _SHOWN_STEPS} more"] if len(run) > _SHOWN_STEPS else []
        return f"{action} {', '.join([*ways, *more])}"
    return f"{action} {listed([edit.name for edit in run])}"


def _way(edit: Edit) -> str:
    if edit.action == "swap":
        return f"{shown(edit.name)} with {shown(edit.where_to)}"
    return f"{shown(edit.name)} {edit.where_to}"
