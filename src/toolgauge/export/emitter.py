"""Metrics, evaluation events and scorecard spans of toolgauge itself, as cells and as requests to send.

Every process has its own `service.instance.id`: two replicas would otherwise overwrite each other's series. Spans are held
for seconds and runs last for minutes: a scorecard span in the judged trace carries late scores. Passed calls have no event.
"""

# pyright: reportUnknownMemberType=false

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import islice

from msgspec import Struct
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    HistogramDataPoint,
    NumberDataPoint,
    ScopeMetrics,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.resources import OTELResourceDetector

from toolgauge.export import results
from toolgauge.export.label_queues import LabelQueues
from toolgauge.export.redact import MAX_EXPLANATION, Redactor
from toolgauge.export.regression_events import ToolChangeEvents, encode_regressions
from toolgauge.export.results import EmitSettings, ResultWriter, enforced, incomplete_attributes, inline_evaluations
from toolgauge.export.score_lines import ScoreLines, in_requests
from toolgauge.export.score_metrics import ScoreMetrics
from toolgauge.model.delivery import Outgoing, Signal
from toolgauge.model.metrics import (
    Counter,
    Exemplar,
    Histogram,
    Labels,
    Metric,
    MetricRegistry,
    present,
    snapshot,
)
from toolgauge.model.outcomes import Finding, Result, Scorecard
from toolgauge.model.records import SpanRef
from toolgauge.model.regressions import Regression, ToolDefinitionChange
from toolgauge.model.trajectory import ClosedBecause, TrajectoryScope
from toolgauge.otlp.encode import (
    MAX_IDENTIFIER,
    RequestWriter,
    attribute,
    elements,
    field,
    fit_text,
    fit_time,
    fixed64,
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
# Sampled; the parent's process is known to be another one (OTLP `Span.flags`, bits 8 and 9).
_FLAGS = 0x301
_INT64_MAX = 2**63 - 1
# An id of zeros is not valid.
_NOT_ZERO = b"\x01" * 8
# Field of a scope's spans, and of its log records.
_ITEM = tag(2)
# Fields of Span; a link has the first two as well.
_TRACE_ID, _SPAN_ID, _PARENT, _EVENT, _LINK = tag(1), tag(2), tag(4), tag(11), tag(13)
_START, _END = time_tag(7), time_tag(8)
_EVALUATION = elements(results.SPAN_ATTRIBUTES, [attribute(_OPERATION, "evaluation")])
_DROPPED_EVENTS, _DROPPED_LINKS = b"\x60", b"\x70"
# Fields of a span's events, and of LogRecord.
_EVENT_TIME, _EVENT_NAME = time_tag(1), field(tag(2), results.EVENT_NAME.encode())
_RECORD_TIME, _OBSERVED_TIME = time_tag(1), time_tag(11)
_RECORD_TRACE_ID, _RECORD_SPAN_ID = tag(9), tag(10)


class _Subject(Struct, frozen=True, gc=False):
    """A judged call or trajectory, and its span if known. `record` ends a log record."""

    target: SpanRef | None
    attributes: list[bytes]
    record: bytes


@cache
def _constant_part(scope: TrajectoryScope, closed_because: ClosedBecause) -> bytes:
    span = Span(name="toolgauge.scorecard", kind=Span.SPAN_KIND_INTERNAL, flags=_FLAGS)
    texts = ((_SPAN_KIND, "EVALUATOR"), (_SCOPE_OF_TRAJECTORY, scope), (results.CLOSED_BECAUSE, closed_because))
    return span.SerializeToString() + elements(results.SPAN_ATTRIBUTES, [attribute(key, text) for key, text in texts])


# Producers are few.
@lru_cache(maxsize=1024)
def _producer(keys: tuple[str, ...], *names: str | None) -> tuple[bytes, ...]:
    named = zip((results.SERVICE, *keys), names, strict=True)
    return tuple([text_attribute(key, name) for key, name in named if name is not None])


class _ScorecardSpan:
    """Collects the events and attributes of the span of one scorecard."""

    def __init__(self, scorecard: Scorecard, producer: Sequence[bytes]) -> None:
        self._scorecard, self._producer = scorecard, producer
        # The end of the run, since a later span would lengthen its trace; without a time of its own, when it was scored.
        end_ns = scorecard.trajectory.end_ns
        self._end = fixed64(fit_time(end_ns if end_ns > 0 else scorecard.scored_at_ns))
        self._subjects: dict[int, _Subject] = {}
        # How many calls of each criterion had which outcomes, and its revision.
        self.calls = self.revisions = b""
        self._events: list[bytes] = []
        self._event_bytes = self._dropped_events = 0
        # Each judged span once, in order of the results.
        self.links: dict[bytes, None] = {}
        # Several results of one criterion for one span would overwrite each other.
        self.of_trajectory: dict[tuple[SpanRef | None, str], bytes] = {}

    def link(self) -> None:
        """Link the spans that live results judge."""
        found = self._scorecard.results
        if "shadow" not in enforced(self._scorecard):
            found = [subject.results[0] for subject in self._scorecard.subjects]
        for target in {id(one.target): one.target for one in found if one.enforce == "live"}.values():
            if target is not None:
                trace_id, span_id = raw_id(target.trace_id, 16), raw_id(target.span_id, 8)
                self.links[field(_LINK, field(_TRACE_ID, trace_id) + field(_SPAN_ID, span_id))] = None

    def subject(self, result: Result) -> _Subject:
        """Write the call or trajectory that a result judges, once for all criteria."""
        trajectory, call, target = self._scorecard.trajectory, result.call, result.target
        # By identity: the scorecard keeps its calls for as long as this is in use. Without it: 5 % of all CPU.
        known = self._subjects.get(id(call))
        if known is not None:
            return known
        if len(self._subjects) >= _MAX_SUBJECTS:
            self._subjects.clear()
        tool, call_id, end_ns = None, None, trajectory.end_ns
        agent = trajectory.agents[0] if trajectory.agents else None
        if call is not None:
            tool, call_id, end_ns, agent = call.name, call.call_id, call.end_ns, call.agent
        texts = ((results.TOOL, tool), (results.AGENT, agent), (_CONVERSATION, trajectory.conversation_id))
        attributes = [text_attribute(key, text) for key, text in texts if text is not None]
        attributes += self._producer
        if call_id is not None:
            attributes.append(text_attribute(_CALL_ID, call_id))
        if end_ns > 0:
            attributes.append(attribute(_SPAN_END, min(end_ns, _INT64_MAX)))
        record = field(_RECORD_TRACE_ID, raw_id(trajectory.trace_id if target is None else target.trace_id, 16))
        if target is not None:
            record += field(_RECORD_SPAN_ID, raw_id(target.span_id, 8))
        record = results.RECORD_ATTRIBUTES.join((record, *attributes))
        # Calls that share a model's span may be alike but for their order.
        identity = trajectory.scope.encode() + (b"" if call is None else varint(call.order)) + record
        uid = blake2b(identity, digest_size=results.SUBJECT_BYTES).hexdigest().encode()
        times = _RECORD_TIME + self._end + _OBSERVED_TIME + fixed64(fit_time(self._scorecard.scored_at_ns))
        written = self._subjects[id(call)] = _Subject(target, attributes, uid + times + record)
        return written

    def add_event(self, event: bytes, subject: _Subject) -> None:
        if len(self._events) == MAX_EVENTS or self._event_bytes >= _MAX_EVENT_BYTES:
            self._dropped_events += 1
            return
        of_subject = [*subject.attributes]
        if subject.target is not None:
            of_subject.append(text_attribute(_JUDGED_SPAN, subject.target.span_id))
        written = results.EVENT_ATTRIBUTES.join((_EVENT_NAME + event, *of_subject))
        self._events.append(written)
        self._event_bytes += len(written)

    def written(self, evaluations: bytes) -> bytes:
        """Write the span, at the end of its run. Its id is derived from its contents: written a second time it is a duplicate."""
        scorecard, end = self._scorecard, self._end
        trajectory, root = scorecard.trajectory, scorecard.trajectory.root
        contents = [_constant_part(trajectory.scope, trajectory.closed_because)]
        contents.append(incomplete_attributes(trajectory.incomplete))
        # A conversation's root may lie in an earlier trace, and a parent must be in the same trace.
        if root is not None and root.trace_id == trajectory.trace_id:
            contents.insert(0, field(_PARENT, raw_id(root.span_id, 8)))
        if self._producer:
            contents.append(elements(results.SPAN_ATTRIBUTES, self._producer))
        if trajectory.conversation_id is not None:
            texts = [text_attribute(key, trajectory.conversation_id) for key in (_CONVERSATION, _SESSION)]
            contents.append(elements(results.SPAN_ATTRIBUTES, texts))
        contents.append(self.calls)
        contents += self.of_trajectory.values()
        contents.append(evaluations)
        contents += islice(self.links, MAX_LINKS)
        if self._dropped_events:
            contents.append(_DROPPED_EVENTS + varint(self._dropped_events))
        if len(self.links) > MAX_LINKS:
            contents.append(_DROPPED_LINKS + varint(len(self.links) - MAX_LINKS))
        trace_id = field(_TRACE_ID, raw_id(trajectory.trace_id, 16))
        # The judges' scorecard is a second span.
        kind = b"judges" if scorecard.by_judges else b"scorecard"
        identity = b"".join((trace_id, *contents, *self._events, self.revisions))
        derived = blake2b(identity, digest_size=8, person=kind).digest()
        span_id = field(_SPAN_ID, derived if any(derived) else _NOT_ZERO)
        scored_at = attribute(_SCORED_AT, max(0, min(scorecard.scored_at_ns, _INT64_MAX)))
        times = results.SPAN_ATTRIBUTES + scored_at + _START + end + _END + end
        events = [field(_EVENT, _EVENT_TIME + end + event) for event in self._events]
        return b"".join((trace_id, span_id, *contents, times, *events))


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
        written = (item for scorecard in scorecards for item in self._items(scorecard))
        for signal, items in in_requests(written, _MAX_REQUEST_BYTES):
            yield Outgoing(signal=signal, body=self._requests.request(items), spans=0, own=True, of_traces=True)
        if self._score_lines is not None:
            yield from self._score_lines.requests(scorecards)

    def _items(self, scorecard: Scorecard) -> Iterator[tuple[Signal, bytes]]:
        """Yield the log records of a scorecard, then its span."""
        names = (scorecard.trajectory.service, *map(scorecard.trajectory.resource.get, self._resource_keys))
        names = [name and name[:MAX_IDENTIFIER] for name in names]
        span = _ScorecardSpan(scorecard, _producer(self._resource_keys, *names))
        # A result that was made without its finding is looked at by itself.
        with_parts, calls = set[Finding | None]((None,)), dict[results.Counted, int]()
        for verdict, alike in scorecard.verdicts.items():
            counted, of_verdict = self._results.outline(verdict)
            with_parts.update(of_verdict)
            if counted:
                calls[counted] = calls.get(counted, 0) + len(alike)
        if calls:
            span.calls, span.revisions = self._results.calls(scorecard.criteria, calls)
        if self._results.writes_spans:
            span.link()
        for result in [one for one in scorecard.results if one.finding in with_parts]:
            parts = self._results.parts(result)
            if parts.on_span:
                key = result.target, result.criterion
                span.of_trajectory[key] = b"" if key in span.of_trajectory else parts.on_span
            if parts.event:
                span.add_event(parts.event, span.subject(result))
            if parts.record:
                yield "logs", field(_ITEM, parts.record + span.subject(result).record)
        if calls or span.of_trajectory:
            evaluations = b""
            if self._openinference is not None:
                of_trajectory = [one for one in scorecard.results if one.level == "trajectory"]
                evaluations = _EVALUATION + inline_evaluations(scorecard, of_trajectory, self._openinference)
            self._selfmetrics.annotations.add(len(span.links), ("scorecard",))
            yield "traces", field(_ITEM, span.written(evaluations))

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
        _add_metrics(scope_metrics, metrics, self._start_ns, now_ns)
        return Outgoing(signal="metrics", body=request.SerializeToString(), spans=0, own=True)


def resource_from_environment() -> dict[str, str]:
    """Read `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME`."""
    return {key: str(value) for key, value in OTELResourceDetector().detect().attributes.items()}


# Each cell since it began to count: a lost interval heals, and a restart is seen as one.
_CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE


def _add_metrics(target: ScopeMetrics, metrics: Iterable[Metric], start_ns: int, now_ns: int) -> None:
    """Append every metric that has data. No cell began before `start_ns`."""
    for one in metrics:
        if not one.cells:
            continue
        metric = target.metrics.add(name=one.name, unit=one.unit, description=one.description)
        if isinstance(one, Histogram):
            metric.histogram.aggregation_temporality = _CUMULATIVE
            for labels, cell in one.cells.items():
                point = metric.histogram.data_points.add(count=cell.count, sum=cell.sum)
                point.bucket_counts.extend(cell.counts)
                point.explicit_bounds.extend(cell.bounds)
                began_ns = max(cell.created_ns, start_ns)
                _fill_point(point, one.labels, labels, began_ns, now_ns, cell.exemplars)
            continue
        created, exemplars, points = {}, {}, metric.gauge.data_points
        if isinstance(one, Counter):
            created, exemplars, points = one.created, one.exemplars, metric.sum.data_points
            metric.sum.aggregation_temporality = _CUMULATIVE
            metric.sum.is_monotonic = True
        for labels, value in one.cells.items():
            is_whole = isinstance(value, int) and abs(value) < 2**63
            point = points.add(as_int=value) if is_whole else points.add(as_double=value)
            began_ns = max(created.get(labels, 0), start_ns)
            _fill_point(point, one.labels, labels, began_ns, now_ns, (exemplars.get(labels),))


def _fill_point(
    point: NumberDataPoint | HistogramDataPoint,
    names: Labels,
    labels: Labels,
    began_ns: int,
    now_ns: int,
    exemplars: Iterable[Exemplar | None],
) -> None:
    point.time_unix_nano = fit_time(now_ns)
    point.start_time_unix_nano = min(fit_time(began_ns), point.time_unix_nano)
    for name, value in present(names, labels):
        point.attributes.add(key=name).value.string_value = value
    for exemplar in filter(None, exemplars):
        target = point.exemplars.add(as_double=exemplar.value, time_unix_nano=fit_time(exemplar.time_ns))
        target.trace_id = raw_id(exemplar.trace_id, 16)
        target.span_id = raw_id(exemplar.span_id, 8)
