"""Counters about ourselves. Each part that drops, refuses or holds something counts it here.

The books: received = forwarded + consumed + held + queued + refused + dropped(reason), at every moment and for every
destination: `toolgauge.destination` is empty for what happens to a span before it is handed to them.
"""

from collections.abc import Iterable, Mapping

from toolgauge.model.metrics import MetricRegistry

_SIGNALS = ("traces", "metrics", "logs")
_REFUSED_BECAUSE = ("queue_full", "memory", "shutdown", "journal_full")
# Why spans are dropped, counted from 0.
_DROPPED_BECAUSE: Mapping[str, str] = {
    "queue_full": "one of several destinations had no room",
    "too_large": "the request is larger than the destination's `max_request_size`",
    "retries_exhausted": "no attempt worked within `retry.max_elapsed_time` of the first one",
    "partial_success": "the destination took the request and rejected some of its spans",
    "shutdown": "it could not be sent in time when the process ended",
    "destination_removed": "it could not be sent in the 30 s after a reload took its destination away",
}
_ALSO_DROPPED_BECAUSE: Mapping[str, str] = {
    "worker_died": "it was in a worker that died, and there is no journal",
    "no_endpoint": "the destination has no endpoint for this signal",
    "response_too_large": "the answer over HTTP is larger than toolgauge reads",
}
_REFUSED_FOR_GOOD = "the destination refused the request for good with it"
_FAILED_INSIDE = "sending failed inside toolgauge: report it"
_DURATION_BOUNDS_S = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
_JUDGE_BOUNDS_S = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0)
_DELAY_BOUNDS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_LAG_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_COMMIT_BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_LATE_BOUNDS_S = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)


def drop_reason(reason: str) -> str:
    """Explain a value of `toolgauge.reason`; one that is not listed is the status with which a destination refused."""
    if reason.startswith("internal_"):
        return _FAILED_INSIDE
    return {**_DROPPED_BECAUSE, **_ALSO_DROPPED_BECAUSE}.get(reason, _REFUSED_FOR_GOOD)


