"""The guard of the memory, with a reader of memory in the test's hand."""

import ctypes
import logging
import math
import subprocess
import sys
from pathlib import Path

import pytest

from toolgauge.model.errors import StartError
from toolgauge.model.metrics import MetricRegistry
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service import process
from toolgauge.service.process import MemoryGuard, Relief, resident_bytes

MIB = 1 << 20
SECOND = 1_000_000_000


class FakeAllocator:
    """Counts what it is asked for."""

    def __init__(self) -> None:
        self.trimmed = self.collected = 0
        self.machine: Machine | None = None
        self.frees_to_mib = 0.0
        self.trims_to_mib: float | None = None

    def trim(self) -> None:
        self.trimmed += 1
        if self.machine is not None and self.trims_to_mib is not None:
            self.machine.used_mib = self.trims_to_mib

    def collect(self) -> None:
        self.collected += 1
        if self.machine is not None:
            self.machine.used_mib = self.frees_to_mib


class Machine:
    """A process with 100 MiB allowed, whose memory and clock the test sets."""

    def __init__(self) -> None:
        self.used_mib: float | None = 50
        self.now_ns = 0
        self.looks = 0
        self.is_empty = False
        self.allocator = FakeAllocator()
        self.metrics = SelfMetrics(MetricRegistry())
        self.guard = MemoryGuard(
            100 * MIB, self.metrics, resident=self._resident, collect=self.allocator.collect, trim=self.allocator.trim
        )

    def _resident(self) -> int | None:
        self.looks += 1
        return None if self.used_mib is None else int(self.used_mib * MIB)

    def relief(self, used_mib: float | None, after_s: float = 0.1) -> Relief:
        self.used_mib = used_mib
        self.now_ns += int(after_s * SECOND)
        return self.guard.look(self.now_ns, is_empty=self.is_empty)

    def look(self, used_mib: float | None, after_s: float = 0.1) -> bool:
        """Return whether open state has to go."""
        return self.relief(used_mib, after_s) is Relief.OPEN

    @property
    def admits(self) -> bool:
        return self.guard.admits(1000)


def test_requests_are_taken_below_80_percent_and_refused_from_there_on():
    machine = Machine()
    assert (machine.look(79.9), machine.admits) == (False, True)
    assert (machine.look(80), machine.admits) == (False, False)


def test_requests_are_taken_again_well_below_the_soft_limit_and_not_right_below_it():
    machine = Machine()
    machine.look(85)
    machine.look(79)
    assert not machine.admits
    assert machine.guard.short_since_ns == 100_000_000
    machine.look(71.9)
    assert machine.admits
    assert machine.guard.short_since_ns is None


@pytest.mark.parametrize(("used_mib", "needed_mib"), [(72, 100), (85.5, 119)])
def test_a_limit_that_leaves_no_room_for_requests_is_refused_with_the_figures(used_mib: float, needed_mib: int):
    machine = Machine()
    machine.used_mib = used_mib
    with pytest.raises(StartError) as caught:
        machine.guard.check()
    assert f"needs {math.ceil(used_mib)} MiB" in caught.value.message
    assert f"{needed_mib} MiB" in (caught.value.hint or "")


@pytest.mark.parametrize("used_mib", [71.9, None])
def test_a_limit_that_leaves_some_room_or_cannot_be_held_is_no_reason_not_to_start(used_mib: float | None):
    machine = Machine()
    machine.used_mib = used_mib
    machine.guard.check()


def test_memory_of_our_own_goes_each_second_while_requests_are_refused():
    machine = Machine()
    assert [machine.relief(85, after_s=1) for _ in range(4)] == [Relief.OWN] * 4
    assert not machine.admits
    assert machine.relief(71, after_s=1) is Relief.NONE
    assert machine.admits


def test_memory_of_our_own_goes_too_where_nothing_is_open_and_requests_are_taken():
    machine = Machine()
    machine.is_empty = True
    assert [machine.relief(90, after_s=1) for _ in range(7)] == [Relief.OWN] * 7
    assert machine.admits


def test_above_the_limit_open_state_goes_at_most_once_a_second():
    machine = Machine()
    assert machine.look(101)
    assert [machine.look(101) for _ in range(12)] == [False] * 9 + [True] + [False] * 2
    assert not machine.admits


def test_open_state_goes_too_when_memory_stays_short_because_nothing_ends_by_itself():
    machine = Machine()
    assert [machine.look(85, after_s=1) for _ in range(7)] == [False] * 5 + [True] * 2


