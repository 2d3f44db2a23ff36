"""The dashboard `toolgauge-health`: whether toolgauge itself is well."""

from deploy.dashboards.model import Annotation, Dashboard, Panel, Query, Row, Threshold, Variable

_RATE = "$__rate_interval"
_JOB = 'job=~"$job", instance=~"$instance"'
_LOSS = (Threshold(value=None, color="green"), Threshold(value=0.000001, color="red"))
_UP = (Threshold(value=None, color="red"), Threshold(value=1, color="green"))
_STATE = (Threshold(value=None, color="green"), Threshold(value=1, color="red"))
_DURABLE = (Threshold(value=None, color="orange"), Threshold(value=1, color="green"))

_PURPOSE = """\
**Is toolgauge itself well?** Nothing may be dropped. Senders that are refused retry: look at the destinations and at memory.
When scoring takes longer, the delay of scores rises first, then spans go on unread. Label sets near their cap mean that some
client's names are not a small set. The documentation says of each metric what to do when it rises."""


def _rate(metric: str, by: str = "", more: str = "") -> str:
    matchers = f"{_JOB}, {more}" if more else _JOB
    return f"sum{f' by ({by})' if by else ''} (rate({metric}{{{matchers}}}[{_RATE}]))"


def _gauge(metric: str, by: str = "", combine: str = "sum") -> str:
    return f"{combine}{f' by ({by})' if by else ''} ({metric}{{{_JOB}}})"


def _quantile(share: str, histogram: str) -> str:
    return f"histogram_quantile({share}, {_rate(f'{histogram}_bucket', 'le')})"


def _stat(title: str, description: str, expr: str, thresholds: tuple[Threshold, ...], width: int = 5) -> Panel:
    return Panel(
        kind="stat",
        title=title,
        description=description,
        unit="short",
        width=width,
        height=4,
        thresholds=thresholds,
        queries=(Query(expr=expr),),
    )


def _lines(title: str, description: str, unit: str, *queries: Query, width: int = 8) -> Panel:
    return Panel(kind="lines", title=title, description=description, unit=unit, width=width, minimum=0, queries=queries)


_NOW = Row(
    title="Now",
    panels=(
        _stat("Processes up", "Processes that Prometheus can scrape.", _gauge("up"), _UP),
        _stat(
            "Spans dropped a second",
            "Spans of senders that were lost: look below for the reason.",
            _rate("toolgauge_spans_total", more='toolgauge_outcome="dropped", toolgauge_reason!="sampled"'),
            _LOSS,
        ),
        _stat(
            "Memory is short",
            "1 while memory is short and senders are refused: raise `memory.limit`.",
            _gauge("toolgauge_memory_state", combine="max"),
            _STATE,
        ),
        _stat(
            "Spans go astray",
            "Above 0 when our output comes back to us (toolgauge.loop_suspected), or traces are split over several processes "
            "(toolgauge.split_suspected): the log says what to do.",
            f"{_gauge('toolgauge_loop_suspected', combine='max')} + {_gauge('toolgauge_split_suspected', combine='max')}",
            _STATE,
        ),
        _stat(
            "State survives a restart",
            "1 when what the detectors know is written to `state.directory`.",
            _gauge("toolgauge_state_durable", combine="min"),
            _DURABLE,
            width=4,
        ),
    ),
)

_SPANS = Row(
    title="Spans",
    panels=(
        _lines(
            "Spans by what became of them",
            "Received is the sum of forwarded, consumed, refused, dropped, held and queued.",
            "short",
            Query(expr=_rate("toolgauge_spans_total", "toolgauge_outcome"), legend="{{toolgauge_outcome}}"),
        ),
        _lines(
            "Spans dropped by reason",
            "Data loss. The documentation has a table of the reasons.",
            "short",
            Query(
                expr=_rate("toolgauge_spans_total", "toolgauge_reason", 'toolgauge_outcome="dropped"'),
                legend="{{toolgauge_reason}}",
            ),
        ),
        _lines(
            "Requests by answer",
            "Refused senders retry; look at the destinations and at memory.",
            "short",
            Query(
                expr=_rate("toolgauge_requests_total", "toolgauge_outcome, toolgauge_transport"),
                legend="{{toolgauge_outcome}} {{toolgauge_transport}}",
            ),
        ),
        _lines(
            "Bytes that wait for a destination",
            "Near the capacity senders are refused: look at the destination.",
            "bytes",
            Query(
                expr=_gauge("toolgauge_send_queue_bytes", "toolgauge_destination"),
                legend="queued {{toolgauge_destination}}",
            ),
            Query(
                expr=_gauge("toolgauge_send_queue_capacity_bytes", "toolgauge_destination"),
                legend="capacity {{toolgauge_destination}}",
            ),
        ),
        _lines(
            "Open traces and queues",
            "Trajectories that are being assembled, that wait to be scored, and that wait for judges; spans that wait.",
            "short",
            Query(expr=_gauge("toolgauge_traces_open"), legend="open traces"),
            Query(expr=_gauge("toolgauge_queue_size"), legend="wait to be scored"),
            Query(expr=_gauge("toolgauge_judge_queue_size"), legend="wait for judges"),
            Query(expr=_gauge("toolgauge_spans_held"), legend="spans held"),
        ),
        _lines(
            "Trajectories by why they closed",
            "Many that close for want of room or memory are scored before they are complete: raise that limit.",
            "short",
            Query(
                expr=_rate("toolgauge_trajectories_total", "toolgauge_closed_because"),
                legend="{{toolgauge_closed_because}}",
            ),
        ),
    ),
)

