"""Counters about ourselves. Each part that drops, refuses or holds something counts it here.

`selfmetrics.json` has name, unit, labels and description of each metric, the cells that count from 0, why spans are dropped, and what should be 0.
The books: received = forwarded + consumed + held + queued + refused + dropped(reason), at every moment and for every
destination: `toolgauge.destination` is empty for spans that are not yet handed to one.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import ClassVar, get_type_hints

import msgspec
from msgspec import Struct

from toolgauge.model.metrics import Counter, Gauge, Histogram, Labels, MetricRegistry


class _Row(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    unit: str
    description: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    # A counter that appears at 1 has no increase to alert on.
    begin: tuple[tuple[str, ...], ...] = ()


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    # Why spans are dropped on the way to any destination, counted from 0.
    dropped: dict[str, str]
    dropped_also: dict[str, str]
    # What should be 0, each with the labels that make it so, in the order of what people lose by it.
    problems: tuple[tuple[str, dict[str, str]], ...]
    # By section and attribute.
    metrics: dict[str, dict[str, _Row]]


_TABLE = msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes(), type=_Table)
PROBLEMS = _TABLE.problems
STREAM_LABELS = _TABLE.metrics["watch"]["active"].labels


def drop_reason(reason: str) -> str:
    """Explain a value of `toolgauge.reason`; one that is not listed is the status with which a destination refused."""
    if reason.startswith("internal_"):
        return "sending failed inside toolgauge: report it"
    return {**_TABLE.dropped, **_TABLE.dropped_also}.get(reason, "the destination refused the request for good with it")


class MetricSection:
    """Metrics of one `section` of the table: each annotated attribute is registered under its row.

    `groups` have the labels behind a name in place of a label, where settings decide about these.
    """

    section: ClassVar[str]

    def __init__(self, registry: MetricRegistry, groups: Mapping[str, Labels] = {}) -> None:
        kinds = get_type_hints(type(self))
        for attribute, row in _TABLE.metrics[self.section].items():
            kind = kinds[attribute]
            labels = tuple(chain.from_iterable(groups.get(label, (label,)) for label in row.labels))
            if kind is Histogram:
                metric = registry.histogram(row.name, row.unit, row.description, row.bounds, labels)
            elif kind is Gauge:
                metric = registry.gauge(row.name, row.unit, row.description, labels)
            else:
                metric = registry.counter(row.name, row.unit, row.description, labels)
                metric.begin(*row.begin)
            setattr(self, attribute, metric)


class JudgeMetrics(MetricSection):
    """Costs and results of judging."""

    section = "judge"
    calls: Counter
    failures: Counter
    reasked: Counter
    duration: Histogram
    tokens: Counter
    cost: Counter
    saved: Counter
    queue: Gauge
    in_flight: Gauge


class WatchMetrics(MetricSection):
    """What the detectors of regressions know. Without a tool, a stream of level `call` is that of all tools of an agent."""

    section = "watch"
    active: Gauge
    evidence: Gauge
    baseline: Gauge
    current: Gauge
    observations: Gauge
    alarms: Counter
    streams: Gauge
    streams_evicted: Counter
    observations_cut: Counter
    run_length: Gauge
    state_saved: Gauge
    tool_events_limited: Counter


class StateMetrics(MetricSection):
    """State of the journal."""

    section = "state"
    failed: Gauge
    bytes: Gauge
    entries: Gauge
    commit_duration: Histogram
    unwritten: Counter
    unreadable: Counter


class WebhookMetrics(MetricSection):
    """Results of webhooks."""

    section = "webhook"
    notifications: Counter


class KafkaMetrics(MetricSection):
    """Progress of reading from Kafka; registered where a receiver does."""

    section = "kafka"
    lag: Gauge
    uncommitted: Gauge
    rebalances: Counter
    repeats: Counter
    forgotten: Counter
    given_up: Counter


class FeedbackMetrics(MetricSection):
    """Verdicts of others on runs, and the criteria that agree with them."""

    section = "feedback"
    verdicts: Counter
    agreement: Counter


class WebMetrics(MetricSection):
    """What the web view keeps; registered where there is one."""

    section = "web"
    trajectories: Gauge
    trajectories_bytes: Gauge
    trajectories_evicted: Counter
    verdicts: Counter


class ProcessMetrics(MetricSection):
    """CPU, memory and age of this process."""

    section = "process"
    cpu_time: Counter
    memory: Gauge
    uptime: Gauge


class WorkersMetrics(MetricSection):
    """The workers of a front."""

    section = "workers"
    restarts: Counter
    running: Gauge


class SelfMetrics(MetricSection):
    """What operators watch to know that toolgauge itself is well."""

    section = "own"
    spans: Counter
    spans_held: Gauge
    spans_queued: Gauge
    queue_bytes: Gauge
    queue_capacity: Gauge
    keep_bytes: Gauge
    keep_unsampled: Counter
    in_flight: Gauge
    retries: Counter
    requests: Counter
    requests_invalid: Counter
    spans_recovered: Counter
    spans_unread: Counter
    requests_unread: Counter
    trajectories_shed: Counter
    inbox_bytes: Gauge
    criteria_switched_off: Counter
    criteria_unmatched: Gauge
    log_dropped: Counter
    undecodable: Counter
    undecodable_values: Counter
    dialect_errors: Counter
    faults: Counter
    late: Histogram
    loop_suspected: Gauge
    split_suspected: Gauge
    memory_state: Gauge
    memory_resident: Gauge
    memory_limit: Gauge
    traces_open: Gauge
    traces_waiting: Gauge
    traces_open_bytes: Gauge
    scoring_queue: Gauge
    scoring_duration: Histogram
    scoring_delay: Histogram
    reported_errors: Counter
    loop_lag: Histogram
    reloads: Counter
    annotations: Counter
    send_failures: Counter
    send_rejected: Counter
    own_dropped: Counter
    scores: Counter
    scores_waiting: Gauge
    observations_dropped: Counter
    requests_dropped: Counter
    recording_dropped: Counter

    def __init__(self, registry: MetricRegistry) -> None:
        self.registry = registry
        self.judge = JudgeMetrics(registry)
        self.watch = WatchMetrics(registry)
        self.webhook = WebhookMetrics(registry)
        self.state = StateMetrics(registry)
        self.lock = registry.lock
        super().__init__(registry)

    def begin_destination(self, name: str, signals: Sequence[str]) -> None:
        """Begin the counters of losses on the way to a destination."""
        if "scores" in signals:
            outcomes = [("dropped", reason) for reason in (*_TABLE.dropped, "no_span", "rejected")]
            self.scores.begin(
                *((name, *each) for each in (("accepted", ""), ("delivered", ""), ("left_out", ""), *outcomes))
            )
            return
        self.spans.begin(("forwarded", "", name))
        for signal in signals:
            lost = [(name, signal, reason) for reason in _TABLE.dropped]
            self.own_dropped.begin(*lost)
            self.send_rejected.begin((name, signal))
            if signal == "traces":
                self.spans.begin(*(("dropped", reason, name) for reason in _TABLE.dropped))
            else:
                self.requests_dropped.begin(*lost)

    def dropped(self, *, has_journal: bool = False) -> dict[str, int]:
        """Return how much was dropped so far, by kind and reason.

        Losses at the end of the process are reported apart, except of our own metrics where a journal holds later ones; spans
        that `keep` leaves out are not lost.
        """
        cells = [("spans", labels, n) for labels, n in self.spans.cells.items() if labels[0] == "dropped"]
        for counter, whose in ((self.requests_dropped, "of senders"), (self.own_dropped, "of our own")):
            cells += [(f"{name} requests {whose}", (name, why, to), n) for (to, name, why), n in counter.cells.items()]
        found = [
            (f"{what} were dropped ({why}, {to or 'queue'})", n)
            for what, (_, why, to), n in cells
            if why not in ("shutdown", "sampled") or (has_journal and what == "metrics requests of our own")
        ]
        return {text: int(n) for text, n in found if n}
