"""The port for receivers that read from a message broker: what such a plug-in is called with, beside its settings.

It is called `(settings, parts)` and is a `toolgauge.model.ports.MessageReceiver`; it reads, hands each message to the consumer, and
commits messages that are sent on and scored.
"""

from collections.abc import Callable

from msgspec import Struct

from toolgauge.model.delivery import MessageConsumer
from toolgauge.model.ports import OpenTraces
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.state.ledger import Ledger, OffsetJournal


class BrokerParts(Struct, frozen=True, kw_only=True):
    """The rest of the process, as a receiver of messages sees it. `late_ns`: how long ids of closed traces are remembered."""

    consumer: MessageConsumer
    offsets: OffsetJournal
    ledger: Ledger
    traces: OpenTraces
    metrics: SelfMetrics
    hop_id: str
    clock: Callable[[], int]
    late_ns: int
