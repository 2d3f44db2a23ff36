"""Rebuilds the messages and tools that older Traceloop releases flatten into indexed attributes.

Arrives: `gen_ai.prompt.0.role`, `gen_ai.completion.0.tool_calls.1.name`, `llm.request.functions.2.parameters`, in any
order: attributes have none, and the tenth comes before the second where indices are sorted as text.
"""

import re
from collections.abc import Mapping

from msgspec import Struct

from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.recognize.messages import Message
from toolgauge.recognize.values import dump, plain

PROMPT = "gen_ai.prompt."
COMPLETION = "gen_ai.completion."

# Six digits are more messages than a span can hold.
_KEY = re.compile(r"(gen_ai\.prompt|gen_ai\.completion|llm\.request\.functions)\.([0-9]{1,6})\.(.+)")
_CALL = re.compile(r"tool_calls\.([0-9]{1,6})\.(id|name|arguments)")
# The call of the first function-calling models, which asked for one at a time and gave it no id.
_FUNCTION_CALL = re.compile(r"function_call\.()(name|arguments)")
_MESSAGE_FIELDS = frozenset(("role", "content", "tool_call_id", "name"))
_FUNCTION_FIELDS = frozenset(("name", "description", "parameters", "input_schema"))


class Exchange(Struct, frozen=True, kw_only=True):
    """What a model was given and what it wrote. `functions` is JSON text of the tools on offer, "" without any."""

    received: list[Message]
    written: list[Message]
    functions: str


def read_exchange(attributes: Mapping[str, Value]) -> Exchange:
    """Read all indexed attributes of one span."""
    prompts: dict[int, _Indexed] = {}
    completions: dict[int, _Indexed] = {}
    functions: dict[int, JsonObject] = {}
    for key in attributes:
        found = _KEY.fullmatch(key)
        if found is None:
            continue
        index, rest = int(found[2]), found[3]
        if found[1] == "llm.request.functions":
            if rest in _FUNCTION_FIELDS:
                functions.setdefault(index, {})[rest] = plain(attributes[key])
            continue
        messages = prompts if found[1] == "gen_ai.prompt" else completions
        messages.setdefault(index, _Indexed()).put(rest, attributes[key])
    return Exchange(
        received=[prompts[index].message("user") for index in sorted(prompts)],
        written=[completions[index].message("assistant") for index in sorted(completions)],
        functions=dump([functions[index] for index in sorted(functions)]) if functions else "",
    )


class _Indexed:
    """One message while it is put together."""

    def __init__(self) -> None:
        self._fields: JsonObject = {}
        self._calls: dict[int, JsonObject] = {}

    def put(self, rest: str, value: Value) -> None:
        """Take one attribute; `rest` is what comes after the message's index."""
        if rest in _MESSAGE_FIELDS:
            self._fields[rest] = plain(value)
            return
        found = _CALL.fullmatch(rest) or _FUNCTION_CALL.fullmatch(rest)
        if found is not None:
            self._calls.setdefault(int(found[1] or 0), {})[found[2]] = plain(value)

    def message(self, default_role: str) -> Message:
        """Return the message."""
        calls: list[Json] = [self._calls[index] for index in sorted(self._calls)]
        return Message({**self._fields, "tool_calls": calls}, default_role)
