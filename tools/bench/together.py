"""Everything at once: steady load on workers with a journal and detection, while somebody looks and reloads; kills and outages on demand.

    python tools/bench/together.py --minutes 60 --rate 1000                     # 2 workers
    python tools/bench/together.py --minutes 60 --rate 300 --troubled           # a worker killed each five minutes, two outages
    python tools/bench/together.py --minutes 10 --rate 5000 --workers 8

Scrapes each second, polls the web view, `/streams` and health, reloads each minute. No run has a fault: exit code 0 when each
acknowledged span arrived, no score failed, no alarm was raised, no scrape failed, and memory and CPU a span are flat.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import mean

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.wire.sink import LOADGEN, Sink
from tests.wire.support import Toolgauge, environment, free_port, get, to_grpc, until
from tools.bench.soak import started_sink

_ROW_S, _KILL_S = 60, 300
_TICKS_S = os.sysconf("SC_CLK_TCK")
# As by default: what serves tests closes runs that still go on.
_DEFAULTS = (
    "events=failed",
    "assemble.run_end_grace=6s",
    "assemble.idle_timeout=30s",
    "assemble.open_idle_timeout=15m",
)
# When the destination is away, as parts of the time, and for how long.
_AWAY_AT, _AWAY_S = (0.25, 0.6), 60
# How much the mean of the last third may be above that of the first one, after a tenth of the time.
_GROWTH = {"memory": 0.05, "CPU a span": 0.15}


def main() -> int:
    arguments = _arguments()
    seconds = arguments.minutes * 60
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as running:
        folder = Path(name)
        sink = started_sink(folder, running)
        ports = {kind: free_port() for kind in ("web", "admin")}
        more = (
            f"workers={arguments.workers}",
            f"state.directory={folder / 'state'}",
            *(f"{kind}.endpoint=127.0.0.1:{port}" for kind, port in ports.items()),
        )
        toolgauge = Toolgauge(folder, to_grpc(sink.ports["grpc"]), *_DEFAULTS, *more, *arguments.set)
        running.callback(toolgauge.close)
        toolgauge.wait_until_up()
        load = subprocess.Popen(
            [sys.executable, str(LOADGEN), "--endpoint", f"127.0.0.1:{toolgauge.grpc_port}", "--retry", "--pace", "real",
             "--run-seconds", "5-60", "--fault-share", "0", "--rate", str(arguments.rate), "--duration", str(seconds)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(), text=True,
        )  # fmt: skip
        running.callback(load.kill)
        looks = Looks(toolgauge, sink, ports)
        looks.until_the_end(load, seconds, is_troubled=arguments.troubled)
        sent = json.loads(load.communicate()[0])
        print({key: sent[key] for key in ("spans", "acked_spans", "rejected_spans", "retries", "codes")}, flush=True)
        # A run whose root was never acknowledged is open for `open_idle_timeout`.
        until(lambda: not toolgauge.total("toolgauge_traces_open"), "all runs to have ended", 1000)
        until(lambda: sink.counted("unique_spans") >= sent["acked_spans"], "all spans to arrive", 300)
        reloads = looks.reloads()
        toolgauge.signal()
        code = toolgauge.ended()
        scores = json.loads(get(sink.ports["admin"], "/stats"))["toolgauge"]["events_by_outcome"]
        alarms = toolgauge.said().count("regression")
        arrived = sink.counted("unique_spans")
    print(f"arrived: {arrived}; events: {scores}; lines about regressions: {alarms}; exit code: {code}")
    print(f"{looks.scrapes} scrapes, the slowest {looks.slowest_s:.2f} s, failed {looks.failed}; reloads {reloads}")
    columns = {"memory": [sum(row.mib) for row in looks.rows], "CPU a span": [row.cpu_us for row in looks.rows]}
    is_flat = [_is_flat(name, column) for name, column in columns.items()]
    problems = (
        arrived < sent["acked_spans"],
        {"fail", "error"} & scores.keys(),
        alarms,
        looks.failed and not arguments.troubled,
        code,
    )
    return int(any(problems) or not all(is_flat))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=int, default=1000, help="spans a second")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--troubled", action="store_true", help="kill workers, and have the destination away twice")
    parser.add_argument("--set", action="append", default=[], help="a setting of toolgauge, as in `a.b=c`")
    return parser.parse_args()


@dataclass(frozen=True, slots=True)
class Row:
    """A minute: memory of the front and of each worker, and microseconds of CPU for each span, all processes together."""

    mib: tuple[float, ...]
    cpu_us: float


@dataclass(slots=True)
class Looks:
    """Looks at a running toolgauge each second, and makes trouble where that is asked for."""

    toolgauge: Toolgauge
    sink: Sink
    ports: dict[str, int]
    rows: list[Row] = field(default_factory=list[Row])
    scrapes: int = 0
    failed: int = 0
    slowest_s: float = 0.0
    cpu_s: dict[int, float] = field(default_factory=dict[int, float])
    spans: float = 0.0

    def until_the_end(self, load: "subprocess.Popen[str]", seconds: float, *, is_troubled: bool) -> None:
        random, began = Random(1), time.monotonic()  # noqa: S311 (repeatable)
        minutes = killed = 0
        away = [part * seconds for part in _AWAY_AT] if is_troubled else []
        print(
            f"{'seconds':>8} {'spans':>9} {'refused':>8} {'unread':>7} {'open':>6} {'CPU us':>7}  MiB: front, workers"
        )
        while load.poll() is None:
            time.sleep(1)
            passed = time.monotonic() - began
            self._poll()
            if is_troubled and passed >= (killed + 1) * _KILL_S and workers(self.toolgauge.pid):
                killed += 1
                os.kill(random.choice(workers(self.toolgauge.pid)), signal.SIGKILL)
            if away and passed >= away[0]:
                del away[0]
                self.sink.tell("/fault", f"unavailable@0-{_AWAY_S}")
            # The load fades after its time.
            if passed >= (minutes + 1) * _ROW_S and passed < seconds + _ROW_S:
                minutes += 1
                self._row(passed)
                self.toolgauge.signal(signal.SIGHUP)

    def reloads(self) -> dict[str, float]:
        found = re.findall(r'^toolgauge_reloads_total\{.*="(\w+)"\} (\S+)$', self.toolgauge.exposition(), re.MULTILINE)
        return {outcome: float(count) for outcome, count in found}

    def _poll(self) -> None:
        began = time.monotonic()
        self.scrapes += 1
        try:
            self.toolgauge.exposition()
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            for kind, path in (("web", "/"), ("web", "/streams"), ("admin", "/status?verbose=true")):
                get(self.ports[kind], path)
        except (OSError, AssertionError):
            self.failed += 1

    def _row(self, passed: float) -> None:
        pids = (self.toolgauge.pid, *workers(self.toolgauge.pid))
        cpu_s = {pid: spent for pid in pids if (spent := cpu_seconds(pid)) is not None}
        spent_s = sum(now - self.cpu_s.get(pid, 0.0) for pid, now in cpu_s.items())
        books = self.toolgauge.books()
        spans, self.spans, self.cpu_s = books["received"] - self.spans, books["received"], cpu_s
        row = Row(tuple(resident_mib(pid) for pid in pids), 1e6 * spent_s / max(1.0, spans))
        self.rows.append(row)
        counts = (books["refused"], *map(self.toolgauge.total, ("toolgauge_spans_unread", "toolgauge_traces_open")))
        refused, unread, open_traces = counts
        memory = ", ".join(f"{mib:.0f}" for mib in row.mib)
        print(
            f"{passed:>8.0f} {books['received']:>9.0f} {refused:>8.0f} {unread:>7.0f} {open_traces:>6.0f} {row.cpu_us:>7.0f}"
            f"  {memory}",
            flush=True,
        )


def _is_flat(name: str, column: Sequence[float]) -> bool:
    """Compare thirds of the time after ten minutes, or after the first tenth of a shorter run."""
    settled = column[min(10, len(column) // 10) :]
    third = len(settled) // 3
    if not third:
        print(f"{name}: too few minutes to tell")
        return True
    growth = mean(settled[-third:]) / mean(settled[:third]) - 1
    print(f"{name}: {min(settled):.0f} to {max(settled):.0f}, {growth:+.1%} from the first to the last third")
    return growth <= _GROWTH[name]


def workers(front: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{front}/task/{front}/children").read_text().split()]


def cpu_seconds(pid: int) -> float | None:
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_S
    return None


def resident_mib(pid: int) -> float:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20
    return 0.0


if __name__ == "__main__":
    sys.exit(main())
