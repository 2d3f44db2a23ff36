"""Metrics, evaluation events and scorecard spans of toolgauge itself, as cells and as requests to send.

Every process has its own `service.instance.id`: two replicas would otherwise overwrite each other's series. Spans are held
for seconds and runs last for minutes: a scorecard span in the judged trace carries late scores. Passed calls have no event.
"""

# pyright: reportUnknownMemberType=false

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import islice

from msgspec import Struct
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.resources import OTELResourceDetector

from toolgauge.export import results
from toolgauge.export.inline_evaluations import inline_evaluations
from toolgauge.export.label_queues import LabelQueues
from toolgauge.export.metric_data import add_metrics, snapshot
from toolgauge.export.redact import MAX_EXPLANATION, Redactor
from toolgauge.export.regression_events import encode_regressions
from toolgauge.export.results import EmitSettings, ResultWriter, incomplete_attributes, on_span
from toolgauge.export.score_lines import ScoreLines
from toolgauge.export.score_metrics import ScoreMetrics
from toolgauge.export.tool_change_events import ToolChangeEvents
from toolgauge.model.delivery import Outgoing, Signal
from toolgauge.model.metrics import Metric, MetricRegistry
from toolgauge.model.outcomes import OutcomeWord, Result, Scorecard
from toolgauge.model.records import SpanRef
from toolgauge.model.regressions import Regression, ToolDefinitionChange
from toolgauge.model.trajectory import ClosedBecause, ToolCall, Trajectory, TrajectoryScope
from toolgauge.otlp.encode import (
    RequestWriter,
    attribute,
    elements,
    field,
    fit_text,
    fit_time,
    fixed64,
    length,
    raw_id,
    tag,
    text_attribute,
    time_tag,
    varint,
)
from toolgauge.selfmetrics import SelfMetrics

MAX_EVENTS = 1000
MAX_LINKS = 1000
_MAX_EVENT_BYTES = 1024 * 1024
# gRPC servers, the Collector's among them, refuse 4 MiB and more unless told otherwise.
_MAX_REQUEST_BYTES = 2 * 1024 * 1024
# A run may have a hundred thousand calls, and each is judged by several criteria.
_MAX_SUBJECTS = 2048

_CALL_ID = "gen_ai.tool.call.id"
_CONVERSATION = "gen_ai.conversation.id"
_SESSION = "session.id"
_SPAN_KIND = "openinference.span.kind"
_OPERATION = "gen_ai.operation.name"
_SPAN_END = "toolgauge.span.end_time_unix_nano"
_SCORED_AT = "toolgauge.scored_time_unix_nano"
_JUDGED_SPAN = "toolgauge.judged.span_id"
_SCOPE_OF_TRAJECTORY = "toolgauge.trajectory.scope"
# By criterion, how many calls had this outcome: `toolgauge.eval.<criterion>.calls.passed`.
_CALLS: dict[OutcomeWord, str] = {
    "pass": "calls.passed",
    "fail": "calls.failed",
    "not_evaluated": "calls.not_evaluated",
    "error": "calls.error",
}

# Sampled; the parent's process is known to be another one (OTLP `Span.flags`, bits 8 and 9).
_FLAGS = 0x301
_INT64_MAX = 2**63 - 1
# Field of a scope's spans, and of its log records.
_ITEM = tag(2)
# Fields of Span.
_TRACE_ID, _SPAN_ID, _PARENT, _EVENT, _LINK = tag(1), tag(2), tag(4), tag(11), tag(13)
_START, _END = time_tag(7), time_tag(8)
_EVALUATION = elements(results.SPAN_ATTRIBUTES, [attribute(_OPERATION, "evaluation")])
_DROPPED_EVENTS, _DROPPED_LINKS = b"\x60", b"\x70"
# Fields of a span's events, of a span's links, and of LogRecord.
_EVENT_TIME, _EVENT_NAME = time_tag(1), field(tag(2), results.EVENT_NAME.encode())
_LINK_TRACE_ID, _LINK_SPAN_ID = tag(1), tag(2)
_RECORD_TIME, _OBSERVED_TIME = time_tag(1), time_tag(11)
_RECORD_TRACE_ID, _RECORD_SPAN_ID = tag(9), tag(10)


class _Batch:
    def __init__(self, signal: Signal, requests: RequestWriter) -> None:
        self._signal: Signal = signal
        self._requests = requests
        self.items: list[bytes] = []
        self._size = 0

    def add(self, written: bytes) -> bool:
        """Add a span or log record; return whether the request is full."""
        self.items.append(field(_ITEM, written))
        self._size += len(written)
        return self._size >= _MAX_REQUEST_BYTES

    def take(self) -> Outgoing:
        items, self.items, self._size = self.items, [], 0
        return Outgoing(signal=self._signal, body=self._requests.request(items), spans=0, own=True, of_traces=True)


