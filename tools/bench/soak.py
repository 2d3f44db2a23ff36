"""A long run under steady load, for the eye: memory and what is open must stay flat. By hand, an hour by default.

    python tools/bench/soak.py --minutes 60 --rate 2000

A sink, a toolgauge with its defaults and a load generator whose runs really last; one line of figures every interval,
and at the end a verdict: exit code 0 when memory and open traces of the last third are within a tenth of those of the
second third, nothing was lost, and the books balanced at every look.
"""

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.wire.sink import LOADGEN, SINK, Sink
from tests.wire.support import Process, Toolgauge, environment, free_port, to_grpc, until

_ROW = "{:>8} {:>9} {:>9} {:>9} {:>11} {:>11}"


def main() -> int:
    """Run it and say how it went."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as running:
        folder = Path(name)
        sink = started_sink(folder, running)
        settings = ("assemble.run_end_grace=6s", *arguments.set)
        toolgauge = Toolgauge(folder, to_grpc(sink.ports["grpc"]), *settings)
        running.callback(toolgauge.close)
        toolgauge.wait_until_up()
        load = subprocess.Popen(
            [sys.executable, str(LOADGEN), "--endpoint", f"127.0.0.1:{toolgauge.grpc_port}", "--retry", "--pace", "real",
             "--run-seconds", "5-60", "--rate", str(arguments.rate), "--duration", str(arguments.minutes * 60)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(),
        )  # fmt: skip
        running.callback(load.kill)
        rows = _watched(toolgauge, load, arguments.interval)
        until(lambda: not toolgauge.total("toolgauge_traces_open"), "all runs to have ended", 120)
        books = toolgauge.assert_books_balance()
        arrived = sink.counted("unique_spans")
        toolgauge.signal()
        code = toolgauge.ended()
    print(f"books: {books}; arrived: {arrived}; exit code: {code}")
    is_flat = all(_is_flat([row[column] for row in rows], word) for column, word in ((0, "MiB"), (1, "open traces")))
    return 0 if is_flat and code == 0 and arrived == books["forwarded"] == books["received"] - books["refused"] else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=int, default=2000, help="spans a second")
    parser.add_argument("--set", action="append", default=[], help="a setting of toolgauge, as in `a.b=c`")
    parser.add_argument("--interval", type=float, default=10, help="seconds between two looks")
    return parser.parse_args()


def started_sink(folder: Path, running: contextlib.ExitStack) -> Sink:
    ports = {kind: free_port() for kind in ("grpc", "http", "admin")}
    options = [part for kind, port in ports.items() for part in (f"--{kind}-port", str(port))]
    process = Process([sys.executable, str(SINK), "--unique", *options], folder / "sink.log")
    running.callback(process.close)
    until(lambda: '"ready": true' in process.said(), "the destination to be ready")
    return Sink(process, ports)


def _watched(toolgauge: Toolgauge, load: "subprocess.Popen[bytes]", interval_s: float) -> list[tuple[float, float]]:
    rows: list[tuple[float, float]] = []
    began = time.monotonic()
    print(_ROW.format("seconds", "MiB", "open", "held", "received", "trajectories"))
    while load.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            load.wait(interval_s)
        books = toolgauge.assert_books_balance()
        rows.append((toolgauge.memory_mib(), toolgauge.total("toolgauge_traces_open")))
        closed = toolgauge.total("toolgauge_trajectories_total")
        seconds, (mib, traces) = time.monotonic() - began, rows[-1]
        figures = (f"{seconds:.0f}", f"{mib:.1f}", f"{traces:.0f}")
        counts = (f"{books['held']:.0f}", f"{books['received']:.0f}", f"{closed:.0f}")
        print(_ROW.format(*figures, *counts), flush=True)
    return rows


def _is_flat(column: list[float], word: str) -> bool:
    third = len(column) // 3
    # The load ends before its generator does: the last looks see it fade.
    earlier, later = column[third : 2 * third], column[2 * third : -max(1, third // 3)]
    if not earlier or not later:
        print(f"{word}: too few looks to tell")
        return False
    print(f"{word}: {mean(earlier):.1f} in the second third, {mean(later):.1f} in the last")
    return mean(later) <= 1.1 * mean(earlier)


if __name__ == "__main__":
    sys.exit(main())
