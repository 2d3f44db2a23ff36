"""What several workers take: spans a second, and CPU of the front and of the workers, under the same load for each of them.

    python -m tools.bench.workers [--workers 1 2 4 8] [--rate 12000] [--duration 10] [--settle 8] [--genai-share 0.5]

Offers `--rate` spans a second for each worker, from as many load generators as that takes, and sends everything on to a destination
that counts bytes. Prints what was acknowledged and went on unread, and CPU seconds for a million spans. Needs about two cores a worker.
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tools.bench.throughput import TOOLS, free_port, stop, wait_for
from tools.bench.together import workers

# More than this is too much for one load generator.
_MOST_OF_ONE = 16_000
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2, 4, 8])
    parser.add_argument("--rate", type=int, default=12_000)
    parser.add_argument("--duration", type=float, default=10)
    parser.add_argument("--settle", type=float, default=8)
    parser.add_argument("--genai-share", type=float, default=0.5)
    arguments = parser.parse_args()
    print("workers  offered/s  acknowledged/s  unread   front CPU s  workers CPU s  (a million spans)")
    for count in arguments.workers:
        measure(count, arguments)


def measure(count: int, arguments: argparse.Namespace) -> None:
    sink, port, metrics = free_port(), free_port(), free_port()
    settings = {
        "workers": count,
        "receivers.otlp.protocols.grpc.endpoint": f"127.0.0.1:{port}",
        "receivers.otlp.protocols.http.endpoint": f"127.0.0.1:{free_port()}",
        "exporters.otlp": f"{{endpoint: '127.0.0.1:{sink}', compression: none}}",
        "exporters.prometheus.endpoint": f"127.0.0.1:{metrics}",
        "admin.endpoint": f"127.0.0.1:{free_port()}",
        "web.endpoint": f"127.0.0.1:{free_port()}",
        "memory.limit": "8GiB",
    }
    options = [option for key, value in settings.items() for option in ("--set", f"{key}={value}")]
    ports = ["--grpc-port", str(sink), "--http-port", str(free_port()), "--admin-port", str(free_port())]
    destination = subprocess.Popen([sys.executable, TOOLS / "sink.py", "--no-parse", *ports], stdout=subprocess.DEVNULL)
    serving = subprocess.Popen([sys.executable, "-m", "toolgauge", "serve", *options], stdout=subprocess.DEVNULL)
    try:
        wait_for(sink)
        wait_for(port)
        wait_for(metrics)
        # Workers are connected a moment after the front listens.
        time.sleep(2)
        pids = workers(serving.pid)
        before = seconds([serving.pid]), seconds(pids)
        sent = load(port, count * arguments.rate, arguments)
        time.sleep(arguments.settle)
        after = seconds([serving.pid]), seconds(pids)
        unread = total(metrics, "toolgauge_spans_unread_total")
    finally:
        stop(serving)
        stop(destination)
    spans = sum(one["acked_spans"] for one in sent)
    front, behind = ((now - then) / spans * 1e6 for now, then in zip(after, before, strict=True))
    acknowledged = sum(one["spans_per_s"] for one in sent)
    print(
        f"{count:7} {count * arguments.rate:10} {acknowledged:15,.0f} {unread:7,.0f} {front:13.1f} {behind:14.1f}",
        flush=True,
    )


def load(port: int, rate: int, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Send for a while; return the books of the load generators."""
    senders = math.ceil(rate / _MOST_OF_ONE)
    command = [sys.executable, TOOLS / "loadgen.py", "--endpoint", f"127.0.0.1:{port}", "--retry"]
    for option in ("duration", "genai_share"):
        command += [f"--{option.replace('_', '-')}", str(getattr(arguments, option))]
    command += ["--rate", str(rate / senders)]

    def send(seed: int) -> dict[str, Any]:
        run = subprocess.run([*command, "--seed", str(seed)], capture_output=True, text=True, check=True)
        return json.loads(run.stdout)

    with ThreadPoolExecutor(senders) as pool:
        return list(pool.map(send, range(senders)))


def seconds(pids: Iterable[int]) -> float:
    """Return the CPU seconds that processes took."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split() for pid in pids]
    return sum(int(one[11]) + int(one[12]) for one in fields) / _TICKS


def total(port: int, name: str) -> float:
    """Add up the series of a counter."""
    page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", page, re.MULTILINE))


if __name__ == "__main__":
    main()
