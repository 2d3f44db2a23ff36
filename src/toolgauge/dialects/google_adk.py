"""Google ADK: the conventions (schema 2), or keys of its own for everything that has content (schema 1).

In schema 1 a span `call_llm` has Google's JSON, above a `generate_content` without content; a span `(merged)` is no call.
Placeholders (`<not specified>`, `N/A`, `{}` on both sides) stand for "not recorded" and must not be read as values.
The kit for Java writes schema 1 with an operation `call_llm` and a key of its own for the call's id.
"""

import re
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import (
    INVALID_ARGUMENTS,
    OTHER_ERROR,
    AgentRun,
    CallAnswered,
    CallError,
    CallRequested,
    MessageSeen,
    Observation,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.conventions import model_call
from toolgauge.recognize.dialect import PlainDialect
from toolgauge.recognize.hosted_tools import code_execution
from toolgauge.recognize.messages import Message, past_calls

_SCOPE = "gcp.vertex.agent"
_PREFIX = "gcp.vertex.agent."
_SESSION = _PREFIX + "session_id"
_REQUEST = _PREFIX + "llm_request"
_RESPONSE = _PREFIX + "llm_response"
_ARGUMENTS = _PREFIX + "tool_call_args"
_RESULT = _PREFIX + "tool_response"
# The kit for Java writes it so.
_CALL_ID = "gen_ai.tool_call.id"
_KEYS = (_PREFIX + "event_id", _PREFIX + "invocation_id", _SESSION, _REQUEST, _RESPONSE, _ARGUMENTS, _RESULT)

_CALL_LLM = "call_llm"
_MERGED = "(merged tools)"
_PLACEHOLDERS = frozenset(("N/A", "<not specified>", "<not serializable>", "<non-serializable>"))
# What the kit for JavaScript answers in place of a tool that raised, and the list of what zod found in its arguments.
_FAILED = "Error in tool '"
_ISSUES = re.compile(
    r"Error in tool '[^'\n]{1,200}': \[\s*\{\s*\"(?:code|expected|keys|origin|received|validation|values)\""
)
# Before it followed the conventions, an agent's run was a span with a name alone: `agent_run [assistant]`.
_AGENT_RUN = "agent_run ["

# Schemas of tools are a few levels deep; a deeper one is cut off, and is then only less strict.
_MAX_SCHEMA_DEPTH = 20
_MAX_TOOLS = 1_000
_SCHEMA_KEYS = {
    "any_of": "anyOf",
    "min_items": "minItems",
    "max_items": "maxItems",
    "min_length": "minLength",
    "max_length": "maxLength",
    "min_properties": "minProperties",
    "max_properties": "maxProperties",
    "additional_properties": "additionalProperties",
}
_SCHEMA_COUNTS = frozenset(("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"))


class GoogleAdk(PlainDialect):
    """Reads spans and log records of the Agent Development Kit."""

    name = "google_adk"
    rank = 82
    marks = (_PREFIX,)
    scopes = (_SCOPE,)
    grounds = Grounds(keys=_KEYS, scopes=(_SCOPE,))

    def claims(self, record: Record) -> bool:
        """Claim what comes from its scope, and spans with its keys."""
        if record.scope.name == _SCOPE:
            return True
        return isinstance(record, Span) and any(key in record.attributes for key in _KEYS)

    def read(self, record: Record) -> Iterator[Observation]:
        """Read one span or log record."""
        yield from conventions.own_conversation(record.attributes, (_SESSION,))
        yield from conventions.conversation(record.attributes)
        if isinstance(record, LogRecord):
            # The per-message events hold Google's contents where others hold messages.
            recorded = values.as_object(values.decoded(record.body))
            content = recorded.get("content")
            # A content has parts; the `content` of a message is text.
            is_content = isinstance(content, dict) and isinstance(content.get("parts"), list)
            if record.event_name not in conventions.MESSAGE_EVENTS or not is_content:
                yield from self._conventions.read_log(record)
            else:
                message = Message(_message(content), "user")
                if record.event_name == conventions.CHOICE:
                    yield from conventions.written([message], values.as_str(record.attributes.get(conventions.AGENT)))
                else:
                    yield from conventions.received([message])
        else:
            operation = record.attributes.get(conventions.OPERATION)
            if operation == conventions.EXECUTE:
                yield from _executed(record)
            elif operation == _CALL_LLM or (
                operation is None and (record.name == _CALL_LLM or _REQUEST in record.attributes)
            ):
                yield model_call(record.attributes)
                request = values.decoded_object(record.attributes.get(_REQUEST))
                config = values.as_object(request.get("config"))
                yield from self._conventions.offered(_definitions(config.get("tools")))
                instruction = config.get("system_instruction") or config.get("systemInstruction")
                if not isinstance(instruction, str):
                    # A content, or a list of parts.
                    content = values.as_list(values.as_object(instruction).get("parts"))
                    parts = instruction if isinstance(instruction, list) else content
                    texts = [
                        one if isinstance(one, str) else values.as_str(values.as_object(one).get("text"))
                        for one in parts
                    ]
                    instruction = "\n".join(text for text in texts if text)
                yield from conventions.system(instruction)
                history = values.as_list(request.get("contents"))
                yield from map(_with_failure, conventions.received([Message(_message(one), "user") for one in history]))
                written = values.decoded_object(record.attributes.get(_RESPONSE)).get("content")
                if written is not None:
                    yield from conventions.written([Message(_message(written), "assistant")], None)
            elif operation is None and record.name.startswith(_AGENT_RUN):
                yield AgentRun(agent=record.name[len(_AGENT_RUN) :].removesuffix("]") or None)
            else:
                yield from self._conventions.read_span(record)

    def history(self, span: Span) -> Iterable[CallRequested | MessageSeen]:
        """Read the calls in the history that a model was given, and the texts of the user between them."""
        if _REQUEST not in span.attributes:
            return self._conventions.history(span)
        request = values.decoded_object(span.attributes.get(_REQUEST))
        return past_calls(Message(_message(one), "user") for one in values.as_list(request.get("contents")))


def _with_failure(seen: Observation) -> Observation:
    """Read the failure that the kit in JavaScript has as the answer alone: the tool's span has neither status nor content."""
    if not isinstance(seen, CallAnswered) or seen.error is not None:
        return seen
    match seen.result:
        case Recorded({"error": str() as message, **rest}) if not rest and message.startswith(_FAILED):
            kind = INVALID_ARGUMENTS if _ISSUES.match(message) else OTHER_ERROR
            return replace(seen, error=CallError(kind=kind, message=message))
        case _:
            return seen


def _executed(span: Span) -> Iterator[Observation]:
    call = conventions.executed(span, conventions.EXECUTE, None)
    # The spans of the merged calls say what each of them answered.
    if call is None or call.name == _MERGED:
        return
    arguments = _without_placeholder(values.arguments(span.attributes.get(_ARGUMENTS)))
    result = _without_placeholder(_unwrapped(values.result(span.attributes.get(_RESULT))))
    if arguments == Recorded({}) and result == Recorded({}):
        # With content switched off both are empty objects.
        arguments = result = NOT_RECORDED
    result = result if call.result == NOT_RECORDED else _without_placeholder(_unwrapped(call.result))
    error, call_id = call.error, values.identifier(span.attributes.get(_CALL_ID))
    match result:
        # The failure that the kit returns in place of calling the tool; the span goes well all the same.
        case Recorded({"error": str() as message, **rest}) if error is None and message and not rest:
            error = CallError(kind=OTHER_ERROR, message=message)
        case _:
            pass
    yield replace(
        call,
        call_id=call.call_id or (None if call_id in _PLACEHOLDERS else call_id),
        arguments=arguments if call.arguments == NOT_RECORDED else call.arguments,
        result=result,
        error=error,
    )


def _unwrapped(result: Content) -> Content:
    """Open `{"result": "<not specified>"}`, which stands for the missing answer of a tool that raised."""
    match result:
        case Recorded({"result": str() as text, **rest}) if not rest and text in _PLACEHOLDERS:
            return NOT_RECORDED
        case _:
            return result


def _without_placeholder(read: Content) -> Content:
    match read:
        case Recorded(str() as text) | Unparsed(text) if text.strip() in _PLACEHOLDERS:
            return NOT_RECORDED
        case _:
            return read


# Without this, calls and answers in Google's JSON would look like parts of an unknown kind.
def _message(content: Json) -> JsonObject:
    source = values.as_object(content)
    parts: list[Json] = [_part(values.as_object(part)) for part in values.as_list(source.get("parts"))]
    return {"role": source.get("role"), "parts": parts}


def _definitions(tools: Json) -> list[Json]:
    """Turn the declarations of all tools of a request into definitions with a JSON Schema."""
    found: list[Json] = []
    for tool in values.as_list(tools)[:_MAX_TOOLS]:
        source = values.as_object(tool)
        listed = source.get("function_declarations") or source.get("functionDeclarations")
        for declared in map(values.as_object, values.as_list(listed)[:_MAX_TOOLS]):
            schema = declared.get("parameters_json_schema") or declared.get("parametersJsonSchema")
            if schema is None and isinstance(declared.get("parameters"), dict):
                schema = _schema(declared.get("parameters"), _MAX_SCHEMA_DEPTH)
            found.append(
                {"name": declared.get("name"), "description": declared.get("description"), "parameters": schema}
            )
    return found


def _part(part: JsonObject) -> JsonObject:
    call = part.get("function_call") or part.get("functionCall")
    if isinstance(call, dict):
        # The API leaves out `args` of a call without arguments.
        arguments = call.get("args")
        return {
            "type": "tool_call",
            "call_id": call.get("id"),
            "name": call.get("name"),
            "arguments": {} if arguments is None else arguments,
        }
    answer = part.get("function_response") or part.get("functionResponse")
    if isinstance(answer, dict):
        return {
            "type": "tool_call_response",
            "call_id": answer.get("id"),
            "name": answer.get("name"),
            "response": answer.get("response"),
        }
    if part.get("thought") is True:
        return {"type": "reasoning"}
    if (code := code_execution(part)) is not None:
        return code
    return {"type": "text", "content": part.get("text")}


def _schema(value: Json, room: int) -> Json:
    """Turn Google's dialect of OpenAPI (types in capitals, snake case, `nullable`) into JSON Schema."""
    if not isinstance(value, dict) or room == 0:
        return {}
    schema: JsonObject = {}
    for key, item in value.items():
        name = _SCHEMA_KEYS.get(key, key)
        if name == "type":
            schema[name] = item.lower() if isinstance(item, str) else item
        elif name == "properties":
            schema[name] = {inner: _schema(found, room - 1) for inner, found in values.as_object(item).items()}
        elif name == "items" or (name == "additionalProperties" and isinstance(item, dict)):
            schema[name] = _schema(item, room - 1)
        elif name == "anyOf":
            schema[name] = [_schema(found, room - 1) for found in values.as_list(item)]
        elif name in _SCHEMA_COUNTS:
            # 64-bit integers are text in Google's JSON.
            is_number = isinstance(item, str) and item.isascii() and item.isdigit() and len(item) < 19
            schema[name] = int(item) if isinstance(item, str) and is_number else item
        elif name not in ("nullable", "property_ordering", "propertyOrdering", "example"):
            schema[name] = item
    if value.get("nullable") is True:
        if isinstance(kind := schema.get("type"), str):
            schema["type"] = [kind, "null"]
        if isinstance(several := schema.get("enum"), list):
            schema["enum"] = [*several, None]
    return schema
