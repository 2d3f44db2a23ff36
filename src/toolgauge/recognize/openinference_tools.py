"""Reads tool spans: the call's arguments, its result, its id and whether it failed.

Arrives: a span that is the execution of a tool. Each instrumentation wraps `input.value` and `output.value` in its
own envelope; they are opened here, one function an envelope, chosen by instrumentation. Opening an envelope that the
instrumentation does not use would change what a user's tool was really called with.
"""

from collections.abc import Callable, Iterator, Mapping

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import OTHER_ERROR, CallAnswered, CallError, CallRequested
from toolgauge.model.records import Span
from toolgauge.recognize import values
from toolgauge.recognize.conventions import pause
from toolgauge.recognize.definitions import PARAMETERS, is_schema
from toolgauge.recognize.langchain import Answer, is_control_flow, tool_answer

INPUT = "input.value"
# On spans of the AI SDK.
AI_SDK = "ai.operationId"
OUTPUT = "output.value"
SYNTHESIZED = "tool.synthesized"
_HISTORY = "automatic_function_calling_history"


def call_arguments(span: Span, instrumentation: str) -> Content:
    """Read the arguments that the tool was called with."""
    value = span.attributes.get(INPUT)
    if value is None:
        # Read `tool.parameters`, which some producers fill with the arguments and others with their schema.
        read = values.arguments(span.attributes.get(PARAMETERS))
        if not isinstance(read, Recorded):
            return NOT_RECORDED
        return NOT_RECORDED if is_schema(values.as_object(read.value)) else read
    envelope = _ARGUMENTS.get(instrumentation)
    read = values.arguments_beside(value, span.attributes.get(OUTPUT))
    return read if envelope is None else envelope(read, span)


def call_answer(span: Span, instrumentation: str) -> Answer:
    """Read the result and what it hides: the call's id, the failure behind status OK."""
    value = span.attributes.get(OUTPUT)
    answer = Answer() if value is None else _ANSWERS.get(instrumentation, _plain_answer)(value)
    error = span_error(span)
    if error is None:
        return answer
    return Answer(result=answer.result, call_id=answer.call_id, error=error)


def span_error(span: Span) -> CallError | None:
    """Read the failure from status and exception event; an exception event alone proves nothing, unless it is a pause."""
    if span.status != "error" or _has_status_of_another(span):
        return pause(span) if span.events else None
    kind, message = OTHER_ERROR, span.status_message
    for event in span.events:
        if event.name == "exception":
            kind = _text(event.attributes.get("exception.type")) or kind
            message = _text(event.attributes.get("exception.message")) or message
    if is_control_flow(kind):
        return None
    return CallError(kind=kind, message=message)


def _has_status_of_another(span: Span) -> bool:
    """Return whether the AI SDK's processor copied the status of an earlier call: that one has the exception event."""
    attributes = span.attributes
    if AI_SDK not in attributes or OUTPUT not in attributes or attributes[OUTPUT] == span.status_message:
        return False
    return not any(event.name == "exception" for event in span.events)


def is_synthesized(span: Span) -> bool:
    """Return whether UiPath made the span up for a tool that was not called."""
    value = span.attributes.get(SYNTHESIZED)
    return value is True or (isinstance(value, str) and value.lower() == "true")


def _text(value: Value) -> str:
    return value if isinstance(value, str) else ""


# --- arguments


def _keyword_envelope(read: Content, span: Span) -> Content:
    """Open `{"args": [...], "kwargs": {...}}`; names of positional arguments come from the schema."""
    if not isinstance(read, Recorded):
        return read
    envelope = values.as_object(read.value)
    if not isinstance(envelope.get("kwargs"), dict) and not isinstance(envelope.get("args"), list):
        return read
    named = dict(values.as_object(envelope.get("kwargs")))
    positional = values.as_list(envelope.get("args"))
    if not positional:
        return Recorded(named)
    names = [name for name in _parameter_names(span) if name not in named]
    if len(names) < len(positional):
        return Unparsed(_text(span.attributes.get(INPUT)))
    return Recorded(dict(zip(names, positional, strict=False)) | named)


def _input_envelope(read: Content, _span: Span) -> Content:
    """Open `{"input": {...}, "options": ...}`."""
    envelope = values.as_object(read.value) if isinstance(read, Recorded) else {}
    if "options" not in envelope or not isinstance(envelope.get("input"), dict):
        return read
    return Recorded(envelope["input"])


def _parameter_names(span: Span) -> list[str]:
    schema = values.as_object(values.decoded(span.attributes.get(PARAMETERS)))
    properties = schema.get("properties")
    return list(properties if isinstance(properties, dict) else schema)


