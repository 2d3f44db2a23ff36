"""Reads the spans of LlamaIndex's own package for OpenTelemetry.

Model calls are events on spans; tools are steps of workflows, of which spans have only the first 200 characters. Results
come from the history of the next model call.
"""

import re
from collections.abc import Iterator, Mapping

from toolgauge.model.content import NOT_RECORDED, Content
from toolgauge.model.json import Json, Value
from toolgauge.model.observations import AgentRun, CallExecuted, ModelCall, Observation
from toolgauge.model.ports import Grounds
from toolgauge.model.records import Span
from toolgauge.recognize import conventions, provider_messages, values
from toolgauge.recognize.conventions import token_count
from toolgauge.recognize.dialect import PlainDialect
from toolgauge.recognize.messages import Message, messages_of

_SCOPE = "llamaindex.opentelemetry.tracer"
_TAGS = "llamaindex."
_CONVERSATIONS = tuple(_TAGS + key for key in ("session_id", "conversation_id", "thread_id"))
_STEP = "llamaindex.step.input_summary"
_START, _END = "LLMChatStartEvent", "LLMChatEndEvent"
_MESSAGES = "messages"
_TOOLS = "additional_kwargs.tools"
_MESSAGE = "response.message."
_TOKENS = ("response.raw.usage.prompt_tokens", "response.raw.usage.completion_tokens")
_TOOL_METHODS = ("call", "acall", "__call__")
_CALL = re.compile(r"ToolCall\(tool_name='([^'\\]{1,256})', tool_kwargs=(.*)", re.DOTALL)
_WHOLE = re.compile(r"(.*), tool_id='([^'\\]{1,256})'\)", re.DOTALL)


class LlamaIndex(PlainDialect):
    """Reads the spans of the scope of `llama-index-observability-otel`."""

    name = "llama_index"
    rank = 78
    marks = (_TAGS,)
    scopes = (_SCOPE,)
    prefixes = (_TAGS,)
    grounds = Grounds(scopes=(_SCOPE,))

    def _read(self, span: Span) -> Iterator[Observation]:
        yield from conventions.conversation(span.attributes, _CONVERSATIONS)
        start, end = _event(span, _START), _event(span, _END) or {}
        of_class, _, method = span.name.partition(".")
        if start is not None:
            sent, received = (token_count(end.get(key)) for key in _TOKENS)
            yield ModelCall(input_tokens=sent, output_tokens=received)
            yield from self._conventions.offered(start.get(_TOOLS))
            yield from conventions.received(self._given(span))
            # Streamed outputs have no event: their calls come from the history of the next model call.
            message: dict[str, Json] = {
                "blocks": values.decoded(end.get(_MESSAGE + "blocks")),
                "additional_kwargs": {"tool_calls": values.decoded(end.get(_MESSAGE + "additional_kwargs.tool_calls"))},
            }
            written = provider_messages.written({"message": message})
            yield from conventions.written(messages_of([*written], "assistant"), None)
        elif "Tool" in of_class and method in _TOOL_METHODS:
            found = _CALL.match(values.as_str(span.attributes.get(_STEP)) or "")
            if found is not None:
                whole = _WHOLE.fullmatch(found[2])
                arguments: Content = values.arguments(whole[1]) if whole is not None else NOT_RECORDED
                call_id = whole[2] if whole is not None else None
                yield CallExecuted(
                    name=found[1], call_id=call_id, arguments=arguments, error=conventions.call_error(span)
                )
        elif "Agent" in of_class and method == "run":
            yield AgentRun(agent=None)

    def _given(self, span: Span) -> list[Message]:
        start = _event(span, _START) or {}
        return messages_of(provider_messages.given(values.opened(start.get(_MESSAGES))), "user")


def _event(span: Span, name: str) -> Mapping[str, Value] | None:
    return next((event.attributes for event in span.events if event.name == name), None)
