"""Patterns of calls by tool, agent, arguments and expression; all parts must hold.

People write one as the name of a tool, a glob, a list of them, or in full: `{tool: "refund_*", arguments: {amount: {above: 9}}}`.
Arguments may not have been recorded: a match has three values, and each rule decides about the third.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from functools import cached_property
from importlib.util import find_spec
from typing import Annotated, TypeAlias, TypeVar, cast

from msgspec import Struct
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from toolgauge import plugins
from toolgauge.model.errors import ConfigError, ExpressionError
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Errored, NotEvaluated
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.criterion import agent_of
from toolgauge.score.equality import same
from toolgauge.score.patterns import Globs, Step, read_path, regular_expression, values_at
from toolgauge.score.selection import readable_arguments, shown, unseen_arguments
from toolgauge.settings import ONE_OR_MORE, also_written_as

_EXTRA = "cel_expr_python"
_VARIABLES = ("arguments", "call", "attributes")
# Lists and objects count too.
_MAX_VALUES = 300
_MAX_DEPTH = 20
_MAX_CHARACTERS = 5_000
_INT64 = range(-(2**63), 2**63)
_TOO_MUCH = f"the arguments hold more than {_MAX_VALUES} values, {_MAX_CHARACTERS} characters or {_MAX_DEPTH} levels"
# How an expression names a key: `attributes["user.id"]`, `arguments.amount`, `"tier" in attributes`.
_KEY = r"""(?:\[\s{0,9}(["'])(?P<key>[^"'\\]{1,200})\1\s{0,9}\]|\.\s{0,9}(?P<name>\w{1,200})\b(?!\s{0,9}\())"""
_SOUGHT = r"""(["'])(?P<sought>[^"'\\]{1,200})\4\s{1,9}in\s{1,9}"""


_T = TypeVar("_T")
_V = TypeVar("_V", bound=Json)


class CallExpression:
    """An expression about calls, compiled once."""

    __slots__ = ("_arguments", "_holds", "attributes", "needs_arguments")

    def __init__(self, text: str) -> None:
        """Compile, or raise ValueError."""
        if find_spec(_EXTRA) is None:
            raise ValueError(f"needs the extra `toolgauge[cel]`, which is not installed: {plugins.install_hint('cel')}")
        try:
            compiled = plugins.load(plugins.EXPRESSIONS, "cel")(text, _VARIABLES)
        except ConfigError as error:
            raise ValueError(f"is no expression: {error.message}") from error
        # The value of an entry point, ours alone.
        self._holds = cast("Callable[[Mapping[str, Json]], bool]", compiled.holds)
        self.needs_arguments = "arguments" in text
        self.attributes = tuple(dict.fromkeys(_named(text, "attributes")))
        # Where the object is used as a whole, all of it is needed.
        named, uses = _named(text, "arguments"), len(re.findall(r"\barguments\b", text))
        self._arguments = tuple(dict.fromkeys(named)) if uses == len(named) else None

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
        return self._holds(cast("JsonObject", _Room().bounded(variables, -1)))  # an object stays one


def _named(text: str, variable: str) -> list[str]:
    pattern = rf"\b{variable}\s{{0,9}}{_KEY}|{_SOUGHT}{variable}\b(?!\s{{0,9}}[.\[])"
    return [found["key"] or found["name"] or found["sought"] for found in re.finditer(pattern, text)]


def _among(values: Mapping[str, _V], keys: Iterable[str]) -> dict[str, _V]:
    return {key: values[key] for key in keys if key in values}


class _Room(Struct):
    """The rest of the bounds while values are copied for an expression."""

    values: int = _MAX_VALUES
    characters: int = _MAX_CHARACTERS

    def bounded(self, value: Json, depth: int) -> Json:
        """Copy a value into what CEL can take; raise `ExpressionError` beyond the bounds."""
        self.values -= 1
        if depth > _MAX_DEPTH or self.values < 0:
            raise ExpressionError(_TOO_MUCH)
        match value:
            case dict():
                return {self._written(key): self.bounded(inner, depth + 1) for key, inner in value.items()}
            case list():
                return [self.bounded(inner, depth + 1) for inner in value]
            case str():
                return self._written(value)
            case int() if value not in _INT64:
                try:
                    return float(value)
                except OverflowError:
                    return float("inf") if value > 0 else float("-inf")
            case _:
                return value

    def _written(self, text: str) -> str:
        self.characters -= len(text)
        if self.characters < 0:
            raise ExpressionError(_TOO_MUCH)
        # CEL refuses lone surrogates.
        return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


_MAX_ENTRIES = 1000
_MAX_TEXT = 10_000
_MAX_NAME = 80
_MAX_EXPRESSION = 1000
# A number in text, for conditions with a bound: models write some numbers as text.
_NUMBER = re.compile(r"\s{0,9}([+-]?[0-9]{1,30}(?:\.[0-9]{1,30})?)\s{0,9}")

_Text: TypeAlias = Annotated[str, Field(max_length=_MAX_TEXT)]
_Scalar: TypeAlias = bool | int | float | _Text | None
_Bound: TypeAlias = Annotated[float, Field(strict=True, allow_inf_nan=False)]


def not_empty(written: tuple[_T, ...]) -> tuple[_T, ...]:
    """Return a list that holds something; raise ValueError for any other."""
    if not written:
        raise ValueError("is empty")
    return written


class Match(IntEnum):
    """Whether something holds: `min` is "and", `max` is "or"."""

    NO = 0
    UNSEEN = 1
    YES = 2

    @property
    def negated(self) -> "Match":
        """Whether it does not hold."""
        return Match(Match.YES - self)


def _compiled_globs(globs: tuple[str, ...]) -> Globs:
    try:
        return Globs(globs)
    except ConfigError as error:
        raise ValueError(f"has a glob that is too long ({error.message[:100]})") from error


class ValueCondition(BaseModel):
    """What an argument's value must be; all that is given must hold. A bare value or a list stands for `one_of`."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra=also_written_as({"type": ["string", "number", "boolean", "null", "array"]}),
    )

    # Texts are globs; numbers and truth values are compared as such.
    one_of: Annotated[tuple[_Scalar, ...], Field(max_length=_MAX_ENTRIES), AfterValidator(not_empty)] | None = None
    none_of: Annotated[tuple[_Scalar, ...], Field(max_length=_MAX_ENTRIES), AfterValidator(not_empty)] | None = None
    # Of numbers, and of texts that are one.
    at_least: _Bound | None = None
    above: _Bound | None = None
    at_most: _Bound | None = None
    below: _Bound | None = None
    # RE2 over the whole text.
    matches: _Text | None = None
    # Whether there has to be a value at all; `null` is one.
    present: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _spelled_out(cls, written: object) -> object:
        if written is None or isinstance(written, bool | int | float | str):
            return {"one_of": (written,)}
        # The field checks the items of a list.
        return {"one_of": cast("object", written)} if isinstance(written, list | tuple) else written

    @model_validator(mode="after")
    def _can_be_met(self) -> "ValueCondition":
        if not self.model_fields_set:
            raise ValueError("has no condition: give one, such as `one_of`")
        if self.present is False and len(self.model_fields_set) > 1:
            raise ValueError("has `present: false`, which goes with no other condition")
        # Compiled here, so that a wrong pattern is an error at once.
        self._tests  # noqa: B018 (it compiles)
        return self

    @cached_property
    def _tests(self) -> tuple[Callable[[Json], bool], ...]:
        tests: list[Callable[[Json], bool]] = []
        if self.one_of is not None:
            tests.append(_is_among(self.one_of))
        if self.none_of is not None:
            is_among = _is_among(self.none_of)
            tests.append(lambda value: not is_among(value))
        if any(bound is not None for bound in (self.at_least, self.above, self.at_most, self.below)):
            tests.append(self._is_within)
        if self.matches is not None:
            pattern = regular_expression(self.matches)
            tests.append(lambda value: isinstance(value, str) and pattern.matches(value))
        return tuple(tests)

    def _is_within(self, value: Json) -> bool:
        number = value
        if isinstance(value, str):
            # Nobody sets a bound for numbers of more characters.
            match = _NUMBER.fullmatch(value) if len(value) <= _MAX_NAME else None
            number = None if match is None else float(match[1]) if "." in match[1] else int(match[1])
        return (
            isinstance(number, int | float)
            and not isinstance(number, bool)
            and (self.at_least is None or number >= self.at_least)
            and (self.above is None or number > self.above)
            and (self.at_most is None or number <= self.at_most)
            and (self.below is None or number < self.below)
        )

    def holds(self, value: Json) -> bool:
        """Return whether a recorded value meets the whole condition."""
        return self.present is not False and all(test(value) for test in self._tests)


def _is_among(values: tuple[_Scalar, ...]) -> Callable[[Json], bool]:
    globs = _compiled_globs(tuple(value for value in values if isinstance(value, str)))
    others = tuple(value for value in values if not isinstance(value, str))
    return lambda value: globs.match(value) if isinstance(value, str) else any(same(value, one) for one in others)


class _Place(Struct, frozen=True):
    """A path into arguments, and the condition for the values there."""

    path: str
    steps: tuple[Step, ...]
    condition: ValueCondition

    def holds(self, arguments: JsonObject, quantifier: Callable[[Iterable[object]], bool]) -> bool:
        """Return whether `any` or `all` values meet the condition, of at least one; with `present: false`, whether the path leads nowhere."""
        values = values_at(arguments, self.steps)
        if self.condition.present is False:
            return not values
        return bool(values) and quantifier(map(self.condition.holds, values))


class Sight(Struct, frozen=True):
    """Whether a call is meant, which conditions it does not meet, and why that is not to be seen."""

    match: Match
    unmet: tuple[str, ...] = ()
    doubt: NotEvaluated | Errored | None = None


_MEANT = Sight(Match.YES)
_NOT_MEANT = Sight(Match.NO)
_EXPRESSION = "expression"


class CallPattern(BaseModel):
    """Which calls are meant."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=also_written_as(ONE_OR_MORE))

    tool: Annotated[tuple[_Text, ...], Field(max_length=_MAX_ENTRIES), AfterValidator(not_empty)] = ("*",)
    agent: Annotated[tuple[_Text, ...], Field(max_length=_MAX_ENTRIES), AfterValidator(not_empty)] | None = None
    arguments: Annotated[Mapping[str, ValueCondition], Field(max_length=_MAX_ENTRIES)] = Field(
        default_factory=dict[str, ValueCondition]
    )
    # In CEL.
    expression: Annotated[str, Field(min_length=1, max_length=_MAX_EXPRESSION)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _spelled_out(cls, written: object) -> object:
        # The field checks the items of a list.
        return {"tool": cast("object", written)} if isinstance(written, str | list | tuple) else written

    @field_validator("tool", "agent", mode="before", json_schema_input_type=str | tuple[str, ...] | None)
    @classmethod
    def _one_or_more(cls, written: object) -> object:
        return (written,) if isinstance(written, str) else written

    @model_validator(mode="after")
    def _compiles(self) -> "CallPattern":
        self._compiled  # noqa: B018 (it compiles)
        return self

    @cached_property
    def _compiled(self) -> "_Compiled":
        places = tuple(_Place(path, read_path(path), condition) for path, condition in self.arguments.items())
        for place in places:
            if place.steps[0].key is None and place.steps[0].keys is None:
                raise ValueError(f"has the path `{place.path[:60]}`; a path begins with an argument: `items[*].sku`")
        return _Compiled(
            tool=_compiled_globs(self.tool),
            agent=None if self.agent is None else _compiled_globs(self.agent),
            places=places,
            expression=None if self.expression is None else CallExpression(self.expression),
        )

    @property
    def conditions(self) -> tuple[str, ...]:
        """The paths of the arguments that it looks at, and `expression` where it has one."""
        return (*self.arguments, *(() if self.expression is None else (_EXPRESSION,)))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of the trace that the expression asks for."""
        return () if self._compiled.expression is None else self._compiled.expression.attributes

    def names(self, call: ToolCall) -> bool:
        """Return whether the tool of the call is meant, with any arguments and by any agent."""
        return self._compiled.tool.match(call.name)

    def binds(self, call: ToolCall, trajectory: Trajectory) -> bool:
        """Return whether the agent of the call is meant."""
        agents = self._compiled.agent
        return agents is None or agents.match(agent_of(call, trajectory))

    def sight(self, call: ToolCall, trajectory: Trajectory) -> Sight:
        """Return whether the call is meant; of several values at a path one that meets its condition is enough."""
        return self._look(call, trajectory, any)

    def admission(self, call: ToolCall, trajectory: Trajectory) -> Sight:
        """Return whether the call is meant; all values at a path have to meet its condition, and there has to be one."""
        return self._look(call, trajectory, all)

    def _look(self, call: ToolCall, trajectory: Trajectory, quantifier: Callable[[Iterable[object]], bool]) -> Sight:
        places, expression = self._compiled.places, self._compiled.expression
        if not self._compiled.tool.match(call.name) or not self.binds(call, trajectory):
            return _NOT_MEANT
        arguments = readable_arguments(call)
        if arguments is None:
            if places or (expression is not None and expression.needs_arguments):
                explanation = f"the arguments of {shown(call.name)} are not an object"
                unreadable = NotEvaluated(reason="unparsable", explanation=explanation)
                return Sight(Match.UNSEEN, doubt=unseen_arguments(call) or unreadable)
            arguments = {}
        unmet = tuple(place.path for place in places if not place.holds(arguments, quantifier))
        if unmet:
            return Sight(Match.NO, unmet)
        try:
            met = expression is None or expression.holds(call, arguments, trajectory)
        except ExpressionError as error:
            return Sight(Match.UNSEEN, doubt=Errored(error_type="expression_error", message=str(error)))
        return _MEANT if met else Sight(Match.NO, (_EXPRESSION,))

    def __str__(self) -> str:
        """Name the tools for an explanation."""
        return " or ".join(map(shown, self.tool[:3])) + (" or others" if len(self.tool) > 3 else "")


class _Compiled(Struct, frozen=True, kw_only=True):
    tool: Globs
    agent: Globs | None
    places: tuple[_Place, ...]
    expression: CallExpression | None
