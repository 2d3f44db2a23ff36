"""What the process costs and how long it is up, under the names that OpenTelemetry's conventions have for it."""

import os
import time

from toolgauge.model.metrics import Labels, MetricRegistry
from toolgauge.service.memory import resident_bytes


def measure_process(registry: MetricRegistry) -> None:
    """Register what is read from the system whenever metrics are written out."""
    started_s = time.monotonic()
    registry.counter(
        "process.cpu.time",
        "s",
        "CPU seconds of this process. Near one second a second, a core is full: run more processes behind a Collector "
        "that balances by trace id.",
        ("cpu.mode",),
    ).observe = _cpu_seconds
    registry.gauge(
        "process.memory.usage",
        "By",
        "Physical memory in use. When it nears `memory.limit`, look at the queue, at open trajectories and at held spans.",
    ).observe = _memory
    registry.gauge(
        "process.uptime", "s", "Time since the start. When it falls back to 0, look for what ended the process."
    ).observe = lambda: {(): time.monotonic() - started_s}


def _cpu_seconds() -> dict[Labels, float]:
    spent = os.times()
    return {("user",): spent.user, ("system",): spent.system}


def _memory() -> dict[Labels, float]:
    resident = resident_bytes()
    return {} if resident is None else {(): resident}
