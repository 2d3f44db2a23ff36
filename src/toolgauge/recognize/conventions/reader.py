"""Reads records that follow the conventions, for every dialect whose producer does so in part.

Arrives: a span or log record that a dialect has claimed. Leaves: its observations. Attributes may hold JSON text or
structured values, and content may be on the span, on a span event or only on a log record that names the span.
Content that is missing stays `NOT_RECORDED`: half of all producers send none.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from toolgauge.model.json import Value
from toolgauge.model.observations import AgentRun, ModelCall, Observation, ToolsOffered
from toolgauge.model.records import LogRecord, Record, Span, SpanEvent
from toolgauge.recognize import values
from toolgauge.recognize.conventions import content, litellm, names, tools
from toolgauge.recognize.conventions.history import HistoryReader
from toolgauge.recognize.messages import DefinitionReader, read_messages


class ConventionsReader:
    """Remembers nothing of records but what comes again with each model call: tools on offer, instructions, histories.

    Where it is told `whose` a record is, the conversation's or the trace's id, it reads of a history what is new in it.
    """

    def __init__(self) -> None:
        self._definitions = DefinitionReader()
        self._histories = HistoryReader()
        self._instructions = content.InstructionsReader()

    def read(self, record: Record) -> list[Observation]:
        """Read one span or log record."""
        told = content.conversation(record.attributes)
        whose = told[0].conversation_id if told else _trace(record)
        seen: list[Observation] = [*told]
        seen += self._log(record, whose) if isinstance(record, LogRecord) else self._span(record, whose)
        return seen

    def read_span(self, span: Span) -> Iterable[Observation]:
        """Read a span, all but its conversation id."""
        return self._span(span, span.ref.trace_id)

    def read_log(self, record: LogRecord) -> Iterable[Observation]:
        """Read a log record, all but its conversation id."""
        return self._log(record, _trace(record))

    def model_call(self, attributes: Mapping[str, Value], whose: str | None = None) -> list[Observation]:
        """Read a model call with what it was given and what it wrote."""
        agent = values.as_str(attributes.get(names.AGENT))
        call = ModelCall(agent=agent, stopped_for_tools=content.stopped_for_tools(attributes))
        return [call, *self._content(attributes, agent, whose)]

    def offered(self, value: Value) -> Iterable[ToolsOffered]:
        """Read the tools on offer; nothing when there are none."""
        found = self._definitions.read(value) if value is not None else ()
        return (ToolsOffered(tools=found),) if found else ()

    def _span(self, span: Span, whose: str | None) -> Iterable[Observation]:
        attributes = span.attributes
        operation = values.as_str(attributes.get(names.OPERATION))
        method = attributes.get(names.MCP_METHOD)
        if method is not None:
            return _executed(span, names.TOOLS_CALL, "mcp") if method == names.TOOLS_CALL else ()
        if operation == names.EXECUTE or (operation is None and span.name.startswith(names.EXECUTE + " ")):
            return _executed(span, names.EXECUTE, None)
        if operation == names.INVOKE:
            run = AgentRun(agent=values.as_str(attributes.get(names.AGENT)))
            return [run, *self._seen_by_agent(attributes)]
        if litellm.is_raw(span):
            return [*self.offered(litellm.raw_tools(span)), *litellm.raw_request(span)]
        return self._model_span(span, whose) if operation in names.MODEL_OPERATIONS else ()

    def _log(self, record: LogRecord, whose: str | None) -> Iterable[Observation]:
        attributes = record.attributes
        if record.event_name != names.DETAILS:
            body = record.body if record.body is not None else attributes.get(names.EVENT_BODY)
            agent = values.as_str(attributes.get(names.AGENT))
            return content.message_event(record.event_name, body, agent)
        if attributes.get(names.OPERATION) == names.INVOKE:
            return self._seen_by_agent(attributes)
        return self.model_call(attributes, whose)

    def _model_span(self, span: Span, whose: str | None) -> list[Observation]:
        attributes = span.attributes
        seen = self.model_call(attributes, whose)
        seen += litellm.flat_calls(attributes)
        # The span's own attributes tell the content once more where they have it.
        if span.events and names.INPUT not in attributes and names.OUTPUT not in attributes:
            for event in span.events:
                seen += self._model_event(event, attributes, whose)
        return seen

    def _content(self, attributes: Mapping[str, Value], agent: str | None, whose: str | None) -> list[Observation]:
        seen: list[Observation] = [*self.offered(attributes.get(names.DEFINITIONS))]
        seen += self._instructions.read(attributes.get(names.SYSTEM))
        received = attributes.get(names.INPUT)
        if received is not None:
            seen += self._histories.received(received, (whose, agent))
        written = attributes.get(names.OUTPUT)
        if written is not None:
            seen += content.written(read_messages(written, "assistant"), agent)
        return seen

    def _seen_by_agent(self, attributes: Mapping[str, Value]) -> list[Observation]:
        """Read an agent's messages for their text: the calls among them repeat what its model calls say."""
        seen: list[Observation] = [*self.offered(attributes.get(names.DEFINITIONS))]
        seen += self._instructions.read(attributes.get(names.SYSTEM))
        received = attributes.get(names.INPUT)
        if received is not None:
            seen += content.newest_user_text(read_messages(received, "user"))
        written = attributes.get(names.OUTPUT)
        if written is not None:
            seen += content.written_text(read_messages(written, "assistant"))
        return seen

    def _model_event(
        self, event: SpanEvent, attributes: Mapping[str, Value], whose: str | None
    ) -> Iterable[Observation]:
        agent = values.as_str(attributes.get(names.AGENT))
        if event.name == names.DETAILS:
            return self._content(event.attributes, agent, whose)
        if event.name == names.CONTENT_PROMPT:
            return content.received(read_messages(event.attributes.get("gen_ai.prompt"), "user"))
        if event.name == names.CONTENT_COMPLETION:
            found = read_messages(event.attributes.get("gen_ai.completion"), "assistant")
            return content.written(found, agent)
        if event.name in names.MESSAGE_EVENTS:
            body = event.attributes.get(names.EVENT_BODY)
            return content.message_event(event.name, event.attributes if body is None else body, agent)
        return ()


def _trace(record: Record) -> str | None:
    return record.ref.trace_id if record.ref is not None else None


def _executed(span: Span, prefix: str, protocol: Literal["mcp"] | None) -> Iterable[Observation]:
    call = tools.executed(span, prefix, protocol)
    return () if call is None else (call,)
