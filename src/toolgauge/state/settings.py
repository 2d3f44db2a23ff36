"""The section `state`."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from toolgauge.settings import MIB, FileName, Section, Size

Sync: TypeAlias = Literal["normal", "full"]
# One request may be larger than a smaller journal.
_SMALLEST_JOURNAL = 64 * MIB


class StateSettings(Section):
    """What outlives the process. Without a directory nothing does.

    `sync`: `normal` outlives the process, `full` also the machine. `max_bytes` counts the requests in the journal; when they
    are more, requests are refused, or kept in memory alone.
    """

    directory: FileName | None = None
    sync: Sync = "normal"
    max_bytes: Annotated[Size, Field(ge=_SMALLEST_JOURNAL)] = 4096 * MIB
    when_full: Literal["refuse", "memory"] = "refuse"
