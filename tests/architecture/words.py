"""Finds words that are none for code: in names, and in the first lines of docstrings.

    python -m tests.architecture.words  # show them by module

A reader meets a name or a first line without its surroundings: "tells", "what is" or "whoever" name nothing there.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import PurePath

from tests.architecture.source import modules

_WORDS = re.compile(r"\b(tell|tells|told|telling|say|says|said|saying|whoever|nobody|what is|lets? go|letting go)\b")
_QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def offenders(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names and first lines of the nodes of a module that hold one of the words."""
    for node in nodes:
        for name in _names(node):
            if _WORDS.search(_HUMP.sub(" ", name).replace("_", " ").lower()):
                yield name
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            line = (ast.get_docstring(node) or "").partition("\n")[0]
            if _WORDS.search(_QUOTED.sub("", line).lower()):
                yield line


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            yield name
        case _:
            return


def by_module() -> dict[str, list[str]]:
    """Find the offenders of every module that has any."""
    found = {
        name: [
            *offenders(module.nodes),
            *(stem for stem in (PurePath(name).stem,) if _WORDS.search(stem.replace("_", " "))),
        ]
        for name, module in modules().items()
    }
    return {name: words for name, words in found.items() if words}


def _main() -> None:
    found = by_module()
    for name, words in found.items():
        print(f"{name}: {'; '.join(words)}")
    print(f"{sum(map(len, found.values()))} in {len(found)} modules", file=sys.stderr)


if __name__ == "__main__":
    _main()
