"""Reads tool spans: the call's arguments, its result, its id and whether it failed.

Arrives: a span that is the execution of a tool. Each instrumentation wraps `input.value` and `output.value` in its
own envelope; they are opened here, one function an envelope, chosen by instrumentation. Opening an envelope that the
instrumentation does not use would change what a user's tool was really called with.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import OTHER_ERROR, CallAnswered, CallError, CallRequested, ToolDefinition
from toolgauge.model.records import Span
from toolgauge.recognize import values
from toolgauge.recognize.conventions import pause
from toolgauge.recognize.hosted_tools import hosted_name
from toolgauge.recognize.known_tools import KnownTools
from toolgauge.recognize.langchain import Answer, is_control_flow, tool_answer

INPUT = "input.value"
# On spans of the AI SDK.
AI_SDK = "ai.operationId"
OUTPUT = "output.value"
PARAMETERS = "tool.parameters"
SYNTHESIZED = "tool.synthesized"

_HISTORY = "automatic_function_calling_history"

TOOLS = "llm.tools."
INVOCATION_PARAMETERS = "llm.invocation_parameters"

_INPUT = "input.value"
_REQUESTED = re.compile(r'"(?:tools|functions)": ?\[\{')
_SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema", "parameters_json_schema", "parametersJsonSchema")
_MAX_INDEX_DIGITS = 6
_MAX_KNOWN = 256
_MAX_KNOWN_TEXT = 16_384
# Gemini writes the types of JSON Schema in capitals.
# A tuple: what is looked for in it may be a list or an object, which no set can be asked for.
_CAPITAL_TYPES = ("OBJECT", "ARRAY", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "NULL")

# What a schema without properties may have beside its type.
_BESIDE = frozenset(("type", "title", "description", "required", "additionalProperties", "$schema", "$defs"))
# Types of smolagents.
_NO_JSON_TYPES = ("any", "audio", "image")

_Reader: TypeAlias = Callable[[Json], Iterator[ToolDefinition]]


def call_arguments(span: Span, instrumentation: str) -> Content:
    """Read the arguments that the tool was called with."""
    value = span.attributes.get(INPUT)
    if value is None:
        return _parameters(span.attributes.get(PARAMETERS))
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


def _parameters(value: Value) -> Content:
    """Read `tool.parameters`, which some producers fill with the arguments and others with their schema."""
    read = values.arguments(value)
    if not isinstance(read, Recorded):
        return NOT_RECORDED
    return NOT_RECORDED if _is_schema(values.as_object(read.value)) else read


def _is_schema(value: JsonObject) -> bool:
    if value.get("type") == "object" or isinstance(value.get("properties"), dict):
        return True
    # smolagents writes the properties alone: {"city": {"type": "string", "description": "..."}}
    return bool(value) and all(isinstance(item, dict) and "type" in item for item in value.values())


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


# Reads the tools that a model was offered, in whichever provider's form they were sent.
#
# Arrives: `llm.tools.<n>.tool.json_schema` or the `tools` inside `llm.invocation_parameters`. Leaves: definitions. A
# definition that is missed makes a tool look invented, so every known form is read.


class DefinitionReader:
    """Reads the tools on offer from a model span.

    Agents send the same tools with each model call. Reading a text once saves most of the cost of such a span, and
    the definitions of all calls of a run are then the same objects in memory.
    """

    def __init__(self) -> None:
        # Without it, half agent traces take 19 % more CPU.
        self._known = KnownTools(_MAX_KNOWN)

    def read(self, attributes: Mapping[str, Value]) -> tuple[ToolDefinition, ...]:
        """Return the tools on offer; empty when the span records none."""
        flat = tuple(tool for fields in _flattened(attributes) for tool in self._from_fields(fields))
        return flat or self._from_text(attributes.get(INVOCATION_PARAMETERS), _invoked) or self._requested(attributes)

    def called(self, span: Span, name: str, instrumentation: str) -> ToolDefinition | None:
        """Return the definition that a tool's own span has in `tool.parameters`, `None` where that holds arguments."""
        written = span.attributes.get(PARAMETERS)
        if not isinstance(written, str) or written == span.attributes.get(INPUT):
            return None
        is_smolagents = instrumentation == "smolagents"
        # Arguments would fill the memory of definitions.
        if not is_smolagents and '"type"' not in written:
            return None
        found = self._from_text(written, _inputs if is_smolagents else _described)
        return ToolDefinition(name=name, parameters=found[0].parameters) if found else None

    def _requested(self, attributes: Mapping[str, Value]) -> tuple[ToolDefinition, ...]:
        """Read the tools from the whole request, for producers that record them nowhere else."""
        request = attributes.get(_INPUT)
        if not isinstance(request, str) or _REQUESTED.search(request) is None:
            return ()
        return tuple(_invoked(_decoded(request)))

    def _from_fields(self, fields: Mapping[str, Value]) -> Iterator[ToolDefinition]:
        written = fields.get("json_schema")
        recorded = self._from_text(written, _definitions)
        name = fields.get("name")
        if not isinstance(name, str) or not name:
            yield from recorded
            return
        described = fields.get("description")
        description = described if isinstance(described, str) else None
        if recorded:
            yield ToolDefinition(
                name=name, description=description or recorded[0].description, parameters=recorded[0].parameters
            )
            return
        bare = values.as_object(_decoded(written))
        yield ToolDefinition(name=name, description=description, parameters=_schema(bare) if bare else None)

    def _from_text(self, value: Value, read: _Reader) -> tuple[ToolDefinition, ...]:
        if not isinstance(value, str) or len(value) > _MAX_KNOWN_TEXT:
            return tuple(read(_decoded(value)))
        known = self._known.get((read, value))
        if known is None:
            known = tuple(read(_decoded(value)))
            self._known.keep((read, value), value, known)
        return known


