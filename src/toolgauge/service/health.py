"""Whether we are well, in the words of the Collector's health check extensions.

Ready means: the ports are bound and nobody has asked us to stop. A destination that is away is told and is no reason to
be restarted, which would only lose what waits for it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from toolgauge.model.json import Json, JsonObject

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
# The later stands for a group that holds both.
_SEVERITY: tuple[Status, ...] = ("StatusOK", "StatusRecoverableError", "StatusPermanentError", "StatusFatalError")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentHealth:
    """How one part fares; `error` is for people, `since_ns` wall-clock time of the last change."""

    status: Status
    since_ns: int
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPolicy:
    """Which errors of parts count as unwell: none unless asked for. A recoverable one counts after a while only."""

    include_permanent: bool = False
    include_recoverable: bool = False
    recovery_duration_ns: int = 60_000_000_000


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
        """Tell whether requests are taken."""
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
        worst = max(components.values(), key=_severity, default=self._of_phase())
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

    def _of_phase(self) -> ComponentHealth:
        return ComponentHealth(status=_OF_PHASE[self.phase], since_ns=self.changed_ns)

    def _is_well(self, found: ComponentHealth, now_ns: int) -> bool:
        match found.status:
            case "StatusOK" | "StatusStarting":
                return True
            case "StatusRecoverableError":
                lasted = now_ns - found.since_ns >= self.policy.recovery_duration_ns
                return not (self.policy.include_recoverable and lasted)
            case "StatusPermanentError":
                return not self.policy.include_permanent
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


def _severity(found: ComponentHealth) -> tuple[int, int]:
    return _SEVERITY.index(found.status) if found.status in _SEVERITY else 0, found.since_ns


def _written(when_ns: int) -> str:
    return datetime.fromtimestamp(when_ns / 1e9, UTC).isoformat()
