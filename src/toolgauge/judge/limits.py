"""How many calls a minute and how much money an hour: what has been spent, and whether there is room for more.

Time comes in as `now_s`, of a clock that never goes back. The cost of a call is known when it has ended, so a call
reserves what it may cost at most, and is charged what it did cost.
"""

from collections import deque

_MINUTE_S = 60.0
_HOUR_S = 3600.0
# Costs are kept by the tenth of a minute: an hour has 600 of them, however many calls there were.
_STEP_S = 6.0


class Pace:
    """At most `per_minute` calls in any minute; `None` is no bound."""

    def __init__(self, per_minute: int | None) -> None:
        self._per_minute = per_minute
        self._begun: deque[float] = deque()

    def wait_s(self, now_s: float) -> float:
        """Say how long to wait for the next call; 0 takes the place."""
        if self._per_minute is None:
            return 0.0
        while self._begun and now_s - self._begun[0] >= _MINUTE_S:
            self._begun.popleft()
        if len(self._begun) < self._per_minute:
            self._begun.append(now_s)
            return 0.0
        return self._begun[0] + _MINUTE_S - now_s


class Budget:
    """At most `per_hour` in any hour, reservations included; `None` is no bound."""

    def __init__(self, per_hour: float | None) -> None:
        self._per_hour = per_hour
        self._reserved = 0.0
        self._spent = 0.0
        self._steps: deque[tuple[float, float]] = deque()

    def reserve(self, cost: float, now_s: float) -> bool:
        """Take hold of what a call may cost at most; False when that would be too much."""
        if self._per_hour is None:
            return True
        self._forget(now_s)
        if self._spent + self._reserved + cost > self._per_hour:
            return False
        self._reserved += cost
        return True

    def charge(self, reserved: float, cost: float, now_s: float) -> None:
        """Replace what a call had reserved by what it cost."""
        if self._per_hour is None:
            return
        self._reserved = max(0.0, self._reserved - reserved)
        if cost <= 0:
            return
        self._spent += cost
        step = now_s - now_s % _STEP_S
        if self._steps and self._steps[-1][0] == step:
            cost += self._steps.pop()[1]
        self._steps.append((step, cost))

    def _forget(self, now_s: float) -> None:
        while self._steps and now_s - self._steps[0][0] >= _HOUR_S + _STEP_S:
            self._steps.popleft()
        # Summed anew: the rounding of years of additions would not be forgotten otherwise.
        self._spent = sum(cost for _, cost in self._steps)