def _producer(trajectory: Trajectory, resource_keys: Sequence[str]) -> list[bytes]:
    texts = ((results.SERVICE, trajectory.service), *((key, trajectory.resource.get(key)) for key in resource_keys))
    return [text_attribute(key, text) for key, text in texts if text is not None]


class _Written(Struct, frozen=True, gc=False):
    """A judged call or trajectory, and its span if known. `record` ends a log record."""

    target: SpanRef | None
    attributes: list[bytes]
    record: bytes


class _Subjects:
    """The subjects of one scorecard with events, each written once for all criteria."""

    def __init__(self, scorecard: Scorecard, producer: Sequence[bytes]) -> None:
        self._producer = producer
        self._trajectory = scorecard.trajectory
        self._known: dict[int, _Written] = {}
        self._scope = scorecard.trajectory.scope.encode()
        self._times = _RECORD_TIME + _end_of_run(scorecard) + _OBSERVED_TIME + fixed64(fit_time(scorecard.scored_at_ns))

    def of(self, result: Result) -> _Written:
        # By identity: the scorecard keeps its calls for as long as this is in use. Without it: 5 % of all CPU.
        subject = self._known.get(id(result.call))
        if subject is None:
            if len(self._known) >= _MAX_SUBJECTS:
                self._known.clear()
            subject = self._known[id(result.call)] = self._written(result.call, result.target)
        return subject

    def _written(self, call: ToolCall | None, target: SpanRef | None) -> _Written:
        trajectory = self._trajectory
        if call is None:
            agent, end_ns = trajectory.agents[0] if trajectory.agents else None, trajectory.end_ns
        else:
            agent, end_ns = call.agent, call.end_ns
        texts = (
            (results.TOOL, None if call is None else call.name),
            (results.AGENT, agent),
            (_CONVERSATION, trajectory.conversation_id),
        )
        attributes = [text_attribute(key, text) for key, text in texts if text is not None]
        attributes += self._producer
        if call is not None and call.call_id is not None:
            attributes.append(text_attribute(_CALL_ID, call.call_id))
        if end_ns > 0:
            attributes.append(attribute(_SPAN_END, min(end_ns, _INT64_MAX)))
        # A record's end, without its times.
        record = field(_RECORD_TRACE_ID, raw_id(trajectory.trace_id if target is None else target.trace_id, 16))
        if target is not None:
            record += field(_RECORD_SPAN_ID, raw_id(target.span_id, 8))
        record = results.RECORD_ATTRIBUTES.join((record, *attributes))
        # Calls that share a model's span may be alike but for their order.
        order = b"" if call is None else varint(call.order)
        uid = results.uid_of_subject(self._scope, order, record)
        return _Written(target, attributes, uid + self._times + record)


