"""The budget of each room: how many lines, modules and functions it has at most.

    python -m tests.architecture.budget --write          # lower it to the tree as it is
    python -m tests.architecture.budget --write --raise  # raise it, too: for a commit that adds a feature and states by how much

`budget.txt` holds one line a room.
"""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

from tests.architecture.source import modules

BUDGET = Path(__file__).with_name("budget.txt")


class Size(NamedTuple):
    """The size of one room, or of the whole tree."""

    lines: int
    modules: int
    functions: int


def sizes() -> dict[str, Size]:
    """Measure every room of the tree; modules outside of a package are the room `.`."""
    found: dict[str, Size] = {}
    for name, module in modules().items():
        if not module.text:
            continue
        room = name.partition("/")[0] if "/" in name else "."
        before = found.get(room, Size(0, 0, 0))
        size = (before.lines + module.text.count("\n"), before.modules + 1, before.functions + len(module.functions))
        found[room] = Size(*size)
    return found


def budget() -> dict[str, Size]:
    """Read the budget of every room."""
    rows = [line.split() for line in BUDGET.read_text().splitlines() if not line.startswith("#")]
    return {room: Size(*map(int, numbers)) for room, *numbers in rows}


def total(rooms: dict[str, Size]) -> Size:
    """Add up the sizes of rooms."""
    return Size(*map(sum, zip(*rooms.values(), strict=True)))


def _write(*, raises: bool) -> None:
    known = budget() if BUDGET.exists() else {}
    rows = ["# room lines modules functions"]
    for room, size in sorted(sizes().items()):
        limit = size if raises or room not in known else Size(*map(min, size, known[room]))
        rows.append(f"{room} {limit.lines} {limit.modules} {limit.functions}")
    BUDGET.write_text("\n".join(rows) + "\n")


def _main() -> None:
    parser = argparse.ArgumentParser("python -m tests.architecture.budget")
    parser.add_argument("--write", action="store_true", help="lower the budget to the tree as it is")
    parser.add_argument("--raise", dest="raises", action="store_true", help="raise it where the tree has grown")
    options = parser.parse_args()
    if options.write:
        _write(raises=options.raises)
    rooms = sizes()
    for room, size in sorted(rooms.items(), key=lambda entry: -entry[1].lines):
        print(f"{room:<16}{size.lines:>7}{size.modules:>5}{size.functions:>6}")
    whole = total(rooms)
    print(f"{'all':<16}{whole.lines:>7}{whole.modules:>5}{whole.functions:>6}", file=sys.stderr)


if __name__ == "__main__":
    _main()
