"""The modules of toolgauge, each read and parsed once."""

import ast
import functools
from pathlib import Path
from typing import NamedTuple

SRC = Path(__file__).parents[2] / "src" / "toolgauge"


class Module(NamedTuple):
    """The text of one module, and its tree with all nodes in it."""

    text: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]

    @property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Return the functions and methods, inner ones included."""
        return [node for node in self.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def room_of(name: str) -> str:
    """Return the package of a module below `SRC`; modules outside of a package are the room `.`."""
    return name.partition("/")[0] if "/" in name else "."


@functools.cache
def modules() -> dict[str, Module]:
    """Read every module, by its path below `SRC`."""
    found: dict[str, Module] = {}
    for path in sorted(SRC.rglob("*.py")):
        text = path.read_text()
        tree = ast.parse(text)
        found[str(path.relative_to(SRC))] = Module(text, tree, tuple(ast.walk(tree)))
    return found
