"""Turns Google's contents, requests and tool declarations into the form that the conventions' readers take.

Arrives: JSON as the `google-genai` types write it (`parts` with `function_call`, `function_response`, `text`).
Leaves: messages with typed parts, and definitions with a JSON Schema. Without this, calls and answers would look
like parts of an unknown kind.
"""

from toolgauge.model.json import Json, JsonObject
from toolgauge.recognize.values import as_list, as_object, as_str

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


def message(content: Json) -> JsonObject:
    """Turn one content into a message."""
    source = as_object(content)
    parts: list[Json] = [_part(as_object(part)) for part in as_list(source.get("parts"))]
    return {"role": source.get("role"), "parts": parts}


def is_content(value: Json) -> bool:
    """Tell a content from a plain message, whose `content` would be text."""
    return isinstance(value, dict) and isinstance(value.get("parts"), list)


def instruction(value: Json) -> str:
    """Read a system instruction: text, a content, or a list of parts."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else as_list(as_object(value).get("parts"))
    texts = [part if isinstance(part, str) else as_str(as_object(part).get("text")) for part in parts]
    return "\n".join(text for text in texts if text)


def definitions(tools: Json) -> list[Json]:
    """Turn the declarations of all tools of a request into definitions."""
    found: list[Json] = []
    for tool in as_list(tools)[:_MAX_TOOLS]:
        source = as_object(tool)
        declared = source.get("function_declarations") or source.get("functionDeclarations")
        found.extend(_definition(as_object(one)) for one in as_list(declared)[:_MAX_TOOLS])
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
    return {"type": "text", "content": part.get("text")}


def _definition(declared: JsonObject) -> Json:
    schema = declared.get("parameters_json_schema") or declared.get("parametersJsonSchema")
    if schema is None and isinstance(declared.get("parameters"), dict):
        schema = _schema(declared.get("parameters"), _MAX_SCHEMA_DEPTH)
    return {"name": declared.get("name"), "description": declared.get("description"), "parameters": schema}


def _schema(value: Json, room: int) -> Json:
    """Turn Google's dialect of OpenAPI (types in capitals, snake case, `nullable`) into JSON Schema."""
    if not isinstance(value, dict) or room == 0:
        return {}
    schema: JsonObject = {}
    for key, item in value.items():
        name = _SCHEMA_KEYS.get(key, key)
        if name == "type":
            schema[name] = _type(item)
        elif name == "properties":
            schema[name] = {inner: _schema(found, room - 1) for inner, found in as_object(item).items()}
        elif name == "items" or (name == "additionalProperties" and isinstance(item, dict)):
            schema[name] = _schema(item, room - 1)
        elif name == "anyOf":
            schema[name] = [_schema(found, room - 1) for found in as_list(item)]
        elif name in _SCHEMA_COUNTS:
            schema[name] = _count(item)
        elif name not in ("nullable", "property_ordering", "propertyOrdering", "example"):
            schema[name] = item
    return _nullable(schema) if value.get("nullable") is True else schema


def _nullable(schema: JsonObject) -> JsonObject:
    kind = schema.get("type")
    if isinstance(kind, str):
        schema["type"] = [kind, "null"]
    if isinstance(schema.get("enum"), list):
        schema["enum"] = [*as_list(schema["enum"]), None]
    return schema


def _type(value: Json) -> Json:
    return value.lower() if isinstance(value, str) else value


def _count(value: Json) -> Json:
    # 64-bit integers are text in Google's JSON.
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19 else value
