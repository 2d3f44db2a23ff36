"""What one process costs under load, beside a bare relay and a bare decode-and-encode forwarder, in one run.

    python tools/bench/throughput.py [--duration 15] [--rounds 3] [--genai-share 0.5] [--batch 512] [--json FILE]
                                     [--contenders three toolgauge]

`three` is toolgauge with only those default criteria that look neither at messages nor at results, `journal` is toolgauge with a
state directory (in the folder for temporary files: name one on a disk by TMPDIR). `collector` is a real Collector that receives and
sends on, `balancer` one that sends each trace to one of two destinations by its id: where the tests have built one (CONTRIBUTING.md). Each contender gets the same load (4 connections, requests of 512 spans of about 1 KB) in turn, round by round, and
sends it on to a fresh counting destination. Prints CPU seconds of the contender per million spans, its peak memory,
and what arrived; ratios are between medians of the same run. Everything stays on loopback.
"""

import argparse
import contextlib
import json
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.deploy.collector import cached
from toolgauge.config.model import Defaults

TOOLS = Path(__file__).parents[1] / "scripts"
CONTENDERS = ("relay", "forward", "three", "toolgauge", "journal", "collector", "balancer")
# By default those that need nothing but Python.
_DEFAULT = CONTENDERS[:5]
_COLLECTOR = """
receivers: {{otlp: {{protocols: {{grpc: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
processors: {{memory_limiter: {{check_interval: 1s, limit_mib: 512}}}}
exporters:
  otlp: {{endpoint: "{destination}", compression: none, tls: {{insecure: true}}}}
  loadbalancing:
    routing_key: traceID
    protocol: {{otlp: {{compression: none, tls: {{insecure: true}}}}}}
    resolver: {{static: {{hostnames: ["{destination}", "{other}"]}}}}
service:
  telemetry: {{metrics: {{level: none}}, logs: {{level: error}}}}
  pipelines: {{traces: {{receivers: [otlp], processors: [memory_limiter], exporters: [{exporter}]}}}}
"""
# Default criteria that need neither messages nor results.
THREE = ("tool_success", "known_tool", "tool_use")


def main() -> None:
    arguments = parse_arguments()
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in arguments.contenders}
    for number in range(arguments.rounds):
        for name in arguments.contenders:
            measured = measure(name, arguments)
            rounds[name].append(measured)
            print(f"round {number + 1} {name:10s} {json.dumps(measured)}", file=sys.stderr, flush=True)
    report(rounds)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(rounds, indent=1))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--duration", type=float, default=15)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--genai-share", type=float, default=0.5)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--span-bytes", type=int, default=1024)
    parser.add_argument("--dialect", default="genai")
    parser.add_argument("--rate", type=float, default=0, help="spans per second; 0 = as fast as it is acknowledged")
    parser.add_argument("--settle", type=float, default=12, help="seconds after the load, for what is open")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=_DEFAULT)
    parser.add_argument("--json", help="write all figures to this file")
    return parser.parse_args()


