"""The section `dialects`: the meaning of a simple producer's attributes; the first mapping that matches reads a span."""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, StrictBool, StrictInt, StrictStr, model_validator

from toolgauge.settings import Section

Key = Annotated[str, Field(min_length=1)]


def _as_list(value: object) -> object:
    return (value,) if isinstance(value, str) else value


# One key, or a list of them.
Keys = Annotated[tuple[Key, ...], BeforeValidator(_as_list, json_schema_input_type=Key | tuple[Key, ...])]
# Keys of objects, indexes of lists, `*` for each element of a list.
Path: TypeAlias = Keys
# What an attribute must be: this text or number, one of these, just there (`true`), or not there (`false`).
Wanted: TypeAlias = StrictBool | StrictStr | StrictInt | tuple[StrictStr | StrictInt, ...]
Matches: TypeAlias = dict[Key, Wanted]
_FIELDS_OF = {
    "tool_call": frozenset(("tool_name", "call_id", "arguments", "result", "error")),
    "model_call": frozenset(("input", "output", "tools", "requests", "answers", "input_tokens", "output_tokens")),
    "agent_run": frozenset(("input", "output", "tools")),
    "conversation": frozenset[str](),
}


class ValueSource(Section):
    """Where a value stands: in an attribute, at `path` inside its JSON, or in the span's name after `span_name`.

    With `prefix` it has an attribute for each of its parts, whose keys begin so: `in.city` and `in.stops.0` below `in.`. With `event` it is an attribute of the span's events of that name, or all attributes of each; several are a list.
    `envelope` is how it is written: `json` (a structured value, or JSON text however often encoded; other text is itself) or
    `text` (never opened, even when it looks like JSON).
    """

    attribute: Key | None = None
    prefix: Key | None = None
    event: Key | None = None
    span_name: StrictStr | None = None
    path: Path = ()
    envelope: Literal["json", "text"] = "json"

    @model_validator(mode="after")
    def _has_one_place(self) -> Self:
        places = (self.attribute or self.event, self.span_name, self.prefix)
        if sum(place is not None for place in places) != 1:
            raise ValueError("needs one of `attribute`, `prefix` and `span_name`, or an `event`")
        if self.span_name is not None and self.path:
            raise ValueError("`path` needs `attribute`: a span's name is no JSON")
        return self


SpanValue: TypeAlias = Key | ValueSource


class Requests(Section):
    """Calls that a model asks for, as objects in a list: `path` leads to them, the others from there on."""

    attribute: Key
    path: Path = ()
    tool_name: Path
    call_id: Path | None = None
    arguments: Path | None = None


class Answers(Section):
    """Answers to calls in a model's input, as objects in a list: `path` leads to them, the others from there on."""

    attribute: Key
    path: Path = ()
    tool_name: Path | None = None
    call_id: Path | None = None
    result: Path | None = None

    @model_validator(mode="after")
    def _belongs_to_a_call(self) -> Self:
        if self.tool_name is None and self.call_id is None:
            raise ValueError("needs `call_id` or `tool_name`: an answer with neither belongs to no call")
        return self


class SpanMapping(Section):
    """What one kind of span means. `match` are conditions on attributes; all must hold, `span_name` begins the name, and
    the span has an `event` of that name.

    `failed` are conditions of which one is enough for the call to have failed, beside the span's status.
    """

    match: Matches = Field(default_factory=dict)
    span_name: Key | None = None
    event: Key | None = None
    reads: Literal["tool_call", "model_call", "agent_run", "conversation"]
    agent: SpanValue | None = None
    conversation: SpanValue | None = None
    tool_name: SpanValue | None = None
    call_id: SpanValue | None = None
    arguments: SpanValue | None = None
    result: SpanValue | None = None
    error: SpanValue | None = None
    failed: Matches = Field(default_factory=dict)
    input: SpanValue | None = None
    output: SpanValue | None = None
    tools: SpanValue | None = None
    requests: Requests | None = None
    answers: Answers | None = None
    input_tokens: SpanValue | None = None
    output_tokens: SpanValue | None = None

    @property
    def found_by(self) -> str | None:
        """The attribute that all of its spans have; `None` when there is none."""
        return next((key for key, wanted in self.match.items() if wanted is not False), None)

    @model_validator(mode="after")
    def _fits_what_it_reads(self) -> Self:
        if not self.match and self.span_name is None and self.event is None:
            raise ValueError("needs `match`, `span_name` or `event`: it would match every span")
        if self.reads == "tool_call" and self.tool_name is None:
            raise ValueError("a `tool_call` needs `tool_name`")
        # Fields that belong to another kind of span.
        every = frozenset[str]().union(*_FIELDS_OF.values())
        foreign = [name for name in type(self).model_fields if name in every - _FIELDS_OF[self.reads]]
        set_fields = [name for name in foreign if getattr(self, name) is not None]
        if self.failed and self.reads != "tool_call":
            set_fields.append("failed")
        for name in set_fields:
            raise ValueError(f"`{name}` is not read from a span that is a `{self.reads}`")
        return self


class MappedDialectSettings(Section):
    """One dialect: how the spans of one producer are read.

    With `scopes` (prefixes of instrumentation scope names) only their spans are read. The dialect with the lowest `rank` is
    asked first; those of toolgauge have 10 and more.
    """

    rank: Annotated[int, Field(ge=1)] = 5
    scopes: Keys = ()
    spans: tuple[SpanMapping, ...]

    @model_validator(mode="after")
    def _can_be_found(self) -> Self:
        if not self.spans:
            raise ValueError("`spans` needs at least one mapping")
        if not self.scopes and any(mapping.found_by is None for mapping in self.spans):
            raise ValueError(
                "a mapping without an attribute that is there (`match`) needs `scopes`: spans are found by either"
            )
        return self
