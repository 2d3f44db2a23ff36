"""The base of dialects: the table of a producer's keys, from which its claims and most of its reading follow.

`ConventionsReader` reads records that follow the conventions. Content may be JSON text or structured, on the span, on a span event, or only
on a log record that names the span. Missing content stays `NOT_RECORDED`: half of all producers send none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from cachetools import LRUCache
from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.json import Json, Value
from toolgauge.model.observations import (
    AgentRun,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    Observation,
    ToolDefinition,
    ToolsOffered,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span, SpanEvent
from toolgauge.recognize import conventions, values
from toolgauge.recognize.conventions import ending, finish_in, is_for_tools, model_call, token_counts
from toolgauge.recognize.definitions import DefinitionReader
from toolgauge.recognize.messages import Message, Messages, past_calls, read_list, read_messages
from toolgauge.recognize.values import MAX_ITEMS

# The owner of consecutive inputs: the conversation or the trace, `None` when not known, and the agent.
Owner: TypeAlias = tuple[str | None, str | None]

# Reading a shorter input again is as fast as remembering it.
_SHORTEST = 1000
# Characters of all inputs that are remembered, and of one: it must not push out all others.
_MOST_CHARACTERS, _MOST_OF_ONE = 4 << 20, 1 << 20
_JSON_SPACES = " \t\n\r"

_OWNERS = (conventions.CONVERSATION, conventions.SESSION)
LITELLM_SCOPE = "litellm"
_RAW_SPAN = "raw_gen_ai_request"

_APPROVAL = "approval"
_EXECUTE = conventions.EXECUTE + " "
_PROVIDER = "llm."
_CHOICES = ".choices"
_MESSAGES = ".messages"
_USAGE = ".usage"
_TOOLS = ".tools"
_FLAT_CALLS, _FLAT_NAME = "gen_ai.completion.", "function_call.name"
_FIRST_FLAT_CALL = _FLAT_CALLS + "0." + _FLAT_NAME
_LANGTRACE_TOOLS = "gen_ai.request.tools"
_FLAT_TOOLS = "llm.request.functions."
_FIRST_FLAT_TOOL = _FLAT_TOOLS + "0.name"


class ConventionsReader:
    """Reads records; remembers tools and histories by `whose` id, so that only new history is read."""

    def __init__(self) -> None:
        self._definitions = DefinitionReader()
        self._histories = HistoryReader()

    def read_span(self, span: Span) -> Sequence[Observation]:
        """Read a span, all but its conversation id."""
        attributes = span.attributes
        operation = values.as_str(attributes.get(conventions.OPERATION))
        method = attributes.get(conventions.MCP_METHOD)
        is_known = operation in conventions.MODEL_OPERATIONS
        prefix: str | None = None
        protocol: Literal["mcp"] | None = None
        # Rule: a span that names an MCP tool, and neither a method nor an operation, is a `tools/call`.
        if method is not None or (operation is None and attributes.get(conventions.MCP_TOOL) is not None):
            if method not in (None, conventions.TOOLS_CALL):
                return ()
            prefix, protocol = conventions.TOOLS_CALL, "mcp"
        elif operation == conventions.EXECUTE or (operation is None and span.name.startswith(_EXECUTE)):
            prefix = conventions.EXECUTE
        if prefix is not None:
            call = conventions.executed(span, prefix, protocol)
            return () if call is None else (call,)
        if operation == conventions.INVOKE:
            run = AgentRun(agent=values.as_str(attributes.get(conventions.AGENT)))
            return [run, *self.texts(attributes)]
        if is_raw(span):
            key = _raw_key(attributes, _TOOLS)
            return [*self.offered(None if key is None else attributes.get(key)), *raw_request(span)]
        # Rule: a span with an unknown operation is a model call if it has `gen_ai.output.messages`, and no word of its operation,
        # and no attribute, is that of an agent, a tool or the like. Without the attribute, the span's name is its operation.
        if not is_known and (
            conventions.OUTPUT not in attributes
            or conventions.TOOL_NAME in attributes
            or conventions.CALL_ID in attributes
            or conventions.repeats_models(operation or span.name)
        ):
            return ()
        whose = values.identifier(values.first(attributes, _OWNERS)) or span.ref.trace_id
        seen = self.model_call(attributes, whose, may_repeat=not is_known)
        seen += flat_calls(attributes)
        # Events are skipped where the span's own attributes have the content.
        if span.events and conventions.INPUT not in attributes and conventions.OUTPUT not in attributes:
            for event in span.events:
                seen += self._model_event(event, attributes, whose)
        return seen

    def read_log(self, record: LogRecord) -> Iterable[Observation]:
        """Read a log record, all but its conversation id."""
        attributes = record.attributes
        if record.event_name != conventions.DETAILS:
            body = record.body if record.body is not None else attributes.get(conventions.EVENT_BODY)
            agent = values.as_str(attributes.get(conventions.AGENT))
            return conventions.message_event(record.event_name, body, agent)
        if attributes.get(conventions.OPERATION) == conventions.INVOKE:
            return self.texts(attributes)
        whose = values.identifier(values.first(attributes, _OWNERS))
        return self.model_call(attributes, whose or (None if record.ref is None else record.ref.trace_id))

    def history(self, span: Span) -> Iterator[CallRequested | MessageSeen]:
        """Read the calls in the input of a model call, from its attributes or its events."""
        attributes = span.attributes
        if is_raw(span):
            key = _raw_key(attributes, _MESSAGES)
            given = None if key is None else attributes.get(key)
            return past_calls(read_messages(given, "user"))
        received = attributes.get(conventions.INPUT)
        if received is not None:
            return past_calls(read_messages(received, "user"))
        return past_calls(message for event in span.events for message in _given(event))

    def model_call(
        self, attributes: Mapping[str, Value], whose: str | None = None, *, may_repeat: bool = False
    ) -> list[Observation]:
        """Read a model call with its input and its output; `whose` id owns the history in the input."""
        agent = values.as_str(attributes.get(conventions.AGENT))
        call = model_call(attributes, agent, stopped_for_tools=conventions.stopped_for_tools(attributes))
        content = self._content(attributes, agent, whose)
        written = attributes.get(conventions.OUTPUT)
        if call.ending is None and written is not None:
            finish = finish_in(written)
            found = None if finish is None else ending(finish)
            if found is None and not call.stopped_for_tools and not is_for_tools(finish):
                for seen in content:
                    if type(seen) is CallRequested or (
                        type(seen) is MessageSeen and seen.role == "assistant" and not seen.text.isspace()
                    ):
                        break
                else:
                    # Rare: an output with neither text nor calls.
                    messages = read_messages(written, "assistant")
                    found = "empty" if messages and all(message.is_empty for message in messages) else None
            call = call if found is None else replace(call, ending=found)
        if may_repeat:
            call = replace(call, may_repeat=True)
        return [call, *content]

    def offered(self, value: Value) -> Iterable[ToolsOffered]:
        """Read the tools on offer; nothing without any."""
        found = self._definitions.read(value) if value is not None else ()
        return (ToolsOffered(tools=found),) if found else ()

    def _content(self, attributes: Mapping[str, Value], agent: str | None, whose: str | None) -> list[Observation]:
        seen: list[Observation] = [*self.offered(_definitions(attributes))]
        if (instructions := attributes.get(conventions.SYSTEM)) is not None:
            seen += conventions.system(instructions)
        received = attributes.get(conventions.INPUT)
        if received is not None:
            seen += self._histories.received(received, (whose, agent))
        written = attributes.get(conventions.OUTPUT)
        if written is not None:
            seen += conventions.written(read_messages(written, "assistant"), agent)
        return seen

    def texts(self, attributes: Mapping[str, Value]) -> list[Observation]:
        """Read messages for their text, and the offer: the calls among an agent's messages repeat its models'."""
        seen: list[Observation] = [*self.offered(attributes.get(conventions.DEFINITIONS))]
        seen += conventions.system(attributes.get(conventions.SYSTEM))
        received = attributes.get(conventions.INPUT)
        if received is not None:
            seen += conventions.newest_user_text(read_messages(received, "user"))
        written = attributes.get(conventions.OUTPUT)
        if written is not None:
            messages = read_messages(written, "assistant")
            seen += conventions.written_text(messages)
            if isinstance(written, str) and _APPROVAL in written:
                # Some frameworks ask the person here alone, in the output of the run that stops.
                seen += [answer for message in messages for answer in message.answers() if answer.error is not None]
        return seen

    def _model_event(
        self, event: SpanEvent, attributes: Mapping[str, Value], whose: str | None
    ) -> Iterable[Observation]:
        agent = values.as_str(attributes.get(conventions.AGENT))
        if event.name == conventions.DETAILS:
            return self._content(event.attributes, agent, whose)
        if event.name == conventions.CONTENT_PROMPT:
            return conventions.received(read_messages(event.attributes.get("gen_ai.prompt"), "user"))
        if event.name == conventions.CONTENT_COMPLETION:
            found = read_messages(event.attributes.get("gen_ai.completion"), "assistant")
            return conventions.written(found, agent)
        if event.name in conventions.MESSAGE_EVENTS:
            body = event.attributes.get(conventions.EVENT_BODY)
            return conventions.message_event(event.name, event.attributes if body is None else body, agent)
        return ()


def _given(event: SpanEvent) -> Messages:
    if event.name == conventions.DETAILS:
        return read_messages(event.attributes.get(conventions.INPUT), "user")
    if event.name == conventions.CONTENT_PROMPT:
        return read_messages(event.attributes.get("gen_ai.prompt"), "user")
    role = conventions.HISTORY_EVENTS.get(event.name)
    if role is None:
        return []
    body = event.attributes.get(conventions.EVENT_BODY)
    return read_messages(conventions.event_body(event.attributes if body is None else body), role)


# A model call's input repeats the history before it: where a text begins as an earlier one and a comma follows, the rest is a list of
# further messages. Read whole each time, a history of 29 KB takes six times the CPU and nine times the memory.
class _Known(Struct, frozen=True):
    """The observations of an input: `begun` is its text without the last bracket."""

    begun: str
    count: int
    recorded: list[Observation]
    user: list[MessageSeen]


_NOTHING = _Known("", 0, [], [])


class HistoryReader:
    """Reads inputs; remembers the newest of each owner as long as there is room."""

    def __init__(self) -> None:
        self.known = LRUCache[Owner, _Known](_MOST_CHARACTERS, getsizeof=lambda known: len(known.begun))

    def received(self, value: Value, owner: Owner) -> list[Observation]:
        """Read what `conventions.received` reads."""
        known = self._read(value, owner) if isinstance(value, str) and len(value) >= _SHORTEST else None
        return conventions.received(read_messages(value, "user")) if known is None else [*known.recorded, *known.user]

    def _read(self, value: str, owner: Owner) -> _Known | None:
        if owner[0] is None or values.is_too_large(value):
            return None
        text, before = value.strip(), self.known.get(owner, _NOTHING)
        messages: Messages | None = None
        if before.begun and text.startswith(before.begun):
            rest = text[len(before.begun) :].lstrip(_JSON_SPACES)
            if rest == "]":
                return before
            messages = read_list("[" + rest[1:], "user") if rest.startswith(",") else None
        # A comma with nothing behind it makes the text invalid.
        if not messages or before.count + len(messages) > MAX_ITEMS:
            before, messages = _NOTHING, read_list(text, "user")
        if not messages:
            return None
        recorded, user = conventions.instructions_and_answers(messages), conventions.newest_user_text(messages)
        if user and before.user and not user[0].follows:
            user = [replace(user[0], follows=True)]
        known = _Known(
            text[:-1].rstrip(_JSON_SPACES),
            before.count + len(messages),
            [*before.recorded, *recorded] if recorded else before.recorded,
            user or before.user,
        )
        if len(known.begun) <= _MOST_OF_ONE:
            self.known[owner] = known
        return known


# LiteLLM's callback leaves calls out of `gen_ai.output.messages`. They are on the span of the raw request, as a Python literal, and
# in flat keys on the span of the latest request, or on one that an application has open.
def is_raw(span: Span) -> bool:
    """Return whether the span is a raw request of LiteLLM's."""
    return span.scope.name == LITELLM_SCOPE and span.name == _RAW_SPAN


