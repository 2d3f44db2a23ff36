"""Evaluations that do not end are cut off inside the evaluator, and nowhere else."""

import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from toolgauge.service.worker import EvaluationLimit, EvaluationTimeout

_MS = 1_000_000


def watching(limit: EvaluationLimit, work: Callable[[], None]) -> list[str]:
    """Do the work in a thread of its own while this one watches; return what came of it."""
    ended: list[str] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 (what is looked for is no `Exception`)
            ended.append(type(error).__name__)
        else:
            ended.append("done")

    thread = threading.Thread(target=run)
    thread.start()
    until = time.monotonic() + 120
    while thread.is_alive() and time.monotonic() < until:
        limit.watch()
        thread.join(0.01)
    return ended


def test_an_evaluation_that_computes_for_ever_is_cut_off():
    limit = EvaluationLimit(50 * _MS)

    def work() -> None:
        with limit:
            while True:
                pass

    assert watching(limit, work) == ["TimeoutError"]


def test_an_evaluator_that_catches_exceptions_is_cut_off_all_the_same():
    limit = EvaluationLimit(50 * _MS)

    def work() -> None:
        with limit:
            while True:
                try:
                    int("not a number")
                except Exception:  # noqa: BLE001, S112 (what a careless plug-in does)
                    continue

    assert watching(limit, work) == ["TimeoutError"]


def test_an_evaluation_that_waits_uses_no_time():
    limit = EvaluationLimit(50 * _MS)

    def work() -> None:
        with limit:
            threading.Event().wait(0.3)

    assert watching(limit, work) == ["done"]


def test_what_an_evaluator_raises_passes_through():
    limit = EvaluationLimit(50 * _MS)
    with pytest.raises(KeyError), limit:
        raise KeyError


def test_nothing_is_cut_off_behind_an_evaluation_that_ends_just_then():
    limit = EvaluationLimit(-1)
    cut = 0
    torn: list[str] = []

    def work() -> None:
        nonlocal cut
        ends = time.monotonic() + 60
        for rounds in itertools.count():
            if (rounds >= 3000 and cut) or time.monotonic() > ends:
                return
            try:
                with limit:
                    for _ in range(500):
                        pass
            except TimeoutError:
                cut += 1
            except EvaluationTimeout:
                # It came at the very end; whoever runs evaluations settles that.
                limit.settle()
                cut += 1
            try:
                for _ in range(500):
                    pass
            except EvaluationTimeout:
                torn.append("outside")

    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():
        limit.watch()
    assert torn == []
    assert cut > 0


@pytest.mark.parametrize("rounds", ["pass", "limit.watch(); [None for _ in range(1000)]"])
def test_functions_are_profiled_after_an_evaluation_as_before_it(rounds: str):
    script = f"""
import sys
from toolgauge.service.worker import EvaluationLimit, EvaluationTimeout
limit = EvaluationLimit(-1)
try:
    with limit:
        {rounds}
except TimeoutError:
    print("cut off")
sys.setprofile(lambda *_event: None)
(lambda: None)()
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