def test_patience_starts_anew_with_each_shortage():
    machine = Machine()
    assert [machine.look(85, after_s=1) for _ in range(4)] == [False] * 4
    machine.look(50)
    assert [machine.look(85, after_s=1) for _ in range(4)] == [False] * 4


def test_memory_is_given_back_to_the_system_while_it_is_short_and_garbage_is_collected_seldom():
    machine = Machine()
    machine.look(50)
    assert (machine.allocator.trimmed, machine.allocator.collected) == (0, 0)
    for _ in range(32):
        machine.look(85, after_s=1)
    assert (machine.allocator.trimmed, machine.allocator.collected) == (33, 2)


def test_memory_that_is_only_hoarded_turns_nobody_away():
    machine = Machine()
    machine.allocator.frees_to_mib = 60
    machine.allocator.machine = machine
    machine.used_mib = 90
    assert all(machine.admits for _ in range(3000))
    assert (machine.allocator.collected, machine.used_mib) == (1, 60)


def test_garbage_is_not_collected_again_for_those_who_come_while_it_is_needed_memory():
    machine = Machine()
    machine.used_mib = 90
    assert not all(machine.admits for _ in range(3000))
    assert machine.allocator.collected == 1


def test_a_process_with_nothing_to_let_go_takes_requests_and_says_once_that_the_limit_is_too_small(
    caplog: pytest.LogCaptureFixture,
):
    machine = Machine()
    machine.is_empty = True
    assert [machine.look(90, after_s=2) for _ in range(5)] == [False] * 5
    assert machine.admits
    _, message = caplog.messages
    assert "more than 80 % of `memory.limit` is in use" in message


def test_a_limit_is_not_called_too_small_for_memory_that_is_free_and_only_not_given_back(
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.INFO)
    machine = Machine()
    machine.look(90)
    caplog.clear()
    machine.is_empty = True
    machine.allocator.machine = machine
    machine.allocator.trims_to_mib = 60
    machine.look(90, after_s=1)
    assert (machine.used_mib, machine.admits) == (60, True)
    (message,) = caplog.messages
    assert "accepting requests again" in message


def test_a_flood_between_two_looks_is_seen():
    machine = Machine()
    machine.look(50)
    machine.used_mib = 90
    assert machine.guard.admits(2 * MIB)
    assert not machine.guard.admits(1)


def test_small_requests_cost_no_look():
    machine = Machine()
    machine.look(50)
    assert all(machine.guard.admits(1000) for _ in range(1000))
    assert machine.looks == 1


def test_where_memory_cannot_be_read_nothing_is_refused_and_that_is_said_once(caplog: pytest.LogCaptureFixture):
    machine = Machine()
    machine.used_mib = None
    machine.guard.check()
    assert [machine.look(None) for _ in range(3)] == [False] * 3
    assert machine.guard.admits(10 * MIB)
    (message,) = caplog.messages
    assert "`memory.limit` does not hold" in message


def test_a_moment_in_which_memory_cannot_be_read_changes_nothing(caplog: pytest.LogCaptureFixture):
    machine = Machine()
    machine.look(50)
    assert not machine.look(None)
    assert machine.guard.admits(10 * MIB)
    machine.look(90)
    machine.look(None)
    assert not machine.guard.admits(1)
    assert not any("does not tell" in record.getMessage() for record in caplog.records)