def _raw_key(attributes: Mapping[str, Value], ends: str | tuple[str, ...]) -> str | None:
    return next((key for key in attributes if key.startswith(_PROVIDER) and key.endswith(ends)), None)


def raw_request(span: Span) -> Iterator[Observation]:
    """Read the request and the provider's answer; nothing where neither is in the shape of OpenAI's, which LiteLLM turns most into."""
    attributes = span.attributes
    key = _raw_key(attributes, (_CHOICES, _MESSAGES))
    provider = key.rpartition(".")[0] if key is not None else ""
    choices = values.as_list(values.decoded(attributes.get(provider + _CHOICES)))
    # The conventions' messages on the span of the request have lost the ids of answers.
    given = read_messages(attributes.get(provider + _MESSAGES), "user")
    if choices or given:
        sent, received = token_counts(attributes.get(provider + _USAGE))
        yield ModelCall(input_tokens=sent, output_tokens=received)
        yield from conventions.received(given)
        yield from conventions.written([Message(values.as_object(choice), "assistant") for choice in choices], None)


def _definitions(attributes: Mapping[str, Value]) -> Value:
    """Return the tools on offer, also from flat keys (streams under LiteLLM's callback) and from lists within a list (Langtrace)."""
    listed = attributes.get(conventions.DEFINITIONS)
    if listed is not None:
        return listed
    if (encoded := attributes.get(_LANGTRACE_TOOLS)) is not None:
        lists = [
            values.decoded(one) if isinstance(one, str) else one for one in values.as_list(values.decoded(encoded))
        ]
        return [tool for one in lists for tool in (one if isinstance(one, list) else [one])]
    return values.numbered(attributes, _FLAT_TOOLS) if _FIRST_FLAT_TOOL in attributes else None


