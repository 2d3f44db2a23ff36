"""Entries of the journal: requests that were acknowledged, and ids of trajectories that have closed."""

from collections.abc import Sequence

from msgspec import Struct

from toolgauge.model.delivery import BrokerMessage, Signal
from toolgauge.model.earlier_values import EarlierValues
from toolgauge.model.trajectory import TrajectoryScope


class JournalEntry(Struct, frozen=True, kw_only=True, gc=False):
    """One export request. Our `own` are sent again after a restart, and never read.

    `delivered`: every destination has it, and it is kept for the trajectories that are open.
    """

    id: int
    signal: Signal
    body: bytes
    received_ns: int
    own: bool
    delivered: bool = False


class ClosedId(Struct, frozen=True, kw_only=True, gc=False):
    """The id of a trace or conversation that was closed and scored."""

    id: str
    scope: TrajectoryScope
    closed_ns: int
    # Of the message broker that its spans came from.
    partition: int | None = None


class ShownValues(Struct, frozen=True, kw_only=True, gc=False):
    """All that a conversation has shown so far; `conversation` stands for its id."""

    conversation: bytes
    values: EarlierValues


class JournalChange(Struct, frozen=True, kw_only=True, gc=False):
    """Changes that are written together, or not at all. `delivered` and `removed` are ids of entries.

    `messages` are those of a broker that are not needed any more.
    """

    appended: Sequence[JournalEntry] = ()
    delivered: Sequence[int] = ()
    removed: Sequence[int] = ()
    closed: Sequence[ClosedId] = ()
    shown: Sequence[ShownValues] = ()
    messages: Sequence[BrokerMessage] = ()
