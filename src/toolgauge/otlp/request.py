"""A sender's request whose envelope has been checked: what the receivers hand to the pipeline.

The envelope is checked before a sender is answered, because what cannot be parsed must not be acknowledged. What is
inside a span is nobody's business until the pipeline reads it.
"""

from msgspec import Struct

from toolgauge.model.delivery import Assignment, BrokerMessage, Signal, Source
from toolgauge.model.errors import DecodeError
from toolgauge.otlp.envelope import parse_request
from toolgauge.otlp.messages import LOG_RECORD, SPAN_SIGNS, RequestMessage, parse
from toolgauge.otlp.signals import check_signal


class Request(Struct, frozen=True, eq=False):
    """One export request: its bytes as received, its parsed envelope, and how many spans, records or metrics it holds.

    `sender` is the same for requests of one connection; `None` is a sender of this request alone. `received_ns` is when
    it came, `entry` the source that it can be read again from, where there is one.
    """

    signal: Signal
    body: bytes
    envelope: RequestMessage
    count: int
    sender: str | None
    received_ns: int
    entry: Source | None = None

    @property
    def spans(self) -> int:
        """How many spans are in it, for the books."""
        return self.count if self.signal == "traces" else 0

    @property
    def assignment(self) -> Assignment | None:
        """The partition that it was read from, where it came from a message broker."""
        return self.entry.assignment if isinstance(self.entry, BrokerMessage) else None


def read_request(
    signal: Signal, body: bytes, received_ns: int, sender: str | None = None, entry: Source | None = None
) -> Request:
    """Parse the envelope; raise `DecodeError` when it is broken (cut off, trailing bytes) or of another signal."""
    envelope = parse_request(body)
    check_signal(signal, envelope)
    count = sum(len(group.items) for resource in envelope.resource_groups for group in resource.scope_groups)
    return Request(signal, body, envelope, count, sender, received_ns, entry)


def newest_time_ns(signal: Signal, body: bytes) -> int:
    """Return the newest end of a span, or time of a log record, in the request; 0 when it holds none.

    A recorded request left its producer at that time at the earliest. Raise `DecodeError` when its envelope is broken or of another
    signal; a broken span or log record has no time: receivers leave out that record alone.
    """
    envelope = parse_request(body)
    check_signal(signal, envelope)
    time_ns = _span_time_ns if signal == "traces" else _log_time_ns
    groups = (scope for resource in envelope.resource_groups for scope in resource.scope_groups)
    return max((time_ns(raw) for group in groups for raw in group.items), default=0)


def _span_time_ns(raw: bytes) -> int:
    try:
        return parse(SPAN_SIGNS, raw).end_time_unix_nano
    except DecodeError:
        return 0


def _log_time_ns(raw: bytes) -> int:
    try:
        record = parse(LOG_RECORD, raw)
    except DecodeError:
        return 0
    return record.time_unix_nano or record.observed_time_unix_nano