_SCORING = Row(
    title="Scoring",
    panels=(
        _lines(
            "Time to score a trajectory",
            "When it rises, look for a criterion that is costly on long trajectories.",
            "s",
            Query(expr=_quantile("0.5", "toolgauge_scoring_duration_seconds"), legend="p50"),
            Query(expr=_quantile("0.99", "toolgauge_scoring_duration_seconds"), legend="p99"),
            width=6,
        ),
        _lines(
            "Delay of scores",
            "From when a trajectory was due to close to its scores. When it rises, scoring cannot keep up.",
            "s",
            Query(expr=_quantile("0.5", "toolgauge_scoring_delay_seconds"), legend="p50"),
            Query(expr=_quantile("0.99", "toolgauge_scoring_delay_seconds"), legend="p99"),
            width=6,
        ),
        _lines(
            "Evaluations that gave no score",
            "Errors are faults of the evaluation; `not_evaluated` had nothing to judge, for a reason: what producers did not "
            "record of tool calls is shown by what is missing.",
            "short",
            Query(
                expr=_rate(
                    "toolgauge_evaluations_total", "toolgauge_outcome", 'toolgauge_outcome=~"error|not_evaluated"'
                ),
                legend="{{toolgauge_outcome}}",
            ),
            Query(
                expr=_rate("toolgauge_tool_calls_unobserved_total", "toolgauge_not_evaluated_reason"),
                legend="calls: {{toolgauge_not_evaluated_reason}}",
            ),
            width=6,
        ),
        _lines(
            "Judge calls by outcome",
            "Calls to the provider of the judge: look at the provider, its key and `judge.timeout` when they fail.",
            "short",
            Query(expr=_rate("toolgauge_judge_calls_total", "toolgauge_outcome"), legend="{{toolgauge_outcome}}"),
            Query(expr=_rate("toolgauge_judge_failures_total", "error_type"), legend="failed: {{error_type}}"),
            width=6,
        ),
    ),
)

_PROCESS = Row(
    title="Labels and process",
    panels=(
        _lines(
            "Label sets in use",
            "The cap is `metrics.max_label_sets`; beyond it measurements are counted under `_other`.",
            "short",
            Query(expr=_gauge("toolgauge_labels_label_sets", "instance"), legend="{{instance}}"),
            Query(
                expr=_rate("toolgauge_labels_capped_total", "toolgauge_label"),
                legend="capped a second: {{toolgauge_label}}",
            ),
            width=6,
        ),
        _lines(
            "Processor time",
            "Near 100 % the core is full: run more processes.",
            "percentunit",
            Query(expr=_rate("process_cpu_seconds_total", "instance"), legend="{{instance}}"),
            width=6,
        ),
        _lines(
            "Memory",
            "At 80 % of the limit senders are refused.",
            "bytes",
            Query(expr=_gauge("process_resident_memory_bytes", "instance"), legend="used {{instance}}"),
            Query(expr=_gauge("toolgauge_memory_limit_bytes", "instance"), legend="limit {{instance}}"),
            width=6,
        ),
        _lines(
            "Lag of the event loop",
            "How long what was ready had to wait for its turn; senders wait as long.",
            "s",
            Query(expr=_quantile("0.99", "toolgauge_loop_lag_seconds"), legend="p99"),
            width=6,
        ),
    ),
)


HEALTH = Dashboard(
    uid="toolgauge-health",
    title="Toolgauge / Processor health",
    description="Whether toolgauge receives, scores and sends on what it should.",
    purpose=_PURPOSE,
    variables=(
        Variable(name="job", label="Job", of_label="job", selector="toolgauge_spans_held"),
        Variable(name="instance", label="Instance", of_label="instance", selector='toolgauge_spans_held{job=~"$job"}'),
    ),
    rows=(_NOW, _SPANS, _SCORING, _PROCESS),
    annotations=(
        Annotation(
            name="Restarts",
            expr=f"time() - process_start_time_seconds{{{_JOB}}} < 60",
            title="A process started",
            text="{{instance}}",
            color="blue",
        ),
    ),
)
