"""How long spans that nobody holds take through one process, beside a bare relay, in one run.

    python -m tools.bench.added_delay [--rate 10000] [--duration 20] [--rounds 1] [--genai-share 0.5]

Sends requests of 512 spans of the load generator over four connections at a steady rate, and takes the time of one
span a request that is no agent's, where there is one: until its request is acknowledged, and until it has arrived at the destination.
Prints percentiles in milliseconds; the load and the destination take part of the machine from all alike.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import argparse
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from pathlib import Path
from typing import NamedTuple, TypeAlias

import grpc

from toolgauge.otlp.envelope import parse_request
from tools.bench.profile_pipeline import METHOD, caught
from tools.bench.throughput import free_port, running

CONTENDERS = ("relay", "forward", "toolgauge")
CONNECTIONS = 4
BATCH = 512
# What comes in the first seconds meets an empty process.
WARM_S = 3
# Trace id and span id, as spans of the load generator begin with them.
IDS = re.compile(rb"\n\x10(.{16})\x12\x08(.{8})", re.DOTALL)
LOCAL = ("grpc.use_local_subchannel_pool", 1)
LARGEST = ("grpc.max_receive_message_length", 64 << 20)

Ids: TypeAlias = tuple[bytes, bytes]


class Sent(NamedTuple):
    """One request; times in seconds, `ids` are those of the span that is waited for."""

    sent_s: float
    acknowledged_s: float
    ids: Ids | None


class Destination(grpc.GenericRpcHandler):
    """Takes everything, and the time at which each span came first."""

    def __init__(self) -> None:
        self.came_s: dict[Ids, float] = {}
        self.port = free_port()
        self._server = grpc.server(futures.ThreadPoolExecutor(2), options=[LARGEST])
        self._server.add_generic_rpc_handlers((self,))
        self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        self._server.start()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        """Look into spans alone."""
        take = self._take if handler_call_details.method == METHOD else self._ignore
        return grpc.unary_unary_rpc_method_handler(take)

    def close(self) -> None:
        self._server.stop(None).wait()

    def _take(self, body: bytes, context: object) -> bytes:
        del context
        now_s = time.monotonic()
        for ids in IDS.findall(body):
            self.came_s.setdefault(ids, now_s)
        return b""

    def _ignore(self, body: bytes, context: object) -> bytes:
        del body, context
        return b""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=10_000, help="spans per second")
    parser.add_argument("--duration", type=float, default=20, help="seconds, of which the first are not counted")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--genai-share", type=float, default=0.5)
    arguments = parser.parse_args()
    if arguments.duration <= WARM_S:
        parser.error(f"--duration has to be more than {WARM_S}")
    count = int(arguments.rate * arguments.duration / BATCH)
    bodies = caught(count, ["--genai-share", str(arguments.genai_share), "--batch", str(BATCH)])
    for number in range(arguments.rounds):
        for name in CONTENDERS:
            if sys.stderr.isatty():
                print(f"round {number + 1}: {name}", file=sys.stderr, flush=True)
            print(measured(name, bodies, BATCH / arguments.rate), flush=True)


def measured(name: str, bodies: Sequence[bytes], every_s: float) -> str:
    """Run one contender, and say how long it took."""
    destination = Destination()
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            running(name, {"grpc": destination.port}, Path(folder)) as (_, port),
        ):
            sent = send(port, bodies, every_s)
            time.sleep(2)
    finally:
        destination.close()
    counted = [one for one in sent if one.sent_s >= sent[0].sent_s + WARM_S]
    came_s = destination.came_s
    acknowledged = [one.acknowledged_s - one.sent_s for one in counted]
    waited_for = [(one.sent_s, one.ids) for one in counted if one.ids is not None]
    arrived = [came_s[ids] - sent_s for sent_s, ids in waited_for if ids in came_s]
    missing = len(waited_for) - len(arrived)
    said = f"{name:10s} acknowledged after {percentiles(acknowledged)}; arrived after {percentiles(arrived)}"
    return f"{said}; {missing} of {len(waited_for)} did not arrive" if missing else said


def send(port: int, bodies: Sequence[bytes], every_s: float) -> list[Sent]:
    """Send all at a steady pace, whether or not those before are answered."""
    waited_for = [plain_span(body) for body in bodies]
    channels = [grpc.insecure_channel(f"127.0.0.1:{port}", options=[LOCAL]) for _ in range(CONNECTIONS)]
    exports: list[grpc.UnaryUnaryMultiCallable[bytes, bytes]] = [channel.unary_unary(METHOD) for channel in channels]
    sent: list[Sent] = []

    def note(sent_s: float, ids: Ids | None) -> Callable[[object], None]:
        return lambda _: sent.append(Sent(sent_s, time.monotonic(), ids))

    calls: list[grpc.Future[bytes]] = []
    began_s = time.monotonic()
    for number, (body, ids) in enumerate(zip(bodies, waited_for, strict=True)):
        time.sleep(max(0.0, began_s + number * every_s - time.monotonic()))
        sent_s = time.monotonic()
        call = exports[number % CONNECTIONS].future(body, timeout=30)
        call.add_done_callback(note(sent_s, ids))
        calls.append(call)
    for call in calls:
        call.result(60)
    for channel in channels:
        channel.close()
    return sorted(sent, key=lambda one: one.sent_s)


def plain_span(body: bytes) -> Ids | None:
    """Find a span that no agent wrote; `None` where all are of agents."""
    for group in parse_request(body).resource_groups:
        for scope in group.scope_groups:
            for raw in scope.items:
                if b"gen_ai." not in raw and (found := IDS.match(raw)) is not None:
                    return found[1], found[2]
    return None


def percentiles(times_s: Sequence[float]) -> str:
    """Write the half, the ninth tenth and the 99th hundredth, in milliseconds."""
    if len(times_s) < 2:
        return "-"
    cuts = statistics.quantiles(times_s, n=100, method="inclusive")
    return "/".join(f"{cuts[at - 1] * 1000:.0f}" for at in (50, 90, 99)) + " ms (p50/p90/p99)"


if __name__ == "__main__":
    main()
