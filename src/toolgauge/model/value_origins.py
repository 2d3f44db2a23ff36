"""Where the argument values of a call come from, followed back from call to call.

None of the steps is called the cause of a failure: data flow does not show which step decided a run.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from toolgauge.model.json import Json
from toolgauge.model.trajectory import ToolCall

# `earlier` is an earlier trace of the conversation; `model` where nothing before the call held the value, `unknown` where not everything before it was recorded; `common` for
# values that are in any conversation, such as small numbers; `derived` for sums, dates named in other words and the like.
ValueSource: TypeAlias = Literal[
    "user", "system", "schema", "result", "earlier", "derived", "model", "common", "unknown"
]


class ValueOrigin(Struct, frozen=True, kw_only=True):
    """Where one argument value comes from. `path` is its place in the arguments: `items[0].sku`.

    `result_of` is the first call whose result held it, with the origins of its own values; `None` for other sources, and where
    no single result holds all of the value.
    """

    path: str
    value: Json
    source: ValueSource
    result_of: "CallOrigins | None" = None


class CallOrigins(Struct, frozen=True, kw_only=True):
    """The origins of the argument values of one call. `more` counts the values that were not followed."""

    call: ToolCall
    values: tuple[ValueOrigin, ...]
    more: int = 0
