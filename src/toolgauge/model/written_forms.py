"""How JSON Schema describes what people may write in more than one form.

A validator that reads a short form (`tool: "refund_*"` for `{tool: ["refund_*"]}`) is not to be seen from outside; the
class names its forms with this.
"""

from collections.abc import Callable
from typing import Any

ONE_OR_MORE: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


def also_written_as(*forms: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    """Return what adds forms to the JSON Schema of a class, for pydantic's `json_schema_extra`."""

    def extend(schema: dict[str, Any]) -> None:
        whole = dict(schema)
        schema.clear()
        schema["anyOf"] = [whole, *forms]

    return extend
