"""Whatever reads bytes of strangers, as functions from bytes to nothing.

A target raises only when there is a fault: what a reader is documented to raise is caught here. `time_limit_s` says how
long it may take over its bytes; only the caller measures.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.config.files import criteria_in
from tests.otlp import stock
from tests.walk.support import Walk
from toolgauge import plugins
from toolgauge.cases.case import CaseError, parse
from toolgauge.cases.scoring import Cases
from toolgauge.config.load import load
from toolgauge.config.parse import parse_yaml
from toolgauge.config.references import read_references
from toolgauge.model.delivery import Signal
from toolgauge.model.errors import ConfigError, DecodeError, ToolgaugeError
from toolgauge.model.json import Value
from toolgauge.model.literals import parse_fields, parse_literal, parse_repr
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.outcomes import Errored
from toolgauge.model.records import Record
from toolgauge.otlp.decoder import Decoder
from toolgauge.otlp.encode import annotate
from toolgauge.otlp.envelope import count_items, encode_spans, read_head
from toolgauge.otlp.otlp_json import request_from_json, requests_from_json
from toolgauge.otlp.request import newest_time_ns
from toolgauge.otlp.views import value as decode_value
from toolgauge.receive.otlp_handler import BrokenBodyError, TooLargeError, gunzip, inflate
from toolgauge.recognize import values
from toolgauge.recognize.recognizer import Recognizer
from toolgauge.recordings.recorded_requests import read
from toolgauge.selfmetrics import SelfMetrics

Target = Callable[[bytes], None]
_LIMIT = 1 << 20
_ATTRIBUTES = Span(
    attributes=[KeyValue(key="toolgauge.outcome", value=AnyValue(string_value="pass"))]
).SerializeToString()
_SIGNALS: tuple[Signal, ...] = ("traces", "logs", "metrics")


def time_limit_s(size_bytes: int) -> float:
    """How much processor time a target may take over so many bytes."""
    # A second per 100 KB; the least is for parsers that are slow to start, on machines that are busy.
    return max(3.0, size_bytes / 100_000)


class Targets:
    """All targets. Those that read files write into `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._dialects = plugins.dialects()
        recognizer = Recognizer(self._dialects, SelfMetrics(MetricRegistry()))
        self._decoder = Decoder(recognizer.marks, recognizer.scopes, ("session.id",))
        self._cases = Cases()

    def all(self) -> Mapping[str, Target]:
        """Name them."""
        return {
            "traces": self.traces,
            "logs": self.logs,
            "value": self.value,
            "json": self.otlp_json,
            "gunzip": self.decompressed,
            "text": self.text,
            "config": self.config,
            "criteria": self.criteria,
            "references": self.references,
            "cases": self.cases,
            "recording": self.recording,
            "pipeline": self.pipeline,
        }

    def traces(self, body: bytes) -> None:
        """Decode a request of spans, let every dialect read each span, write it again in every way."""
        try:
            decoded = stock.read_traces(self._decoder, body)
        except DecodeError:
            return
        assert decoded.body() is body
        assert count_items(body) == decoded.span_count
        for viewed in decoded.viewed:
            span = viewed.span
            _look_at(span.attributes)
            for event in span.events:
                _look_at(event.attributes)
            self._read(span)
            read_head(viewed.raw)
            annotate(viewed.raw, _ATTRIBUTES)
        left = decoded.body([viewed.place for viewed in decoded.viewed])
        assert (count_items(left) if left else 0) == decoded.span_count - len(decoded.viewed)
        again = encode_spans((viewed.container, viewed.raw) for viewed in decoded.viewed)
        assert count_items(again) == len(decoded.viewed)

    def logs(self, body: bytes) -> None:
        """Decode a request of log records and let every dialect read each."""
        try:
            decoded = self._decoder.logs(body)
        except DecodeError:
            return
        for record in decoded.viewed:
            _look_at(record.attributes)
            self._read(record)

    def pipeline(self, body: bytes) -> None:
        """Take a request all the way to its scores; the books must balance."""
        walk = Walk()
        walk.pipeline.consume("traces", body, walk.now_ns)
        walk.wait(40)
        walk.pipeline.close(walk.now_ns)
        walk.wait(1)
        assert walk.books()["balance"] == 0
        assert walk.pipeline.is_empty
        assert dict(walk.metrics.dialect_errors.cells) == {}

    def _read(self, record: Record) -> None:
        for dialect in self._dialects:
            # Only what it claims is ever read by it.
            if dialect.claims(record):
                tuple(dialect.read(record))
            dialect.attribute(record, "session.id")

    def value(self, raw: bytes) -> None:
        """Decode one attribute value and read it as arguments and as a result."""
        try:
            decoded = decode_value(raw)
        except DecodeError:
            return
        _read_value(decoded)

    def otlp_json(self, text: bytes) -> None:
        """Decode JSON as a request of each signal; what comes out must be a sound request."""
        for signal in _SIGNALS:
            try:
                body = request_from_json(signal, text)
            except DecodeError:
                continue
            if signal != "metrics":
                count_items(body)
                newest_time_ns(signal, body)
        try:
            requests_from_json(text)
        except DecodeError:
            return

    def decompressed(self, body: bytes) -> None:
        """Decompress in both ways."""
        for decompress in (gunzip, inflate):
            try:
                assert sum(map(len, decompress(body, _LIMIT))) <= _LIMIT
            except (TooLargeError, BrokenBodyError):
                continue

    def text(self, raw: bytes) -> None:
        """Read text as arguments, as a Python literal, as a repr."""
        text = raw.decode("utf-8", "replace")
        _read_value(text)
        for parse_text in (parse_literal, parse_repr, parse_fields):
            try:
                _sendable(parse_text(text))
            except ValueError:
                continue

    def config(self, text: bytes) -> None:
        """Read a configuration."""
        try:
            parse_yaml(text, "fuzz.yaml", {})
            load([self._written("fuzz.yaml", text)], (), {})
        except ConfigError:
            return

    def criteria(self, text: bytes) -> None:
        """Read a criteria file."""
        try:
            criteria_in(self._written("criteria.yaml", text))
        except ConfigError:
            return

    def references(self, text: bytes) -> None:
        """Read a reference file."""
        cases, problems = read_references(text, "fuzz.jsonl")
        assert all(str(problem.message) for problem in problems)
        assert all(cases)

    def cases(self, text: bytes) -> None:
        """Read and score offline cases."""
        for number, line in enumerate(text.split(b"\n")[:5]):
            try:
                case = parse(f"fuzz:{number}", line)
            except CaseError:
                continue
            # The originals of peers may fail as they do; ours may not.
            if "." in case.evaluator:
                continue
            outcome = self._cases.score(case).outcome
            if isinstance(outcome, Errored) and outcome.error_type.endswith(("Error", "Exception")):
                raise AssertionError(f"{case.evaluator}: {outcome}")

    def recording(self, data: bytes) -> None:
        """Read a recording of unknown form, and as each known one."""
        for name in ("fuzz.bin", "fuzz.otlp", "fuzz.otlp.pb", "fuzz.jsonl", "fuzz.otlp.pb.gz", "fuzz.otlp.xz"):
            try:
                for _ in read([str(self._written(name, data))], lambda _size: None):
                    pass
            except ToolgaugeError:
                continue

    def _written(self, name: str, data: bytes) -> Path:
        file = self._folder / name
        file.write_bytes(data)
        return file


def _look_at(attributes: Mapping[str, Value]) -> None:
    for key in attributes:
        _read_value(attributes[key])


def _read_value(given: Value) -> None:
    values.arguments(given)
    values.result(given)
    _sendable(values.plain(given))


def _sendable(value: object) -> None:
    json.dumps(value, allow_nan=False).encode()


def seeds(corpus: Path, golden: Path, examples: Path) -> Iterator[tuple[str, bytes]]:
    """Yield sound inputs by target."""
    for file in sorted(corpus.glob("*/*.otlp.pb")):
        yield "logs" if ".logs." in file.name else "traces", file.read_bytes()
    for file in sorted(golden.glob("*.jsonl")):
        for line in file.read_bytes().splitlines()[:10]:
            yield "cases", line
    for file in sorted(examples.rglob("*.yaml")):
        yield "criteria" if "criteria" in file.name else "config", file.read_bytes()
    for file in sorted(examples.rglob("*.jsonl")):
        yield "references", file.read_bytes()
