import time

import pytest

from toolgauge.service.process import SteadyClock

HOUR_NS = 3_600_000_000_000


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="no clock here goes on while the machine is suspended")
def test_a_machine_that_was_suspended_wakes_to_the_time_of_day(monkeypatch: pytest.MonkeyPatch):
    clock = SteadyClock()
    real = time.clock_gettime_ns

    def after_a_night(which: int) -> int:
        return real(which) + (8 * HOUR_NS if which == time.CLOCK_BOOTTIME else 0)

    before_ns = clock()
    monkeypatch.setattr(time, "clock_gettime_ns", after_a_night)
    assert 8 * HOUR_NS <= clock() - before_ns < 9 * HOUR_NS


@pytest.mark.parametrize("jump_ns", [HOUR_NS, -HOUR_NS])
def test_a_wall_clock_that_is_set_moves_nothing(monkeypatch: pytest.MonkeyPatch, jump_ns: int):
    clock = SteadyClock()
    before_ns, real_ns = clock(), time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + jump_ns)
    assert 0 <= clock() - before_ns < HOUR_NS // 10
