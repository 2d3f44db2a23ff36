"""Reads the Gemini CLI's traces (its setting `telemetry.traces`): model calls, and the tool calls that it schedules.

Each model call and each batch of tool calls is a trace of its own, so a call is read from its batch alone: the model's
output would count it twice. A refused call has no span; the batch says why.
"""

from collections.abc import Iterator

from toolgauge.model.content import NOT_RECORDED
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import (
    INVALID_ARGUMENTS,
    OTHER_ERROR,
    UNKNOWN_TOOL,
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    Observation,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.conventions import model_call
from toolgauge.recognize.dialect import PlainDialect
from toolgauge.recognize.messages import read_messages

_SCOPE = "gemini-cli"
_MODEL, _BATCH, _TOOL = "llm_call", "schedule_tool_calls", "tool_call"
_KINDS = {"tool_not_registered": UNKNOWN_TOOL, "invalid_tool_params": INVALID_ARGUMENTS}
_MAX_CALLS = 1_000


class GeminiCli(PlainDialect):
    """Reads spans of the Gemini CLI."""

    name = "gemini_cli"
    rank = 88
    marks = ("gen_ai.",)
    grounds = Grounds(scopes=(_SCOPE,))
    needs = (conventions.OPERATION,)

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        yield from conventions.conversation(attributes)
        operation = attributes.get(conventions.OPERATION)
        if operation == _MODEL:
            yield model_call(attributes, values.as_str(attributes.get(conventions.AGENT)))
            yield from conventions.system(attributes.get(conventions.SYSTEM))
            yield from conventions.newest_user_text(read_messages(attributes.get(conventions.INPUT), "user"))
            yield from conventions.written_text(read_messages(attributes.get(conventions.OUTPUT), "assistant"))
            yield from self._conventions.offered(attributes.get(conventions.DEFINITIONS))
        elif operation == _BATCH:
            # The calls of one batch: as completed, or as they were scheduled where nothing else is recorded.
            agent = values.as_str(attributes.get(conventions.AGENT))
            completed = values.as_list(values.opened(attributes.get(conventions.OUTPUT)))
            scheduled: list[Json] = [
                {"request": one} for one in values.as_list(values.opened(attributes.get(conventions.INPUT)))
            ]
            for position, item in enumerate((completed or scheduled)[:_MAX_CALLS]):
                call = values.as_object(item)
                request = values.as_object(call.get("request"))
                name, call_id = values.as_str(request.get("name")), values.identifier(request.get("callId"))
                if name is None:
                    continue
                yield CallRequested(
                    position=position,
                    name=name,
                    call_id=call_id,
                    arguments=values.arguments_inside(request.get("args")),
                    agent=agent,
                )
                if error := _error(call):
                    yield CallAnswered(call_id=call_id, name=name, error=error)
        elif operation == _TOOL:
            name = values.as_str(attributes.get(conventions.TOOL_NAME))
            if name is not None:
                call = values.as_object(values.opened(attributes.get(conventions.OUTPUT)))
                request = values.as_object(values.opened(attributes.get(conventions.INPUT)))
                answer = _answer(call)
                yield CallExecuted(
                    name=name,
                    call_id=values.identifier(attributes.get("gen_ai.tool.call_id")),
                    arguments=values.arguments_inside(request.get("args")),
                    result=values.result(answer["output"]) if isinstance(answer.get("output"), str) else NOT_RECORDED,
                    error=_error(call) or conventions.call_error(span),
                    agent=values.as_str(attributes.get(conventions.AGENT)),
                )


def _answer(call: JsonObject) -> JsonObject:
    """Return what the model gets: the first function response of a completed call."""
    for part in values.as_list(values.as_object(call.get("response")).get("responseParts")):
        if "functionResponse" in values.as_object(part):
            return values.as_object(values.as_object(values.as_object(part)["functionResponse"]).get("response"))
    return {}


def _error(call: JsonObject) -> CallError | None:
    if call.get("status") not in ("error", "cancelled"):
        return None
    kind = values.as_str(values.as_object(call.get("response")).get("errorType")) or OTHER_ERROR
    return CallError(kind=_KINDS.get(kind, kind), message=values.as_str(_answer(call).get("error")) or "")
