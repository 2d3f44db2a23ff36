"""Reads Python reprs of objects that producers leave where messages should be: `ToolCall(tool_name='x', id='1')`.

Arrives: text. Leaves: JSON, an object of the keyword arguments for each constructor. Nothing is ever called or
evaluated: the text is rewritten token by token to a literal, which `literals` checks once more.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from toolgauge.model.json import Json, JsonObject
from toolgauge.recognize.literals import MAX_TEXT, parse_literal

# Under which key an object of a repr says what it is.
CLASS = "__class__"

_STRING = r"""[bBuU]?(?:'[^'\\\n]*(?:\\.[^'\\\n]*)*'|"[^"\\\n]*(?:\\.[^"\\\n]*)*")"""
_TOKEN = re.compile(
    rf"""(?P<space>\s+)
    | (?P<string>{_STRING})
    | (?P<call>[A-Za-z_][\w.]*)\(
    | (?P<keyword>[A-Za-z_]\w*)=
    | (?P<word>[A-Za-z_][\w.]*)
    | (?P<number>-?[0-9][0-9.eE+-]*)
    | <[A-Za-z_][\w.]*:\ (?P<member>{_STRING}|[0-9]+)>
    | (?P<opaque><[^<>\n]*>)
    | (?P<punctuation>[\[{{(\]}}),:])
    """,
    re.VERBOSE | re.DOTALL,
)
_CONSTANTS = ("None", "True", "False")


class _Rewriting(Struct):
    """What is open at one place of the text: brackets, and how many arguments each constructor has had."""

    open: list[str] = []
    arguments: list[int] = []
    at_argument: bool = False

    def key(self) -> str:
        """Name an argument that has no keyword by its position."""
        if not self.at_argument:
            return ""
        return f"'{self.arguments[-1]}':"


def parse_repr(text: str) -> Json:
    """Read the repr; raise `ValueError` when it is none, or too large."""
    if len(text) > MAX_TEXT:
        raise ValueError("too large")
    return parse_literal("".join(_literal(text.strip())))


def parse_fields(text: str) -> JsonObject:
    """Read `content='hi' name='x'`, the fields of an object as pydantic prints it; raise `ValueError` when it is none."""
    if len(text) > MAX_TEXT:
        raise ValueError("too large")
    state = _Rewriting()
    written: list[str] = []
    for token in _tokens(text.strip()):
        if token.lastgroup == "keyword" and not state.open:
            written.append(",")
        written.append(_rewritten(token, state))
    if written[:1] != [","]:
        raise ValueError("no fields")
    fields = parse_literal("{" + "".join(written[1:]) + "}")
    if not isinstance(fields, dict):
        raise ValueError("no fields")
    return fields


def _literal(text: str) -> Iterator[str]:
    state = _Rewriting()
    for token in _tokens(text):
        yield _rewritten(token, state)


def _tokens(text: str) -> Iterator[re.Match[str]]:
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise ValueError("not a repr")
        position = token.end()
        if token.lastgroup != "space":
            yield token


def _rewritten(token: re.Match[str], state: _Rewriting) -> str:
    kind, word = token.lastgroup, token[token.lastgroup or 0]
    if kind == "punctuation":
        return _punctuation(word, state)
    if kind == "keyword":
        state.at_argument = False
        return f"'{word}':"
    key = state.key()
    state.at_argument = False
    if kind == "call":
        state.open.append("call")
        state.arguments.append(0)
        state.at_argument = True
        return f"{key}{{'{CLASS}':'{word}',"
    if kind == "opaque" or (kind == "word" and word not in _CONSTANTS):
        return key + repr(word)
    return key + word


def _punctuation(mark: str, state: _Rewriting) -> str:
    if mark in "[{(":
        key = state.key()
        state.at_argument = False
        state.open.append(mark)
        return key + mark
    if mark in "]})":
        opened = state.open.pop() if state.open else ""
        state.at_argument = False
        if opened != "call":
            return mark
        state.arguments.pop()
        return "}"
    if mark == "," and state.open and state.open[-1] == "call":
        state.arguments[-1] += 1
        state.at_argument = True
    return mark
