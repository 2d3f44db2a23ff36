"""OpenAI Agents by OpenTelemetry's own instrumentation: the GenAI conventions with three peculiarities.

Requested calls are Python reprs in texts, hand-offs are spans, and all spans but an agent's name one constant agent.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.literals import CLASS, parse_repr
from toolgauge.model.observations import AgentRun, CallExecuted, Observation
from toolgauge.model.ports import Grounds
from toolgauge.model.records import Record, Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.conventions import handoff_name, model_call
from toolgauge.recognize.dialect import PlainDialect
from toolgauge.recognize.messages import Message, Messages, read_messages

_SCOPE = "opentelemetry.instrumentation.openai_agents"
# Traceloop's tracer has the same name; it sets none of these.
_OWN = ("server.address", "gen_ai.system", "gen_ai.agent.id")
_TRACELOOP = ("traceloop.span.kind", "traceloop.workflow.name", "traceloop.entity.name")
_HANDOFF = "agent_handoff"
_FROM = "gen_ai.handoff.from_agent"
_TO = "gen_ai.handoff.to_agent"

_CALL_CLASSES = ("ResponseFunctionToolCall",)
_CALL_REPRS = tuple(f"{name}(" for name in _CALL_CLASSES)
_MESSAGE_REPRS = ("{'", '{"')


class OpenAIAgents(PlainDialect):
    """Reads agent, model, tool and hand-off spans; asked before Traceloop, whose tracer has the same name."""

    name = "openai_agents"
    rank = 59
    marks = ("gen_ai.",)
    grounds = Grounds(scopes=(_SCOPE,))

    def claims(self, record: Record) -> bool:
        """Claim spans of this tracer that Traceloop did not write."""
        if (
            not isinstance(record, Span)
            or record.scope.name != _SCOPE
            or conventions.OPERATION not in record.attributes
        ):
            return False
        attributes = record.attributes
        return any(key in attributes for key in _OWN) and not any(key in attributes for key in _TRACELOOP)

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        operation = attributes.get(conventions.OPERATION)
        yield from conventions.conversation(attributes)
        if operation == conventions.EXECUTE:
            call = conventions.executed(span, conventions.EXECUTE, None)
            if call is not None:
                yield conventions.ended_without_result(replace(call, agent=None))
        elif operation == _HANDOFF:
            # It is recorded by its target alone, from which the SDK derives the called tool's name.
            if (target := values.as_str(attributes.get(_TO))) is not None:
                name, source = handoff_name(target), values.as_str(attributes.get(_FROM))
                yield CallExecuted(name=name, error=conventions.call_error(span), agent=source)
        elif operation == conventions.INVOKE:
            yield AgentRun(agent=values.as_str(attributes.get(conventions.AGENT)))
            yield from conventions.system(attributes.get(conventions.SYSTEM))
            yield from conventions.newest_user_text(read_messages(attributes.get(conventions.INPUT), "user"))
            yield from conventions.written_text(_written(attributes.get(conventions.OUTPUT)))
        elif operation in conventions.MODEL_OPERATIONS:
            yield model_call(attributes)
            yield from conventions.system(attributes.get(conventions.SYSTEM))
            yield from conventions.received(read_messages(attributes.get(conventions.INPUT), "user"))
            yield from conventions.written(_written(attributes.get(conventions.OUTPUT)), None)

    def _given(self, span: Span) -> Messages:
        return _written(span.attributes.get(conventions.INPUT))


def _written(value: Value) -> Messages:
    """Read a model's output, its reprs opened."""
    read = values.content(value)
    if not isinstance(read, Recorded):
        return read_messages(value, "assistant")
    messages: list[Message] = []
    for message in map(values.as_object, values.as_list(read.value)):
        parts = message.get("parts")
        opened: JsonObject = dict(message)
        if isinstance(parts, list):
            opened["parts"] = [part for recorded in parts for part in _parts(recorded)]
        messages.append(Message(opened, "assistant"))
    return messages


def _parts(part: Json) -> Iterator[Json]:
    text = values.as_object(part).get("content")
    if not isinstance(text, str) or not text.startswith((*_CALL_REPRS, *_MESSAGE_REPRS)):
        yield part
        return
    try:
        found = values.as_object(parse_repr(text))
    except ValueError:
        yield part
        return
    if found.get(CLASS) in _CALL_CLASSES:
        yield {**found, "type": "tool_call"}
    elif "role" in found and isinstance(found.get("tool_calls"), list):
        # The message of the chat completions interface.
        if isinstance(returned := found.get("content"), str):
            yield {"type": "text", "content": returned}
        yield from ({**values.as_object(call), "type": "function"} for call in values.as_list(found["tool_calls"]))
    else:
        yield part
