"""A whole pipeline without sockets: what a sender sends goes in, what a destination gets comes out."""

# pyright: reportUnknownMemberType=false

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from toolgauge.config.load import load
from toolgauge.export.emitter import Emitter
from toolgauge.export.send_queue import SendQueue
from toolgauge.export.settings import KeepSettings
from toolgauge.export.tail_sampling import Keep, Keepers
from toolgauge.model.delivery import Accepted, Outgoing, Signal, Source
from toolgauge.model.journal import ClosedId, JournalChange, JournalEntry, ShownValues
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.notices import Notice
from toolgauge.model.regressions import Regression
from toolgauge.otlp.request import read_request
from toolgauge.score.criterion import Criterion
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.criteria_factory import default_criteria
from toolgauge.service.pipeline_factory import emit_settings, make_pipeline, make_watcher, redactor
from toolgauge.state.ledger import NO_LEDGER, Ledger

CORPUS = Path(__file__).parent.parent / "corpus"
SECOND = 1_000_000_000
START_NS = 1_800_000_000 * SECOND


class MemoryJournal:
    """A journal that is written at once."""

    def __init__(self) -> None:
        self._entries: dict[int, JournalEntry] = {}
        self.closed: list[ClosedId] = []
        self.shown: list[ShownValues] = []
        self._last_id = 0

    def keeps(self, entries: Collection[Source]) -> bool:
        return self._entries.keys() >= set(entries)

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def begin_work(self, subject: str) -> None:
        del subject

    def submit(self, change: JournalChange) -> None:
        self._entries.update((entry.id, entry) for entry in change.appended)
        for number in change.delivered:
            self._entries[number] = replace(self._entries[number], delivered=True)
        for number in change.removed:
            del self._entries[number]
        self.closed.extend(change.closed)
        self.shown.extend(change.shown)

    def left(self) -> list[JournalEntry]:
        return [*self._entries.values()]


class Bag:
    """An outbox that keeps what it is given: `room` more requests, of at most `largest` bytes."""

    def __init__(self) -> None:
        self.taken: list[Outgoing] = []
        self.room = 1 << 30
        self.largest = 1 << 30
        self.is_leaf = False
        self.ledger: Ledger = NO_LEDGER
        self.keep: Keep | None = None

    def forwards(self, signal: Signal) -> bool:
        del signal
        return not self.is_leaf

    def has_room(self, signal: Signal, size_bytes: int) -> bool:
        del signal
        return self.room > 0 and size_bytes <= self.largest

    def put(self, outgoing: Outgoing) -> bool:
        if not self.has_room(outgoing.signal, len(outgoing.body)):
            return False
        if self.keep is not None and (outgoing.of_traces or not outgoing.own):
            return self.keep.put_own(outgoing) if outgoing.own else self.keep.put(outgoing)
        return self.take(outgoing)

    def take(self, outgoing: Outgoing) -> bool:
        self.room -= 1
        self.taken.append(outgoing)
        self.ledger.settle(outgoing.entries)
        return True


class _IntoBag(SendQueue):
    """A queue whose destination takes everything at once."""

    def __init__(self, bag: Bag) -> None:
        super().__init__(max_bytes=1 << 30, own_reserve_bytes=0)
        self._bag = bag

    def put(self, outgoing: Outgoing) -> bool:
        return self._bag.take(outgoing)