def _decoded(value: Value) -> Json:
    return values.decoded(value)


def _described(recorded: Json) -> Iterator[ToolDefinition]:
    """Read a schema, or the properties alone."""
    written = values.as_object(recorded)
    if not _is_schema(written) or (
        "properties" not in written and written.get("type") == "object" and written.keys() - _BESIDE
    ):
        return
    if all(isinstance(item, dict) and isinstance(item.get("type"), str | list) for item in written.values()):
        yield from _inputs(written)
    else:
        yield ToolDefinition(name="", parameters=values.as_object(_with_small_types(written)))


def _inputs(recorded: Json) -> Iterator[ToolDefinition]:
    """Read the inputs of a smolagents tool: properties, of which those that are nullable or have a default are optional."""
    if not isinstance(recorded, dict):
        return
    properties = {name: _input(item) for name, item in recorded.items() if isinstance(item, dict)}
    if len(properties) < len(recorded):
        yield from _described(recorded)
        return
    required: list[Json] = [
        name for name, item in properties.items() if item.get("nullable") is not True and "default" not in item
    ]
    yield ToolDefinition(name="", parameters={"type": "object", "properties": {**properties}, "required": required})


def _input(item: JsonObject) -> JsonObject:
    """Drop a type that JSON does not have: any value may be recorded for it."""
    return {key: value for key, value in item.items() if key != "type" or value not in _NO_JSON_TYPES}


def _flattened(attributes: Mapping[str, Value]) -> list[dict[str, Value]]:
    grouped: dict[int, dict[str, Value]] = {}
    for key in attributes:
        if key.startswith(TOOLS):
            index, _, name = key[len(TOOLS) :].partition(".")
            if index.isascii() and index.isdigit() and len(index) < _MAX_INDEX_DIGITS:
                grouped.setdefault(int(index), {})[name.removeprefix("tool.")] = attributes[key]
    return [grouped[index] for index in sorted(grouped)]


def _invoked(recorded: Json) -> Iterator[ToolDefinition]:
    request = values.as_object(recorded)
    # Portkey keeps what its signature does not name apart.
    for source in (request, values.as_object(request.get("kwargs"))):
        for key in ("tools", "functions"):
            for item in values.as_list(source.get(key)):
                yield from _definitions(item)


def _definitions(value: Json) -> Iterator[ToolDefinition]:
    """Read one item of a provider's list; a Gemini item holds several tools."""
    item = values.as_object(value)
    for several in ("function_declarations", "functionDeclarations"):
        for inner in values.as_list(item.get(several)):
            yield from _definitions(inner)
    kind = item.get("type")
    named = hosted_name(item)
    for wrapper in ("function", "custom", "toolSpec"):
        if isinstance(inner := item.get(wrapper), dict):
            item = inner
    name = values.as_str(item.get("name")) or named
    if name is None:
        return
    schema = next((item[key] for key in _SCHEMA_KEYS if item.get(key) is not None), None)
    if isinstance(schema, dict) and isinstance(inner := schema.get("json"), dict):  # Bedrock
        schema = inner
    parameters = _schema(schema)
    description, takes_text = values.as_str(item.get("description")), kind == "custom" and parameters is None
    yield ToolDefinition(name=name, description=description, parameters=parameters, takes_text=takes_text)


def _schema(value: Json) -> JsonObject | None:
    if not isinstance(value, dict):
        return None
    if value.get("type") in _CAPITAL_TYPES:
        return values.as_object(_with_small_types(value))
    return value


def _with_small_types(value: Json) -> Json:
    match value:
        case dict():
            return {
                key: item.lower()
                if key == "type" and isinstance(item, str) and item in _CAPITAL_TYPES
                else _with_small_types(item)
                for key, item in value.items()
            }
        case list():
            return [_with_small_types(item) for item in value]
        case _:
            return value
