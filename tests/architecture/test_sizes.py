"""Rooms only shrink, modules and functions stay small enough to read, and a module's name leads to one module."""

from collections import defaultdict

from tests.architecture.budget import budget, sizes
from tests.architecture.source import modules

LONGEST = 500
LONGEST_FUNCTION = 60
# A budget follows its room down: more slack than this share of it would let the room grow again unseen.
SLACK = 0.02
# Names of several modules that mean the same thing in each room.
SHARED_NAMES = frozenset({"__init__.py", "settings.py"})
# Names of several modules that still mean different things; an entry goes when one module is left.
AMBIGUOUS = frozenset(
    [
        "journal.py",
        "messages.py",
        "strands.py",
    ]
)


def test_no_module_is_longer_than_the_limit():
    assert not {name for name, module in modules().items() if len(module.text.splitlines()) > LONGEST}


def test_a_module_name_leads_to_one_module():
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    for name in modules():
        # A sub-command's module has the name of the command, and so may what the command starts.
        if not name.startswith("cli/"):
            by_name[name.rpartition("/")[2]].append(name)
    shared = {name for name, ones in by_name.items() if len(ones) > 1 and name not in SHARED_NAMES}
    assert shared <= AMBIGUOUS


def test_no_function_is_longer_than_the_limit():
    long = [
        f"{name}:{node.lineno} {node.name}"
        for name, module in modules().items()
        for node in module.functions
        if (node.end_lineno or 0) - node.lineno >= LONGEST_FUNCTION
    ]
    assert long == []


def test_every_room_keeps_its_budget():
    found, budgets = sizes(), budget()
    assert budgets.keys() == found.keys()
    units = ("lines", "modules", "functions", "phrases")
    compared = [(room, *one) for room in found for one in zip(units, found[room], budgets[room], strict=True)]
    assert [(room, unit, size, limit) for room, unit, size, limit in compared if size > limit] == [], (
        "take something out here, or as much in another room: `.venv-test/bin/python -m tests.architecture.budget --write --raise`; "
        "the total and the phrases only fall"
    )
    assert [
        (room, unit, size, limit) for room, unit, size, limit in compared if size < limit * (1 - SLACK) - 1
    ] == [], "the room has shrunk: `python -m tests.architecture.budget --write`"
