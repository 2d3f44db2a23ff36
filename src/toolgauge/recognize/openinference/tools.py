"""Reads tool spans: the call's arguments, its result, its id and whether it failed.

Arrives: a span that is the execution of a tool. Each instrumentation wraps `input.value` and `output.value` in its
own envelope; they are opened here, one function an envelope, chosen by instrumentation. Opening an envelope that the
instrumentation does not use would change what a user's tool was really called with.
"""

from collections.abc import Callable, Mapping

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import CallError
from toolgauge.model.records import Span
from toolgauge.recognize.langchain.answers import OTHER_ERROR, Answer, is_control_flow, tool_answer
from toolgauge.recognize.values import arguments, as_list, as_object, as_str, content, result

INPUT = "input.value"
OUTPUT = "output.value"
PARAMETERS = "tool.parameters"
SYNTHESIZED = "tool.synthesized"


def call_arguments(span: Span, instrumentation: str) -> Content:
    """Read the arguments that the tool was called with."""
    value = span.attributes.get(INPUT)
    if value is None:
        return _parameters(span.attributes.get(PARAMETERS))
    opened = _ARGUMENTS.get(instrumentation)
    read = arguments(value)
    return read if opened is None else opened(read, span)


def call_answer(span: Span, instrumentation: str) -> Answer:
    """Read the result and what it hides: the call's id, the failure behind status OK."""
    value = span.attributes.get(OUTPUT)
    answer = Answer() if value is None else _ANSWERS.get(instrumentation, _plain_answer)(value)
    error = span_error(span)
    if error is None:
        return answer
    return Answer(result=answer.result, call_id=answer.call_id, error=error)


def span_error(span: Span) -> CallError | None:
    """Read the failure from status and exception event; an exception event alone proves nothing."""
    if span.status != "error":
        return None
    kind, message = OTHER_ERROR, span.status_message
    for event in span.events:
        if event.name == "exception":
            kind = _text(event.attributes.get("exception.type")) or kind
            message = _text(event.attributes.get("exception.message")) or message
    if is_control_flow(kind):
        return None
    return CallError(kind=kind, message=message)


def is_synthesized(span: Span) -> bool:
    """Tell whether UiPath made the span up for a tool that was not called."""
    value = span.attributes.get(SYNTHESIZED)
    return value is True or (isinstance(value, str) and value.lower() == "true")


def _text(value: Value) -> str:
    return value if isinstance(value, str) else ""


# --- arguments


def _parameters(value: Value) -> Content:
    """Read `tool.parameters`, which some producers fill with the arguments and others with their schema."""
    read = arguments(value)
    if not isinstance(read, Recorded):
        return NOT_RECORDED
    return NOT_RECORDED if _is_schema(as_object(read.value)) else read


def _is_schema(value: JsonObject) -> bool:
    if value.get("type") == "object" or isinstance(value.get("properties"), dict):
        return True
    # smolagents writes the properties alone: {"city": {"type": "string", "description": "..."}}
    return bool(value) and all(isinstance(item, dict) and "type" in item for item in value.values())


def _keyword_envelope(read: Content, span: Span) -> Content:
    """Open `{"args": [...], "kwargs": {...}}`; names of positional arguments come from the schema."""
    if not isinstance(read, Recorded):
        return read
    envelope = as_object(read.value)
    if not isinstance(envelope.get("kwargs"), dict) and not isinstance(envelope.get("args"), list):
        return read
    named = dict(as_object(envelope.get("kwargs")))
    positional = as_list(envelope.get("args"))
    if not positional:
        return Recorded(named)
    names = [name for name in _parameter_names(span) if name not in named]
    if len(names) < len(positional):
        return Unparsed(_text(span.attributes.get(INPUT)))
    return Recorded(dict(zip(names, positional, strict=False)) | named)


def _input_envelope(read: Content, _span: Span) -> Content:
    """Open `{"input": {...}, "options": ...}`."""
    envelope = as_object(read.value) if isinstance(read, Recorded) else {}
    if "options" not in envelope or not isinstance(envelope.get("input"), dict):
        return read
    return Recorded(envelope["input"])


def _parameter_names(span: Span) -> list[str]:
    read = content(span.attributes.get(PARAMETERS))
    schema = as_object(read.value) if isinstance(read, Recorded) else {}
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
    return Answer(result=result(value))


def _llama_index_answer(value: Value) -> Answer:
    """Open the tool output; `raw_output` is the value itself, the other members are its Python repr."""
    read = content(value)
    opened = as_object(read.value) if isinstance(read, Recorded) else {}
    if "tool_name" not in opened or "raw_input" not in opened:
        return _plain_answer(value)
    if "raw_output" in opened:
        raw = opened["raw_output"]
        told = result(raw) if isinstance(raw, str) else Recorded(raw)
    else:
        told = result(as_str(opened.get("content")) or _blocks_text(opened.get("blocks")))
    if opened.get("is_error") is not True:
        return Answer(result=told)
    message = as_str(opened.get("content")) or _blocks_text(opened.get("blocks")) or _shown(told)
    return Answer(result=told, error=CallError(kind=OTHER_ERROR, message=message))


def _blocks_text(blocks: Json) -> str | None:
    texts = [as_str(as_object(block).get("text")) for block in as_list(blocks)]
    return "\n".join(text for text in texts if text) or None


def _shown(told: Content) -> str:
    return told.value if isinstance(told, Recorded) and isinstance(told.value, str) else ""


def _autogen_answer(value: Value) -> Answer:
    """Read the text that the model got; a failed call shows only there, behind status OK."""
    told = result(value)
    if isinstance(value, str) and value.startswith("Error:"):
        return Answer(result=told, error=CallError(kind=OTHER_ERROR, message=value))
    return Answer(result=told)


def _google_adk_answer(value: Value) -> Answer:
    """Open the function response `{"id": .., "name": .., "response": {..}}`."""
    read = content(value)
    opened = as_object(read.value) if isinstance(read, Recorded) else {}
    response = opened.get("response")
    if not isinstance(response, dict) or "name" not in opened:
        return _plain_answer(value)
    # The framework wraps whatever is not an object.
    told = response["result"] if list(response) == ["result"] else response
    return Answer(result=result(told) if isinstance(told, str) else Recorded(told), call_id=as_str(opened.get("id")))


_ANSWERS: Mapping[str, Callable[[Value], Answer]] = {
    "langchain": tool_answer,
    "llama_index": _llama_index_answer,
    "autogen": _autogen_answer,
    "autogen_agentchat": _autogen_answer,
    "google_adk": _google_adk_answer,
}
