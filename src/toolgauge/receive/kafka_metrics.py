"""Metrics about reading from Kafka."""

from toolgauge.model.metrics import MetricRegistry


class KafkaMetrics:
    """How reading from Kafka goes."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.lag = registry.gauge(
            "toolgauge.kafka.lag",
            "{message}",
            "Messages of a partition that are still to be read. When it rises, add consumers, up to one a partition.",
            ("toolgauge.topic", "toolgauge.partition"),
        )
        self.uncommitted = registry.gauge(
            "toolgauge.kafka.uncommitted",
            "{message}",
            "Messages that were read and are still needed: they are read again after a crash. When it rises, look at the "
            "destinations.",
        )
        self.rebalances = registry.counter(
            "toolgauge.kafka.rebalances",
            "{rebalance}",
            "How often partitions were handed out anew: `assigned`, or `lost` (the group went on without this process: look at "
            "the brokers, and at `session_timeout`).",
            ("toolgauge.outcome",),
        )
        self.repeats = registry.counter(
            "toolgauge.kafka.repeats",
            "{message}",
            "Messages that were read before, by this process or another one, and not committed: destinations get their spans "
            "again, and nothing is scored twice.",
        )
        self.forgotten = registry.counter(
            "toolgauge.kafka.forgotten",
            "{trajectory}",
            "Open trajectories that were dropped without a result, because their partition was lost: its next owner reads them "
            "again.",
        )
        self.given_up = registry.counter(
            "toolgauge.kafka.given_up",
            "{trajectory}",
            "Trajectories of which messages were committed while they were open (`max_uncommitted`): one whose partition moves "
            "before it closes is not_evaluated (`incomplete`).",
        )
        self.rebalances.begin(("assigned",), ("lost",))
