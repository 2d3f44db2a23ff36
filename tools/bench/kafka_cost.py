"""What a million spans cost that come from Kafka, beside the same ones over OTLP: CPU seconds of `toolgauge serve`.

    python -m tools.bench.kafka_cost [--spans 60000]

Runs of 12 spans of some 700 bytes, half of them calls of a tool, go to a real toolgauge that sends them on: over OTLP in requests of 512 spans, and as
the messages of a real broker that the Collector makes of such requests, one a trace: with a run in one request, and in four.
"""

import argparse
import os
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.kafka.real_broker import running_broker
from tests.kafka_broker import write
from tests.wire.destination import receiving
from tests.wire.support import Toolgauge, serving, to_grpc, until
from toolgauge.otlp.request import split_by_trace

_SPANS_OF_A_RUN = 12
_SPANS_OF_A_REQUEST = 512
_CALL = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "search",
    "gen_ai.tool.call.arguments": '{"q": "x"}',
}


def requests(spans: int, requests_of_a_run: int) -> list[bytes]:
    """Write runs side by side, each over so many requests."""
    draw = random.Random(1)  # noqa: S311 (made-up ids)
    traces = [draw.getrandbits(128).to_bytes(16, "big") for _ in range(spans // _SPANS_OF_A_RUN)]
    of_a_part = _SPANS_OF_A_RUN // requests_of_a_run
    beside = _SPANS_OF_A_REQUEST // of_a_part
    groups = [traces[first : first + beside] for first in range(0, len(traces), beside)]
    starts = range(0, _SPANS_OF_A_RUN, of_a_part)
    return [_request(group, range(start, start + of_a_part)) for group in groups for start in starts]


def _request(traces: Sequence[bytes], numbers: range) -> bytes:
    body, now = ExportTraceServiceRequest(), time.time_ns()
    spans = body.resource_spans.add().scope_spans.add().spans
    for trace_id in traces:
        for number in numbers:
            is_root = number == _SPANS_OF_A_RUN - 1
            span = spans.add(trace_id=trace_id, span_id=(number + 1).to_bytes(8, "big"), name="step")
            span.start_time_unix_nano, span.end_time_unix_nano = now + number, now + number + 1
            if not is_root:
                span.parent_span_id = _SPANS_OF_A_RUN.to_bytes(8, "big")
            said = {"gen_ai.operation.name": "invoke_agent"} if is_root else _CALL if number % 2 else {}
            for key, value in {**said, "filler": "z" * 600}.items():
                span.attributes.add(key=key).value.string_value = value
    return body.SerializeToString()


def cpu_s(toolgauge: Toolgauge) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{toolgauge.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def over_otlp(folder: Path, bodies: Sequence[bytes], spans: int) -> float:
    """Send the requests; return the CPU seconds that they cost."""
    with receiving() as backend, serving(folder, to_grpc(backend.grpc_port)) as toolgauge:
        before = cpu_s(toolgauge)
        for body in bodies:
            toolgauge.send(body)
        until(lambda: toolgauge.books()["forwarded"] >= spans, "all spans to be sent on", 600)
        return cpu_s(toolgauge) - before


def over_kafka(folder: Path, messages: list[tuple[str | None, bytes]], spans: int) -> float:
    """Write the messages while toolgauge waits for them; return the CPU seconds that they cost."""
    with receiving() as backend, running_broker(folder) as broker:
        for topic in ("otlp_spans", "otlp_logs"):
            broker.create_topic(topic)
        reads = f'receivers.kafka={{brokers: ["{broker.address}"], initial_offset: earliest}}'
        with serving(folder, to_grpc(backend.grpc_port), reads) as toolgauge:
            before = cpu_s(toolgauge)
            write(broker.address, "otlp_spans", messages)
            until(lambda: toolgauge.books()["forwarded"] >= spans, "all spans to be sent on", 600)
            return cpu_s(toolgauge) - before


def main() -> None:
    """Measure each way and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spans", type=int, default=60_000)
    spans = parser.parse_args().spans // _SPANS_OF_A_RUN * _SPANS_OF_A_RUN
    print(f"{'':30} CPU s a million spans")
    for of_a_run in (1, 4):
        bodies = requests(spans, of_a_run)
        messages = [(one.trace_id, one.body) for body in bodies for one in split_by_trace("traces", body, 1 << 20)]
        with tempfile.TemporaryDirectory() as folder:
            costs = {
                f"{len(bodies)} requests over OTLP": over_otlp(Path(folder), bodies, spans),
                f"{len(messages)} messages of Kafka": over_kafka(Path(folder), messages, spans),
            }
        for name, cost in costs.items():
            print(f"{name:30} {cost / spans * 1e6:8.0f}")


if __name__ == "__main__":
    main()
