"""The parameters of tools on offer in the words of BFCL, which knows fewer types than JSON Schema."""

from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import ToolDefinition

# JSON Schema's words, where they differ from BFCL's.
_SCHEMA_TYPES = {"number": "float", "object": "dict"}
_KNOWN = frozenset(("string", "integer", "float", "boolean", "array", "dict"))
_MAX_REFERENCES = 10


def described(name: str, tool: ToolDefinition) -> JsonObject:
    """Describe a tool in BFCL's words."""
    schema = tool.parameters or {}
    properties = schema.get("properties")
    required = schema.get("required")
    return {
        "name": name,
        "parameters": {
            "properties": {
                key: _described(value, schema)
                for key, value in (properties.items() if isinstance(properties, dict) else ())
            },
            "required": required if isinstance(required, list) else [],
        },
    }


def _described(schema: Json, root: JsonObject) -> JsonObject:
    described = _resolved(schema, root)
    kind = _kind(described)
    if kind != "array":
        return {"type": kind}
    return {"type": kind, "items": {"type": _kind(_resolved(described.get("items"), root))}}


def _kind(schema: JsonObject) -> str:
    """Name the type; `any` where there is none or BFCL has no word for it: then the accepted values tell."""
    declared = schema.get("type")
    if isinstance(declared, list):
        declared = next((kind for kind in declared if kind != "null"), None)
    if not isinstance(declared, str):
        return "any"
    kind = _SCHEMA_TYPES.get(declared, declared)
    return kind if kind in _KNOWN else "any"


def _resolved(schema: Json, root: JsonObject) -> JsonObject:
    """Follow references within the schema, and take the first of several that is more than null."""
    for _ in range(_MAX_REFERENCES):
        found = _object(schema)
        choices: Json = found.get("anyOf", found.get("oneOf"))
        reference = found.get("$ref")
        if isinstance(choices, list):
            schema = _first_choice(choices)
        elif isinstance(reference, str):
            schema = _referred(reference, root)
        else:
            return found
    return {}


def _first_choice(choices: list[Json]) -> Json:
    return next((choice for choice in choices if _object(choice).get("type") != "null"), None)


def _referred(reference: str, root: JsonObject) -> Json:
    found: Json = root
    for part in reference.removeprefix("#/").split("/"):
        found = _object(found).get(part)
    return found


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}
