"""Reads tool spans: the call's arguments, its result, its id and whether it failed.

Each instrumentation wraps `input.value` and `output.value` in an envelope of its own, with one function here. Opening
another's envelope would change the recorded arguments of a user's tool.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import OTHER_ERROR, CallAnswered, CallError, CallRequested
from toolgauge.model.records import Span
from toolgauge.recognize import values
from toolgauge.recognize.conventions import own_message, pause
from toolgauge.recognize.definitions import PARAMETERS, is_schema
from toolgauge.recognize.langchain import Answer, is_control_flow, llamaindex_answer, tool_answer
from toolgauge.recognize.openinference_messages import google_calls

INPUT = "input.value"
# On spans of the AI SDK up to 6, and the tracer of 7.
AI_SDK, _AI_SDK_SCOPE = "ai.operationId", "gen_ai"
OUTPUT = "output.value"
SYNTHESIZED = "tool.synthesized"
# Instrumentations that wrap arguments in `args` and `kwargs`.
_KEYWORDS = ("dspy", "llama_index", "smolagents")
_HISTORY = "automatic_function_calling_history"
_AG2 = "ag2"
_PAIR = 2
_AG2_ARGUMENTS = "tool_call.function.arguments"


def call_arguments(span: Span, instrumentation: str) -> Content:
    """Read the arguments that the tool was called with."""
    value = span.attributes.get(INPUT)
    if instrumentation == _AG2:
        value = span.attributes.get(_AG2_ARGUMENTS, value)
    if value is None:
        # Some producers fill `tool.parameters` with the arguments and others with their schema.
        read = values.arguments(span.attributes.get(PARAMETERS))
        is_known = isinstance(read, Recorded) and not is_schema(values.as_object(read.value))
        return read if is_known else NOT_RECORDED
    read = values.arguments_beside(value, span.attributes.get(OUTPUT))
    envelope = values.as_object(read.value) if isinstance(read, Recorded) else {}
    if instrumentation == "beeai" and "options" in envelope and isinstance(envelope.get("input"), dict):
        return Recorded(envelope["input"])
    if instrumentation in _KEYWORDS and (
        isinstance(envelope.get("kwargs"), dict) or isinstance(envelope.get("args"), list)
    ):
        # Open `{"args": [...], "kwargs": {...}}`; names of positional arguments come from the schema.
        named = dict(values.as_object(envelope.get("kwargs")))
        positional = values.as_list(envelope.get("args"))
        if not positional:
            return Recorded(named)
        schema = values.decoded_object(span.attributes.get(PARAMETERS))
        properties = schema.get("properties")
        names = [name for name in (properties if isinstance(properties, dict) else schema) if name not in named]
        if len(names) < len(positional):
            return Unparsed(values.text_of(values.plain(span.attributes.get(INPUT))))
        return Recorded(dict(zip(names, positional, strict=False)) | named)
    return read


def call_answer(span: Span, instrumentation: str) -> Answer:
    """Read the result and what it hides: the call's id, the failure behind status OK."""
    value = span.attributes.get(OUTPUT)
    answer = Answer() if value is None else _answer(value, instrumentation)
    error = span_error(span)
    if instrumentation == _AG2 and answer.error is not None:
        return answer
    return answer if error is None else Answer(result=answer.result, call_id=answer.call_id, error=error)


