"""Reads Python literals and reprs that producers leave where JSON should be.

`{'city': 'Paris', 'dry': True}` is a literal, `ToolCall(tool_name='x', id='1')` a repr. Every token is checked first: the Python
parser can be made to exhaust its stack or crash the process, and `literal_eval` takes sums and complex numbers for data.
"""

import ast
import math
import re
from collections.abc import Iterator, Mapping
from typing import cast

from msgspec import Struct

from toolgauge.model.json import Json, JsonObject

# A literal costs some thirty times as much as JSON to read.
MAX_TEXT = 100_000
# The Python tokenizer gives up at 200.
_MAX_NESTING = 100

# Only escapes that `repr` writes: for others the parser prints warnings.
_TOKEN = re.compile(
    r"""\s+
    | [uU]?'(?:[^'\\\n]|\\[\\'"abfnrtvxuUN])*'
    | [uU]?"(?:[^"\\\n]|\\[\\'"abfnrtvxuUN])*"
    | b'(?:[^'\\\n]|\\[\\'"abfnrtvx])*'
    | b"(?:[^"\\\n]|\\[\\'"abfnrtvx])*"
    | -?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?(?![0-9A-Za-z_.])
    | (?:True|False|None)(?![0-9A-Za-z_])
    | set\(\)
    | [\[{(\]}),:]
    """,
    re.VERBOSE,
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_STARTS = ("{", "[", "(", "'", '"')
_SCALARS: dict[str, Json] = {"None": None, "True": True, "False": False}

# The key of the class in an object that is read from a repr.
CLASS = "__class__"

_STRING = r"""[bBuU]?(?:'[^'\\\n]*(?:\\.[^'\\\n]*)*'|"[^"\\\n]*(?:\\.[^"\\\n]*)*")"""
_REPR_TOKEN = re.compile(
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


def clean(text: str) -> str:
    """Replace lone surrogates, which JSON and Python escapes can hold and UTF-8 cannot encode."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def finite(value: float) -> float | str:
    """Replace NaN and infinities, which JSON does not have, by the text that OTLP JSON has for them."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def parse_literal(text: str) -> Json:
    """Read a Python literal as JSON: tuples and sets become lists, keys and bytes text. Raises `ValueError` for anything else."""
    if text in _SCALARS:
        return _SCALARS[text]
    if len(text) > MAX_TEXT or not text.startswith(_STARTS):
        raise ValueError("not a literal")
    position, depth = 0, 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise ValueError("not a literal")
        character = text[position]
        if character in "[{(":
            depth += 1
            if depth > _MAX_NESTING:
                raise ValueError("nested too deep")
        elif character in "]})":
            depth -= 1
        position = token.end()
    try:
        return _json(ast.literal_eval(text))
    except (SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError("not a literal") from error


def _json(value: object) -> Json:
    match value:
        case None | bool() | int():
            return value
        case float():
            return finite(value)
        case str():
            return clean(value)
        case bytes():
            return value.decode("utf-8", "replace")
        case dict():
            return {_key(key): _json(item) for key, item in cast("Mapping[object, object]", value).items()}
        case list() | tuple():
            return [_json(item) for item in cast("list[object]", value)]
        case set():
            return [
                _json(item)
                for item in sorted(cast("set[object]", value), key=lambda item: (type(item).__name__, repr(item)))
            ]
        case _:
            raise ValueError("not a literal")


def _key(key: object) -> str:
    match key:
        case str():
            return clean(key)
        case None:
            return "null"
        case bool():
            return "true" if key else "false"
        case int() | float():
            return str(key)
        case _:
            raise ValueError("not a key")


# A repr becomes an object of keyword arguments, token by token; the literal that comes out is checked, and nothing is called.
class _Rewriting(Struct):
    """State at one place of the text: the open brackets, and how many arguments each constructor has had."""

    open: list[str] = []
    arguments: list[int] = []
    at_argument: bool = False

    def key(self) -> str:
        """Name an argument that has no keyword by its position."""
        if not self.at_argument:
            return ""
        return f"'{self.arguments[-1]}':"


def parse_repr(text: str) -> Json:
    """Read the repr; raise `ValueError` for any other or too large text."""
    if len(text) > MAX_TEXT:
        raise ValueError("too large")
    state = _Rewriting()
    return parse_literal("".join(_rewritten(token, state) for token in _tokens(text.strip())))


def parse_fields(text: str) -> JsonObject:
    """Read `content='hi' name='x'`, the fields of an object as pydantic prints it; raise `ValueError` for any other text."""
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


def _tokens(text: str) -> Iterator[re.Match[str]]:
    position = 0
    while position < len(text):
        token = _REPR_TOKEN.match(text, position)
        if token is None:
            raise ValueError("not a repr")
        position = token.end()
        if token.lastgroup != "space":
            yield token


def _rewritten(token: re.Match[str], state: _Rewriting) -> str:
    kind, word = token.lastgroup, token[token.lastgroup or 0]
    if kind == "punctuation":
        if word in "[{(":
            key = state.key()
            state.at_argument = False
            state.open.append(word)
            return key + word
        if word in "]})":
            opened = state.open.pop() if state.open else ""
            state.at_argument = False
            if opened != "call":
                return word
            state.arguments.pop()
            return "}"
        if word == "," and state.open and state.open[-1] == "call":
            state.arguments[-1] += 1
            state.at_argument = True
        return word
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