_ARGUMENTS: Mapping[str, Callable[[Content, Span], Content]] = {
    "beeai": _input_envelope,
    "dspy": _keyword_envelope,
    "llama_index": _keyword_envelope,
    "smolagents": _keyword_envelope,
}


# --- results


def _plain_answer(value: Value) -> Answer:
    return Answer(result=values.result(value))


def _llama_index_answer(value: Value) -> Answer:
    """Open the tool output; `raw_output` is the value itself, the other members are its Python repr."""
    opened = values.as_object(values.decoded(value))
    if "tool_name" not in opened or "raw_input" not in opened:
        return _plain_answer(value)
    if "raw_output" in opened:
        raw = opened["raw_output"]
        recorded = values.returned(raw)
    else:
        recorded = values.result(values.as_str(opened.get("content")) or _blocks_text(opened.get("blocks")))
    if opened.get("is_error") is not True:
        return Answer(result=recorded)
    message = values.as_str(opened.get("content")) or _blocks_text(opened.get("blocks")) or _shown(recorded)
    return Answer(result=recorded, error=CallError(kind=OTHER_ERROR, message=message))


def _blocks_text(blocks: Json) -> str | None:
    texts = [values.as_str(values.as_object(block).get("text")) for block in values.as_list(blocks)]
    return "\n".join(text for text in texts if text) or None


def _shown(recorded: Content) -> str:
    return recorded.value if isinstance(recorded, Recorded) and isinstance(recorded.value, str) else ""


def _autogen_answer(value: Value) -> Answer:
    """Read the text that the model got; a failed call shows only there, behind status OK."""
    recorded = values.result(value)
    if isinstance(value, str) and value.startswith("Error:"):
        return Answer(result=recorded, error=CallError(kind=OTHER_ERROR, message=value))
    return Answer(result=recorded)


def _google_adk_answer(value: Value) -> Answer:
    """Open the function response `{"id": .., "name": .., "response": {..}}`."""
    opened = values.as_object(values.decoded(value))
    response = opened.get("response")
    if not isinstance(response, dict) or "name" not in opened:
        return _plain_answer(value)
    # The framework wraps whatever is not an object.
    recorded = response["result"] if list(response) == ["result"] else response
    return Answer(result=values.returned(recorded), call_id=values.as_str(opened.get("id")))


_ANSWERS: Mapping[str, Callable[[Value], Answer]] = {
    "langchain": tool_answer,
    "llama_index": _llama_index_answer,
    "autogen": _autogen_answer,
    "autogen_agentchat": _autogen_answer,
    "google_adk": _google_adk_answer,
}


# Reads the calls that Google's SDK made by itself between two requests of one span.
#
# Arrives: `output.value` with `automatic_function_calling_history`. Leaves: the requests, by output, and their answers.
# The span's own output is only the text after all of them, so that without this the calls would not be seen.


def made_by_itself(raw: Value) -> Iterator[CallRequested | CallAnswered]:
    """Yield the calls since the newest user's text, and what came of them."""
    if not isinstance(raw, str) or _HISTORY not in raw:
        return
    read = values.parse_text(raw)
    history = values.as_list(values.as_object(read.value).get(_HISTORY)) if isinstance(read, Recorded) else []
    position = 0
    for output, written in enumerate(_since_user(history)):
        for part in _parts(written):
            call = values.as_object(part.get("function_call"))
            if name := values.as_str(call.get("name")):
                yield _request(call, name, position=position, output=output)
                position += 1
            elif recorded := values.as_object(part.get("function_response")):
                yield _answer(recorded)


def _since_user(history: list[Json]) -> list[Json]:
    for place in range(len(history) - 1, -1, -1):
        if values.as_object(history[place]).get("role") == "user" and any(
            "text" in part for part in _parts(history[place])
        ):
            return history[place + 1 :]
    return history


def _parts(content: Json) -> list[JsonObject]:
    return [values.as_object(part) for part in values.as_list(values.as_object(content).get("parts"))]


def _request(call: JsonObject, name: str, *, position: int, output: int) -> CallRequested:
    given = call.get("args")
    return CallRequested(
        position=position,
        name=name,
        call_id=values.as_str(call.get("id")),
        arguments=Recorded({}) if given is None else values.arguments(given),
        output=output,
    )


def _answer(recorded: JsonObject) -> CallAnswered:
    response = values.as_object(recorded.get("response"))
    # The SDK wraps whatever a function returns, and what it raises.
    returned = response["result"] if list(response) == ["result"] else response
    failed = response["error"] if list(response) == ["error"] else None
    return CallAnswered(
        call_id=values.as_str(recorded.get("id")),
        name=values.as_str(recorded.get("name")),
        result=values.returned(returned),
        error=CallError(kind=OTHER_ERROR, message=failed) if isinstance(failed, str) else None,
    )
