"""What reading one agent span costs, from its bytes to a reading: by dialect, and by size.

    python -m tools.bench.recognize_cost [--rounds 15]

Prints the median over all recorded spans of each dialect (with their sizes), the median for spans of about 1 KB, and
the cost of one model span as its messages grow from 1 KB to 1 MB (linear: microseconds a KB stay level).
"""

import argparse
import json
import statistics
import time
from collections import defaultdict
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from toolgauge.model.metrics import MetricRegistry
from toolgauge.otlp.decoder import Decoder
from toolgauge.plugins import dialects
from toolgauge.recognize.recognizer import Recognizer
from toolgauge.selfmetrics import SelfMetrics

CORPUS = Path(__file__).parents[2] / "tests" / "corpus"
ABOUT_1_KB = range(700, 1500)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    recognizer = Recognizer(dialects(), metrics=SelfMetrics(MetricRegistry()))
    decoder = Decoder(recognizer.marks, recognizer.scopes)
    by_dialect: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for body in recorded():
        dialect = read(decoder, recognizer, body)
        if dialect is not None:
            by_dialect[dialect].append((len(body), cost_us(decoder, recognizer, body, rounds)))
    small: list[float] = []
    for dialect, costs in sorted(by_dialect.items()):
        sizes, times = zip(*costs, strict=True)
        print(
            f"{dialect:15s} {len(costs):4d} spans  median {statistics.median(times):6.1f} us, {statistics.median(sizes):6.0f} bytes"
        )
        small += [spent for size, spent in costs if size in ABOUT_1_KB]
    print(f"about 1 KB      {len(small):4d} spans  median {statistics.median(small):6.1f} us")
    for kilobytes in (1, 10, 100, 1000):
        spent = cost_us(decoder, recognizer, model_span(kilobytes * 1024), max(3, rounds // 3))
        print(f"model span of {kilobytes:5d} KB: {spent:9.1f} us, {spent / kilobytes:6.1f} us a KB")


def recorded() -> list[bytes]:
    """Each recorded span as a request of its own, with its resource and scope."""
    bodies: list[bytes] = []
    for file in sorted(CORPUS.glob("*/*.otlp.pb")):
        if ".logs." in file.name:
            continue
        for group in ExportTraceServiceRequest.FromString(file.read_bytes()).resource_spans:
            for scope in group.scope_spans:
                bodies += [alone(span, scope.scope.name) for span in scope.spans]
    return bodies


def alone(span: Span, scope: str) -> bytes:
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add().scope_spans.add()
    group.scope.name = scope
    group.spans.append(span)
    return request.SerializeToString()


def model_span(size: int) -> bytes:
    """A model span whose input is a history of this many bytes and whose output asks for one tool call."""
    text = "The parcel with order ORD-004711 was left with a neighbour; please call back before noon. " * 4
    turn = [{"role": "user", "parts": [{"type": "text", "content": text}]}]
    history = turn * max(1, size // len(json.dumps(turn)))
    call = {"type": "tool_call", "id": "call_1", "name": "get_order", "arguments": {"order_id": "ORD-004711"}}
    span = Span(trace_id=b"t" * 16, span_id=b"s" * 8, name="chat", start_time_unix_nano=1, end_time_unix_nano=2)
    for key, value in {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(history),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [call], "finish_reason": "tool_call"}]),
    }.items():
        span.attributes.append(KeyValue(key=key, value=AnyValue(string_value=value)))
    return alone(span, "bench")


def read(decoder: Decoder, recognizer: Recognizer, body: bytes) -> str | None:
    viewed = next(iter(decoder.traces(body).viewed), None)
    reading = None if viewed is None else recognizer.read(viewed.span)
    return None if reading is None else reading.dialect


def cost_us(decoder: Decoder, recognizer: Recognizer, body: bytes, rounds: int) -> float:
    times: list[int] = []
    for _ in range(rounds):
        started = time.perf_counter_ns()
        read(decoder, recognizer, body)
        times.append(time.perf_counter_ns() - started)
    return statistics.median(times) / 1000


if __name__ == "__main__":
    main()
