"""Entries of the journal: requests that were acknowledged, and ids of trajectories that have closed."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from toolgauge.model.delivery import BrokerMessage, Signal
from toolgauge.model.left_out import EarlierValues
from toolgauge.model.trajectory import TrajectoryScope


class JournalEntry(Struct, frozen=True, kw_only=True, gc=False):
    """One export request; `own` ones are only sent again. `delivered`: kept for open trajectories alone."""

    id: int
    signal: Signal
    body: bytes
    received_ns: int
    own: bool
    delivered: bool = False


class SamplingDecision(Struct, frozen=True, gc=False):
    """Whether a destination gets a trace. Its spans carry the `threshold`, and `randomness` where it is not the trace's own."""

    is_kept: bool
    threshold: int = 0
    randomness: int | None = None


class ClosedId(Struct, frozen=True, kw_only=True, gc=False):
    """The id of a trace or conversation that was closed and scored."""

    id: str
    scope: TrajectoryScope
    closed_ns: int
    # Of the message broker that its spans came from.
    partition: int | None = None
    # By the names of destinations that keep a part of all traces.
    sampled: Mapping[str, SamplingDecision] = {}


class ShownValues(Struct, frozen=True, kw_only=True, gc=False):
    """All that a conversation has shown so far; `conversation` stands for its id."""

    conversation: bytes
    values: EarlierValues


class JournalChange(Struct, frozen=True, kw_only=True, gc=False):
    """Changes written together or not at all: ids of `delivered` and `removed` entries, and broker `messages` no longer needed."""

    appended: Sequence[JournalEntry] = ()
    delivered: Sequence[int] = ()
    removed: Sequence[int] = ()
    closed: Sequence[ClosedId] = ()
    shown: Sequence[ShownValues] = ()
    messages: Sequence[BrokerMessage] = ()