class _ScorecardSpan:
    def __init__(self, scorecard: Scorecard, producer: Iterable[bytes]) -> None:
        self._scorecard = scorecard
        self._producer = producer
        # By criterion, its revision, and how many calls had each of the outcomes.
        self._calls: dict[str, tuple[str, list[int]]] = {}
        self._events: list[bytes] = []
        self._event_bytes = 0
        self._dropped_events = 0
        # Each judged span once, in order of the results.
        self.links: dict[bytes, None] = {}
        self._of_trajectory: dict[tuple[SpanRef | None, str], bytes] = {}
        # In OpenInference's words.
        self.evaluations = b""

    def count(self, counted: Iterable[tuple[str, str, int]], times: int) -> None:
        for criterion, revision, outcome in counted:
            of_criterion = self._calls.get(criterion)
            if of_criterion is None:
                of_criterion = self._calls[criterion] = (revision, [0] * len(results.OUTCOME_WORDS))
            of_criterion[1][outcome] += times

    def link(self, targets: Iterable[SpanRef | None]) -> None:
        for target in targets:
            if target is not None:
                span_id = raw_id(target.span_id, 8)
                self.links[_before_link(target.trace_id, len(span_id)) + span_id] = None

    def add_result(self, result: Result, on_span: bytes) -> None:
        """Add a result of the trajectory; several of one criterion for one span would overwrite each other."""
        key = result.target, result.criterion
        self._of_trajectory[key] = b"" if key in self._of_trajectory else on_span

    def add_event(self, event: bytes, subject: _Written) -> None:
        if len(self._events) == MAX_EVENTS or self._event_bytes >= _MAX_EVENT_BYTES:
            self._dropped_events += 1
            return
        of_subject = [*subject.attributes]
        if subject.target is not None:
            of_subject.append(text_attribute(_JUDGED_SPAN, subject.target.span_id))
        written = results.EVENT_ATTRIBUTES.join((_EVENT_NAME + event, *of_subject))
        self._events.append(written)
        self._event_bytes += len(written)

    @property
    def is_wanted(self) -> bool:
        return bool(self._calls or self._of_trajectory)

    def written(self) -> bytes:
        """Write the span, at the end of its run. Its id is derived from its contents: written a second time it is a duplicate."""
        trace_id = field(_TRACE_ID, raw_id(self._scorecard.trajectory.trace_id, 16))
        criteria = [criterion for criterion in self._scorecard.criteria if criterion in self._calls]
        contents = b"".join(self._contents(criteria))
        # The judges' scorecard is a second span.
        kind = "judges" if self._scorecard.by_judges else "scorecard"
        revisions = "\0".join([self._calls[criterion][0] for criterion in criteria]).encode("utf-8", "surrogatepass")
        span_id = field(_SPAN_ID, results.span_id_of(kind, (trace_id, contents, *self._events, revisions)))
        time = _end_of_run(self._scorecard)
        events = (field(_EVENT, _EVENT_TIME + time + event) for event in self._events)
        scored_at = results.SPAN_ATTRIBUTES + attribute(
            _SCORED_AT, max(0, min(self._scorecard.scored_at_ns, _INT64_MAX))
        )
        return b"".join((trace_id, span_id, contents, scored_at, _START, time, _END, time, *events))

    def _contents(self, criteria: Iterable[str]) -> Iterator[bytes]:
        trajectory = self._scorecard.trajectory
        root = trajectory.root
        # A conversation's root may lie in an earlier trace; a parent in another trace is no parent.
        if root is not None and root.trace_id == trajectory.trace_id:
            yield field(_PARENT, raw_id(root.span_id, 8))
        yield _constant_part(trajectory.scope, trajectory.closed_because)
        yield incomplete_attributes(trajectory.incomplete)
        yield from (results.SPAN_ATTRIBUTES + written for written in self._producer)
        if trajectory.conversation_id is not None:
            for key in (_CONVERSATION, _SESSION):
                yield results.SPAN_ATTRIBUTES + text_attribute(key, trajectory.conversation_id)
        for criterion in criteria:
            yield _call_counts(criterion, *self._calls[criterion][1])
        yield from self._of_trajectory.values()
        yield self.evaluations
        yield from islice(self.links, MAX_LINKS)
        yield _dropped(_DROPPED_EVENTS, self._dropped_events)
        yield _dropped(_DROPPED_LINKS, len(self.links) - MAX_LINKS)


def _end_of_run(scorecard: Scorecard) -> bytes:
    """Return when the run ended, since a later span would lengthen its trace; without a time of its own, when it was scored."""
    end_ns = scorecard.trajectory.end_ns
    return fixed64(fit_time(end_ns if end_ns > 0 else scorecard.scored_at_ns))


@lru_cache(maxsize=256)
def _before_link(trace_id: str, size: int) -> bytes:
    before = field(_LINK_TRACE_ID, raw_id(trace_id, 16)) + _LINK_SPAN_ID + length(size)
    return _LINK + length(len(before) + size) + before


@cache
def _constant_part(scope: TrajectoryScope, closed_because: ClosedBecause) -> bytes:
    span = Span(name="toolgauge.scorecard", kind=Span.SPAN_KIND_INTERNAL, flags=_FLAGS)
    texts = ((_SPAN_KIND, "EVALUATOR"), (_SCOPE_OF_TRAJECTORY, scope), (results.CLOSED_BECAUSE, closed_because))
    return span.SerializeToString() + elements(results.SPAN_ATTRIBUTES, [attribute(key, text) for key, text in texts])


# Most runs are short, and most calls pass. Without the cache: 2 % of all CPU.
@lru_cache(maxsize=1024)
def _call_counts(criterion: str, *counts: int) -> bytes:
    keys = [on_span(criterion, _CALLS[outcome]) for outcome in results.OUTCOME_WORDS]
    written = [attribute(key, count) for key, count in zip(keys, counts, strict=True)]
    return elements(results.SPAN_ATTRIBUTES, written)


def _dropped(field_tag: bytes, count: int) -> bytes:
    return field_tag + varint(count) if count > 0 else b""


