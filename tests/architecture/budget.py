"""The budget of each room and of the whole tree: lines, modules, functions and headless phrases (`phrases.py`) at most.

    python -m tests.architecture.budget --write          # lower it to the tree as it is
    python -m tests.architecture.budget --write --raise  # raise rooms, too, where others fall by as much

`budget.txt` holds one line a room, and `total`, which no commit raises: a feature pays for its lines.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

from tests.architecture.phrases import of_module
from tests.architecture.source import modules, room_of

TOTAL = "total"
BUDGET = Path(__file__).with_name("budget.txt")


class Size(NamedTuple):
    """The size of one room, or of the whole tree."""

    lines: int
    modules: int
    functions: int
    phrases: int


def sizes() -> dict[str, Size]:
    """Measure every room of the tree, and `total`, their sum."""
    found: dict[str, Size] = {}
    for name, module in modules().items():
        if module.text:
            size = Size(module.text.count("\n"), 1, len(module.functions), of_module(module))
            for room in (room_of(name), TOTAL):
                found[room] = Size(*map(sum, zip(found.get(room, Size(0, 0, 0, 0)), size, strict=True)))
    return found


def budget() -> dict[str, Size]:
    """Read the budget of every room and the total."""
    rows = [line.split() for line in BUDGET.read_text().splitlines() if not line.startswith("#")]
    return {room: Size(*map(int, numbers)) for room, *numbers in rows}


def _write(*, raises: bool) -> None:
    known = budget()
    rows = ["# room lines modules functions phrases"]
    for room, size in sorted(sizes().items()):
        freely = room not in known or (raises and room != TOTAL)
        limit = size if freely else Size(*map(min, size, known[room]))
        rows.append(f"{room} {limit.lines} {limit.modules} {limit.functions} {limit.phrases}")
    BUDGET.write_text("\n".join(rows) + "\n")


def _main() -> None:
    parser = argparse.ArgumentParser("python -m tests.architecture.budget")
    parser.add_argument("--write", action="store_true", help="lower the budget to the tree as it is")
    parser.add_argument(
        "--raise", dest="raises", action="store_true", help="raise rooms that have grown; the total is never raised"
    )
    options = parser.parse_args()
    if options.write:
        _write(raises=options.raises)
    for room, size in sorted(sizes().items(), key=lambda entry: -entry[1].lines):
        print(f"{room:<16}{size.lines:>7}{size.modules:>5}{size.functions:>6}{size.phrases:>6}")


if __name__ == "__main__":
    _main()
