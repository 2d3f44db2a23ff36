"""What the frames between front and worker hold, and how it is written."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from toolgauge.export.destination import Undelivered
from toolgauge.export.metric_data import snapshot
from toolgauge.model.delivery import Accepted, Answer, Invalid, Outgoing, Refused, Signal, Unsupported
from toolgauge.model.metrics import Counter, Exemplar, Gauge, Histogram, HistogramCell, Labels, Metric, MetricRegistry
from toolgauge.service.health import ComponentHealth
from toolgauge.service.losses import Losses

_SIGNALS: tuple[Signal, ...] = ("traces", "metrics", "logs")
_ANSWERS: tuple[type[Answer], ...] = (Accepted, Refused, Invalid, Unsupported)


def write_request(signal: Signal, sender: str | None) -> bytes:
    """Write what stands before the body of a request."""
    written = (sender or "").encode()
    return bytes((_SIGNALS.index(signal),)) + len(written).to_bytes(2) + written


def read_request(content: bytes) -> tuple[Signal, str | None, bytes]:
    """Read a request: its signal, its sender and its body."""
    end = 3 + int.from_bytes(content[1:3])
    return _SIGNALS[content[0]], content[3:end].decode() or None, content[end:]


def write_answer(answer: Answer) -> bytes:
    """Write what became of a request."""
    kind = bytes((_ANSWERS.index(type(answer)),))
    return kind if isinstance(answer, Accepted) else kind + answer.message.encode()


def read_answer(content: bytes) -> Answer:
    """Read what became of a request."""
    message = content[1:].decode()
    match content[0]:
        case 0:
            return Accepted()
        case 1:
            return Refused(message)
        case 2:
            return Invalid(message)
        case _:
            return Unsupported(message)


class _Cell(Struct, array_like=True):
    labels: Labels
    value: float = 0.0
    created_ns: int = 0
    exemplar: Exemplar | None = None
    histogram: HistogramCell | None = None


class _SentMetric(Struct, array_like=True):
    kind: Literal["counter", "gauge", "histogram"]
    name: str
    unit: str
    description: str
    labels: tuple[str, ...]
    bounds: tuple[float, ...]
    cells: list[_Cell]


class Snapshot(Struct):
    """How a worker fares: its metrics, the health of its parts, and whether nothing is in it that could leave."""

    metrics: list[_SentMetric]
    health: dict[str, ComponentHealth]
    is_empty: bool

    def read_metrics(self) -> dict[str, Metric]:
        """Return the metrics by their names."""
        return {sent.name: _received(sent) for sent in self.metrics}


def snapshot_of(registry: MetricRegistry, health: Mapping[str, ComponentHealth], *, is_empty: bool) -> Snapshot:
    """Copy a worker's metrics; those without a cell are left out."""
    return Snapshot([_sent(metric) for metric in snapshot(registry) if metric.cells], dict(health), is_empty)


def _sent(metric: Metric) -> _SentMetric:
    match metric:
        case Counter():
            cells = [
                _Cell(labels, value, metric.created.get(labels, 0), metric.exemplars.get(labels))
                for labels, value in metric.cells.items()
            ]
            return _SentMetric("counter", metric.name, metric.unit, metric.description, metric.labels, (), cells)
        case Gauge():
            cells = [_Cell(labels, value) for labels, value in metric.cells.items()]
            return _SentMetric("gauge", metric.name, metric.unit, metric.description, metric.labels, (), cells)
        case Histogram():
            cells = [_Cell(labels, histogram=cell) for labels, cell in metric.cells.items()]
            return _SentMetric(
                "histogram", metric.name, metric.unit, metric.description, metric.labels, metric.bounds, cells
            )


def _received(sent: _SentMetric) -> Metric:
    values = {cell.labels: cell.value for cell in sent.cells}
    match sent.kind:
        case "counter":
            return Counter(
                name=sent.name,
                unit=sent.unit,
                description=sent.description,
                labels=sent.labels,
                cells=values,
                created={cell.labels: cell.created_ns for cell in sent.cells},
                exemplars={cell.labels: cell.exemplar for cell in sent.cells if cell.exemplar is not None},
            )
        case "gauge":
            return Gauge(name=sent.name, unit=sent.unit, description=sent.description, labels=sent.labels, cells=values)
        case "histogram":
            return Histogram(
                name=sent.name,
                unit=sent.unit,
                description=sent.description,
                labels=sent.labels,
                bounds=sent.bounds,
                cells={cell.labels: cell.histogram for cell in sent.cells if cell.histogram is not None},
            )


class StartFailure(Struct):
    """Why a worker could not start; `is_config` where the configuration is wrong."""

    message: str
    hint: str | None
    is_config: bool


class Adopted(Struct):
    """What came of a configuration: sections that stay as they were, with the reasons; `error` where none of it is taken."""

    kept: dict[str, str]
    error: str | None = None


class SentLosses(Struct):
    """`Losses` of a worker, written."""

    undelivered: tuple[tuple[str, Undelivered], ...]
    held: Undelivered
    dropped: int
    incomplete: int
    kept: tuple[tuple[str, Undelivered], ...]
    open: int


def write_losses(losses: Losses) -> bytes:
    """Write what the end of a worker cost."""
    return msgspec.msgpack.encode(losses)


def added_losses(written: Sequence[bytes]) -> Losses:
    """Add up what the ends of workers cost."""
    each = [msgspec.msgpack.decode(content, type=SentLosses) for content in written]
    held = Undelivered()
    for losses in each:
        held = _added(held, losses.held)
    return Losses(
        undelivered=_by_name([pair for losses in each for pair in losses.undelivered]),
        held=held,
        dropped=sum(losses.dropped for losses in each),
        incomplete=sum(losses.incomplete for losses in each),
        kept=_by_name([pair for losses in each for pair in losses.kept]),
        open=sum(losses.open for losses in each),
    )


def _by_name(pairs: Sequence[tuple[str, Undelivered]]) -> tuple[tuple[str, Undelivered], ...]:
    by_name: dict[str, Undelivered] = {}
    for name, undelivered in pairs:
        by_name[name] = _added(by_name.get(name, Undelivered()), undelivered)
    return tuple(by_name.items())


def _added(first: Undelivered, second: Undelivered) -> Undelivered:
    return Undelivered(
        spans=first.spans + second.spans, requests=first.requests + second.requests, own=first.own + second.own
    )


def write_outgoing(outgoing: Outgoing) -> bytes:
    """Write a request that a worker is to send."""
    return msgspec.msgpack.encode(outgoing)


def read_outgoing(content: bytes) -> Outgoing:
    """Read a request that is to be sent."""
    return msgspec.msgpack.decode(content, type=Outgoing)