class Emitter:
    """Encodes scorecard spans, evaluation events and metrics as OTLP requests of our own; `start_ns` is the process start.
    Belongs to the worker thread, but for `metrics`, `snapshot` and `metrics_request`.
    """

    def __init__(
        self,
        settings: EmitSettings,
        registry: MetricRegistry,
        selfmetrics: SelfMetrics,
        redactor: Redactor,
        instance_id: str,
        version: str,
        resource_attributes: Mapping[str, str],
        *,
        start_ns: int,
    ) -> None:
        own = {"service.name": "toolgauge", "service.version": version, "service.instance.id": instance_id}
        self.resource = {
            fit_text(key, MAX_EXPLANATION): fit_text(value, MAX_EXPLANATION)
            for key, value in {**own, **resource_attributes}.items()
        }
        self._resource = Resource()
        for key, value in self.resource.items():
            self._resource.attributes.add(key=key).value.string_value = value
        self._scope = InstrumentationScope(name="toolgauge", version=version)
        self._start_ns = start_ns
        self._registry = registry
        self._selfmetrics = selfmetrics
        self._metrics = scores = ScoreMetrics(settings.metrics, registry)
        # `record` counts a scorecard; `keep` drops the metrics of other criteria, or reloads would add up.
        self.record, self.keep = scores.record, scores.keep
        # Belongs to the thread of `record`, as all that counts by tool.
        self.count_tool_changes = scores.count_tool_changes
        self._tool_events = ToolChangeEvents(selfmetrics.watch)
        self.adopt(settings, redactor)

    def adopt(self, settings: EmitSettings, redactor: Redactor) -> None:
        """Encode by these settings from here on; the caps of labels stay as they were at the start."""
        self._metrics.adopt(settings.costs)
        self._requests = RequestWriter(self._resource, self._scope)
        self._results = ResultWriter(redactor, settings)
        self._resource_keys = settings.metrics.resource_attributes
        self._trace_url = settings.trace_url
        self._openinference = redactor if "openinference" in settings.annotate_form else None
        marks = LabelQueues(settings.queues).marks
        self._score_lines = ScoreLines(redactor, settings.scores, marks) if settings.scores else None

    def requests(self, scorecards: Sequence[Scorecard]) -> Iterator[Outgoing]:
        """Encode scorecard spans, events and scores: requests of about 2 MiB at most, none when there is nothing to export."""
        spans, records = _Batch("traces", self._requests), _Batch("logs", self._requests)
        for scorecard in scorecards:
            producer = _producer(scorecard.trajectory, self._resource_keys)
            span, subjects = _ScorecardSpan(scorecard, producer), _Subjects(scorecard, producer)
            with_parts: set[int] = set()
            for verdict, alike in scorecard.verdicts.items():
                outline = self._results.outline(verdict)
                span.count(outline.counted, len(alike))
                if outline.has_parts:
                    with_parts.update([id(subject.call) for subject in alike])
            if self._results.writes_spans:
                span.link({id(one.target): one.target for one in scorecard.results if one.enforce == "live"}.values())
            for result in scorecard.results:
                if id(result.call) not in with_parts:
                    continue
                parts = self._results.parts(result)
                if parts.on_span:
                    span.add_result(result, parts.on_span)
                if parts.event:
                    span.add_event(parts.event, subjects.of(result))
                if parts.record and records.add(parts.record + subjects.of(result).record):
                    yield records.take()
            if span.is_wanted:
                span.evaluations = self._evaluations(scorecard)
                self._selfmetrics.annotations.add(len(span.links), ("scorecard",))
                if spans.add(span.written()):
                    yield spans.take()
        for batch in (spans, records):
            if batch.items:
                yield batch.take()
        if self._score_lines is not None:
            yield from self._score_lines.requests(scorecards)

    def _evaluations(self, scorecard: Scorecard) -> bytes:
        if self._openinference is None:
            return b""
        of_trajectory = [one for one in scorecard.results if one.level == "trajectory"]
        return _EVALUATION + inline_evaluations(scorecard, of_trajectory, self._openinference)

    def regressions(self, regressions: Sequence[Regression]) -> Iterator[Outgoing]:
        """Encode the events of regressions."""
        return encode_regressions(self._requests, regressions, self._trace_url)

    def tool_changes(self, changes: Sequence[ToolDefinitionChange]) -> Iterator[Outgoing]:
        """Log changes of tools, and encode their events."""
        return self._tool_events.encode(self._requests, changes)

    def metrics(self, now_ns: int) -> Outgoing:
        """Encode the whole registry."""
        return self.metrics_request(self.snapshot(), now_ns)

    def snapshot(self) -> tuple[Metric, ...]:
        """Copy the whole registry: the short part of `metrics`."""
        return snapshot(self._registry)

    def metrics_request(self, metrics: Iterable[Metric], now_ns: int) -> Outgoing:
        """Encode a snapshot: the long part of `metrics`, tens of milliseconds at the caps; may run in a thread."""
        request = ExportMetricsServiceRequest()
        resource_metrics = request.resource_metrics.add()
        resource_metrics.resource.CopyFrom(self._resource)
        scope_metrics = resource_metrics.scope_metrics.add()
        scope_metrics.scope.CopyFrom(self._scope)
        add_metrics(scope_metrics, metrics, self._start_ns, now_ns)
        return Outgoing(signal="metrics", body=request.SerializeToString(), spans=0, own=True)


def resource_from_environment() -> dict[str, str]:
    """Read `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME`."""
    return {key: str(value) for key, value in OTELResourceDetector().detect().attributes.items()}
