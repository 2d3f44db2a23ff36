"""Single runs that are announced to people: failed ones, and open ones that fail already."""

from collections.abc import Mapping
from typing import Protocol, TypeAlias

from msgspec import Struct

from toolgauge.model.json import JsonObject


class Notice(Struct, frozen=True, kw_only=True):
    """A criterion has failed in a run, which `is_open` while it still runs. `is_marked` where the criterion has `notify`.

    `tool` is `None` for results of whole runs. The `explanation` is redacted.
    """

    service: str | None
    agent: str | None
    tool: str | None
    criterion: str
    trace_id: str
    explanation: str
    at_ns: int
    is_open: bool = False
    is_marked: bool = False


# Calls and failed ones.
Counts: TypeAlias = tuple[int, int]


class OpenCall(Struct, frozen=True, kw_only=True):
    """A call of a run that has not ended. All counts include it, and can only grow.

    `identical` are equal calls with nothing changed in between; `effects` successful ones, with any result and no
    other state-changing call in between. `by_tool` counts the calls of the run, and `elapsed_ns` is the time from its first one.
    """

    name: str
    writes: bool
    # Whether each call of the tool has an effect of its own, and whether it is called again and again on purpose.
    once_more: bool
    may_repeat: bool
    has_worked: bool
    arguments: JsonObject | None
    identical: int
    effects: int
    by_tool: Mapping[str, Counts]
    elapsed_ns: int


class LooksAtOpenRuns(Protocol):
    """An evaluator that finds failures of runs that have not ended."""

    def while_open(self, call: OpenCall) -> str | None:
        """Return why the run is certain to fail; `None` where it is not certain."""
        ...
