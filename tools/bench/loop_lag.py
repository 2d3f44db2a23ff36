"""How long the event loop of `toolgauge serve` keeps others waiting, while it does what takes long.

    python -m tools.bench.loop_lag [conversations|huge-trace|huge-run|steady ...] [--seconds 15] [--rate 5000] [--sample]

A real process, a destination and real senders on loopback. Prints for each scenario p50, p99 and the longest time by
which a task that sleeps for 5 ms overslept, once by the clock (`wall`) and once as far as the loop's own thread was at
work meanwhile (`own`: on a busy machine the rest is somebody else's); collections of garbage; and toolgauge's own
histogram. `--sample` also tells where the loop was seen when it was late, which takes time itself.

`conversations`: runs of about 200 calls end and are scored with references, beside steady traffic. `huge-trace`: one
trace of 100,000 tool spans. `huge-run`: one run of 50,000 model calls that each ask for a call, and these calls.
`steady`: half agent traces at `--rate`.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans as Group
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.walk.support import key_value
from tests.wire.sink import LOADGEN, SINK
from tests.wire.support import LISTEN, Process, Samples, Toolgauge, environment, free_port, to_grpc, until

_START_NS = 1_800_000_000_000_000_000
_AT_ONCE = 2000
_HUGE = 100_000
_ROW = "{:16} {:>6} {:>9.1f} {:>9.1f} {:>9.1f}"
_Seen: TypeAlias = dict[str, Any]


class Watched(Toolgauge):
    """A `toolgauge serve` under watch."""

    def __init__(self, folder: Path, *settings: str, sample: bool) -> None:
        self.watched = folder / "watched.json"
        command = [sys.executable, "-m", "tools.bench.watched_serve", str(self.watched)]
        command += ["--sample"] if sample else []
        command.append("serve")
        for setting in (*LISTEN, *settings):
            command += ["--set", setting]
        Process.__init__(self, command, folder / "toolgauge.log", environment())

    def over(self) -> _Seen:
        """End the process and read what was seen of it."""
        self.signal()
        self.ended(60)
        return json.loads(self.watched.read_text())


def main() -> None:
    arguments = _arguments()
    for name in arguments.scenarios or SCENARIOS:
        _report(name, *_measured(name, arguments))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", choices=[[], *SCENARIOS])
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--rate", type=int, default=5000, help="spans a second")
    parser.add_argument("--batch", type=int, default=512, help="spans a request")
    parser.add_argument(
        "--evaluators", default="tool_trajectory,tool_call_args,tool_call_f1", help="of `conversations`"
    )
    parser.add_argument("--sample", action="store_true", help="tell where the loop was seen when it was late")
    return parser.parse_args()


def _measured(name: str, arguments: argparse.Namespace) -> tuple[_Seen, Samples, _Seen]:
    with tempfile.TemporaryDirectory() as folder_name, contextlib.ExitStack() as running:
        folder = Path(folder_name)
        settings = _criteria(arguments.evaluators.split(",")) if name == "conversations" else ()
        port = _sink(folder, running)
        toolgauge = Watched(folder, to_grpc(port), "memory.limit=2GiB", *settings, sample=arguments.sample)
        running.callback(toolgauge.close)
        toolgauge.wait_until_up()
        told = SCENARIOS[name](toolgauge, arguments)
        samples = toolgauge.samples()
        return toolgauge.over(), samples, told


def _sink(folder: Path, running: contextlib.ExitStack) -> int:
    ports = {kind: free_port() for kind in ("grpc", "http", "admin")}
    options = [part for kind, port in ports.items() for part in (f"--{kind}-port", str(port))]
    process = Process([sys.executable, str(SINK), *options], folder / "sink.log")
    running.callback(process.close)
    until(lambda: '"ready": true' in process.said(), "the destination to be ready")
    return ports["grpc"]


# -- scenarios ----------------------------------------------------------------------------------------------------------


def _steady(toolgauge: Toolgauge, arguments: argparse.Namespace) -> _Seen:
    return _loaded(toolgauge, arguments, "--rate", str(arguments.rate), "--batch", str(arguments.batch))


def _conversations(toolgauge: Toolgauge, arguments: argparse.Namespace) -> _Seen:
    # 300 spans: the run, some hundred model calls and two hundred tool calls.
    options = ("--rate", "1200", "--spans-per-trace", "310", "--genai-share", "1", "--interleave", "4")
    beside = _load(toolgauge, arguments, *options, "--batch", "128")
    told = _loaded(toolgauge, arguments, "--rate", "2000", "--batch", "256", "--genai-share", "0.1")
    beside.wait()
    return told


def _huge_trace(toolgauge: Toolgauge, arguments: argparse.Namespace) -> _Seen:
    del arguments
    return _one_trace(toolgauge, _tool_spans)


def _huge_run(toolgauge: Toolgauge, arguments: argparse.Namespace) -> _Seen:
    del arguments
    return _one_trace(toolgauge, _turns)


SCENARIOS = {
    "conversations": _conversations, "huge-trace": _huge_trace, "huge-run": _huge_run, "steady": _steady,
}  # fmt: skip


def _load(toolgauge: Toolgauge, arguments: argparse.Namespace, *options: str) -> "subprocess.Popen[str]":
    command = [sys.executable, str(LOADGEN), "--endpoint", f"127.0.0.1:{toolgauge.grpc_port}", "--retry", *options]
    command += ["--duration", str(arguments.seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())


def _loaded(toolgauge: Toolgauge, arguments: argparse.Namespace, *options: str) -> _Seen:
    said, _ = _load(toolgauge, arguments, *options).communicate()
    time.sleep(6)
    return json.loads(said)["latency_ms"]


def _one_trace(toolgauge: Toolgauge, bodies: Callable[[], Iterator[bytes]]) -> _Seen:
    for body in bodies():
        toolgauge.send(body)
    until(lambda: toolgauge.total("toolgauge_trajectories_total") >= 1, "the trajectory", 120)
    until(lambda: not toolgauge.total("toolgauge_spans_held"), "all spans to have left", 60)
    time.sleep(1)
    return {}


def _tool_spans() -> Iterator[bytes]:
    for first in range(0, _HUGE, _AT_ONCE):
        request = ExportTraceServiceRequest()
        group = request.resource_spans.add().scope_spans.add()
        for number in range(first, first + _AT_ONCE):
            span = _span(group, number, "execute_tool")
            span.attributes.append(key_value("gen_ai.tool.name", f"tool_{number % 50}"))
            span.attributes.append(key_value("gen_ai.tool.call.arguments", f'{{"id": {number}, "what": "some text"}}'))
        if first + _AT_ONCE == _HUGE:
            _root(group)
        yield request.SerializeToString()


def _turns() -> Iterator[bytes]:
    for first in range(0, _HUGE, _AT_ONCE):
        request = ExportTraceServiceRequest()
        group = request.resource_spans.add().scope_spans.add()
        for number in range(first, first + _AT_ONCE, 2):
            name, call_id, wanted = f"tool_{number % 50}", f"call_{number}", {"id": number, "what": "some text"}
            part = {"type": "tool_call", "id": call_id, "name": name, "arguments": wanted}
            chat = _span(group, number, "chat")
            said = json.dumps([{"role": "assistant", "parts": [part], "finish_reason": "tool_call"}])
            chat.attributes.append(key_value("gen_ai.output.messages", said))
            span = _span(group, number + 1, "execute_tool")
            span.attributes.append(key_value("gen_ai.tool.name", name))
            span.attributes.append(key_value("gen_ai.tool.call.id", call_id))
            span.attributes.append(key_value("gen_ai.tool.call.arguments", json.dumps(wanted)))
        if first + _AT_ONCE == _HUGE:
            _root(group)
        yield request.SerializeToString()


def _span(group: Group, number: int, operation: str) -> Span:
    span = group.spans.add(
        trace_id=b"h" * 16,
        span_id=(number + 1).to_bytes(8, "big"),
        parent_span_id=b"rootroot",
        name=operation,
        start_time_unix_nano=_START_NS + number * 1000,
        end_time_unix_nano=_START_NS + number * 1000 + 900,
    )
    span.attributes.append(key_value("gen_ai.operation.name", operation))
    return span


def _root(group: Group) -> None:
    root = group.spans.add(trace_id=b"h" * 16, span_id=b"rootroot", name="invoke_agent", start_time_unix_nano=_START_NS)
    root.end_time_unix_nano = _START_NS + _HUGE * 1000
    root.attributes.append(key_value("gen_ai.operation.name", "invoke_agent"))


def _criteria(evaluators: list[str]) -> tuple[str, ...]:
    tools = ("get_order", "list_orders", "refund_order", "search_flights", "run_query", "read_file", "book_hotel")
    expected = [
        {"name": tools[number % len(tools)], "args": {"order_id": f"ORD-{number:06}", "limit": number % 30}}
        for number in range(200)
    ]
    criteria = [{"name": one.replace(".", "-"), "evaluator": one, "expected": expected} for one in evaluators]
    criteria.append({**criteria[0], "name": "whole-conversation", "scope": "conversation"})
    return (f"criteria={json.dumps(criteria)}", "assemble.conversation_idle_timeout=2s", "assemble.run_end_grace=1s")


# -- report -------------------------------------------------------------------------------------------------------------


def _report(name: str, seen: _Seen, samples: Samples, told: _Seen) -> None:
    for clock in ("wall", "own"):
        late = sorted(seen[f"{clock}_ms"])
        print(_ROW.format(name, clock, late[len(late) // 2], late[len(late) * 99 // 100], late[-1]), end="")
        over = sum(one > 20 for one in late)
        print(f"   {over} of {len(late)} over 20 ms: {', '.join(f'{one:.0f}' for one in late[-over:][-12:] if over)}")
    for generation in range(3):
        took = [ms for of, ms in seen["collections"] if of == generation]
        if took:
            print(f"{'':16} gc {generation}: {len(took)} times, {sum(took):.0f} ms in all, longest {max(took):.1f} ms")
    print(f"{'':16} toolgauge.loop.lag: {_histogram(samples)}   acknowledgements, ms: {told}")
    if seen["seen"]:
        for late, own, during in seen["stalls"]:
            print(f"  {late:.0f} ms, {own:.0f} ms of them at work")
            for stack, times in during:
                print(f"    {times:4} {stack}")
        print("  all:")
        for stack, times in seen["seen"]:
            print(f"    {times:4} {stack}")


def _histogram(samples: Samples) -> str:
    found = {
        float(dict(labels)["le"]): value
        for (name, labels), value in samples.items()
        if name == "toolgauge_loop_lag_seconds_bucket"
    }
    total = max(found.values(), default=0)
    p99 = min((bound for bound, value in found.items() if value >= 0.99 * total), default=0)
    return f"p99 at most {p99 * 1000:.0f} ms of {total:.0f}"


if __name__ == "__main__":
    main()
