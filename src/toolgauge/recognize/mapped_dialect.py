"""The section `dialects`: the meaning of a simple producer's attributes; the first mapping that matches reads a span."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, StrictBool, StrictInt, StrictStr, model_validator

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import Json, Value
from toolgauge.model.observations import (
    OTHER_ERROR,
    AgentRun,
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    ModelCall,
    Observation,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions, provider_messages, values
from toolgauge.recognize.conventions import token_count
from toolgauge.recognize.dialect import PlainDialect
from toolgauge.recognize.langchain import unwrapped
from toolgauge.recognize.messages import Message, messages_of
from toolgauge.recognize.values import MAX_ITEMS, decoded_or_text
from toolgauge.settings import Section

Key = Annotated[str, Field(min_length=1)]


# One key, or a list of keys.
Keys = Annotated[
    tuple[Key, ...],
    BeforeValidator(
        lambda value: (value,) if isinstance(value, str) else value, json_schema_input_type=Key | tuple[Key, ...]
    ),
]
# Keys of objects, indexes of lists, `*` for each element of a list.
Path: TypeAlias = Keys
# The condition on an attribute: this text or number, one of these, just there (`true`), or not there (`false`).
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
    """The meaning of one kind of span. `match` are conditions on attributes; all must hold, `span_name` begins the name, and
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
        """The attribute that all of its spans have; `None` without any."""
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
    asked first; toolgauge's own have 10 and more.
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


_EACH = "*"
# How a flag is written where a mapping wants a text.
_FLAGS = ("true", "false")
# A key of a framework; the conventions' own has rank 0.
_CONVERSATION_RANK = 2


class MappedDialect(PlainDialect):
    """A dialect that is written in the configuration."""

    def __init__(self, name: str, settings: MappedDialectSettings) -> None:
        super().__init__()
        self.name = name
        self.rank = settings.rank
        self.scopes = settings.scopes
        self.marks = tuple({mapping.found_by: None for mapping in settings.spans if mapping.found_by is not None})
        keys: list[str] = []
        texts: list[tuple[str, str]] = []
        for mapping in settings.spans:
            key = mapping.found_by
            wanted = None if key is None else mapping.match[key]
            if key is not None and isinstance(wanted, str) and wanted not in _FLAGS:
                texts.append((key, wanted))
            elif key is not None:
                keys.append(key)
        by_scope = any(mapping.found_by is None for mapping in settings.spans)
        self.grounds = Grounds(keys=tuple(keys), values=tuple(texts), scopes=settings.scopes if by_scope else ())
        self._mappings = settings.spans

    def claims(self, record: Record) -> bool:
        """Claim the spans that one of the mappings matches."""
        return self._mapping(record) is not None

    def read(self, record: Record) -> Iterator[Observation]:
        """Read one span."""
        mapping = self._mapping(record)
        if mapping is None or isinstance(record, LogRecord):
            return
        if conversation := values.identifier(_value(record, mapping.conversation)):
            yield ConversationSeen(conversation_id=conversation, rank=_CONVERSATION_RANK)
        agent = values.as_str(_value(record, mapping.agent))
        match mapping.reads:
            case "tool_call":
                name = values.as_str(_value(record, mapping.tool_name))
                if name is not None and name not in conventions.UNNAMED:
                    yield CallExecuted(
                        name=name,
                        call_id=values.identifier(_value(record, mapping.call_id)),
                        arguments=_content(record, mapping.arguments, values.arguments),
                        result=_content(record, mapping.result, values.result),
                        error=_error(record, mapping),
                        agent=agent,
                    )
            case "model_call":
                call = ModelCall(
                    agent=agent,
                    stopped_for_tools=conventions.stopped_for_tools(record.attributes),
                    input_tokens=token_count(_value(record, mapping.input_tokens)),
                    output_tokens=token_count(_value(record, mapping.output_tokens)),
                )
                given, written = _given(record, mapping), _written(record, mapping)
                seen = self._model_call(call, given, written, _value(record, mapping.tools))
                if mapping.answers is not None:
                    seen += _answers(record, mapping.answers)
                if mapping.requests is not None:
                    first = sum(isinstance(one, CallRequested) for one in seen)
                    seen += _requests(record, mapping.requests, agent, first)
                yield from seen
            case "agent_run":
                yield AgentRun(agent=agent)
                yield from self._conventions.offered(_value(record, mapping.tools))
                yield from conventions.newest_user_text(_given(record, mapping))
                yield from conventions.written_text(_written(record, mapping))
            case "conversation":
                pass

    def _given(self, span: Span) -> list[Message]:
        mapping = self._mapping(span)
        return [] if mapping is None else _given(span, mapping)

    def _mapping(self, record: Record) -> SpanMapping | None:
        if isinstance(record, LogRecord) or (self.scopes and not record.scope.name.startswith(self.scopes)):
            return None
        return next((mapping for mapping in self._mappings if _fits(record, mapping)), None)


def _fits(span: Span, mapping: SpanMapping) -> bool:
    if mapping.span_name is not None and not span.name.startswith(mapping.span_name):
        return False
    if mapping.event is not None and all(event.name != mapping.event for event in span.events):
        return False
    return all(_holds(span.attributes, key, wanted) for key, wanted in mapping.match.items())


