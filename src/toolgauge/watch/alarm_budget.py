"""From the false alarms that people accept to the run length that each detector is asked for.

False alarms add up over streams: expected false alarms a week = observations a week, of all streams / run length.
"""

from msgspec import Struct, field

from toolgauge.settings import HOUR

_DAY = 24 * HOUR
_WEEK_HOURS = 7 * 24
_UNTIL_KNOWN = 10_000.0
_SHORTEST = 1000.0


class Budget(Struct, kw_only=True):
    """Counts observations by hour. `run_length` holds until it is due to be changed: after an hour, then at most daily."""

    run_length: float = _UNTIL_KNOWN
    weekly: float = 0.0
    started_ns: int | None = None
    changed_ns: int | None = None
    hours: dict[int, int] = field(default_factory=dict[int, int])

    def count(self, now_ns: int) -> None:
        """Count one observation of one stream."""
        if self.started_ns is None:
            self.started_ns = now_ns
        hour = now_ns // HOUR
        self.hours[hour] = self.hours.get(hour, 0) + 1

    def is_changed(self, now_ns: int, false_alarms_per_week: float) -> bool:
        """Derive the run length anew when that is due; return whether it is another one."""
        if max(self.started_ns or 0, self.changed_ns or 0) > now_ns + HOUR:
            # The clock was ahead before a restart: until it gets there again, nothing would be due.
            self.started_ns, self.changed_ns, self.hours = now_ns, None, {}
        started_ns = self.started_ns
        due_ns = None if started_ns is None else started_ns + HOUR
        if self.changed_ns is not None:
            due_ns = self.changed_ns + _DAY
        if started_ns is None or due_ns is None or now_ns < due_ns:
            return False
        first = now_ns // HOUR - _WEEK_HOURS
        self.hours = {hour: count for hour, count in self.hours.items() if hour > first}
        observed_hours = min((now_ns - started_ns) / HOUR, _WEEK_HOURS)
        self.weekly = sum(self.hours.values()) * _WEEK_HOURS / observed_hours
        self.changed_ns = now_ns
        before, self.run_length = self.run_length, max(_SHORTEST, self.weekly / false_alarms_per_week)
        return self.run_length != before
