"""Reads UiPath: spans that have a tool's name and input but no span kind, or UiPath's own `span_type`."""

from collections.abc import Iterator

from toolgauge.model.observations import AgentRun, CallExecuted, MessageSeen, Observation
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.dialect import PlainDialect
from toolgauge.recognize.langchain import tool_answer
from toolgauge.recognize.openinference_tools import INPUT, OUTPUT, call_arguments, is_synthesized, span_error

TOOL_NAME = "tool.name"
SPAN_TYPE = "span_type"
_OPENINFERENCE_KIND = "openinference.span.kind"

_SCOPE = "uipath."
_TOOL_ID = "tool.id"
_CALL_IDS = (_TOOL_ID, "tool_call.id")


class UiPath(PlainDialect):
    """What UiPath's evaluators take for a tool call; asked last, as any producer may have a `tool.name`."""

    name = "uipath"
    rank = 95
    marks = (TOOL_NAME,)
    scopes = (_SCOPE,)
    grounds = Grounds(keys=(TOOL_NAME,), scopes=(_SCOPE,))

    def claims(self, record: Record) -> bool:
        """Claim spans with a tool's name and no span kind, and UiPath's own."""
        if isinstance(record, LogRecord):
            return False
        attributes = record.attributes
        if TOOL_NAME in attributes and _OPENINFERENCE_KIND not in attributes:
            # A shop for tools and a build write the name, too.
            return INPUT in attributes or (
                conventions.ORDINARY.isdisjoint(attributes) and conventions.TRANSPORT.isdisjoint(attributes)
            )
        return SPAN_TYPE in attributes and record.scope.name.startswith(_SCOPE)

    def _read(self, span: Span) -> Iterator[Observation]:
        yield from conventions.conversation(span.attributes)
        kind = (values.as_str(span.attributes.get(SPAN_TYPE)) or "").upper()
        if TOOL_NAME in span.attributes or kind == "TOOL":
            yield from _tool(span)
        elif kind == "AGENT":
            yield AgentRun(agent=span.name)
            text = values.as_str(span.attributes.get(INPUT))
            # A function's arguments are no text of a user.
            if text is not None and not text.startswith(("{", "[", '"')):
                yield MessageSeen(role="user", text=text)


def _tool(span: Span) -> Iterator[Observation]:
    attributes = span.attributes
    name = values.as_str(attributes.get(TOOL_NAME)) or (span.name if SPAN_TYPE in attributes else "")
    if not name or is_synthesized(span):
        return
    answer = tool_answer(attributes.get(OUTPUT))
    # UiPath's own spans name the tool with it, others that write as it does name the call.
    tool_id = values.identifier(attributes.get(_TOOL_ID)) if span.scope.name.startswith(_SCOPE) else None
    keys = _CALL_IDS if tool_id is None else _CALL_IDS[1:]
    call_id = next((found for key in keys if (found := values.identifier(attributes.get(key)))), None)
    yield CallExecuted(
        name=name,
        call_id=call_id or answer.call_id,
        arguments=call_arguments(span, ""),
        result=answer.result,
        error=span_error(span) or answer.error,
        tool_id=tool_id,
    )