def flat_calls(attributes: Mapping[str, Value]) -> list[CallRequested]:
    """Read the calls in flat keys, numbered from 0."""
    calls: list[CallRequested] = []
    # Asked of every model span, and nearly none has any.
    if _FIRST_FLAT_CALL not in attributes:
        return calls
    agent = values.as_str(attributes.get(conventions.AGENT))
    for position, fields in enumerate(values.numbered(attributes, _FLAT_CALLS)):
        name = values.as_str(fields.get(_FLAT_NAME))
        if name is None:
            break
        arguments = values.arguments(fields.get("function_call.arguments"))
        calls.append(CallRequested(position=position, name=name, arguments=arguments, agent=agent))
    return calls


EVENT_NAME = "event.name"


class ToolFields(Struct, frozen=True, kw_only=True):
    """The attributes of a tool's span, each under the first of its keys that is present."""

    name: tuple[str, ...] = (conventions.TOOL_NAME,)
    call_id: tuple[str, ...] = (conventions.CALL_ID,)
    arguments: tuple[str, ...] = (conventions.ARGUMENTS,)
    result: tuple[str, ...] = (conventions.RESULT,)

    def read(self, span: Span, name: str = "", agent: str | None = None) -> CallExecuted | None:
        """Read the call; `name` is the default, and without any name the span has no call."""
        attributes = span.attributes
        name = values.as_str(values.first(attributes, self.name)) or name
        if not name:
            return None
        return CallExecuted(
            name=name,
            call_id=conventions.call_id(attributes, self.call_id),
            arguments=values.arguments(values.first(attributes, self.arguments)),
            result=values.result(values.first(attributes, self.result)),
            error=conventions.call_error(span),
            agent=agent,
        )