def _answer(value: Value, instrumentation: str) -> Answer:
    """Open the envelope of an instrumentation; any other value is the result."""
    if instrumentation == "langchain":
        return tool_answer(value)
    if instrumentation == "llama_index":
        opened = values.decoded_object(value)
        if "tool_name" in opened and "raw_input" in opened:
            answer = llamaindex_answer(opened)
            # `null` is the result itself; other producers leave a missing one out as `null`.
            is_null = "raw_output" in opened and opened["raw_output"] is None
            return replace(answer, result=Recorded(None)) if is_null else answer
    elif instrumentation == "google_adk":
        opened = values.decoded_object(value)
        response = opened.get("response")
        if isinstance(response, dict) and "name" in opened:
            # The framework wraps whatever is not an object.
            returned = response["result"] if list(response) == ["result"] else response
            return Answer(result=values.returned(returned), call_id=values.as_str(opened.get("id")))
    elif instrumentation == _AG2:
        # Whether the call succeeded, and the message that the model got.
        pair = values.as_list(values.decoded(value))
        message = values.as_object(pair[1]) if len(pair) == _PAIR else {}
        if isinstance(pair[0] if message else None, bool) and "content" in message:
            result = values.result_inside(message["content"])
            failed = (
                CallError(kind=OTHER_ERROR, message=values.text_of(message["content"])) if pair[0] is False else None
            )
            return Answer(result=result, error=failed)
    elif instrumentation in ("autogen", "autogen_agentchat") and isinstance(value, str) and value.startswith("Error:"):
        # The text that the model got: a failed call shows only there, behind status OK.
        return Answer(result=values.result(value), error=CallError(kind=OTHER_ERROR, message=value))
    return Answer(result=values.result(value))


def span_error(span: Span) -> CallError | None:
    """Read the failure from status and exception event; an exception event alone proves nothing, unless it is a pause."""
    if span.status != "error":
        return pause(span) if span.events else None
    attributes = span.attributes
    raised = [event.attributes for event in span.events if event.name == "exception"]
    # The AI SDK's processor may copy the status of an earlier call: that one has the exception event.
    is_ai_sdk = AI_SDK in attributes or span.scope.name == _AI_SDK_SCOPE
    if is_ai_sdk and not raised and OUTPUT in attributes and attributes[OUTPUT] != span.status_message:
        return None
    kind, message = OTHER_ERROR, span.status_message
    for exception in raised:
        kind = values.as_str(exception.get("exception.type")) or kind
        message = values.as_str(exception.get("exception.message")) or message
    return None if is_control_flow(kind) else CallError(kind=kind, message=own_message(message))


def is_synthesized(span: Span) -> bool:
    """Return whether UiPath made the span up for a tool that was not called."""
    value = span.attributes.get(SYNTHESIZED)
    return value is True or (isinstance(value, str) and value.lower() == "true")


# The span's own output is only the text after the calls that Google's SDK made by itself.
def made_by_itself(raw: Value) -> Iterator[CallRequested | CallAnswered]:
    """Yield the calls since the newest user's text, and what came of them."""
    if not isinstance(raw, str) or _HISTORY not in raw:
        return
    history = values.as_list(values.decoded_object(raw).get(_HISTORY))
    newest = 0
    for place, written in enumerate(history):
        if values.as_object(written).get("role") == "user" and any("text" in part for part in _parts(written)):
            newest = place + 1
    position = 0
    for output, written in enumerate(history[newest:]):
        for call in google_calls(written):
            yield replace(call, position=position, output=output)
            position += 1
        for part in _parts(written):
            if recorded := values.as_object(part.get("function_response")):
                response = values.as_object(recorded.get("response"))
                # The SDK wraps whatever a function returns, and what it raises.
                failed = response["error"] if list(response) == ["error"] else None
                yield CallAnswered(
                    call_id=values.as_str(recorded.get("id")),
                    name=values.as_str(recorded.get("name")),
                    result=values.returned(response["result"] if list(response) == ["result"] else response),
                    error=CallError(kind=OTHER_ERROR, message=failed) if isinstance(failed, str) else None,
                )


def google_answer(answer: CallAnswered) -> CallAnswered:
    """Open the object that Google's API wants around whatever a function returned."""
    match answer.result:
        case Recorded({"result": value, **rest} | {"output": value, **rest}) if not rest:
            return replace(answer, result=values.returned(value))
        case _:
            return answer


def _parts(content: Json) -> list[JsonObject]:
    return [values.as_object(part) for part in values.as_list(values.as_object(content).get("parts"))]
