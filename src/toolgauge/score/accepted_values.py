"""Checks a call as BFCL does: each argument against its type and the list of its accepted values.

A malformed list of accepted values is the same error as in the original.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.outcomes import Side
from toolgauge.score.equality import PythonEquality

# JSON Schema's words, where they differ from BFCL's.
_SCHEMA_TYPES = {"number": "float", "object": "dict"}
_KNOWN = frozenset(("string", "integer", "float", "boolean", "array", "tuple", "dict"))
_MAX_REFERENCES = 10


@dataclass(frozen=True, slots=True)
class Function:
    """A function with the types of its arguments, those of lists with the type of their items."""

    name: str
    properties: Mapping[str, tuple[str, str]]
    required: list[Json]


def described(name: str, tool: ToolDefinition) -> Function:
    """Describe a tool in BFCL's words."""
    schema = tool.parameters or {}
    required = schema.get("required")
    properties: dict[str, tuple[str, str]] = {}
    for key, value in _object(schema.get("properties")).items():
        found = _resolved(value, schema)
        properties[key] = _kind(found), _kind(_resolved(found.get("items"), schema))
    return Function(name, properties, required if isinstance(required, list) else [])


def _kind(schema: JsonObject) -> str:
    """Name the type; `any` where there is none or BFCL has no word for it: then the accepted values decide."""
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
            schema = next((choice for choice in choices if _object(choice).get("type") != "null"), None)
        elif isinstance(reference, str):
            schema = root
            for part in reference.removeprefix("#/").split("/"):
                schema = _object(schema).get(part)
        else:
            return found
    return {}


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


# What marks an argument that may be left out.
_OMISSIBLE = ""
_TYPES: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "any": str,
}
_NESTING = ("array", "tuple")
_SQUASHED = str.maketrans("'", '"', " ,./-_*^")


@dataclass(frozen=True, slots=True)
class Fault:
    """Why calls were not accepted, in BFCL's words; `where` names tool and argument."""

    error_type: str
    where: str = ""
    allowed: Json = None
    found: Side | None = None


@dataclass(frozen=True, slots=True)
class NamedCall:
    """A call, or the accepted values of one."""

    name: str
    args: JsonObject


