"""Pydantic AI before its formats 3 and later, which follow the conventions.

Format 2 has own keys on tool spans; format 1 has events as JSON in one attribute; the oldest releases name no operation.
"""

import re
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from toolgauge.model.content import Recorded
from toolgauge.model.json import JsonObject, Value
from toolgauge.model.observations import (
    INVALID_ARGUMENTS,
    OTHER_ERROR,
    PAUSED,
    AgentRun,
    CallAnswered,
    CallError,
    Observation,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import Record, Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.dialect import PlainDialect, ToolFields
from toolgauge.recognize.messages import AnyMessage

_SCOPE = "pydantic-ai"
_ARGUMENTS = "tool_arguments"
_RESULT = "tool_response"
_EVENTS = "events"
_TOOL = ToolFields(arguments=(conventions.ARGUMENTS, _ARGUMENTS), result=(conventions.RESULT, _RESULT))
# Why a call waits: `ApprovalRequired` or `CallDeferred`.
_DEFERRAL = "pydantic_ai.tool.deferral.name"
# On the run: its output, which lists the calls that wait where the run stopped for them.
_FINAL = "final_result"
_WAITING = ("approvals", "calls")
_OFFER = "model_request_parameters"
_FUNCTION_TOOLS = "function_tools"
_AGENT = "agent_name"
_AGENT_SPAN = "agent run"
_TOOL_SPAN = "running tool"
_MAX_EVENTS = 10_000
_REPAIR = "\n\nFix the errors and try again."
_VALIDATED = re.compile(r"\d{1,6} validation errors?: \[")


class PydanticAI(PlainDialect):
    """Reads the formats that the conventions do not cover; spans of later formats are left to the conventions."""

    name = "pydantic_ai"
    rank = 84
    marks: tuple[str, ...] = ()
    scopes = (_SCOPE,)
    grounds = Grounds(scopes=(_SCOPE,))

    def claims(self, record: Record) -> bool:
        """Claim spans that the conventions cannot read, or not in full."""
        if record.scope.name != _SCOPE:
            return False
        if not isinstance(record, Span):
            return record.event_name == conventions.TOOL_MESSAGE
        attributes = record.attributes
        if any(key in attributes for key in (_ARGUMENTS, _RESULT, _EVENTS, _DEFERRAL)):
            return True
        if _lists_waiting(attributes.get(_FINAL)):
            return True
        if conventions.OPERATION not in attributes:
            return record.name in (_AGENT_SPAN, _TOOL_SPAN)
        return _OFFER in attributes and conventions.DEFINITIONS not in attributes

    def read(self, record: Record) -> Iterator[Observation]:
        """Read one span."""
        attributes = record.attributes
        yield from conventions.conversation(attributes)
        if not isinstance(record, Span):
            yield from map(_with_refusal, self._conventions.read_log(record))
            return
        operation = attributes.get(conventions.OPERATION)
        if operation == conventions.EXECUTE or (operation is None and record.name == _TOOL_SPAN):
            call = _TOOL.read(record, agent=values.as_str(attributes.get(conventions.AGENT)))
            if call is not None:
                is_deferred = values.as_str(attributes.get(_DEFERRAL)) is not None
                yield replace(call, error=CallError(kind=PAUSED, message="")) if is_deferred else call
        elif operation is None and record.name == _AGENT_SPAN:
            yield AgentRun(
                agent=values.as_str(attributes.get(conventions.AGENT)) or values.as_str(attributes.get(_AGENT))
            )
        else:
            yield from self._conventions.read_span(record)
            if operation in conventions.MODEL_OPERATIONS:
                # Keys of its own where a model's span lacks those of the conventions.
                if conventions.DEFINITIONS not in attributes:
                    offer = values.as_object(values.decoded(attributes.get(_OFFER)))
                    yield from self._conventions.offered(offer.get(_FUNCTION_TOOLS))
                if conventions.INPUT not in attributes and conventions.OUTPUT not in attributes:
                    agent = values.as_str(attributes.get(conventions.AGENT))
                    for event in _events(attributes):
                        name = values.as_str(event.get("event.name")) or ""
                        yield from map(_with_refusal, conventions.message_event(name, event, agent))
            elif _lists_waiting(attributes.get(_FINAL)):
                # Calls for which the run stopped: a person has to approve them, or they are carried out elsewhere.
                requests = values.as_object(values.decoded(attributes.get(_FINAL)))
                waiting = [item for key in _WAITING for item in values.as_list(requests.get(key))[:_MAX_EVENTS]]
                for call in map(values.as_object, waiting):
                    call_id, name = values.as_str(call.get("tool_call_id")), values.as_str(call.get("tool_name"))
                    if call_id is not None:
                        yield CallAnswered(call_id=call_id, name=name, error=CallError(kind=PAUSED, message=""))

    def _given(self, span: Span) -> list[AnyMessage] | None:
        if conventions.INPUT in span.attributes or span.events:
            return None
        return [
            message
            for event in _events(span.attributes)
            if (role := conventions.HISTORY_EVENTS.get(values.as_str(event.get("event.name")) or "")) is not None
            for message in conventions.event_messages(event, role)
        ]


def _lists_waiting(final: Value) -> bool:
    return isinstance(final, str) and '"approvals"' in final and '"tool_call_id"' in final


def _events(attributes: Mapping[str, Value]) -> list[JsonObject]:
    read = values.content(attributes.get(_EVENTS))
    recorded = values.as_list(read.value)[-_MAX_EVENTS:] if isinstance(read, Recorded) else []
    return [values.as_object(event) for event in recorded]


def _with_refusal(seen: Observation) -> Observation:
    """Read the failure that the model is asked to repair: the span of the tool does not record it."""
    if not isinstance(seen, CallAnswered) or seen.error is not None:
        return seen
    returned = values.text_of(seen.result)
    if not returned.endswith(_REPAIR):
        return seen
    kind = INVALID_ARGUMENTS if _VALIDATED.match(returned) else OTHER_ERROR
    return replace(seen, error=CallError(kind=kind, message=returned))
