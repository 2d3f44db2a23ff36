"""Where the time of the pipeline goes, by function, without sockets in the way.

    python -m tools.bench.profile_pipeline [--requests 60] [--genai-share 0.5] [--batch 512] [--chat-kb 0]
                                           [--top 40] [--plain | --stages] [--collect-like-serve]

Catches what the load generator sends, feeds it to a pipeline in a leaf set-up with a stepped clock, and prints
microseconds a span; then the same under cProfile, sorted by own time. `--stages` prints instead what each stage takes,
and what the same spans cost at the very least: parsing them, and their JSON.
"""

import argparse
import cProfile
import gc
import pstats
import socket
import subprocess
import sys
import time
from concurrent import futures
from pathlib import Path

import grpc

from tests.walk.support import SECOND, Walk
from tools.bench.stages import Stages, least

TOOLS = Path(__file__).parents[1] / "scripts"
METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--genai-share", type=float, default=0.5)
    parser.add_argument("--dialect", default="genai")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--chat-kb", type=float, default=0)
    parser.add_argument("--top", type=int, default=40)
    parser.add_argument("--plain", action="store_true", help="no profile, only microseconds a span")
    parser.add_argument("--stages", action="store_true", help="no profile, microseconds a span by stage")
    parser.add_argument("--collect-like-serve", action="store_true", help="collect garbage as seldom as the service")
    arguments = parser.parse_args()
    named = {name: getattr(arguments, name) for name in ("genai_share", "dialect", "batch", "chat_kb")}
    options = [text for name, value in named.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    bodies = caught(arguments.requests, options)
    feed(Walk(), bodies[: len(bodies) // 4])
    if arguments.collect_like_serve:
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)
    if arguments.stages:
        by_stage(bodies)
        return
    walk = Walk()
    started = time.process_time()
    feed(walk, bodies)
    spans = walk.metrics.spans.value(("received", "", ""))
    print(f"{(time.process_time() - started) / spans * 1e6:.1f} us a span over {spans:.0f} spans")
    if arguments.plain:
        return
    profile = cProfile.Profile()
    profile.runcall(feed, Walk(), bodies)
    pstats.Stats(profile).strip_dirs().sort_stats("tottime").print_stats(arguments.top)


def by_stage(bodies: list[bytes]) -> None:
    """Print the best of four runs: a busy machine makes all figures larger, none smaller."""
    best: dict[str, float] = {}
    for _ in range(4):
        walk = Walk()
        with Stages() as stages:
            feed(walk, bodies)
        spans = walk.metrics.spans.value(("received", "", ""))
        for stage, taken_ns in stages.taken_ns.items():
            taken = taken_ns / spans / 1000
            best[stage] = min(taken, best.get(stage, taken))
    for stage, taken in sorted(best.items(), key=lambda one: -one[1]):
        print(f"{taken:8.2f} us a span  {stage}")
    for work, taken_ns in least(bodies).items():
        print(f"{taken_ns / 1000:8.2f} us a span  at least: {work}")


def feed(walk: Walk, bodies: list[bytes]) -> None:
    """Send a request every 40 ms of the pipeline's time, tick as the service does, then let everything close."""
    for body in bodies:
        walk.send(body)
        walk.now_ns += SECOND // 25
        walk.wait(0.0)
        while walk.pipeline.tick(walk.now_ns):
            pass
        walk.pipeline.flush()
    walk.wait(60)


def caught(requests: int, options: list[str]) -> list[bytes]:
    """Run the load generator against a server that only keeps what it gets."""
    bodies: list[bytes] = []

    def keep(body: bytes, context: object) -> bytes:
        del context
        bodies.append(body)
        return b""

    class Keep(grpc.GenericRpcHandler):
        def service(
            self, handler_call_details: grpc.HandlerCallDetails
        ) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
            is_export = handler_call_details.method == METHOD
            return grpc.unary_unary_rpc_method_handler(keep) if is_export else None

    server = grpc.server(futures.ThreadPoolExecutor(1), options=[("grpc.max_receive_message_length", 64 << 20)])
    server.add_generic_rpc_handlers((Keep(),))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    command = [sys.executable, str(TOOLS / "loadgen.py"), "--endpoint", f"127.0.0.1:{port}", "--connections", "1"]
    subprocess.run([*command, "--requests", str(requests), *options], check=True, stdout=subprocess.DEVNULL)
    server.stop(None)
    return bodies


if __name__ == "__main__":
    main()
