"""Reads Python literals that producers leave where JSON should be: `{'city': 'Paris', 'dry': True}`.

Every token is checked before the Python parser sees the text, because that parser can be brought to exhaust its
stack or crash the process, and `literal_eval` would take additions and complex numbers for data.
"""

import ast
import math
import re
from collections.abc import Mapping
from typing import cast

from toolgauge.model.json import Json

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


def clean(text: str) -> str:
    """Replace lone surrogates, which JSON and Python escapes can hold and nobody can send on."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def finite(value: float) -> float | str:
    """Replace NaN and infinities, which JSON does not have, by the text that OTLP JSON has for them."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def parse_literal(text: str) -> Json:
    """Read a Python literal of containers, texts, numbers, `True`, `False` and `None`; raise `ValueError` otherwise.

    Tuples and sets become lists, a set in a stable order; bytes become text; keys become text as JSON writes them.
    """
    if text in _SCALARS:
        return _SCALARS[text]
    if len(text) > MAX_TEXT or not text.startswith(_STARTS):
        raise ValueError("not a literal")
    _check_tokens(text)
    try:
        return _json(ast.literal_eval(text))
    except (SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError("not a literal") from error


def _check_tokens(text: str) -> None:
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
            return [_json(item) for item in sorted(cast("set[object]", value), key=_set_order)]
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


def _set_order(item: object) -> tuple[str, str]:
    return type(item).__name__, repr(item)
