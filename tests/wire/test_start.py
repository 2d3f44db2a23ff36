"""Signals that come while `toolgauge serve` starts: from its first import on they end nothing that they should not end."""

import re
import signal
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.wire.support import LISTEN, Process, Toolgauge, environment, until_equal

# Runs the command, and sends itself a signal whenever one of these modules is asked for.
SIGNALLED = """
import os, runpy, signal, sys
number, *modules = sys.argv.pop(1).split(",")
# A test run that was started with nohup ignores it, and its children inherit that.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

class Signalling:
    def find_spec(self, name, path=None, target=None):
        if name in modules:
            modules.remove(name)
            os.kill(os.getpid(), int(number))

sys.meta_path.insert(0, Signalling())
runpy.run_module("toolgauge", run_name="__main__", alter_sys=True)
"""
# From the first import on to the last.
MODULES = ("toolgauge.cli.main", "click", "toolgauge.cli.serve", "grpc", "pydantic", "sqlite3")


class Signalled(Toolgauge):
    """A start that is sent a signal at each of these imports."""

    def __init__(self, folder: Path, number: signal.Signals, modules: tuple[str, ...], *arguments: str) -> None:
        command = [sys.executable, "-c", SIGNALLED, ",".join((str(int(number)), *modules)), *arguments]
        Process.__init__(self, command, folder / "said.log", environment())
        self.grpc_port = self.http_port = self.metrics_port = 0


def serve(*more: str) -> tuple[str, ...]:
    return ("serve", *(word for setting in (*LISTEN, *more) for word in ("--set", setting)))


@pytest.mark.parametrize("workers", [1, 2])
def test_hang_ups_during_the_start_are_answered_by_one_reload_after_it(workers: int, tmp_path: Path):
    with closing(Signalled(tmp_path, signal.SIGHUP, MODULES, *serve(f"workers={workers}"))) as toolgauge:
        toolgauge.wait_until_up()
        until_equal(lambda: reloads(toolgauge), 1, "the reload")
        toolgauge.signal()
        assert toolgauge.ended() == 0, toolgauge.said()
        assert toolgauge.said().count("the configuration was reloaded") == 1


@pytest.mark.parametrize(
    ("module", "number"), [*zip(MODULES, (signal.SIGTERM, signal.SIGINT) * 3, strict=True)], ids=MODULES
)
def test_a_stop_during_the_start_ends_it_in_order(module: str, number: signal.Signals, tmp_path: Path):
    with closing(Signalled(tmp_path, number, (module,), *serve())) as toolgauge:
        assert (toolgauge.ended(), toolgauge.said()) == (0, "")


def reloads(toolgauge: Toolgauge) -> float:
    found = re.search(r'^toolgauge_reloads_total\{toolgauge_outcome="applied"\} (\S+)$', toolgauge.exposition(), re.M)
    return float(found[1]) if found else 0