class JudgeMetrics:
    """What judging costs and how it fares."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.calls = registry.counter(
            "toolgauge.judge.calls",
            "{call}",
            "Calls to the judge's provider. `unusable` replies held no verdict; `failed` is explained by "
            "toolgauge.judge.failures; `over_budget` were not made: raise `judge.max_cost_per_hour`.",
            ("toolgauge.outcome",),
        )
        self.failures = registry.counter(
            "toolgauge.judge.failures",
            "{call}",
            "Calls to the judge's provider that failed, by kind: look at the provider, its key and `judge.timeout`.",
            ("error.type",),
        )
        self.reasked = registry.counter(
            "toolgauge.judge.reasked",
            "{question}",
            "Questions that were asked again because the verdict had the wrong form: try another model.",
        )
        self.duration = registry.histogram(
            "toolgauge.judge.duration", "s", "Time of one call to the judge's provider.", _JUDGE_BOUNDS_S
        )
        self.tokens = registry.counter(
            "toolgauge.judge.tokens",
            "{token}",
            "Tokens that the judge read and wrote; estimated from the text where the provider does not tell.",
            ("gen_ai.token.type",),
        )
        self.cost = registry.counter(
            "toolgauge.judge.cost", "{cost}", "Cost of judging, in the currency of `judge.prices`."
        )
        self.saved = registry.counter(
            "toolgauge.judge.saved", "{call}", "Calls to the judge that a check of the evaluator made unnecessary."
        )
        self.queue = registry.gauge(
            "toolgauge.judge.queue.size", "{item}", "Trajectories that wait for judges or are being judged."
        )
        self.in_flight = registry.gauge("toolgauge.judge.in_flight", "{call}", "Questions that are being asked.")


STREAM_LABELS = (
    "toolgauge.service",
    "deployment.environment.name",
    "gen_ai.agent.name",
    "gen_ai.tool.name",
    "gen_ai.evaluation.name",
    "toolgauge.criterion.revision",
    "toolgauge.level",
)


class WatchMetrics:
    """What the detectors of regressions know. Without a tool, a stream of level `call` is that of all tools of an agent."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.active = registry.gauge(
            "toolgauge.regression.active",
            "{state}",
            "1 while the scores of a stream are lower than their baseline: look at its traces, or accept it with "
            "`toolgauge ack`.",
            STREAM_LABELS,
        )
        self.evidence = registry.gauge(
            "toolgauge.regression.evidence",
            "{fraction}",
            "Evidence that the scores of a stream have dropped: 0 is none, at 1 the alarm is raised.",
            STREAM_LABELS,
        )
        self.baseline = registry.gauge(
            "toolgauge.regression.baseline", "{score}", "Mean score that a stream is compared with.", STREAM_LABELS
        )
        self.current = registry.gauge(
            "toolgauge.regression.current",
            "{score}",
            "Mean score of a stream since the estimated onset of a drop, else of its newest observations.",
            STREAM_LABELS,
        )
        self.observations = registry.gauge(
            "toolgauge.regression.observations",
            "{observation}",
            "Observations (one a conversation) in the baseline of a stream; it is watched from `watch.baseline_min` on.",
            STREAM_LABELS,
        )
        self.alarms = registry.counter(
            "toolgauge.regression.alarms", "{alarm}", "Regressions that began, by stream.", STREAM_LABELS
        )
        self.streams = registry.gauge(
            "toolgauge.streams",
            "{stream}",
            "Streams of scores by what their detector does. Many that stay in `learning` have few conversations: they are "
            "watched as part of their agent's stream.",
            ("toolgauge.state",),
        )
        self.streams_evicted = registry.counter(
            "toolgauge.streams.evicted",
            "{stream}",
            "Streams that were forgotten because there are more than `watch.max_streams`: raise it, or look for the client "
            "whose names are not a small set.",
        )
        self.observations_cut = registry.counter(
            "toolgauge.regression.observations.cut",
            "{observation}",
            "Conversations that were counted before they were idle, because too many were open: lower "
            "`watch.conversation_idle`.",
        )
        self.run_length = registry.gauge(
            "toolgauge.regression.run_length",
            "{observation}",
            "Observations to a false alarm, on average at least, of all streams together: it follows from "
            "`watch.false_alarms_per_week`.",
        )
        self.weekly_observations = registry.gauge(
            "toolgauge.regression.weekly_observations",
            "{observation}",
            "Observations a week, of all streams together, by the last 7 days.",
        )
        self.state_saved = registry.gauge(
            "toolgauge.state.durable",
            "{state}",
            "1 when what the detectors know survives a restart; 0 without `state.directory`, or while it cannot be written.",
        )


class StateMetrics:
    """How the journal fares."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.failed = registry.gauge(
            "toolgauge.state.failed",
            "{state}",
            "1 while requests are acknowledged that are in memory only, because the journal cannot be written: the log "
            "says why.",
        )
        self.bytes = registry.gauge(
            "toolgauge.state.bytes",
            "By",
            "Bytes of the requests in the journal; at `state.max_bytes` it is full: look for the destination that takes "
            "nothing.",
        )
        self.entries = registry.gauge("toolgauge.state.entries", "{request}", "Requests in the journal.")
        self.commit_duration = registry.histogram(
            "toolgauge.state.commit.duration",
            "s",
            "Time of one transaction of the journal. When it rises, look at the disk: senders wait as long.",
            _COMMIT_BOUNDS_S,
        )
        self.unwritten = registry.counter(
            "toolgauge.state.unwritten",
            "{request}",
            "Requests that were to be in the journal and are in memory only: `failed` (it cannot be written), `full` "
            "(`state.max_bytes` with `when_full: memory`).",
            ("toolgauge.reason",),
        )
        self.unreadable = registry.counter(
            "toolgauge.state.unreadable",
            "{request}",
            "Requests of an earlier process that could not be read from the journal: look at the disk.",
        )
        self.unwritten.begin(("failed",), ("full",))


class WebhookMetrics:
    """How webhooks fare."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.notifications = registry.counter(
            "toolgauge.webhook.notifications",
            "{notification}",
            "Requests to webhooks: `sent`, `retried` (attempts that were not the first), `dropped` (given up, or more than "
            "may wait: look at the destination, and at its `url` and `headers`).",
            ("toolgauge.destination", "toolgauge.outcome"),
        )


