"""Counts headless phrases in docstrings and comments: "what is left", "of it.", "whoever", with no noun to hold on to.

python -m tests.architecture.phrases [ROOM]  # count them per thousand words by room, or show those of one room
"""

import ast
import functools
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tests.architecture.source import Module, modules, room_of

PATTERN = re.compile(
    r"""
    \bwhat\ (?:is|are|was|were|comes?|came|stands?|stood|has|have|had|holds?|follows?|happens?|remains?|belongs?
        |goes|went|does|did|makes?|shows?|it|they|one|nobody|would|could|can|may|must|will)\b
    | \b(?:whoever|whatever|anew|be\ had)\b
    | \b(?:tells?|told|comes?|came)\ of\b
    | \bof\ (?:it|them)(?=[.,;:)]|$)
    | \b(?:is|are|was|were)\ (?:no|none)\b(?!\ (?:longer|more))
    | \b(?:those|(?:the|an?)\ ones?)\ (?:that|which|who|of|with|in)\b
    | \b(?:is|are|was|were|be)\ there\b
    | \b(?:goes|go|went|going)\ on\b
    | \b(?:stands?|stood)\ (?!for\b|alone\b)
    | \bmend(?:s|ed|ing)?\b
    """,
    re.VERBOSE | re.IGNORECASE,
)
_QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"")


class Prose(NamedTuple):
    """The words of one docstring or comment, without quoted code."""

    line: int
    text: str


def prose(module: Module) -> Iterator[Prose]:
    """Yield the docstrings and comments of a module."""
    for node in module.nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield Prose(getattr(node, "lineno", 1), text)
    comments: list[Prose] = []
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type == tokenize.COMMENT:
            text = token.string.lstrip("#: ")
            if comments and comments[-1].line + comments[-1].text.count("\n") + 1 == token.start[0]:
                comments[-1] = Prose(comments[-1].line, f"{comments[-1].text}\n{text}")
            else:
                comments.append(Prose(token.start[0], text))
    yield from comments


@functools.cache
def words() -> Counter[str]:
    """Count the words of docstrings and comments by room."""
    found: Counter[str] = Counter()
    for name, module in modules().items():
        found[room_of(name)] += sum(len(one.text.split()) for one in prose(module))
    return found


def phrases(text: str) -> list[str]:
    """Find the headless phrases of a text."""
    return [found.group() for found in PATTERN.finditer(" ".join(_QUOTED.sub("", text).split()))]


def of_module(module: Module) -> int:
    """Count the headless phrases of a module."""
    return sum(len(phrases(one.text)) for one in prose(module))


def _main() -> None:
    rooms = set(sys.argv[1:])
    counted: Counter[str] = Counter()
    for name, module in modules().items():
        counted[room_of(name)] += of_module(module)
        for one in prose(module) if room_of(name) in rooms else ():
            if found := phrases(one.text):
                print(f"{name}:{one.line}: {', '.join(found)}")
    for room, count in words().items():
        if not rooms or room in rooms:
            print(f"{room:<16}{counted[room]:>5}{1000 * counted[room] / count:>6.1f}", file=sys.stderr)
    print(f"{'all':<16}{counted.total():>5}{1000 * counted.total() / words().total():>6.1f}", file=sys.stderr)


if __name__ == "__main__":
    _main()