class Walk:
    """One pipeline with its clock in the test's hand."""

    def __init__(
        self,
        *overrides: str,
        criteria: Sequence[Criterion] | None = None,
        has_memory: Callable[[int], bool] = lambda _size_bytes: True,
        clock: Callable[[], int] = time.monotonic_ns,
        journal: MemoryJournal | None = None,
        keep: KeepSettings | None = None,
    ) -> None:
        """`journal` is what an earlier process left, and is written further; the destination has `keep`."""
        config = load((), overrides, {})
        self.now_ns = START_NS
        registry = MetricRegistry(lambda: self.now_ns)
        self.metrics = SelfMetrics(registry)
        self.registry = registry
        self.bag = Bag()
        self.journal = journal
        self.bag.ledger = self._ledger = NO_LEDGER if journal is None else Ledger(journal)
        self.regressions: list[Regression] = []
        self.notices: list[Notice] = []
        self.now_ns = START_NS
        self.watcher = make_watcher(config, self.metrics)
        if keep is not None:
            self.bag.keep = Keep("otlp", keep, _IntoBag(self.bag), self.metrics, self._ledger)
        emitter = Emitter(
            emit_settings(config),
            registry,
            self.metrics,
            redactor(config),
            instance_id="test",
            version="0",
            resource_attributes={},
            start_ns=START_NS,
        )
        self.pipeline = make_pipeline(
            config,
            default_criteria(config.defaults) if criteria is None else criteria,
            sink=emitter,
            outbox=self.bag,
            metrics=self.metrics,
            has_memory=has_memory,
            clock=clock,
            watcher=self.watcher,
            on_regressions=self.regressions.extend,
            on_notices=self.notices.extend,
            ledger=self._ledger,
            keepers=Keepers(lambda: [] if self.bag.keep is None else [self.bag.keep]),
        )

    def recover(self) -> None:
        """Take up what an earlier process left, as a service does at its start."""
        assert self.journal is not None
        closed = self.pipeline.keepers.restored(self.journal.closed)
        self.pipeline.assembler.recovery.restore(closed, self.now_ns)
        self.pipeline.earlier_traces.restore(self.journal.shown)
        for entry in self.journal.left():
            self.pipeline.recover(entry, self.now_ns)
        self.pipeline.end_recovery(self.now_ns)

    def send(self, body: bytes, signal: Signal = "traces") -> None:
        if self.journal is None:
            assert self.pipeline.consume(signal, body, self.now_ns) == Accepted()
            return
        entry = self._ledger.new_entry(signal, body, self.now_ns, own=False)
        self.journal.submit(JournalChange(appended=(entry,)))
        request = read_request(signal, body, self.now_ns, entry=entry.id)
        assert self.pipeline.admission.admit(request) == Accepted()
        self.pipeline.process(request)
        self.pipeline.egress.forward()

    def send_folder(self, framework: str, scenario: str) -> None:
        for file in sorted((CORPUS / framework).glob(f"{scenario}*.otlp.pb")):
            self.send(file.read_bytes(), "logs" if ".logs." in file.name else "traces")

    def wait(self, seconds: float) -> None:
        """Let time pass as the service does: tick, flush. At first twice a second, then ever less often: a tick takes 50 us."""
        began = self.now_ns
        until = began + int(seconds * SECOND)
        while self.now_ns < until:
            self.now_ns = min(self.now_ns + max(SECOND // 2, (self.now_ns - began) // 50), until)
            while self.pipeline.tick(self.now_ns):
                pass
            self.pipeline.flush()

    # -- what arrived -----------------------------------------------------------------------------------------------

    def arrived(self) -> list[Span]:
        """All senders' spans, in order of arrival."""
        return [span for scope, span in self._spans() if scope != "toolgauge"]

    def scorecards(self) -> list[Span]:
        return [span for scope, span in self._spans() if scope == "toolgauge"]

    def events(self) -> list[LogRecord]:
        return [
            record
            for outgoing in self.bag.taken
            if outgoing.signal == "logs" and outgoing.own
            for group in ExportLogsServiceRequest.FromString(outgoing.body).resource_logs
            for scope in group.scope_logs
            for record in scope.log_records
        ]

    def _spans(self) -> Iterator[tuple[str, Span]]:
        for outgoing in self.bag.taken:
            if outgoing.signal != "traces":
                continue
            for group in ExportTraceServiceRequest.FromString(outgoing.body).resource_spans:
                for scope in group.scope_spans:
                    for span in scope.spans:
                        yield scope.scope.name, span

    def books(self) -> dict[str, float]:
        """Read the books; `balance` is 0 when they are right."""
        spans = self.metrics.spans
        counted = {
            outcome: sum(value for labels, value in spans.cells.items() if labels[0] == outcome)
            for outcome in ("received", "refused", "dropped")
        }
        queued = sum(outgoing.spans for outgoing in self.bag.taken)
        held = self.pipeline.admission.spans_held
        balance = counted["received"] - counted["refused"] - counted["dropped"] - queued - held
        return {**counted, "queued": queued, "held": held, "balance": balance}


def spans_of(framework: str, scenario: str) -> list[Span]:
    """The recorded spans of one scenario."""
    files = sorted(file for file in (CORPUS / framework).glob(f"{scenario}*.otlp.pb") if ".logs." not in file.name)
    return [
        span
        for file in files
        for group in ExportTraceServiceRequest.FromString(file.read_bytes()).resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


def attributes(record: Span | LogRecord | Span.Event) -> dict[str, object]:
    """Decode all attributes."""
    return {attribute.key: plain(attribute.value) for attribute in record.attributes}


def plain(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind else None


def key_value(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))
