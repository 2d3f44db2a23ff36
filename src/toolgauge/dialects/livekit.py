"""Reads LiveKit Agents: the conventions, and its own keys, which keep content that those of the conventions leave out."""

from collections.abc import Iterator

from msgspec.structs import replace

from toolgauge.model.content import NotRecorded
from toolgauge.model.observations import (
    OTHER_ERROR,
    AgentRun,
    CallError,
    CallExecuted,
    CallRequested,
    MessageSeen,
    ModelCall,
    Observation,
    ToolDefinition,
    ToolsOffered,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.conventions_reader import PlainDialect
from toolgauge.recognize.messages import Message, messages_of, past_calls

_SCOPE = "livekit-agents"
_TOOL = "lk.function_tool.name"
_TOOL_ID = "lk.function_tool.id"
_ARGUMENTS = "lk.pii.function_tool.arguments"
_OUTPUT = "lk.pii.function_tool.output"
_IS_ERROR = "lk.function_tool.is_error"
_OFFERED = "lk.function_tools"
_REQUESTED = "lk.pii.response.function_calls"
_CONTEXT = "lk.pii.chat_ctx"
_ASKED = "lk.pii.user_input"
_TEXT = "lk.pii.response.text"


class LiveKit(PlainDialect):
    """Reads the spans of LiveKit Agents' tracer."""

    name = "livekit"
    rank = 76
    marks = ("lk.", "gen_ai.")
    scopes = (_SCOPE,)
    grounds = Grounds(scopes=(_SCOPE,))

    def claims(self, record: Record) -> bool:
        """Claim the spans of the scope."""
        return not isinstance(record, LogRecord) and record.scope.name == _SCOPE

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        yield from conventions.conversation(attributes)
        if (name := values.as_str(attributes.get(_TOOL))) is not None:
            call = conventions.executed(span, conventions.EXECUTE, None) or CallExecuted(name=name)
            output = attributes.get(_OUTPUT)
            if attributes.get(_IS_ERROR) is True:
                kind = call.error.kind if call.error is not None else OTHER_ERROR
                call = replace(call, error=CallError(kind=kind, message=values.as_str(output) or ""))
            yield replace(
                call,
                call_id=call.call_id or values.as_str(attributes.get(_TOOL_ID)),
                arguments=values.arguments(attributes.get(_ARGUMENTS))
                if isinstance(call.arguments, NotRecorded)
                else call.arguments,
                result=values.result(output) if isinstance(call.result, NotRecorded) else call.result,
            )
        elif _OFFERED in attributes and conventions.OPERATION not in attributes:
            # The step around a model's request: it has the same content.
            yield ModelCall(may_repeat=True)
            listed = values.as_list(values.plain(attributes.get(_OFFERED)))
            if tools := tuple(ToolDefinition(name=tool) for tool in listed if isinstance(tool, str)):
                yield ToolsOffered(tools=tools)
            yield from conventions.received(_context(span))
            calls = values.decoded(attributes.get(_REQUESTED))
            text = attributes.get(_TEXT)
            yield from conventions.written(
                [Message({"tool_calls": calls, "content": values.plain(text)}, "assistant")], None
            )
        else:
            for seen in self._conventions.read_span(span):
                yield seen
                if isinstance(seen, AgentRun) and (asked := values.as_str(attributes.get(_ASKED))):
                    yield MessageSeen(role="user", text=asked)

    def history(self, span: Span) -> Iterator[CallRequested | MessageSeen]:
        """Read the calls in the history that a model was given, and the texts of the user between them."""
        return past_calls(_context(span)) if _CONTEXT in span.attributes else self._conventions.history(span)


def _context(span: Span) -> list[Message]:
    items = values.as_list(values.as_object(values.opened(span.attributes.get(_CONTEXT))).get("items"))
    return messages_of(items, "user")
