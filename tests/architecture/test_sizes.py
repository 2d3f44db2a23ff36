"""Modules stay small enough to read, and a module's name leads to one module."""

from collections import defaultdict
from pathlib import Path

SRC = Path(__file__).parents[2] / "src" / "toolgauge"
LONGEST = 500
# Names of several modules that mean the same thing in each room.
SHARED_NAMES = frozenset({"__init__.py", "settings.py"})
# Names of several modules that still mean different things; an entry goes when one module is left.
AMBIGUOUS = frozenset(
    [
        "journal.py",
        "json_similarity.py",
        "messages.py",
        "strands.py",
    ]
)
MODULES = {str(path.relative_to(SRC)): path for path in sorted(SRC.rglob("*.py"))}


def test_no_module_is_longer_than_the_limit():
    assert not {name for name, path in MODULES.items() if len(path.read_text().splitlines()) > LONGEST}


def test_a_module_name_leads_to_one_module():
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    for name, path in MODULES.items():
        # A sub-command's module has the name of the command, and so may what the command starts.
        if not name.startswith("cli/"):
            by_name[path.name].append(name)
    shared = {name for name, modules in by_name.items() if len(modules) > 1 and name not in SHARED_NAMES}
    assert shared <= AMBIGUOUS
