"""Builds records by hand and reads recorded requests through the decoder and one dialect."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from toolgauge.assemble.join import GatheredTrace, join
from toolgauge.model.json import Value
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.observations import CallError, Observation, Reading
from toolgauge.model.ports import Dialect
from toolgauge.model.records import LogRecord, Record, Resource, Scope, Span, SpanEvent, SpanKind, SpanRef, StatusCode
from toolgauge.model.trajectory import Trajectory
from toolgauge.otlp.decoder import Decoder
from toolgauge.recognize.recognizer import Candidates, Recognizer
from toolgauge.selfmetrics import SelfMetrics

CORPUS = Path(__file__).parents[1] / "corpus"
REF = SpanRef("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")


def resource(attributes: Mapping[str, Value] | None = None) -> Resource:
    return Resource(service="shop", attributes={"service.name": "shop", **(attributes or {})})


def span(
    attributes: Mapping[str, Value],
    *,
    name: str = "span",
    status: StatusCode = "unset",
    status_message: str = "",
    events: Sequence[SpanEvent] = (),
    scope: str = "test.producer",
    kind: SpanKind = "internal",
    of: Resource | None = None,
) -> Span:
    return Span(
        ref=REF,
        parent_span_id="00f067aa0ba902b7",
        parent_is_remote=False,
        name=name,
        kind=kind,
        start_ns=1_000,
        end_ns=2_000,
        attributes=attributes,
        events=events,
        status=status,
        status_message=status_message,
        resource=of if of is not None else resource(),
        scope=Scope(name=scope, version="1"),
        size_bytes=321,
    )


def event(name: str, attributes: Mapping[str, Value]) -> SpanEvent:
    return SpanEvent(name=name, time_ns=1_500, attributes=attributes)


def log(
    event_name: str,
    *,
    body: Value = None,
    attributes: Mapping[str, Value] | None = None,
    ref: SpanRef | None = REF,
    scope: str = "test.producer",
) -> LogRecord:
    return LogRecord(
        ref=ref,
        event_name=event_name,
        time_ns=1_700,
        body=body,
        attributes=attributes if attributes is not None else {},
        resource=resource(),
        scope=Scope(name=scope, version="1"),
        size_bytes=123,
    )


def other_error(message: str = "") -> CallError:
    """Return an error whose kind was not recorded."""
    return CallError(kind="_OTHER", message=message)


def self_metrics() -> SelfMetrics:
    return SelfMetrics(MetricRegistry())


def observations(dialect: Dialect, record: Record) -> list[Observation]:
    """Read one record the way the recognizer does, but let exceptions out; the recognizer asks the dialect about it."""
    assert dialect.claims(record)
    assert not isinstance(record, Span) or dialect in Candidates([dialect]).of(record)
    return list(dialect.read(record))


def recorded(dialect: Dialect, *names: str) -> list[Reading]:
    """Read recorded requests (`folder/file`), in this order."""
    recognizer = Recognizer([dialect], metrics=self_metrics())
    return [reading for record in records(dialect, *names) if (reading := recognizer.read(record)) is not None]


def records(dialect: Dialect, *names: str) -> list[Record]:
    """Decode recorded requests (`folder/file`) as far as the dialect's marks and scopes ask for it."""
    decoder = Decoder(dialect.marks, dialect.scopes)
    found: list[Record] = []
    for name in names:
        body = (CORPUS / name).read_bytes()
        if name.endswith(".logs.otlp.pb"):
            found.extend(decoder.logs(body).viewed)
        else:
            found.extend(viewed.span for viewed in decoder.traces(body).viewed)
    return found


def seen(readings: Sequence[Reading], kind: type[Observation]) -> list[Observation]:
    """Pick all observations of one kind, in order of the records."""
    return [found for reading in readings for found in reading.observations if isinstance(found, kind)]


def placed(record: Span, name: str, parent: str | None, start: int, end: int) -> Span:
    """Return the span with ids made of names, and its times."""
    above = None if parent is None else _span_id(parent)
    return replace(record, ref=SpanRef(REF.trace_id, _span_id(name)), parent_span_id=above, start_ns=start, end_ns=end)


def said(record: LogRecord, name: str, time: int = 1_700) -> LogRecord:
    """Return the log record on the span of a name."""
    return replace(record, ref=SpanRef(REF.trace_id, _span_id(name)), time_ns=time)


def _span_id(name: str) -> str:
    return name.encode().hex().rjust(16, "0")


def joined(dialects: Sequence[Dialect], *records: Record) -> Trajectory:
    """Read the records of one trace and join them."""
    recognizer = Recognizer(dialects, metrics=self_metrics())
    readings: list[Reading] = [found for record in records if (found := recognizer.read(record)) is not None]
    parents = {record.ref.span_id: record.parent_span_id for record in records if isinstance(record, Span)}
    trace = GatheredTrace(trace_id=REF.trace_id, readings=readings, parents=parents)
    trajectory = join([trace], scope="trace", closed_because="run_ended")
    assert trajectory is not None
    return trajectory