class PlainDialect:
    """The base of most dialects: reads the conventions, hides no attribute, looks for an application's keys under `prefixes` too."""

    scopes: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    grounds: Grounds | None = None
    # How the names of its log records begin, in the attribute `event.name`; only those of `scopes` are claimed.
    events: str = ""
    # The producer's own keys of a conversation's id; `None` where `_read` looks for it.
    conversations: tuple[str, ...] | None = ()
    # Keys of which a span must have one where only its scope is among the grounds.
    needs: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._conventions = ConventionsReader()

    def claims(self, record: Record) -> bool:
        """Claim spans with one of the `grounds`, and log records of its `events`."""
        attributes, grounds = record.attributes, self.grounds
        if isinstance(record, LogRecord):
            event = attributes.get(EVENT_NAME) if self.events and record.scope.name.startswith(self.scopes) else None
            return isinstance(event, str) and event.startswith(self.events)
        if grounds is None:
            return False
        if not attributes.keys().isdisjoint(grounds.keys):
            return True
        for key, value in grounds.values:
            if attributes.get(key) == value:
                return True
        if not grounds.scopes or not record.scope.name.startswith(grounds.scopes):
            return False
        return not self.needs or not attributes.keys().isdisjoint(self.needs)

    def read(self, record: Record) -> Iterable[Observation]:
        """Read one span or log record."""
        found = self._read(record) if isinstance(record, Span) else self._read_log(record)
        if self.conversations is None:
            return found
        return [*conventions.conversation(record.attributes, self.conversations), *found]

    def _read(self, span: Span) -> Iterable[Observation]:  # noqa: ARG002 (for dialects to fill in)
        return ()

    def _read_log(self, record: LogRecord) -> Iterable[Observation]:  # noqa: ARG002 (for dialects to fill in)
        return ()

    def _model_call(
        self, call: ModelCall, given: Messages | None, written: Messages, tools: Value = None
    ) -> list[Observation]:
        """Return a model's call, the tools on offer, and the model's input and output messages."""
        received = conventions.received(given or ())
        return [call, *self._conventions.offered(tools), *received, *conventions.written(written, call.agent)]

    def history(self, span: Span) -> Iterable[CallRequested | MessageSeen]:
        """Read the calls in the history that a model was given, and the texts of the user between them."""
        given = self._given(span)
        return self._conventions.history(span) if given is None else past_calls(given)

    def _given(self, span: Span) -> Messages | None:  # noqa: ARG002 (for dialects to fill in)
        """Return a model's input messages; `None` where they follow the conventions."""
        return None

    def attribute(self, record: Record, key: str) -> Value:
        """Look up an attribute, also among the application's own attributes of the span."""
        attributes = record.attributes
        return values.first(attributes, (prefix + key for prefix in ("", *self.prefixes)))


def named_tools(names: Json) -> list[ToolsOffered]:
    """Read the offer of a producer that records the names of tools alone."""
    tools = [ToolDefinition(name=name) for name in values.as_list(names) if isinstance(name, str) and name]
    return [ToolsOffered(tools=tuple(tools))] if tools else []


def conversation_of(sessions: Iterable[Value], others: Iterable[Value]) -> list[ConversationSeen]:
    """Read the first text among the sessions of a producer, else among the `others`."""
    for rank, ids in enumerate((sessions, others), 1):
        for found in ids:
            if found and isinstance(found, str):
                return [ConversationSeen(conversation_id=found, rank=rank)]
    return []
