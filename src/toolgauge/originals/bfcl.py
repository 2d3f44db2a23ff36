"""`bfcl.ast` as the checker of BFCL judges Python categories (package bfcl-eval 2026.3.23): accepted or not.

Expected calls come with a list of accepted values for each argument, "" marking one that may be left out. The functions
are the tools on offer, whose JSON Schema is put in BFCL's words. A malformed list of accepted values is the same error as in
the original.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, NamedTuple

from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, JsonValue

from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Difference, Errored, NotEvaluated, Outcome, Scored, Side
from toolgauge.model.ports import Needs
from toolgauge.model.trajectory import Trajectory
from toolgauge.recognize.values import as_object
from toolgauge.score.equality import PythonEquality
from toolgauge.score.plain_calls import OneOutcome, first_without, plain_expected
from toolgauge.score.selection import NO_REFERENCE, hidden_calls, readable_arguments, shown, unseen_arguments

# JSON Schema's words, where they differ from BFCL's.
_SCHEMA_TYPES = {"number": "float", "object": "dict"}
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
_MAX_REFERENCES = 10
# Marks an argument that may be left out.
_OMISSIBLE = ""
_SQUASHED = str.maketrans("'", '"', " ,./-_*^")


class AllowedCall(BaseModel):
    """One expected call: for each argument the values that are accepted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    args: dict[str, list[JsonValue]]


class _Call(NamedTuple):
    """A call, or the accepted values of one."""

    name: str
    args: JsonObject


class _Function(NamedTuple):
    """A function with the types of its arguments; a list's type has that of its items beside it."""

    name: str
    properties: Mapping[str, tuple[str, str]]
    required: list[Json]


def _fault(error_type: str, where: str = "", allowed: Json = None, found: Side | None = None) -> Difference:
    """Name the reason why calls are not accepted, in BFCL's words; `where` names tool and argument."""
    return Difference(where=where, rule=error_type, expected=Side(value=allowed), actual=found)


