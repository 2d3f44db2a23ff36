"""`evaluator: ./checks.py:NoRefund`: an evaluator's class in a Python file, which stands beside the criteria that name it.

Such a file is code that runs. So only what was read from a local file may name one, and only by a relative path: the text is
also the evaluator's name in metrics and results, the same on every machine.
"""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

from toolgauge.config.nodes import Node
from toolgauge.config.problems import Problem

_NAMED = re.compile(r"(?P<file>[^\r\n]*\.py)(?::(?P<name>[^\r\n:/\\]*))?\Z")
# What an editor checks.
NAMED_CLASS = r"^[^/~:\\][^:]*\.py:[A-Za-z_][A-Za-z0-9_]*$"
_HOW = "write `./checks.py:ClassName`, relative to the file of the criterion"


@dataclass(frozen=True, slots=True)
class EvaluatorFile:
    """A class in a file."""

    path: Path
    class_name: str


def names_file(evaluator: str) -> bool:
    """Return whether an evaluator is named by a file, and not by the name under which it is installed."""
    return _NAMED.match(evaluator) is not None


def evaluator_file(criterion: Node) -> EvaluatorFile | Problem | None:
    """Return the class that a criterion names, or why that cannot be; `None` where its evaluator is an installed one."""
    node = criterion.child("evaluator")
    found = _NAMED.match(node.value) if node is not None and isinstance(node.value, str) else None
    if node is None or found is None:
        return None
    place, file, name = node.place, found["file"], found["name"]
    if "://" in file:
        return Problem(place, f"evaluator `{node.value}` is not on this machine", _HOW)
    if PurePosixPath(file).is_absolute() or PureWindowsPath(file).drive or file.startswith("~"):
        return Problem(place, f"the path of evaluator `{node.value}` is not relative", _HOW)
    if not name:
        return Problem(place, f"evaluator `{node.value}` names no class", _HOW)
    if place.line is None or not Path(place.source).is_file():
        # An option, the environment, or text that came over a network.
        message = f"evaluator `{node.value}` is a file: only criteria in local files may name one"
        return Problem(place, message, "in Python, import the class and give the criterion an object of it")
    return EvaluatorFile(place.directory / file, name)
