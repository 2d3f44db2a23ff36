"""Expressions that people write about a call, in CEL: `arguments.amount > 100 && call.tool.startsWith("refund")`.

They see the arguments that they name, the call itself and the attributes of the trace that they name, within bounds: what
spans hold may be huge and deep, and the time an expression takes grows with it. Beyond them there is an error and no answer.
"""

import re
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Protocol, TypeVar, cast

from toolgauge import plugins
from toolgauge.model.errors import ConfigError, ExpressionError
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.criterion import agent_of

_EXTRA = "cel_expr_python"
_VARIABLES = ("arguments", "call", "attributes")
# Lists and objects count too.
_MAX_VALUES = 300
_MAX_DEPTH = 20
_MAX_TEXT = 5_000
_INT64 = range(-(2**63), 2**63)
_TOO_MUCH = f"the arguments hold more than {_MAX_VALUES} values, {_MAX_TEXT} characters or {_MAX_DEPTH} levels"
# How an expression names a key: `attributes["user.id"]`, `arguments.amount`, `"tier" in attributes`.
_KEY = r"""(?:\[\s{0,9}(["'])(?P<key>[^"'\\]{1,200})\1\s{0,9}\]|\.\s{0,9}(?P<name>\w{1,200})\b(?!\s{0,9}\())"""
_SOUGHT = r"""(["'])(?P<sought>[^"'\\]{1,200})\4\s{1,9}in\s{1,9}"""


_V = TypeVar("_V", bound=Json)


class Compiled(Protocol):
    """An expression that can be evaluated."""

    def holds(self, variables: Mapping[str, Json]) -> bool:
        """Return its value; raise `ExpressionError` when it has none."""
        ...


class Compile(Protocol):
    """Compiles an expression with these variables, or raises `ConfigError`."""

    def __call__(self, text: str, variables: tuple[str, ...]) -> Compiled:
        """Compile."""
        ...


class CallExpression:
    """An expression about calls, compiled once."""

    __slots__ = ("_arguments", "_compiled", "attributes", "needs_arguments")

    def __init__(self, text: str) -> None:
        """Compile, or raise ValueError."""
        if find_spec(_EXTRA) is None:
            raise ValueError("needs the extra `toolgauge[cel]`, which is not installed: `pip install 'toolgauge[cel]'`")
        try:
            # An entry point's value: what is not of this type fails here.
            self._compiled = cast("Compile", plugins.load(plugins.EXPRESSIONS, "cel"))(text, _VARIABLES)
        except ConfigError as error:
            raise ValueError(f"is no expression: {error.message}") from error
        self.needs_arguments = "arguments" in text
        self.attributes = _keys(text, "attributes")
        # Where the object is used as a whole, all of it is needed.
        uses = len(re.findall(r"\barguments\b", text))
        self._arguments = _keys(text, "arguments") if uses == len(_named(text, "arguments")) else None

    def __deepcopy__(self, memo: object) -> "CallExpression":
        """Return itself: it never changes, and the compiled form cannot be copied."""
        return self

    def holds(self, call: ToolCall, arguments: JsonObject, trajectory: Trajectory) -> bool:
        """Return its value for a call; raise `ExpressionError` when it has none."""
        seen: JsonObject = {
            "tool": call.name,
            "agent": agent_of(call, trajectory),
            "order": call.order,
            "turn": call.turn,
            "failed": call.has_failed,
            "state": call.state,
        }
        variables: JsonObject = {
            "arguments": arguments if self._arguments is None else _among(arguments, self._arguments),
            "call": seen,
            "attributes": _among(trajectory.attributes, self.attributes),
        }
        return self._compiled.holds(cast("JsonObject", _Room().bounded(variables, -1)))  # an object stays one


def _keys(text: str, variable: str) -> tuple[str, ...]:
    """Return the keys of the variable that the expression names."""
    return tuple(dict.fromkeys(_named(text, variable)))


def _named(text: str, variable: str) -> list[str]:
    pattern = rf"\b{variable}\s{{0,9}}{_KEY}|{_SOUGHT}{variable}\b(?!\s{{0,9}}[.\[])"
    return [found["key"] or found["name"] or found["sought"] for found in re.finditer(pattern, text)]


def _among(values: Mapping[str, _V], keys: Iterable[str]) -> dict[str, _V]:
    return {key: values[key] for key in keys if key in values}


class _Room:
    """The rest of the bounds while values are copied for an expression."""

    __slots__ = ("_text", "_values")

    def __init__(self) -> None:
        self._values = _MAX_VALUES
        self._text = _MAX_TEXT

    def bounded(self, value: Json, depth: int) -> Json:
        """Copy a value into what CEL can take; raise `ExpressionError` beyond the bounds."""
        self._values -= 1
        if depth > _MAX_DEPTH or self._values < 0:
            raise ExpressionError(_TOO_MUCH)
        match value:
            case dict():
                return {self._written(key): self.bounded(inner, depth + 1) for key, inner in value.items()}
            case list():
                return [self.bounded(inner, depth + 1) for inner in value]
            case str():
                return self._written(value)
            case int() if value not in _INT64:
                return _as_double(value)
            case _:
                return value

    def _written(self, text: str) -> str:
        self._text -= len(text)
        if self._text < 0:
            raise ExpressionError(_TOO_MUCH)
        # Lone surrogates are no text to CEL.
        return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _as_double(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
