"""Reads records that follow the conventions, for every dialect whose producer does so in part.

Arrives: a span or log record that a dialect has claimed. Leaves: its observations. Attributes may hold JSON text or
structured values, and content may be on the span, on a span event or only on a log record that names the span.
Content that is missing stays `NOT_RECORDED`: half of all producers send none.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from toolgauge.model.json import Value
from toolgauge.model.observations import AgentRun, ModelCall, Observation, ToolsOffered
from toolgauge.model.records import LogRecord, Record, Span, SpanEvent
from toolgauge.recognize import values
from toolgauge.recognize.conventions import content, litellm, names, tools
from toolgauge.recognize.messages import DefinitionReader, read_messages


class ConventionsReader:
    """Remembers nothing of records but the tools on offer and the instructions, which come again with each model call."""

    def __init__(self) -> None:
        self._definitions = DefinitionReader()
        self._instructions = content.InstructionsReader()

    def read(self, record: Record) -> Iterator[Observation]:
        """Read one span or log record."""
        yield from content.conversation(record.attributes)
        if isinstance(record, LogRecord):
            yield from self.read_log(record)
        else:
            yield from self.read_span(record)

    def read_span(self, span: Span) -> Iterator[Observation]:
        """Read a span, all but its conversation id."""
        attributes = span.attributes
        operation = values.as_str(attributes.get(names.OPERATION))
        method = attributes.get(names.MCP_METHOD)
        if method is not None:
            if method == names.TOOLS_CALL:
                yield from _executed(span, names.TOOLS_CALL, "mcp")
        elif operation == names.EXECUTE or (operation is None and span.name.startswith(names.EXECUTE + " ")):
            yield from _executed(span, names.EXECUTE, None)
        elif operation == names.INVOKE:
            yield AgentRun(agent=values.as_str(attributes.get(names.AGENT)))
            yield from self._seen_by_agent(attributes)
        elif litellm.is_raw(span):
            yield from self.offered(litellm.raw_tools(span))
            yield from litellm.raw_request(span)
        elif operation in names.MODEL_OPERATIONS:
            yield from self.model_call(attributes)
            yield from litellm.flat_calls(attributes, values.as_str(attributes.get(names.AGENT)))
            for event in span.events:
                yield from self._model_event(event, attributes)

    def read_log(self, record: LogRecord) -> Iterator[Observation]:
        """Read a log record, all but its conversation id."""
        attributes = record.attributes
        if record.event_name != names.DETAILS:
            body = record.body if record.body is not None else attributes.get(names.EVENT_BODY)
            agent = values.as_str(attributes.get(names.AGENT))
            yield from content.message_event(record.event_name, body, agent)
        elif attributes.get(names.OPERATION) == names.INVOKE:
            yield from self._seen_by_agent(attributes)
        else:
            yield from self.model_call(attributes)

    def model_call(self, attributes: Mapping[str, Value]) -> Iterator[Observation]:
        """Read a model call with what it was given and what it wrote."""
        agent = values.as_str(attributes.get(names.AGENT))
        yield ModelCall(agent=agent, stopped_for_tools=content.stopped_for_tools(attributes))
        yield from self._content(attributes, agent)

    def offered(self, value: Value) -> Iterator[ToolsOffered]:
        """Read the tools on offer; nothing is yielded when there are none."""
        if value is not None and (found := self._definitions.read(value)):
            yield ToolsOffered(tools=found)

    def _content(self, attributes: Mapping[str, Value], agent: str | None) -> Iterator[Observation]:
        yield from self.offered(attributes.get(names.DEFINITIONS))
        yield from self._instructions.read(attributes.get(names.SYSTEM))
        received = attributes.get(names.INPUT)
        if received is not None:
            yield from content.received(read_messages(received, "user"))
        written = attributes.get(names.OUTPUT)
        if written is not None:
            yield from content.written(read_messages(written, "assistant"), agent)

    def _seen_by_agent(self, attributes: Mapping[str, Value]) -> Iterator[Observation]:
        """Read an agent's messages for their text: the calls among them repeat what its model calls say."""
        yield from self.offered(attributes.get(names.DEFINITIONS))
        yield from self._instructions.read(attributes.get(names.SYSTEM))
        received = attributes.get(names.INPUT)
        if received is not None:
            yield from content.newest_user_text(read_messages(received, "user"))
        written = attributes.get(names.OUTPUT)
        if written is not None:
            yield from content.written_text(read_messages(written, "assistant"))

    def _model_event(self, event: SpanEvent, attributes: Mapping[str, Value]) -> Iterator[Observation]:
        """Read an event on a model span, unless the span's own attributes have the content."""
        if names.INPUT in attributes or names.OUTPUT in attributes:
            return
        agent = values.as_str(attributes.get(names.AGENT))
        if event.name == names.DETAILS:
            yield from self._content(event.attributes, agent)
        elif event.name == names.CONTENT_PROMPT:
            yield from content.received(read_messages(event.attributes.get("gen_ai.prompt"), "user"))
        elif event.name == names.CONTENT_COMPLETION:
            found = read_messages(event.attributes.get("gen_ai.completion"), "assistant")
            yield from content.written(found, agent)
        elif event.name in names.MESSAGE_EVENTS:
            body = event.attributes.get(names.EVENT_BODY)
            yield from content.message_event(event.name, event.attributes if body is None else body, agent)


def _executed(span: Span, prefix: str, protocol: Literal["mcp"] | None) -> Iterator[Observation]:
    call = tools.executed(span, prefix, protocol)
    if call is not None:
        yield call
