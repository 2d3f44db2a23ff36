"""The form that a verdict must have: a JSON Schema, checked by `jsonschema`.

An entry point of `toolgauge.validators`: where no judge is asked, `jsonschema` is not loaded.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Iterable, Sequence

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match
from referencing.jsonschema import EMPTY_REGISTRY

from toolgauge.model.json import Json, JsonObject

_MAX_DEPTH = 32
_MAX_PROBLEM = 500


class VerdictForm:
    """The form of one question; raises what the validator raises when the form itself is wrong."""

    def __init__(self, schema: JsonObject) -> None:
        Draft202012Validator.check_schema(schema)
        # Its own registry: without one, the validator would fetch what a form refers to.
        self._validator = Draft202012Validator(schema, registry=EMPTY_REGISTRY)

    def problem(self, verdict: Json) -> str | None:
        """Return the problem of a verdict, for the judge to read; `None` when it fits."""
        if not isinstance(verdict, dict):
            return "the verdict must be an object"
        if _is_deeper(verdict, _MAX_DEPTH):
            return "the verdict is nested too deeply"
        errors: Iterable[ValidationError] = self._validator.iter_errors(verdict)
        worst = best_match(errors)
        return None if worst is None else _problem_text(worst)


def _problem_text(error: ValidationError) -> str:
    path: Sequence[str | int] = list(error.absolute_path)
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
    return f"{where or 'the verdict'}: {error.message}"[:_MAX_PROBLEM]


def _is_deeper(value: Json, depth: int) -> bool:
    layer: list[Json] = [value]
    for _ in range(depth):
        layer = [member for entry in layer for member in _members(entry)]
        if not layer:
            return False
    return True


def _members(value: Json) -> Iterable[Json]:
    match value:
        case dict():
            return value.values()
        case list():
            return value
        case _:
            return ()