def measure(name: str, arguments: argparse.Namespace) -> dict[str, float]:
    """Run one contender under load and read the books of all three parties."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_sink(Path(folder)) as sink,
        running(name, sink, Path(folder)) as contender,
    ):
        process, port = contender
        command = [sys.executable, str(TOOLS / "loadgen.py"), "--endpoint", f"127.0.0.1:{port}", "--retry"]
        for option in ("duration", "batch", "genai_share", "span_bytes", "dialect", "settle", "rate"):
            command += [f"--{option.replace('_', '-')}", str(getattr(arguments, option))]
        loaded = subprocess.run([*command, "--pid", str(process.pid)], capture_output=True, text=True, check=True)
        sent = json.loads(loaded.stdout)
        stop(process)
        arrived = json.loads(urllib.request.urlopen(f"http://127.0.0.1:{sink['admin']}/").read())
    return figures(sent, arrived)


def figures(sent: dict[str, Any], arrived: dict[str, Any]) -> dict[str, float]:
    """Keep what the report compares; the rest is in the tools' own output."""
    target, scored = sent["target"], arrived["toolgauge"]
    return {
        "cpu_s_per_million": target["cpu_s"] / sent["acked_spans"] * 1e6,
        "rss_peak_mib": target["rss_peak_mib"],
        "rss_end_mib": target["rss_end_mib"],
        "spans_per_s": sent["spans_per_s"],
        "p99_ms": sent["latency_ms"]["p99"],
        "acked_spans": sent["acked_spans"],
        # The destination counts our own scorecard spans too; senders' spans are the rest.
        "arrived_spans": arrived["unique_spans"],
        "duplicate_spans": arrived["duplicate_spans"],
        "sent_tool_spans": sent["acked"]["tool_spans"],
        "tool_spans_annotated": scored["tool_spans_annotated"],
        "tool_spans_linked": scored["tool_spans_linked"],
        "tool_spans_unscored": scored["tool_spans_unscored"],
        "scorecard_spans": scored["scorecard_spans"],
        "events": sum(scored["events_by_outcome"].values()),
        "metric_points": sum(arrived["metric_points"].values()),
    }


@contextlib.contextmanager
def running_sink(folder: Path) -> Generator[dict[str, int]]:
    ports = {"grpc": free_port(), "http": free_port(), "admin": free_port()}
    command = [sys.executable, str(TOOLS / "sink.py"), "--unique", "--stats-file", str(folder / "stats.json")]
    for kind, port in ports.items():
        command += [f"--{kind}-port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_for(ports["grpc"])
        wait_for(ports["admin"])
        yield ports
    finally:
        stop(process)


@contextlib.contextmanager
def running(name: str, sink: dict[str, int], folder: Path) -> Generator[tuple[subprocess.Popen[bytes], int]]:
    port = free_port()
    destination = f"127.0.0.1:{sink['grpc']}"
    if name in ("three", "toolgauge", "journal"):
        command = [sys.executable, "-m", "toolgauge", "serve"]
        settings = {
            "receivers.otlp.protocols.grpc.endpoint": f"127.0.0.1:{port}",
            "receivers.otlp.protocols.http.endpoint": f"127.0.0.1:{free_port()}",
            "exporters.otlp": f"{{endpoint: '{destination}', compression: none}}",
            "exporters.prometheus.endpoint": f"127.0.0.1:{free_port()}",
            "admin.endpoint": f"127.0.0.1:{free_port()}",
            "web.endpoint": f"127.0.0.1:{free_port()}",
        }
        if name == "three":
            others = Defaults.model_fields.keys() - {"enabled", "scope", *THREE}
            settings |= {f"defaults.{criterion}": "false" for criterion in others}
        if name == "journal":
            settings["state.directory"] = str(folder / "state")
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
    elif name in ("collector", "balancer"):
        exporter = "otlp" if name == "collector" else "loadbalancing"
        other = destination.replace("127.0.0.1", "localhost")
        file = folder / "collector.yaml"
        file.write_text(_COLLECTOR.format(port=port, destination=destination, other=other, exporter=exporter))
        command = [str(cached()), f"--config={file}"]
    else:
        command = [sys.executable, str(TOOLS / "pyfloor.py"), "--mode", name, "--port", str(port), "--to", destination]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_for(port)
        yield process, port
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.wait(40)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens on port {port}")


def report(rounds: dict[str, list[dict[str, float]]]) -> None:
    cost = {name: statistics.median(one["cpu_s_per_million"] for one in runs) for name, runs in rounds.items()}
    for name, runs in rounds.items():
        peak = max(one["rss_peak_mib"] for one in runs)
        rate = statistics.median(one["spans_per_s"] for one in runs)
        print(f"{name:10s} {cost[name]:7.2f} CPU s per million spans  {rate:9.0f} spans/s  peak {peak:6.0f} MiB")
    for other in cost:
        if other != "toolgauge" and "toolgauge" in cost:
            print(f"toolgauge / {other}: {cost['toolgauge'] / cost[other]:.2f}")


if __name__ == "__main__":
    main()
