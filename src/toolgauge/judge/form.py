"""Checks verdicts against their form, a JSON Schema."""

from toolgauge import on_demand
from toolgauge.model.json import Json, JsonObject

_MAX_DEPTH = 32
_MAX_PROBLEM = 500


class VerdictForm:
    """The JSON Schema of a verdict; raises an error of the validator where it is wrong."""

    def __init__(self, schema: JsonObject) -> None:
        # Offline: the validator would fetch a schema that the form refers to.
        self._validator = on_demand.jsonschema_rs.Draft202012Validator(schema, offline=True)

    def problem(self, verdict: Json) -> str | None:
        """Return the problem of a verdict, for the judge to read; `None` when it fits."""
        if not isinstance(verdict, dict):
            return "the verdict must be an object"
        layer: list[Json] = [verdict]
        for _ in range(_MAX_DEPTH):
            layer = [
                member
                for value in layer
                if isinstance(value, dict | list)
                for member in (value.values() if isinstance(value, dict) else value)
            ]
        if layer:
            return "the verdict is nested too deeply"
        worst = min(self._validator.iter_errors(verdict), key=lambda error: len(error.instance_path), default=None)
        if worst is None:
            return None
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in worst.instance_path).lstrip(".")
        return f"{path or 'the verdict'}: {worst.message}"[:_MAX_PROBLEM]