class Ast(OneOutcome):
    """Whether the calls are accepted: 1 if so, else 0.

    Each argument must have one of its accepted values, of the type that the function declares or that the accepted
    values have. Strings are compared without case, spaces and `,./-_*^`. Only an argument that may be left out may
    be missing, and none that is not listed may be given. Of several expected calls each takes the first that fits, in
    any order, and there must be as many calls.
    """

    needs: ClassVar[Needs] = Needs(binary=True)

    # Without it, only the expected calls of the criterion are accepted.
    allowed: tuple[AllowedCall, ...] | None = None
    # `dot_to_underscore` where the provider of the model forbids dots in names of functions.
    name_rule: Literal["exact", "dot_to_underscore"] = "exact"
    # BFCL's category; without it the number of expected calls and of functions tells.
    test_category: str | None = None

    @classmethod
    def case_parameters(cls, expected: JsonObject, actual: JsonObject) -> JsonObject:  # noqa: ARG003 (`allowed` is BFCL's own word)
        """Return the parameter that a case's accepted values stand for."""
        return {"allowed": expected["allowed"]} if "allowed" in expected else {}

    def original(self, outcome: Outcome, *_: object) -> JsonObject:
        """Return the original's type of the error."""
        if not isinstance(outcome, Scored):
            return {}
        return {"details": {"error_type": outcome.differences[0].rule if outcome.differences else None}}

    def outcome_of(self, trajectory: Trajectory, expected: Expected | None) -> Outcome:
        """Check the calls, as far as they were recorded."""
        if self.allowed is not None:
            allowed = [
                _Call(call.name, {name: list(values) for name, values in call.args.items()}) for call in self.allowed
            ]
        elif expected is None or not expected.names_calls:
            return NO_REFERENCE
        else:
            plain = plain_expected(expected.calls)
            if isinstance(plain, Errored):
                return plain
            allowed = [_Call(call.name, {name: [value] for name, value in (call.args or {}).items()}) for call in plain]
        if not allowed:
            return NotEvaluated(reason="nothing_expected", explanation="no call is expected")
        if trajectory.hidden_turns:
            return hidden_calls(trajectory)
        unseen = next((unseen for call in trajectory.calls if (unseen := unseen_arguments(call))), None)
        functions = unseen or self._functions(trajectory, allowed)
        if isinstance(functions, NotEvaluated):
            return functions
        if self.allowed is None:
            allowed = [_in_lists(call, self._of_name(functions, call)) for call in allowed]
        calls = [
            _Call(call.name, arguments)
            for call in trajectory.calls
            if (arguments := readable_arguments(call)) is not None
        ]
        fault: Difference | None = _fault("ast_decoder:decoder_failed")
        if len(calls) == len(trajectory.calls):
            fault = self._checked(calls, allowed, functions)
        if fault is None:
            return Scored(value=1.0, explanation="the calls are accepted")
        where = f" at {shown(fault.where)}" if fault.where else ""
        found = replace(fault, where=fault.where or "calls")
        return Scored(value=0.0, explanation=f"{fault.rule}{where}", differences=(found,))

    def _functions(self, trajectory: Trajectory, allowed: Sequence[_Call]) -> list[_Function] | NotEvaluated:
        """Describe the tools on offer in BFCL's words, and expected tools by their expected names."""
        if trajectory.tools_offered is None:
            return NotEvaluated(reason="no_tool_offer", explanation="which tools were on offer was not recorded")
        offered = {self._spelled(tool.name): tool for tool in trajectory.tools_offered}
        expected = {self._spelled(call.name): call.name for call in allowed}
        for spelled, name in expected.items():
            if spelled not in offered or offered[spelled].parameters is None:
                return NotEvaluated(
                    reason="no_schema", explanation=f"the parameters of {shown(name)} were not recorded"
                )
        functions: list[_Function] = []
        # BFCL looks only at the first of several functions where one call is expected and it knows no better.
        for spelled in {**expected, **offered}:
            schema = offered[spelled].parameters or {}
            required = schema.get("required")
            properties: dict[str, tuple[str, str]] = {}
            for key, value in as_object(schema.get("properties")).items():
                found = _resolved(value, schema)
                properties[key] = _kind(found), _kind(_resolved(found.get("items"), schema))
            functions.append(_Function(spelled, properties, required if isinstance(required, list) else []))
        return functions

    def _spelled(self, name: str) -> str:
        return name if self.name_rule == "exact" else name.replace(".", "_")

    def _checked(
        self, calls: Sequence[_Call], allowed: Sequence[_Call], functions: Sequence[_Function]
    ) -> Difference | None:
        category = self.test_category
        if category is None:
            category = "parallel" if len(allowed) > 1 else "multiple" if len(functions) > 1 else "simple"
        equality = PythonEquality()
        if "parallel" not in category:
            kind = "multiple_function_checker" if "multiple" in category else "simple_function_checker"
            # Wart: of several expected calls in these categories only the first is looked at.
            if len(calls) != (len(allowed) if "multiple" in category else 1):
                return _fault(f"{kind}:wrong_count")
            function = self._of_name(functions, allowed[0]) if "multiple" in category else functions[0]
            return _fault_of(function, calls[0], allowed[0].args, equality)
        if len(calls) != len(allowed):
            return _fault("parallel_function_checker_no_order:wrong_count")
        prepared = [self._of_name(functions, call) for call in allowed]

        def fits(index: int, place: int) -> bool:
            return _fault_of(prepared[index], calls[place], allowed[index].args, equality) is None

        index = first_without([function.name for function in prepared], [call.name for call in calls], fits)
        if index is None:
            return None
        return _fault("parallel_function_checker_no_order:cannot_find_match", where=allowed[index].name)

    def _of_name(self, functions: Sequence[_Function], call: _Call) -> _Function:
        return next(function for function in functions if function.name == self._spelled(call.name))


def _resolved(schema: Json, root: JsonObject) -> JsonObject:
    """Follow references within the schema, and take the first of several that is more than null."""
    for _ in range(_MAX_REFERENCES):
        found = as_object(schema)
        choices: Json = found.get("anyOf", found.get("oneOf"))
        reference = found.get("$ref")
        if isinstance(choices, list):
            schema = next((choice for choice in choices if as_object(choice).get("type") != "null"), None)
        elif isinstance(reference, str):
            schema = root
            for part in reference.removeprefix("#/").split("/"):
                schema = as_object(schema).get(part)
        else:
            return found
    return {}


def _kind(schema: JsonObject) -> str:
    """Name the type; `any` where BFCL has no word for it: then the accepted values decide."""
    declared = schema.get("type")
    if isinstance(declared, list):
        declared = next((kind for kind in declared if kind != "null"), None)
    kind = _SCHEMA_TYPES.get(declared, declared) if isinstance(declared, str) else "any"
    return kind if kind in _TYPES else "any"


def _in_lists(call: _Call, function: _Function) -> _Call:
    """Write expected values as lists of accepted values, members of declared objects too."""
    lists: JsonObject = {}
    for name, one in call.args.items():
        kind, items = function.properties.get(name, ("", ""))
        lists[name] = [_listed(value, kind, items) for value in _items(one)]
    return _Call(call.name, lists)


def _listed(value: Json, kind: str, items: str) -> Json:
    if kind == "dict" and isinstance(value, dict):
        return {name: [inner] for name, inner in value.items()}
    return [_listed(item, items, "") for item in value] if kind in _NESTING and isinstance(value, list) else value


