"""Health, for orchestrators and people, in the words of the Collector's health check extensions.

Ready means: the ports are bound and the process is not stopping. A destination that is away is shown and is no reason for
a restart, which would only lose what waits for it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from toolgauge.config.model import Config, ErrorPolicy
from toolgauge.export.fan_out import FanOut
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.ports import MessageReceiver
from toolgauge.service.judge_pool import JudgePool
from toolgauge.service.memory import MemoryGuard
from toolgauge.service.worker import Worker
from toolgauge.state.journal import Journal

Phase: TypeAlias = Literal["starting", "running", "stopping", "stopped"]
Status: TypeAlias = Literal[
    "StatusStarting",
    "StatusOK",
    "StatusRecoverableError",
    "StatusPermanentError",
    "StatusFatalError",
    "StatusStopping",
    "StatusStopped",
]

_OF_PHASE: Mapping[Phase, Status] = {
    "starting": "StatusStarting",
    "running": "StatusOK",
    "stopping": "StatusStopping",
    "stopped": "StatusStopped",
}
# The larger stands for a group that holds both.
_SEVERITY: Mapping[Status, int] = {"StatusRecoverableError": 1, "StatusPermanentError": 2, "StatusFatalError": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentHealth:
    """How one part fares; `error` is for people, `since_ns` wall-clock time of the last change."""

    status: Status
    since_ns: int
    error: str | None = None


# The parts of a pipeline by name (`receiver:otlp`, `exporter:otlp`), looked at when somebody asks.
Components: TypeAlias = Callable[[], Mapping[str, ComponentHealth]]


@dataclass(slots=True)
class Health:
    """Knows the phase; asks the parts. `clock` is wall-clock time in nanoseconds."""

    clock: Callable[[], int]
    components: Components
    policy: ErrorPolicy = field(default_factory=ErrorPolicy)
    phase: Phase = "starting"
    started_ns: int = 0
    changed_ns: int = 0

    def __post_init__(self) -> None:
        self.started_ns = self.changed_ns = self.clock()

    def enter(self, phase: Phase) -> None:
        """Take note of another phase."""
        if phase != self.phase:
            self.phase = phase
            self.changed_ns = self.clock()

    @property
    def is_ready(self) -> bool:
        """Return whether requests are taken."""
        return self.phase == "running"

    def simple(self) -> tuple[int, JsonObject]:
        """Answer as the first health check extension does: an HTTP status, and a body."""
        if not self.is_ready:
            return 503, {"status": "Server not available"}
        up_ns = self.clock() - self.started_ns
        since = _written(self.started_ns)
        return 200, {"status": "Server available", "upSince": since, "uptime": f"{up_ns / 1e9:.3f}s"}

    def detailed(self, *, verbose: bool) -> tuple[int, JsonObject]:
        """Answer as the second one does; `verbose` with all parts."""
        components = dict(self.components()) if self.phase == "running" else {}
        now_ns = self.clock()
        is_well = self.is_ready and all(self._is_well(found, now_ns) for found in components.values())
        # Of several, the worst stands for all, and of those the latest.
        of_phase = ComponentHealth(status=_OF_PHASE[self.phase], since_ns=self.changed_ns)
        worst = max(
            components.values(), key=lambda each: (_SEVERITY.get(each.status, 0), each.since_ns), default=of_phase
        )
        pipeline: JsonObject = {**self._described(worst, now_ns), "healthy": is_well}
        body: JsonObject = {"start_time": _written(self.started_ns), **pipeline}
        if verbose:
            parts: dict[str, Json] = {
                name: self._described(found, now_ns) for name, found in sorted(components.items())
            }
            body["components"] = {"pipeline:toolgauge": {**pipeline, "components": parts}}
        if not self.is_ready:
            return 503, body
        return 200 if is_well else 500, body

    def _is_well(self, found: ComponentHealth, now_ns: int) -> bool:
        match found.status:
            case "StatusOK" | "StatusStarting":
                return True
            case "StatusRecoverableError":
                lasted = now_ns - found.since_ns >= self.policy.recovery_duration
                return not (self.policy.include_recoverable_errors and lasted)
            case "StatusPermanentError":
                return not self.policy.include_permanent_errors
            case _:
                return False

    def _described(self, found: ComponentHealth, now_ns: int) -> JsonObject:
        described: JsonObject = {
            "healthy": self._is_well(found, now_ns),
            "status": found.status,
            "status_time": _written(found.since_ns),
        }
        if found.error is not None:
            described["error"] = found.error
        return described


def _written(when_ns: int) -> str:
    return datetime.fromtimestamp(when_ns / 1e9, UTC).isoformat()


def make_health(
    config: Config,
    outbox: FanOut,
    memory: MemoryGuard,
    worker: Worker,
    judges: JudgePool,
    *,
    clock: Callable[[], int],
    journal: Journal | None = None,
    messages: MessageReceiver | None = None,
) -> Health:
    """Make the health of a service; receivers are well as long as the process takes requests.

    `clock` is the service's, so that a wall clock that is set makes neither the uptime nor an outage longer or negative.
    """
    started_ns = clock()
    stuck = "the worker is stuck in an evaluator or a trajectory: requests go on unread when the inbox is full"

    def components() -> Mapping[str, ComponentHealth]:
        now_ns = clock()
        parts = _of_process(memory, started_ns)
        parts["processor:scoring"] = _part(started_ns, stuck, worker.stuck_since_ns)
        if judges.has_judges:
            error, lasted_s = judges.trouble or (None, 0.0)
            parts["processor:judge"] = _part(started_ns, error, now_ns - int(lasted_s * 1e9))
        if journal is not None:
            parts["extension:journal"] = _part(started_ns, journal.failure, journal.failing_since_ns or started_ns)
        if messages is not None:
            parts["receiver:kafka"] = _part(started_ns, *(messages.trouble or (None, None)))
        for destination in outbox.destinations:
            refusing, outage = destination.refusing, destination.outage
            if refusing:
                since_ns = now_ns - int(max(each.lasted_s for each in refusing) * 1e9)
                error = ", ".join(f"{each.signal}: {each.reason}" for each in refusing)
                part = ComponentHealth(status="StatusPermanentError", since_ns=since_ns, error=error)
            elif outage is not None:
                part = _part(started_ns, outage.reason, now_ns - int(outage.lasted_s * 1e9))
            else:
                part = _part(started_ns, None, None)
            parts[f"exporter:{destination.name}"] = part
        return parts

    return _health(config, components, clock)


def make_front_health(config: Config, memory: MemoryGuard, workers: Components, *, clock: Callable[[], int]) -> Health:
    """Make the health of a front, with that of its workers."""
    started_ns = clock()
    return _health(config, lambda: {**workers(), **_of_process(memory, started_ns)}, clock)


def _health(config: Config, components: Components, clock: Callable[[], int]) -> Health:
    policy = config.admin.component_health if config.admin else ErrorPolicy()
    return Health(clock=clock, components=components, policy=policy)


def _of_process(memory: MemoryGuard, started_ns: int) -> dict[str, ComponentHealth]:
    """Describe the receivers and the memory, which passes like an outage: a restart would only lose what waits."""
    receiver = _part(started_ns, None, None)
    short = "memory is short (`memory.limit`): requests are refused with a retryable status"
    limiter = _part(started_ns, short, memory.short_since_ns)
    return {"receiver:otlp/grpc": receiver, "receiver:otlp/http": receiver, "processor:memory_limiter": limiter}


def _part(started_ns: int, error: str | None, since_ns: int | None) -> ComponentHealth:
    """Describe a part that is well without an error, or without a time since when it has one."""
    if error is None or since_ns is None:
        return ComponentHealth(status="StatusOK", since_ns=started_ns)
    return ComponentHealth(status="StatusRecoverableError", since_ns=since_ns, error=error)