class SelfMetrics:
    """What operators watch to know that toolgauge itself is well."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.registry = registry
        self.judge = JudgeMetrics(registry)
        self.watch = WatchMetrics(registry)
        self.webhook = WebhookMetrics(registry)
        self.state = StateMetrics(registry)
        self.lock = registry.lock
        self.spans = registry.counter(
            "toolgauge.spans",
            "{span}",
            "Senders' spans by what became of them. `dropped` above 0 is data loss: look at `toolgauge.reason`.",
            ("toolgauge.outcome", "toolgauge.reason", "toolgauge.destination"),
        )
        self.spans_held = registry.gauge(
            "toolgauge.spans.held", "{span}", "Spans that wait for the scores of their trajectory."
        )
        self.spans_queued = registry.gauge(
            "toolgauge.spans.queued",
            "{span}",
            "Spans that wait to be sent to the destination.",
            ("toolgauge.destination",),
        )
        self.queue_bytes = registry.gauge(
            "toolgauge.send.queue.bytes",
            "By",
            "Bytes of requests that wait to be sent or are on their way; senders are refused at the capacity.",
            ("toolgauge.destination",),
        )
        self.queue_capacity = registry.gauge(
            "toolgauge.send.queue.capacity",
            "By",
            "Bytes of senders' requests that may wait: `queue.max_bytes`.",
            ("toolgauge.destination",),
        )
        self.in_flight = registry.gauge(
            "toolgauge.send.in_flight",
            "{request}",
            "Requests that a destination has not answered yet.",
            ("toolgauge.destination",),
        )
        self.retries = registry.counter(
            "toolgauge.send.retries",
            "{request}",
            "Attempts to send that were not the first: look at the destination.",
            ("toolgauge.destination", "toolgauge.signal"),
        )
        self.requests = registry.counter(
            "toolgauge.requests",
            "{request}",
            "Requests received. `refused` means that senders must come back: look at the destination. `unread` were not read "
            "to their end over gRPC: their senders went away, or are to raise `max_recv_msg_size` or send less at a time.",
            ("toolgauge.transport", "toolgauge.signal", "toolgauge.outcome"),
        )
        self.requests_invalid = registry.counter(
            "toolgauge.requests.invalid",
            "{request}",
            "Requests that were refused for good as invalid, by reason: look at the sender's log, which has the answer.",
            ("toolgauge.transport", "toolgauge.signal", "toolgauge.reason"),
        )
        self.spans_recovered = registry.counter(
            "toolgauge.spans.recovered",
            "{span}",
            "Spans of the journal that an earlier process had acknowledged and that were perhaps not delivered: they are sent "
            "once more, some of them a second time.",
        )
        self.spans_unread = registry.counter(
            "toolgauge.spans.unread",
            "{span}",
            "Spans that went on without being read because scoring could not keep up (`overload`): sample costly "
            "criteria, or run more processes.",
        )
        self.requests_unread = registry.counter(
            "toolgauge.requests.unread",
            "{request}",
            "Requests that went on without being read because scoring could not keep up; see toolgauge.spans.unread.",
            ("toolgauge.signal",),
        )
        self.inbox_bytes = registry.gauge(
            "toolgauge.inbox.bytes",
            "By",
            "Bytes of requests that were acknowledged and wait to be read; at `inbox.max_bytes` requests go on unread.",
        )
        self.criteria_switched_off = registry.counter(
            "toolgauge.criteria.switched_off",
            "{criterion}",
            "How often a criterion was switched off for a service for 10 minutes because its evaluator did not end three "
            "times in a row: look at the evaluator; a reload of the configuration switches it on.",
            ("gen_ai.evaluation.name",),
        )
        self.criteria_unmatched = registry.gauge(
            "toolgauge.criteria.unmatched",
            "{criterion}",
            "1 for a written criterion that matched no trajectory, or whose `tools` or `rules` named no call, in the last full hour "
            "with trajectories: look at its `when`, `scope` and `tools`.",
            ("gen_ai.evaluation.name",),
        )
        self.log_dropped = registry.counter(
            "toolgauge.log.dropped",
            "{record}",
            "Lines of our own log that were dropped because nobody reads the log as fast as it is written.",
        )
        self.undecodable = registry.counter(
            "toolgauge.spans.undecodable",
            "{span}",
            "Spans and log records that are broken inside, or that a destination refused and no strict reader can decode; "
            "they go on untouched: look at their producer.",
        )
        self.undecodable_values = registry.counter(
            "toolgauge.values.undecodable",
            "{value}",
            "Attribute values and events that are broken inside their span; read as absent: look at their producer.",
        )
        self.dialect_errors = registry.counter(
            "toolgauge.dialect.errors",
            "{error}",
            "Dialects that failed on a record; it went on unscored: please report it.",
            ("toolgauge.dialect",),
        )
        self.faults = registry.counter(
            "toolgauge.faults",
            "{error}",
            "Faults of our own in closing, scoring and sending on time, by kind of exception; the work went on without "
            "what failed: please report them.",
            ("error.type",),
        )
        self.late = registry.histogram(
            "toolgauge.spans.late",
            "s",
            "Agent spans that came after their trajectory was closed, by how late; forwarded, not scored. "
            "Raise `assemble.run_end_grace` when this rises.",
            _LATE_BOUNDS_S,
        )
        self.loop_suspected = registry.gauge(
            "toolgauge.loop_suspected",
            "{state}",
            "1 when most agent spans of the last minute came twice: look for a pipeline that sends our output back.",
        )
        self.split_suspected = registry.gauge(
            "toolgauge.split_suspected",
            "{state}",
            "1 when 10 % or more of the last 100 trajectories with calls show that spans of them went elsewhere: route by "
            "trace id, in a Collector with `routing_key: traceID` of the exporter `loadbalancing`.",
        )
        self.memory_state = registry.gauge(
            "toolgauge.memory.state",
            "{state}",
            "1 while memory is short and senders are told to come back: raise `memory.limit`, or lower the limits of "
            "queues, `hold` and `assemble`.",
        )
        self.memory_resident = registry.gauge(
            "toolgauge.memory.resident", "By", "Memory in use; 0 where the system does not tell it."
        )
        self.memory_limit = registry.gauge(
            "toolgauge.memory.limit", "By", "`memory.limit`; senders are refused at 80 %."
        )
        self.traces_open = registry.gauge(
            "toolgauge.traces.open",
            "{trace}",
            "Trajectories that are being assembled; above `assemble.max_open` the oldest are closed early.",
        )
        self.traces_open_bytes = registry.gauge(
            "toolgauge.traces.open.bytes",
            "By",
            "About how much memory open trajectories take; above `assemble.max_open_bytes` the oldest are closed early.",
        )
        self.scoring_queue = registry.gauge(
            "toolgauge.queue.size", "{item}", "Trajectories that were closed for want of room and wait to be scored."
        )
        self.scoring_duration = registry.histogram(
            "toolgauge.scoring.duration",
            "s",
            "Time to score one trajectory. When it rises, look for a criterion that is costly on long runs.",
            _DURATION_BOUNDS_S,
        )
        self.scoring_delay = registry.histogram(
            "toolgauge.scoring.delay",
            "s",
            "Time from when a trajectory was due to close to its scores. When it rises, scoring cannot keep up: sample "
            "costly criteria, or run more processes.",
            _DELAY_BOUNDS_S,
        )
        self.loop_lag = registry.histogram(
            "toolgauge.loop.lag",
            "s",
            "How long what was ready had to wait for its turn. When it rises, senders wait as long: look at "
            "process.cpu.time and toolgauge.scoring.duration.",
            _LAG_BOUNDS_S,
        )
        self.reloads = registry.counter(
            "toolgauge.reloads",
            "{reload}",
            "Reloads on SIGHUP or a change of a file: `applied`, `partly` (a port or a file could not be had, the log says "
            "which), `refused` (the configuration is wrong and the running one stays: see the log).",
            ("toolgauge.outcome",),
        )
        self.annotations = registry.counter(
            "toolgauge.annotations",
            "{span}",
            "Judged spans by how their scores reached the trace. `missed` spans left before they were scored.",
            ("toolgauge.form",),
        )
        self.send_failures = registry.counter(
            "toolgauge.send.failures",
            "{request}",
            "Attempts to send that failed, by reason.",
            ("toolgauge.destination", "toolgauge.signal", "toolgauge.reason"),
        )
        self.send_rejected = registry.counter(
            "toolgauge.send.rejected",
            "{item}",
            "Spans, log records and data points that a destination rejected of requests that it took "
            "(`partial_success`); they are not sent again: look at the destination.",
            ("toolgauge.destination", "toolgauge.signal"),
        )
        self.own_dropped = registry.counter(
            "toolgauge.own.dropped",
            "{request}",
            "Our own scorecards, events and metrics that could not be delivered: look at the destination.",
            ("toolgauge.destination", "toolgauge.signal", "toolgauge.reason"),
        )
        self.observations_dropped = registry.counter(
            "toolgauge.workers.observations.dropped",
            "{trajectory}",
            "Trajectories that were scored, and of which the process in front of the workers was not informed as it could not keep "
            "up: detectors of regressions, pages and lines lack them. Run more instances with fewer `workers` each.",
        )
        self.requests_dropped = registry.counter(
            "toolgauge.requests.dropped",
            "{request}",
            "Senders' log and metric requests that could not be delivered (spans are in toolgauge.spans): "
            "look at the destination.",
            ("toolgauge.destination", "toolgauge.signal", "toolgauge.reason"),
        )
        self.recording_dropped = registry.counter(
            "toolgauge.recording.dropped",
            "{request}",
            "Requests that `exporters.file` did not write; nothing else lost them. Look at the disk.",
            ("toolgauge.signal", "toolgauge.reason"),
        )
        self._begin()

    def _begin(self) -> None:
        """Begin counters that alerts look at: one that appears at 1 has no increase."""
        self.spans.begin(("received", "", ""), *(("refused", reason, "") for reason in _REFUSED_BECAUSE))
        self.own_dropped.begin(*(("", signal, "queue_full") for signal in _SIGNALS))
        self.requests_unread.begin(("traces",), ("logs",))
        self.annotations.begin(("attribute",), ("scorecard",), ("missed",))

    def begin_destination(self, name: str, signals: Iterable[str]) -> None:
        """Begin the counters of losses on the way to a destination."""
        self.spans.begin(("forwarded", "", name))
        for signal in signals:
            lost = [(name, signal, reason) for reason in _DROPPED_BECAUSE]
            self.own_dropped.begin(*lost)
            self.send_rejected.begin((name, signal))
            if signal == "traces":
                self.spans.begin(*(("dropped", reason, name) for reason in _DROPPED_BECAUSE))
            else:
                self.requests_dropped.begin(*lost)
