"""Reads LiveKit Agents: the conventions, and its own keys, which keep content that those of the conventions leave out."""

from collections.abc import Iterator

from msgspec.structs import replace

from toolgauge.model.observations import OTHER_ERROR, AgentRun, CallError, MessageSeen, ModelCall, Observation
from toolgauge.model.ports import Grounds
from toolgauge.model.records import Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.dialect import PlainDialect, ToolFields, named_tools
from toolgauge.recognize.messages import Message, messages_of

_SCOPE = "livekit-agents"
_NAME = "lk.function_tool.name"
_OUTPUT = "lk.pii.function_tool.output"
_IS_ERROR = "lk.function_tool.is_error"
_OFFERED = "lk.function_tools"
_REQUESTED = "lk.pii.response.function_calls"
_CONTEXT = "lk.pii.chat_ctx"
_ASKED = "lk.pii.user_input"
_TEXT = "lk.pii.response.text"
_TOOL = ToolFields(
    name=(conventions.TOOL_NAME, _NAME),
    call_id=(conventions.CALL_ID, "lk.function_tool.id"),
    arguments=(conventions.ARGUMENTS, "lk.pii.function_tool.arguments"),
    result=(conventions.RESULT, _OUTPUT),
)


class LiveKit(PlainDialect):
    """Reads the spans of LiveKit Agents' tracer."""

    name = "livekit"
    rank = 76
    marks = ("lk.", "gen_ai.")
    scopes = (_SCOPE,)
    grounds = Grounds(scopes=(_SCOPE,))

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        yield from conventions.conversation(attributes)
        if attributes.get(_NAME) is not None and (call := _TOOL.read(span)) is not None:
            if attributes.get(_IS_ERROR) is True:
                kind = call.error.kind if call.error is not None else OTHER_ERROR
                call = replace(call, error=CallError(kind=kind, message=values.as_str(attributes.get(_OUTPUT)) or ""))
            yield replace(call, agent=values.as_str(attributes.get(conventions.AGENT)))
        elif _OFFERED in attributes and conventions.OPERATION not in attributes:
            # The step around a model's request: it has the same content.
            yield ModelCall(may_repeat=True)
            yield from named_tools(values.plain(attributes.get(_OFFERED)))
            yield from conventions.received(self._given(span) or [])
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

    def _given(self, span: Span) -> list[Message] | None:
        if _CONTEXT not in span.attributes:
            return None
        items = values.as_list(values.as_object(values.opened(span.attributes.get(_CONTEXT))).get("items"))
        return messages_of(items, "user")
