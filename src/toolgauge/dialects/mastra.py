"""Reads Mastra: the conventions, and `mastra.*` attributes that fill their gaps.

Requests are read from the step (`model_step`); `model_generation` and chunks repeat them. Arguments that break a tool's
schema come back as a result of a span that went well, though the tool never ran.
"""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Content, NotRecorded, Recorded
from toolgauge.model.json import Value
from toolgauge.model.observations import (
    INVALID_ARGUMENTS,
    AgentRun,
    CallError,
    CallRequested,
    MessageSeen,
    Observation,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.dialect import PlainDialect, named_tools
from toolgauge.recognize.messages import read_messages

_KIND = "mastra.span.type"
_METADATA = "mastra.metadata."
_RUN_INPUT = "mastra.agent_run.input"
_STEP_INPUT = "mastra.model_step.input"
_STEP_OUTPUT = "mastra.model_step.output"
# What the provider answered, to the letter.
_BODY = _METADATA + "body"
_CONVERSATIONS = tuple(
    _METADATA + key for key in ("threadId", "sessionId", "conversationId", "thread_id", "session_id")
)

_RUN, _STEP, _TOOL = "agent_run", "model_step", "tool_call"
_TOOLS = (_TOOL, "mcp_tool_call")
_INFERENCE = "model_inference"
# These repeat what their steps have.
_REPEATING = ("model_generation", "model_chunk")
_MAX_CALLS = 1_000


class Mastra(PlainDialect):
    """Reads spans of Mastra's OpenTelemetry exporter and bridge."""

    name = "mastra"
    rank = 85
    marks = ("mastra.",)
    prefixes = (_METADATA,)
    grounds = Grounds(keys=(_KIND,))

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        yield from conventions.conversation(attributes, _CONVERSATIONS)
        kind = attributes.get(_KIND)
        if kind == _RUN:
            yield AgentRun(agent=values.as_str(attributes.get(conventions.AGENT)))
            offered = attributes.get(conventions.DEFINITIONS)
            yield from named_tools(values.decoded(offered)) or self._conventions.offered(offered)
            yield from conventions.system(attributes.get(conventions.SYSTEM))
            yield from conventions.newest_user_text(read_messages(attributes.get(_RUN_INPUT), "user"))
        elif kind in _TOOLS:
            call = conventions.executed(span, conventions.EXECUTE, None)
            if call is not None:
                answer = values.as_object(call.result.value) if isinstance(call.result, Recorded) else {}
                if call.error is None and answer.get("error") is True and "validationErrors" in answer:
                    # The tool's schema does not allow the arguments: the tool never ran, and those that could not be parsed stand as none.
                    given = NOT_RECORDED if call.arguments == Recorded({}) else call.arguments
                    error = CallError(kind=INVALID_ARGUMENTS, message=values.as_str(answer.get("message")) or "")
                    call = replace(call, arguments=given, error=error)
                # A tool that suspends its run ends like one that worked, without a result.
                yield conventions.ended_without_result(call)
        elif kind == _STEP:
            yield from _step(attributes)
        elif kind not in _REPEATING or attributes.get(conventions.OPERATION) in conventions.MODEL_OPERATIONS:
            yield from self._conventions.read_span(span)


def _step(attributes: Mapping[str, Value]) -> Iterator[Observation]:
    yield from conventions.newest_user_text(read_messages(attributes.get(_STEP_INPUT), "user"))
    output = values.as_object(values.opened(attributes.get(_STEP_OUTPUT)))
    calls = values.as_list(output.get("toolCalls"))[:_MAX_CALLS]
    for position, item in enumerate(calls):
        call = values.as_object(item)
        name = values.as_str(call.get("toolName"))
        if name is not None:
            call_id = values.identifier(call.get("toolCallId"))
            given = call["args"] if "args" in call else call.get("input")
            arguments = values.arguments_inside(given)
            if given == {} and call_id is not None:
                arguments = _as_answered(call_id, attributes)
            yield CallRequested(position=position, name=name, call_id=call_id, arguments=arguments)
    if text := values.as_str(output.get("text")):
        yield MessageSeen(role="assistant", text=text)


def _as_answered(call_id: str, attributes: Mapping[str, Value]) -> Content:
    """Look up arguments in the provider's own answer: an empty object also stands for text that Mastra could not parse."""
    for choice in values.as_list(values.as_object(values.opened(attributes.get(_BODY))).get("choices"))[:1]:
        message = values.as_object(values.as_object(choice).get("message"))
        for call in map(values.as_object, values.as_list(message.get("tool_calls"))[:_MAX_CALLS]):
            if call.get("id") == call_id:
                found = values.arguments(values.as_object(call.get("function")).get("arguments"))
                return Recorded({}) if isinstance(found, NotRecorded) else found
    return Recorded({})
