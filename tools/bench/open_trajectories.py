"""Memory of open trajectories: what one takes, and each of its spans, in a running `toolgauge serve`.

    python -m tools.bench.open_trajectories [--trajectories 2000] [--span-bytes 1024]

Traces of agent spans whose root never comes are sent, of 4 and of 24 spans each; the growth of the process' memory is divided over
trajectories and spans by the difference between the two. Nothing is held (`annotate: scorecard`), and nothing sent on.
"""

import argparse
import tempfile
import time
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.wire.support import Toolgauge

_SIZES = (4, 24)
_SETTINGS = (
    "annotate=scorecard",
    "memory.limit=4GiB",
    "assemble.open_idle_timeout=15m",
    "assemble.idle_timeout=15m",
    "assemble.max_open=1000000",
    "assemble.max_open_bytes=4GiB",
)


def main() -> None:
    """Measure both sizes and print what a trajectory and a span take."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trajectories", type=int, default=2000)
    parser.add_argument("--span-bytes", type=int, default=1024)
    arguments = parser.parse_args()
    few, many = (_measured(arguments.trajectories, spans, arguments.span_bytes) for spans in _SIZES)
    for kind, name in enumerate(("resident memory", "toolgauge.traces.open.bytes")):
        of_span = (many[kind] - few[kind]) / (_SIZES[1] - _SIZES[0])
        print(f"{name}: {of_span:.0f} bytes a span, {few[kind] - _SIZES[0] * of_span:.0f} bytes a trajectory besides")


def _measured(trajectories: int, spans: int, span_bytes: int) -> tuple[float, float]:
    """Bytes that an open trajectory takes with its spans: of the process, and by its own account."""
    with tempfile.TemporaryDirectory() as folder:
        toolgauge = Toolgauge(Path(folder), *_SETTINGS)
        try:
            toolgauge.wait_until_up()
            # What the first requests load stays for good.
            _send(toolgauge, range(1, 51), spans, span_bytes)
            before = toolgauge.memory_mib(), toolgauge.total("toolgauge_traces_open_bytes")
            _send(toolgauge, range(51, 51 + trajectories), spans, span_bytes)
            assert toolgauge.total("toolgauge_traces_open") == 50 + trajectories
            after = toolgauge.memory_mib(), toolgauge.total("toolgauge_traces_open_bytes")
        finally:
            toolgauge.close()
    return (after[0] - before[0]) * 2**20 / trajectories, (after[1] - before[1]) / trajectories


def _send(toolgauge: Toolgauge, traces: range, spans: int, span_bytes: int) -> None:
    for trace in traces:
        request = ExportTraceServiceRequest()
        resource = request.resource_spans.add()
        resource.resource.attributes.append(_text("service.name", "bench"))
        scope = resource.scope_spans.add()
        scope.spans.extend(_span(trace, number, span_bytes) for number in range(1, spans + 1))
        toolgauge.send(request.SerializeToString())
    toolgauge.settled((traces.stop - 1) * spans)


def _span(trace: int, number: int, span_bytes: int) -> Span:
    now = time.time_ns()
    span = Span(
        trace_id=trace.to_bytes(16, "big"),
        span_id=(trace * 1000 + number).to_bytes(8, "big"),
        parent_span_id=b"\1" * 8,  # the root, which never comes
        name="execute_tool find_order",
        start_time_unix_nano=now,
        end_time_unix_nano=now + 1000,
    )
    span.attributes.extend(
        [
            _text("gen_ai.operation.name", "execute_tool"),
            _text("gen_ai.tool.name", "find_order"),
            _text("gen_ai.tool.call.id", f"{trace}-{number}"),
            _text("gen_ai.tool.call.arguments", f'{{"order": "{trace}-{number}"}}'),
        ]
    )
    rest = f"{trace}-{number} " * 1000
    span.attributes.append(_text("gen_ai.tool.call.result", rest[: max(0, span_bytes - len(span.SerializeToString()))]))
    return span


def _text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


if __name__ == "__main__":
    main()