def _holds(attributes: Mapping[str, Value], key: str, wanted: object) -> bool:
    found = attributes.get(key)
    if isinstance(wanted, bool):
        return (found is not None) is wanted
    # To Python 1 is true.
    if isinstance(found, bool):
        found = str(found).lower()
    return found in wanted if isinstance(wanted, tuple) else found == wanted


def _error(span: Span, mapping: SpanMapping) -> CallError | None:
    recorded = values.plain(_value(span, mapping.error))
    message = recorded or "" if isinstance(recorded, str | None) else values.dump(recorded)
    if known := conventions.call_error(span):
        return known if known.message or not message else CallError(kind=known.kind, message=message)
    if message or any(_holds(span.attributes, key, wanted) for key, wanted in mapping.failed.items()):
        return CallError(kind=OTHER_ERROR, message=message)
    return None


def _given(span: Span, mapping: SpanMapping) -> list[Message]:
    return messages_of(provider_messages.given(unwrapped(decoded_or_text(_value(span, mapping.input)))), "user")


def _written(span: Span, mapping: SpanMapping) -> list[Message]:
    return messages_of(
        [*provider_messages.written(unwrapped(decoded_or_text(_value(span, mapping.output))))], "assistant"
    )


def _requests(span: Span, mapping: Requests, agent: str | None, first: int) -> Iterator[CallRequested]:
    position = first
    for item in _at(decoded_or_text(span.attributes.get(mapping.attribute)), mapping.path):
        name = values.as_str(_first(item, mapping.tool_name))
        if name is not None:
            yield CallRequested(
                position=position,
                name=name,
                call_id=values.identifier(_first(item, mapping.call_id)),
                arguments=values.arguments(_first(item, mapping.arguments)),
                agent=agent,
            )
            position += 1


def _answers(span: Span, mapping: Answers) -> Iterator[CallAnswered]:
    for item in _at(decoded_or_text(span.attributes.get(mapping.attribute)), mapping.path):
        call_id = values.identifier(_first(item, mapping.call_id))
        name = values.as_str(_first(item, mapping.tool_name))
        if call_id is not None or name is not None:
            yield CallAnswered(call_id=call_id, name=name, result=values.result(_first(item, mapping.result)))


def _value(span: Span, place: SpanValue | None) -> Value:
    """Return what stands at the place; `None` when nothing does."""
    if place is None or isinstance(place, str):
        return None if place is None else span.attributes.get(place)
    if place.span_name is not None:
        return span.name.removeprefix(place.span_name).strip() if span.name.startswith(place.span_name) else None
    found = _recorded(span, place)
    return _first(decoded_or_text(found), place.path) if place.path else found


def _recorded(span: Span, place: ValueSource) -> Value:
    """Return the whole value that a place is in."""
    if place.prefix is not None:
        parts = values.nested(span.attributes, place.prefix)
        # Those of a list have numbers.
        return [*parts.values()] if parts and all(map(str.isdecimal, parts)) else parts or None
    if place.event is not None:
        return event_value(span, place.event, place.attribute)
    return None if place.attribute is None else span.attributes.get(place.attribute)


def event_value(span: Span, name: str, key: str | None) -> Value:
    """Return an attribute of the span's events of this name, of several a list; without a key all attributes of each."""
    events = [event.attributes for event in span.events[:MAX_ITEMS] if event.name == name]
    if key is None:
        return [{**event} for event in events]
    found = [value for event in events if (value := event.get(key)) is not None]
    if len(found) == 1:
        return found[0]
    return [
        item for value in map(decoded_or_text, found) for item in (value if isinstance(value, list) else [value])
    ] or None


def _content(span: Span, place: SpanValue | None, read: Callable[[Value], Content]) -> Content:
    found = _value(span, place)
    if isinstance(place, str) or place is None:
        return read(found)
    if found is None and place.path:
        # What was cut off may hold it; what is whole and does not have it does not record it.
        whole = values.content(_recorded(span, place))
        return whole if isinstance(whole, Unparsed) else NOT_RECORDED
    if place.envelope == "text" and isinstance(found, str):
        return Recorded(found)
    return read(found)


def _first(value: Json, path: Path | None) -> Json:
    return None if path is None else next(iter(_at(value, path)), None)


def _at(value: Json, path: Path) -> list[Json]:
    """Return the values at the end of the path, in order; JSON text on the way is opened."""
    found = [value]
    for step in path:
        found = [
            inner for one in found for inner in _step(decoded_or_text(one) if isinstance(one, str) else one, step)
        ][:MAX_ITEMS]
    return found


def _step(value: Json, step: str) -> Iterable[Json]:
    match value:
        case list():
            if step == _EACH:
                return value[:MAX_ITEMS]
            return value[int(step) : int(step) + 1] if step.isdecimal() and len(step) < len(str(MAX_ITEMS)) else ()
        case dict():
            return (value[step],) if value.get(step) is not None else ()
        case _:
            return ()
