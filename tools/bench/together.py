"""Everything at once: steady load on two workers with a journal, while somebody looks, reloads, kills, and the destination goes away.

    python tools/bench/together.py --minutes 60 --rate 300

Polls the web view, metrics and health, reloads each minute, kills a worker each five minutes, and has the destination away
twice. No run has a fault: exit code 0 when each acknowledged span arrived, no score failed, and memory is flat.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from statistics import mean

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.wire.sink import LOADGEN, Sink
from tests.wire.support import Toolgauge, environment, free_port, get, to_grpc, until
from tools.bench.soak import started_sink

_RELOAD_S, _KILL_S = 60, 300
# As by default: what serves tests closes runs that still go on.
_DEFAULTS = (
    "events=failed",
    "assemble.run_end_grace=6s",
    "assemble.idle_timeout=30s",
    "assemble.open_idle_timeout=15m",
)
# When the destination is away, as parts of the time, and for how long.
_AWAY_AT, _AWAY_S = (0.25, 0.6), 60


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=int, default=300, help="spans a second")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as running:
        folder = Path(name)
        sink = started_sink(folder, running)
        ports = {kind: free_port() for kind in ("web", "admin")}
        more = (
            f"state.directory={folder / 'state'}",
            *(f"{kind}.endpoint=127.0.0.1:{port}" for kind, port in ports.items()),
        )
        toolgauge = Toolgauge(folder, to_grpc(sink.ports["grpc"]), "workers=2", *_DEFAULTS, *more)
        running.callback(toolgauge.close)
        toolgauge.wait_until_up()
        load = subprocess.Popen(
            [sys.executable, str(LOADGEN), "--endpoint", f"127.0.0.1:{toolgauge.grpc_port}", "--retry", "--pace", "real",
             "--run-seconds", "5-60", "--fault-share", "0", "--rate", str(arguments.rate),
             "--duration", str(arguments.minutes * 60)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(), text=True,
        )  # fmt: skip
        running.callback(load.kill)
        memory = troubled(toolgauge, load, sink, ports, arguments.minutes * 60)
        sent = json.loads(load.communicate()[0])
        print({key: sent[key] for key in ("spans", "acked_spans", "rejected_spans", "retries", "codes")}, flush=True)
        # A run whose root was never acknowledged is open for `open_idle_timeout`.
        until(lambda: not toolgauge.total("toolgauge_traces_open"), "all runs to have ended", 1000)
        until(lambda: sink.counted("unique_spans") >= sent["acked_spans"], "all spans to arrive", 300)
        toolgauge.signal()
        code = toolgauge.ended()
        scores = json.loads(get(sink.ports["admin"], "/stats"))["toolgauge"]["events_by_outcome"]
        alarms = toolgauge.said().count("regression")
        arrived = sink.counted("unique_spans")
    half = memory[len(memory) // 2 :]
    third = max(1, len(half) // 3)
    growth = mean(half[-third:]) / mean(half[:third]) - 1
    print(f"arrived: {arrived}; events: {scores}; lines about regressions: {alarms}; exit code: {code}")
    print(
        f"memory of the last half: {min(half):.0f} to {max(half):.0f} MiB, {growth:+.1%} from its first to its last third"
    )
    return (
        0
        if arrived >= sent["acked_spans"] and not {"fail", "error"} & scores.keys() and growth < 0.05 and code == 0
        else 1
    )


def troubled(
    toolgauge: Toolgauge, load: "subprocess.Popen[str]", sink: Sink, ports: dict[str, int], seconds: float
) -> list[float]:
    """Make trouble until the load ends; return the memory of all processes, in MiB, every ten seconds."""
    random, began, memory = Random(1), time.monotonic(), list[float]()  # noqa: S311 (repeatable)
    reloaded = killed = 0
    away = [part * seconds for part in _AWAY_AT]
    while load.poll() is None:
        time.sleep(1)
        passed = time.monotonic() - began
        with contextlib.suppress(OSError, AssertionError):
            toolgauge.exposition()
            for kind, path in (("web", "/"), ("web", "/streams"), ("admin", "/status?verbose=true")):
                get(ports[kind], path)
        if passed >= (reloaded + 1) * _RELOAD_S:
            reloaded += 1
            toolgauge.signal(signal.SIGHUP)
        if passed >= (killed + 1) * _KILL_S:
            killed += 1
            os.kill(random.choice(workers(toolgauge.pid)), signal.SIGKILL)
        if away and passed >= away[0]:
            del away[0]
            sink.tell("/fault", f"unavailable@0-{_AWAY_S}")
        if len(memory) < passed / 10:
            pids = (toolgauge.pid, *workers(toolgauge.pid))
            memory.append(sum(map(resident_mib, pids)))
            print(f"{passed:>7.0f} s {memory[-1]:>7.0f} MiB, {reloaded} reloads, {killed} kills", flush=True)
    return memory


def workers(front: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{front}/task/{front}/children").read_text().split()]


def resident_mib(pid: int) -> float:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20
    return 0.0


if __name__ == "__main__":
    sys.exit(main())