def _fault_of(function: _Function, call: _Call, allowed: JsonObject, equality: PythonEquality) -> Difference | None:
    """Return the first fault of a call."""
    kind = "simple_function_checker"
    if function.name != call.name:
        return _fault(f"{kind}:wrong_func_name", where=function.name)
    for name in function.required:
        if name not in call.args:
            return _fault(f"{kind}:missing_required", where=f"{call.name}: {name}")
    for name, value in call.args.items():
        where = f"{call.name}: {name}"
        if name not in function.properties or name not in allowed:
            return _fault(f"{kind}:unexpected_param", where=where, found=Side(value=value))
        error_type = _argument_fault(value, function.properties[name], _items(allowed[name]), equality)
        if error_type is not None:
            return _fault(error_type, where=where, allowed=allowed[name], found=Side(value=value))
    for name, accepted in allowed.items():
        if name not in call.args and _OMISSIBLE not in _items(accepted):
            return _fault(f"{kind}:missing_optional", where=f"{call.name}: {name}", allowed=accepted)
    return None


def _argument_fault(value: Json, details: tuple[str, str], allowed: list[Json], equality: PythonEquality) -> str | None:
    described, items = details
    wanted, accepted = _TYPES[described], _type_of_first(allowed)
    nested = _TYPES[items] if described in _NESTING else None
    if described == "float" and type(value) is int:
        value = float(value)
    if type(value) is not wanted:
        if accepted is not type(value):
            return "type_error:simple"
    elif nested is not None and isinstance(value, list):
        types = [(nested, _type_of_first(answer)) for answer in allowed if isinstance(answer, list)]
        if len(types) == len(allowed) and not any(all(type(item) in pair for item in value) for pair in types):
            return "type_error:nested" if accepted is list else "type_error:simple"
    # A value of the type of the accepted values and not of the declared one is compared as it is.
    if type(value) is not wanted or accepted not in (None, wanted):
        return None if _is_among(value, allowed, equality) else "value_error:others"
    if isinstance(value, dict):
        return _object_fault(value, allowed, equality)
    if isinstance(value, list):
        return _list_fault(value, allowed, equality, has_objects=nested is dict)
    if isinstance(value, str):
        return None if _is_among(value, allowed, equality, squashing=True) else "value_error:string"
    return None if _is_among(value, allowed, equality) else "value_error:others"


def _list_fault(value: list[Json], allowed: list[Json], equality: PythonEquality, *, has_objects: bool) -> str | None:
    fault = "list_dict_checker:unclear" if has_objects else "value_error:list/tuple"
    for answer in allowed:
        answers = _items(answer)
        pairs = list(zip(value, answers, strict=False))
        if len(value) != len(answers):
            fault = "value_error:list_dict_count" if has_objects else fault
        elif has_objects:
            found = next(filter(None, (_object_fault(item, [one], equality) for item, one in pairs)), None)
            if found is None:
                return None
            fault = found
        elif all(_is_among(item, [accepted], equality, squashing=True) for item, accepted in pairs):
            return None
    return fault


def _object_fault(value: Json, allowed: list[Json], equality: PythonEquality) -> str | None:
    fault = "dict_checker:unclear"
    for answer in allowed:
        if answer == _OMISSIBLE:
            continue
        if not isinstance(answer, dict) or not isinstance(value, dict):
            raise AttributeError("an object is needed")
        found = None
        for name, member in value.items():
            if name not in answer:
                found = "value_error:dict_key"
            elif not _is_among(member, _items(answer[name]), equality, squashing=True):
                found = "value_error:dict_value"
            if found is not None:
                break
        if any(name not in value and _OMISSIBLE not in _items(values) for name, values in answer.items()):
            found = "value_error:dict_key"
        if found is None:
            return None
        fault = found
    return fault


def _is_among(value: Json, allowed: list[Json], equality: PythonEquality, *, squashing: bool = False) -> bool:
    """Return whether the value equals an accepted one; `squashing` leaves out differences between texts of one meaning."""
    if squashing and isinstance(value, str):
        squashed = value.translate(_SQUASHED).lower()
        return any(isinstance(one, str) and one.translate(_SQUASHED).lower() == squashed for one in allowed)
    return any(equality.same(value, accepted) for accepted in allowed)


def _type_of_first(allowed: Sequence[Json]) -> type | None:
    return next((type(answer) for answer in allowed if answer != _OMISSIBLE), None)


def _items(value: Json) -> list[Json]:
    """Take a value that must have items."""
    if isinstance(value, list):
        return value
    if not isinstance(value, str | dict):
        raise TypeError("a list is needed")
    # Wart: a text is a list of its characters, so that the empty list is accepted where the empty text is.
    return list(value)
