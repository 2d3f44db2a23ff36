"""What `toolgauge learn --live` costs the process that learns: its CPU time with and without, at the same rate of runs.

    python -m tests.bench.live_learning [--rates 20 100] [--seconds 20] [--rounds 2]

Runs are those of the demo, one request each, with values of their own.
"""

import argparse
import http.client
import itertools
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.wire.support import Toolgauge, a_minute_ago, free_port, serving, until
from toolgauge.demo.drawing import Release, drawn, recordings
from toolgauge.model.learning import Learned
from toolgauge.offline.learn.evidence import Requirements
from toolgauge.offline.learn.learner import Options
from toolgauge.offline.learn.live_client import LiveClient

OPTIONS = Options(requirements=Requirements(runs=20, tolerance=0.01), most_alarms=0.05)
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """CPU seconds of the process: for the traffic, and for writing what was learned."""

    traffic: float
    writing: float
    learned: Learned | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=int, nargs="+", default=[20, 100], help="runs a second")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    for rate in arguments.rates:
        release = Release(version="1.0", failures=0.05)
        bodies = list(
            itertools.islice(drawn(recordings(), release, seed=1, clock=a_minute_ago), rate * arguments.seconds)
        )
        pairs = [(measured(bodies, rate), measured(bodies, rate, learns=True)) for _ in range(arguments.rounds)]
        report(rate, arguments.seconds, pairs)


def measured(bodies: Sequence[bytes], rate: int, *, learns: bool = False) -> Cost:
    """Send the runs at this rate to a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        with serving(Path(folder), f"admin.endpoint=127.0.0.1:{port}") as toolgauge:
            client = LiveClient(f"http://127.0.0.1:{port}", None)
            if learns:
                client.begin(3600 * 1_000_000_000)
            before = cpu_seconds(toolgauge)
            send(toolgauge, bodies, rate)
            until(lambda: toolgauge.total("toolgauge_traces_open") == 0, "all runs to be scored")
            after = cpu_seconds(toolgauge)
            learned = client.end(OPTIONS) if learns else None
            return Cost(after - before, cpu_seconds(toolgauge) - after, learned)


def send(toolgauge: Toolgauge, bodies: Sequence[bytes], rate: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", toolgauge.http_port)
    begun = time.monotonic()
    for place, body in enumerate(bodies):
        time.sleep(max(0.0, begun + place / rate - time.monotonic()))
        connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200
    connection.close()


def cpu_seconds(toolgauge: Toolgauge) -> float:
    fields = Path(f"/proc/{toolgauge.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def report(rate: int, seconds: int, pairs: Sequence[tuple[Cost, Cost]]) -> None:
    without = median(one.traffic for one, _ in pairs) / seconds
    learning = median(other.traffic for _, other in pairs) / seconds
    learned = pairs[-1][1].learned
    assert learned is not None
    print(
        f"{rate} runs/s for {seconds} s: {without:.1%} of a core, learning {learning:.1%}: {learning - without:+.1%}; "
        f"learned from {learned.runs} runs, {learned.skipped} left out; "
        f"writing it {median(other.writing for _, other in pairs):.2f} s"
    )


if __name__ == "__main__":
    main()
