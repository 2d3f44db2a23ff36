"""The page of health: what runs, where every span is, and what asks for somebody's attention."""

import platform
from collections.abc import Iterator, Mapping

from msgspec import Struct

from toolgauge.selfmetrics import drop_reason
from toolgauge.service.health import ComponentHealth
from toolgauge.service.pipeline_factory import VERSION
from toolgauge.settings import HOUR, MINUTE, SECOND
from toolgauge.web.figures import Figure, Figures
from toolgauge.web.pages import Page, PageRequest, Pages
from toolgauge.web.running import Shown

_DESTINATION = "toolgauge.destination"
_REASON = "toolgauge.reason"
# What should be 0, each with the labels that make it so, in the order of what people lose by it.
_PROBLEMS: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("toolgauge.spans", {"outcome": "refused"}),
    ("toolgauge.requests.dropped", {}),
    ("toolgauge.send.rejected", {}),
    ("toolgauge.own.dropped", {}),
    ("toolgauge.recording.dropped", {}),
    ("toolgauge.webhook.notifications", {"outcome": "dropped"}),
    ("toolgauge.state.failed", {}),
    ("toolgauge.state.unwritten", {}),
    ("toolgauge.state.unreadable", {}),
    ("toolgauge.memory.state", {}),
    ("toolgauge.requests", {"outcome": "refused"}),
    ("toolgauge.requests", {"outcome": "unread"}),
    ("toolgauge.spans.unread", {}),
    ("toolgauge.requests.unread", {}),
    ("toolgauge.loop_suspected", {}),
    ("toolgauge.split_suspected", {}),
    ("toolgauge.criteria.switched_off", {}),
    ("toolgauge.criteria.unmatched", {}),
    ("toolgauge.streams.evicted", {}),
    ("toolgauge.regression.observations.cut", {}),
    ("toolgauge.labels.capped", {}),
    ("toolgauge.judge.failures", {}),
    ("toolgauge.send.retries", {}),
    ("toolgauge.spans.undecodable", {}),
    ("toolgauge.values.undecodable", {}),
    ("toolgauge.dialect.errors", {}),
    ("toolgauge.faults", {}),
    ("toolgauge.log.dropped", {}),
)


class Books(Struct, frozen=True, kw_only=True):
    """Where the spans are that were received, for one destination; its name is empty where nothing is sent on."""

    destination: str
    received: int
    forwarded: int
    consumed: int
    held: int
    queued: int
    refused: int
    dropped: tuple[tuple[str, int, str], ...]

    @property
    def difference(self) -> int:
        """The spans that the right side of the equation lacks; 0 when the books balance."""
        dropped = sum(count for _, count, _ in self.dropped)
        known = self.forwarded + self.consumed + self.held + self.queued + self.refused + dropped
        return self.received - known


class Queue(Struct, frozen=True, kw_only=True):
    """What waits for one destination; `health` is `None` where nothing is known of it."""

    destination: str
    size_bytes: int
    capacity_bytes: int
    in_flight: int
    health: ComponentHealth | None


class HealthPages:
    """Shows how the process fares."""

    def __init__(self, pages: Pages, shown: Shown) -> None:
        self._pages = pages
        self._shown = shown

    def routes(self) -> Mapping[str, Page]:
        """Return the pages by the first part of their path."""
        return {"/health": self._health}

    def _health(self, request: PageRequest) -> str | None:
        running = self._shown.running
        if len(request.path) > 1:
            return None
        if running is None:
            return self._pages.page("health.html", section="health", title="Health", running=None)
        health, figures = running.health, Figures.of(running.registry)
        components = running.components()
        uptime_ns = running.clock() - health.started_ns
        return self._pages.page(
            "health.html",
            section="health",
            title="Health",
            running=running,
            phase=health.phase,
            is_well=health.is_ready and all(each.status == "StatusOK" for each in components.values()),
            components=sorted(components.items()),
            uptime=lasted(uptime_ns),
            version=VERSION,
            python=platform.python_version(),
            books=tuple(books(figures)),
            size=size_text,
            queues=tuple(_queues(figures, components)),
            gauges=tuple(_gauges(figures, components)),
            problems=tuple(problems(figures)),
        )


