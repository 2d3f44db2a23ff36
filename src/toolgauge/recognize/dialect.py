"""The base of dialects: the table of a producer's keys, from which its claims and most of its reading follow."""

from collections.abc import Iterable

from msgspec import Struct

from toolgauge.model.json import Json, Value
from toolgauge.model.observations import (
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
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.conventions_reader import ConventionsReader
from toolgauge.recognize.messages import Messages, past_calls

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
