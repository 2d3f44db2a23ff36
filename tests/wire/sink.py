"""The counting destination of the benchmarks as a process, with faults on demand, and the load generator beside it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

from tests.wire.support import Process, Toolgauge, environment, get, request, to_grpc, to_http

TOOLS = Path(__file__).parents[2] / "tools" / "scripts"
SINK = TOOLS / "sink.py"
LOADGEN = TOOLS / "loadgen.py"
Report: TypeAlias = dict[str, int]


class Sink:
    """What it counted, and what it is told to do."""

    def __init__(self, process: Process, ports: dict[str, int]) -> None:
        self.process = process
        self.ports = ports

    def tell(self, path: str, body: str = "") -> None:
        assert request(self.ports["admin"], "POST", path, body.encode(), {})[0] == 200

    def counted(self, key: str) -> int:
        return int(json.loads(get(self.ports["admin"], "/stats"))[key])

    def events(self) -> int:
        """Evaluation results that arrived, each as often as it did."""
        return sum(json.loads(get(self.ports["admin"], "/stats"))["toolgauge"]["events_by_outcome"].values())

    def scores(self, key: str) -> int:
        return int(json.loads(get(self.ports["admin"], "/stats"))["toolgauge"][key])


def onward_to(sink: Sink, protocol: str, *more: str) -> str:
    """The setting that sends on to the sink."""
    return to_grpc(sink.ports["grpc"], *more) if protocol == "grpc" else to_http(sink.ports["http"], *more)


class Load:
    """The load generator as a process of its own; it sends again what it is told to send again."""

    def __init__(self, toolgauge: Toolgauge, *arguments: str) -> None:
        command = [sys.executable, str(LOADGEN), "--endpoint", f"127.0.0.1:{toolgauge.grpc_port}", "--retry"]
        self._popen = subprocess.Popen(
            [*command, "--settle", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )

    def __enter__(self) -> "Load":
        return self

    def __exit__(self, *_: object) -> None:
        if self._popen.poll() is None:
            self._popen.kill()
        self._popen.wait()
        if self._popen.stdout is not None:
            self._popen.stdout.close()

    def report(self, within_s: float = 300) -> Report:
        """Wait until it has sent everything, and return what it says about it."""
        out, _ = self._popen.communicate(timeout=within_s)
        return json.loads(out)