def books(figures: Figures) -> Iterator[Books]:
    """Keep the books of each destination, or of none."""
    received = figures.total("toolgauge.spans", outcome="received")
    names = {figure.labels.get(_DESTINATION, "") for figure in figures.each("toolgauge.spans")} - {""}
    for name in sorted(names) or ("",):
        dropped: dict[str, int] = {}
        for destination in {"", name}:
            for figure in figures.each("toolgauge.spans", outcome="dropped", destination=destination):
                reason = figure.labels.get(_REASON, "")
                dropped[reason] = dropped.get(reason, 0) + int(figure.value)
        yield Books(
            destination=name,
            received=received,
            forwarded=figures.total("toolgauge.spans", outcome="forwarded", destination=name),
            consumed=figures.total("toolgauge.spans", outcome="consumed", destination=""),
            held=figures.total("toolgauge.spans.held"),
            queued=figures.total("toolgauge.spans.queued", destination=name),
            refused=figures.total("toolgauge.spans", outcome="refused", destination=""),
            dropped=tuple((reason, count, drop_reason(reason)) for reason, count in sorted(dropped.items()) if count),
        )


def problems(figures: Figures) -> Iterator[Figure]:
    """Yield the numbers that should be 0 and are not; what to do is in their descriptions."""
    for metric, labels in _PROBLEMS:
        for figure in figures.each(metric, **labels):
            if figure.value:
                yield figure


def lasted(duration_ns: int) -> str:
    """Write how long something has lasted, with two units."""
    seconds = max(duration_ns, 0) // SECOND
    if seconds >= 24 * HOUR // SECOND:
        return f"{seconds // 86_400} d {seconds % 86_400 // 3600} h"
    if seconds >= HOUR // SECOND:
        return f"{seconds // 3600} h {seconds % 3600 // 60} min"
    return f"{seconds // 60} min {seconds % 60} s" if seconds >= MINUTE // SECOND else f"{seconds} s"


def size_text(size_bytes: float) -> str:
    """Write a number of bytes for people."""
    if size_bytes < 1024:
        return f"{size_bytes:.0f} B"
    for unit in ("KiB", "MiB"):
        size_bytes /= 1024
        if size_bytes < 1024:
            return f"{size_bytes:.1f} {unit}"
    return f"{size_bytes / 1024:.1f} GiB"


def _queues(figures: Figures, components: Mapping[str, ComponentHealth]) -> Iterator[Queue]:
    for capacity in figures.each("toolgauge.send.queue.capacity"):
        name = capacity.labels.get(_DESTINATION, "")
        yield Queue(
            destination=name,
            size_bytes=figures.total("toolgauge.send.queue.bytes", destination=name),
            capacity_bytes=int(capacity.value),
            in_flight=figures.total("toolgauge.send.in_flight", destination=name),
            health=components.get(f"exporter:{name}"),
        )


def _gauges(figures: Figures, components: Mapping[str, ComponentHealth]) -> Iterator[tuple[str, str]]:
    """Yield the sizes of all that waits, for a person."""
    resident, limit = figures.total("toolgauge.memory.resident"), figures.total("toolgauge.memory.limit")
    if resident and limit:
        yield "Memory", f"{size_text(resident)} of {size_text(limit)}; from 80 % on requests are refused"
    yield "Inbox", f"{size_text(figures.total('toolgauge.inbox.bytes'))} of requests wait to be read"
    open_bytes = size_text(figures.total("toolgauge.traces.open.bytes"))
    yield "Open trajectories", f"{figures.total('toolgauge.traces.open')}, about {open_bytes}"
    yield "Waiting to be scored", f"{figures.total('toolgauge.queue.size')} trajectories"
    if "extension:journal" in components:
        entries, held_bytes = figures.total("toolgauge.state.entries"), figures.total("toolgauge.state.bytes")
        yield "Journal", f"{entries} requests, {size_text(held_bytes)}"
    durable = figures.total("toolgauge.state.durable")
    yield "Detectors", "what they know survives a restart" if durable else "what they know is lost with this process"