class Checker:
    """Checks one call against one function and the accepted values of its arguments."""

    __slots__ = ("_equality",)

    def __init__(self) -> None:
        self._equality = PythonEquality()

    def fault(self, function: Function, call: NamedCall, allowed: JsonObject) -> Fault | None:
        """Return the first fault of a call."""
        kind = "simple_function_checker"
        if function.name != call.name:
            return Fault(f"{kind}:wrong_func_name", where=function.name)
        for name in function.required:
            if name not in call.args:
                return Fault(f"{kind}:missing_required", where=f"{call.name}: {name}")
        for name, value in call.args.items():
            where = f"{call.name}: {name}"
            if name not in function.properties or name not in allowed:
                return Fault(f"{kind}:unexpected_param", where=where, found=Side(value=value))
            error_type = self._argument(value, function.properties[name], as_items(allowed[name]))
            if error_type is not None:
                return Fault(error_type, where=where, allowed=allowed[name], found=Side(value=value))
        for name, accepted in allowed.items():
            if name not in call.args and not _is_omissible(accepted):
                return Fault(f"{kind}:missing_optional", where=f"{call.name}: {name}", allowed=accepted)
        return None

    def _argument(self, value: Json, details: tuple[str, str], allowed: list[Json]) -> str | None:
        described, items = details
        wanted = _TYPES[described]
        nested = _TYPES[items] if described in _NESTING else None
        if described == "float" and type(value) is int:
            value = float(value)
        # What has the type of the accepted values and not the declared one is compared as it is.
        is_as_declared = type(value) is wanted and _type_of_first(allowed) in (None, wanted)
        error_type = _type_fault(value, allowed, wanted, nested)
        if error_type is not None:
            return error_type
        if is_as_declared and isinstance(value, dict):
            return self._object_fault(value, allowed)
        if is_as_declared and isinstance(value, list):
            if nested is dict:
                fault = "list_dict_checker:unclear"
                for answer in allowed:
                    answers = as_items(answer)
                    if len(value) != len(answers):
                        fault = "value_error:list_dict_count"
                        continue
                    for item, accepted in zip(value, answers, strict=True):
                        found = self._object_fault(item, [accepted])
                        if found is not None:
                            fault = found
                            break
                    else:
                        return None
                return fault
            for answer in allowed:
                answers = as_items(answer)
                if len(value) == len(answers) and all(
                    self._is_among(item, [accepted], squashing=True)
                    for item, accepted in zip(value, answers, strict=True)
                ):
                    return None
            return "value_error:list/tuple"
        if is_as_declared and isinstance(value, str):
            squashed = _squashed(value)
            for accepted in allowed:
                if isinstance(accepted, str) and squashed == _squashed(accepted):
                    return None
            return "value_error:string"
        return None if self._is_among(value, allowed) else "value_error:others"

    def _object_fault(self, value: Json, allowed: list[Json]) -> str | None:
        fault = "dict_checker:unclear"
        for answer in allowed:
            if answer == _OMISSIBLE:
                continue
            accepted, given = as_object(answer), as_object(value)
            found = None
            for name, member in given.items():
                if name not in accepted:
                    found = "value_error:dict_key"
                elif not self._is_among(member, as_items(accepted[name]), squashing=True):
                    found = "value_error:dict_value"
                if found is not None:
                    break
            if any(name not in given and not _is_omissible(values) for name, values in accepted.items()):
                found = "value_error:dict_key"
            if found is None:
                return None
            fault = found
        return fault

    def _is_among(self, value: Json, allowed: list[Json], *, squashing: bool = False) -> bool:
        """Return whether the value equals an accepted one; `squashing` is for text that stands inside of a value."""
        squashes = squashing and isinstance(value, str)
        wanted = _squashed(value) if squashes and isinstance(value, str) else value
        for accepted in allowed:
            if squashes and isinstance(accepted, str):
                accepted = _squashed(accepted)  # noqa: PLW2901 (the same value, as it is compared)
            if self._equality.same(wanted, accepted):
                return True
        return False


def _type_fault(value: Json, allowed: list[Json], wanted: type, nested: type | None) -> str | None:
    accepted = _type_of_first(allowed)
    if type(value) is not wanted:
        return None if accepted is type(value) else "type_error:simple"
    if nested is None or not isinstance(value, list) or any(_are_items(value, nested, answer) for answer in allowed):
        return None
    return "type_error:nested" if accepted is list else "type_error:simple"


def _are_items(value: list[Json], nested: type, answer: Json) -> bool:
    if not isinstance(answer, list):
        return True
    accepted = _type_of_first(answer)
    return all(type(item) is nested or (accepted is not None and type(item) is accepted) for item in value)


def _squashed(text: str) -> str:
    """Leave out what may differ between two texts of one meaning."""
    return text.translate(_SQUASHED).lower()


def _type_of_first(allowed: Sequence[Json]) -> type | None:
    return next((type(answer) for answer in allowed if answer != _OMISSIBLE), None)


def _is_omissible(accepted: Json) -> bool:
    return _OMISSIBLE in as_items(accepted)


def as_object(value: Json) -> JsonObject:
    """Take a value that must be an object."""
    if not isinstance(value, dict):
        raise AttributeError("an object is needed")
    return value


def as_items(value: Json) -> list[Json]:
    """Take a value that must have items."""
    if isinstance(value, list):
        return value
    if not isinstance(value, str | dict):
        raise TypeError("a list is needed")
    # Wart: a text is a list of its characters, so that the empty list is accepted where the empty text is.
    return list(value)
