"""`tool_parameter_accuracy`: do the argument values of a call come from the messages and results before it? Asks a judge.

A call whose every value stands verbatim in what the user said or tools returned needs no judge.
"""

from collections.abc import Iterable
from itertools import islice
from typing import ClassVar

from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.outcomes import Outcome, Scored
from toolgauge.model.trajectory import ToolCall
from toolgauge.score import prompts
from toolgauge.score.judged import JudgedCalls, unreadable_arguments
from toolgauge.score.prompts import JudgeView, Prompt, Spoken
from toolgauge.score.recorded_values import leaves, occurs_alone, result_leaves, written

# Calls with more values than this, and longer conversations, go to the judge.
_MAX_VALUES = 100
_MAX_TEXTS = 20_000
_MAX_CHARACTERS = 2_000_000

_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


def is_traced(arguments: JsonObject, view: JudgeView, name: str) -> bool:
    """Return whether every argument value stands verbatim in the texts before the call, and fits the schema as far as it is known."""
    tool = next((tool for tool in view.tools if tool.name == name), None)
    values = _values(arguments)
    if values is None or not _fits(arguments, tool):
        return False
    texts = _texts_before(view)
    if texts is None:
        return not values
    known = "\n".join(texts)
    return all(occurs_alone(value, known) for value in values)


def _values(arguments: JsonObject) -> list[str] | None:
    """Return the values as text; `None` when one of them could never be found (true, null, "", an empty list)."""
    values = list(dict.fromkeys(written(leaf) for leaf in islice(_single_values(arguments), _MAX_VALUES + 1)))
    return None if len(values) > _MAX_VALUES or "" in values else values


def _single_values(arguments: JsonObject) -> Iterable[Json]:
    for value in arguments.values():
        yield from leaves(value)
        if _has_empty(value):
            yield ""


def _has_empty(value: Json) -> bool:
    stack: list[Json] = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, dict | list):
            if not node:
                return True
            stack += node.values() if isinstance(node, dict) else node
    return False


def _texts_before(view: JudgeView) -> list[str] | None:
    """Return the texts that the agent had seen; `None` when they are too much to look through."""
    texts: list[str] = []
    size = 0
    for entry in view.history:
        if isinstance(entry, Spoken):
            found: Iterable[str] = (entry.text,) if entry.role == "user" else ()
        else:
            found = (written(leaf) for call in entry for leaf in result_leaves(call.result))
        for text in found:
            texts.append(text)
            size += len(text)
            if size > _MAX_CHARACTERS or len(texts) > _MAX_TEXTS:
                return None
    return texts


def _fits(arguments: JsonObject, tool: ToolDefinition | None) -> bool:
    """Return whether nothing in the schema's first level speaks against the arguments."""
    schema = tool.parameters if tool is not None else None
    if schema is None:
        return True
    required, properties = schema.get("required"), schema.get("properties")
    if isinstance(required, list) and not all(isinstance(name, str) and name in arguments for name in required):
        return False
    if not isinstance(properties, dict):
        return True
    return all(name in properties and _is_kind(value, properties[name]) for name, value in arguments.items())


def _is_kind(value: Json, schema: Json) -> bool:
    kind = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        return True
    return isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


_PRECHECKED = Scored(
    value=1.0, explanation="every value stands verbatim in what the agent had been told", parts={"prechecked": 1}
)


class ToolParameterAccuracy(JudgedCalls):
    """1 for Yes, or where no value needs a judge; 0 for No."""

    prompt: ClassVar[Prompt] = prompts.TOOL_PARAMETER_ACCURACY
    version: ClassVar[str] = prompts.TOOL_PARAMETER_ACCURACY.version

    # Whether calls whose values can all be found are scored without asking.
    precheck: bool = True

    def clear(self, call: ToolCall, view: JudgeView) -> Outcome | None:
        """Return the outcome where it is clear without a judge."""
        unreadable = unreadable_arguments(call)
        if unreadable is not None or not self.precheck:
            return unreadable
        arguments = call.arguments.value if isinstance(call.arguments, Recorded) else None
        if isinstance(arguments, dict) and is_traced(arguments, view, call.name):
            return _PRECHECKED
        return None