def test_a_shortage_is_logged_when_it_begins_and_when_it_ends(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    machine = Machine()
    for used in (50, 85, 90, 85, 60, 50):
        machine.look(used)
    began, ended = caplog.messages
    assert began.startswith("85 of 100 MiB of memory (`memory.limit`) in use: requests are refused")
    assert ended.startswith("60 of 100 MiB of memory (`memory.limit`) in use: accepting requests again")


def test_a_shortage_that_comes_and_goes_is_plainly_claimed_once_a_minute(caplog: pytest.LogCaptureFixture):
    machine = Machine()
    for _ in range(100):
        machine.look(85)
        machine.look(60)
    assert len(caplog.records) == 1
    machine.look(60, after_s=60)
    machine.look(85)
    assert len(caplog.records) == 2


def test_a_shortage_that_lasts_is_plainly_claimed_late_when_another_one_was_told_right_before_it(
    caplog: pytest.LogCaptureFixture,
):
    machine = Machine()
    for used_mib in (85, 60, 85):
        machine.look(used_mib)
    assert len(caplog.records) == 1
    machine.look(85, after_s=60)
    assert len(caplog.records) == 2


def test_the_state_is_a_metric():
    machine = Machine()
    machine.look(50)
    assert machine.metrics.memory_state.current() == {(): 0}
    machine.look(None)
    assert machine.metrics.memory_resident.current() == {}
    machine.look(85)
    assert machine.metrics.memory_state.current() == {(): 1}
    assert machine.metrics.memory_resident.current() == {(): 85 * MIB}
    assert machine.metrics.memory_limit.current() == {(): 100 * MIB}


def test_this_process_uses_some_memory_and_can_give_some_back():
    resident = resident_bytes()
    assert resident is None or 10 * MIB < resident < 1 << 40
    process.trim()


# Pages that the system had to clear for forty large requests, one after the other.
FAULTS = """
import resource
import sys
from toolgauge.service.process import keep_freed_memory

keep_freed_memory(int(sys.argv[1]))
body = bytearray(4 << 20)
del body
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(40):
    body = bytearray(4 << 20)
    del body
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="this C library keeps what it likes")
@pytest.mark.parametrize("limit", [512 << 20, 1 << 70], ids=["512 MiB", "no limit"])
def test_large_requests_find_the_memory_of_those_before_them(limit: int):
    told = subprocess.run([sys.executable, "-c", FAULTS, str(limit)], capture_output=True, text=True, check=True)
    assert int(told.stdout) < 1000


# Eight threads that ask for memory at the same time, and in how many places the C library keeps it.
ARENAS = """
import ctypes
import sys
import threading
from toolgauge.service.process import keep_freed_memory

keep_freed_memory(512 << 20)
library = ctypes.CDLL(None)
library.fopen.restype = library.malloc.restype = ctypes.c_void_p
together = threading.Barrier(8)


def allocate():
    together.wait()
    library.malloc(2000)
    together.wait()


threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
file = ctypes.c_void_p(library.fopen(sys.argv[1].encode(), b"w"))
library.malloc_info(0, file)
library.fclose(file)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="this C library tells nothing")
def test_threads_share_what_is_freed(tmp_path: Path):
    told = tmp_path / "malloc.xml"
    subprocess.run([sys.executable, "-c", ARENAS, str(told)], check=True)
    assert 1 <= told.read_text().count("<heap nr=") <= 2


@pytest.mark.parametrize(
    ("own", "files", "limit_mib"),
    [
        ("0::/", {"memory.max": "52428800"}, 45),
        (
            "0::/kubepods/pod/container",
            {"kubepods/pod/container/memory.max": "max", "kubepods/memory.max": "52428800"},
            45,
        ),
        ("5:cpu:/\n4:memory:/docker/one", {"memory/memory.limit_in_bytes": "52428800"}, 45),
        ("4:memory:/\n0::/", {"memory/memory.limit_in_bytes": "9223372036854771712"}, 100),
        ("0::/", {"memory.max": "max"}, 100),
        ("0::/", {}, 100),
    ],
)
def test_a_smaller_container_bounds_the_memory(
    own: str, files: dict[str, str], limit_mib: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(process, "_CGROUPS", tmp_path)
    monkeypatch.setattr(process, "_OWN_CGROUPS", tmp_path / "cgroup")
    for name, text in {"cgroup": own, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    machine = Machine()
    assert machine.metrics.memory_limit.cells[()] == limit_mib * MIB
    assert machine.look(41) is False
    assert machine.admits is (limit_mib == 100)


def test_what_does_not_fit_beside_what_is_in_use_waits_and_what_never_could_is_known():
    machine = Machine()
    machine.used_mib = 20
    machine.guard.check()
    machine.used_mib = 50
    assert [machine.guard.fits(size_mib * MIB) for size_mib in (50, 51)] == [True, False]
    assert [machine.guard.could_fit(size_mib * MIB) for size_mib in (80, 81)] == [True, False]


def test_a_little_is_taken_without_a_look_and_refused_where_it_is_read():
    machine = Machine()
    machine.look(99)
    looks = machine.looks
    assert machine.guard.fits(MIB)
    assert (machine.looks, machine.admits) == (looks, False)


def test_half_of_the_limit_may_be_read_at_a_time():
    machine = Machine()
    machine.used_mib = 10
    assert machine.guard.reading.take(30 * MIB)
    assert [machine.guard.reading.take(size_mib * MIB) for size_mib in (21, 20)] == [False, True]
