"""The interfaces at both ends of the data path: a received request with its answer, and an outgoing request."""

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from toolgauge.model.errors import InvalidReason

OtlpSignal: TypeAlias = Literal["traces", "metrics", "logs"]
# `scores` are lines of JSON for the score tables of other backends, and always our own.
Signal: TypeAlias = OtlpSignal | Literal["scores"]


class Accepted(Struct, frozen=True):
    """The data is in memory and will be sent on."""


class Refused(Struct, frozen=True):
    """Nothing was taken; the sender should try again (queue full, memory short, shutting down)."""

    message: str
    retry_after_s: float = 1.0


class Invalid(Struct, frozen=True):
    """Nothing was taken and it never will be: the request cannot be decoded."""

    message: str
    reason: InvalidReason = "undecodable"


class Unsupported(Struct, frozen=True):
    """Nothing was taken: this signal is not accepted as configured."""

    message: str


Answer: TypeAlias = Accepted | Refused | Invalid | Unsupported


class Consumer(Protocol):
    """Takes whole export requests: uncompressed protobuf bytes of an `Export*ServiceRequest`."""

    async def consume(self, signal: Signal, body: bytes, sender: str | None) -> Answer:
        """Answer whether the request was taken; `sender` is the same for requests of one connection, `None` for this request alone."""
        ...


class Assignment(Struct, kw_only=True, eq=False):
    """A topic partition assigned to this process; `began_ns` is when its first readable message was written, if any was missed before."""

    partition: int
    began_ns: int | None = None
    is_lost: bool = False


class BrokerMessage(Struct, frozen=True, eq=False):
    """A message of a broker, which keeps it until its offset is committed."""

    topic: str
    offset: int
    assignment: Assignment


# The id of an entry of the journal.
JournalRow: TypeAlias = int
# Where a request is read again after a crash.
Source: TypeAlias = JournalRow | BrokerMessage
# The entry of a request that nothing reads again.
NO_ENTRY: JournalRow = 0


class MessageConsumer(Protocol):
    """Takes export requests from a message broker, which keeps all others."""

    async def consume_message(self, signal: Signal, body: bytes, sender: str, message: BrokerMessage) -> Answer:
        """Answer whether the request was taken; without room for it, it is never passed on unread, but refused."""
        ...


# Requests are joined up to this size: scores make spans larger, and most destinations take no request of more than 4 MiB.
REQUEST_BYTES = 2 * 1024 * 1024


class Outgoing(Struct, frozen=True, kw_only=True):
    """One serialised export request on its way out.

    `spans` is the number of senders' spans in it, for the books; 0 for log records and for what we say ourselves.
    `own` marks what we say ourselves (scorecards, events, metrics), `of_traces` scorecards and events of results, which follow their traces. `parts` are the bytes and spans of the requests that it was put
    together from, in their order in the body; none where it is one request. `entries` are the sources of which it holds something.
    What a senders' request belongs to is unknown unless it `is_read`.
    """

    signal: Signal
    body: bytes
    spans: int
    own: bool
    parts: tuple[tuple[int, int], ...] = ()
    entries: tuple[Source, ...] = ()
    is_read: bool = True
    of_traces: bool = False


def merged(requests: Sequence[Outgoing]) -> Outgoing:
    """Join senders' requests of one signal: written one after the other, protobuf messages are merged."""
    if len(requests) == 1:
        return requests[0]
    return Outgoing(
        signal=requests[0].signal,
        body=b"".join([one.body for one in requests]),
        spans=sum([one.spans for one in requests]),
        own=False,
        parts=tuple([part for one in requests for part in one.parts or ((len(one.body), one.spans),)]),
        entries=tuple([entry for one in requests for entry in one.entries]),
        is_read=all(one.is_read for one in requests),
    )


class Outbox(Protocol):
    """Where requests leave: a bounded queue a destination, or nothing at all (leaf mode)."""

    def forwards(self, signal: Signal) -> bool:
        """Return whether senders' requests of this signal are sent on."""
        ...

    def has_room(self, signal: Signal, size_bytes: int) -> bool:
        """Return whether `put` would take a senders' request of this signal and size now."""
        ...

    def put(self, outgoing: Outgoing) -> bool:
        """Queue the request; False without room (nothing was taken then, and nothing counted)."""
        ...
