"""Config -> the admin endpoint, and how the parts of a service say that they fare."""

from collections.abc import Callable, Mapping

from toolgauge.config.model import Config
from toolgauge.export.destination import Destination
from toolgauge.service.admin import AdminEndpoint
from toolgauge.service.exporters import Exporters
from toolgauge.service.health import ComponentHealth, ErrorPolicy, Health
from toolgauge.service.listeners import guard, server_tls
from toolgauge.service.memory import MemoryGuard
from toolgauge.service.worker import Worker


def make_health(
    config: Config, outbox: Exporters, memory: MemoryGuard, worker: Worker, *, clock: Callable[[], int]
) -> Health:
    """Make what knows the phase and asks the destinations; receivers are well as long as the process takes requests.

    Memory that is short is told like a destination that is away: it passes, and a restart would only lose what waits.
    `clock` is the service's, so that a wall clock that is set makes neither the uptime nor an outage longer or negative.
    """
    started_ns = clock()

    def components() -> Mapping[str, ComponentHealth]:
        receiver = ComponentHealth(status="StatusOK", since_ns=started_ns)
        parts = {"receiver:otlp/grpc": receiver, "receiver:otlp/http": receiver}
        parts["processor:memory_limiter"] = _of_memory(memory, started_ns)
        parts["processor:scoring"] = _of_worker(worker, started_ns)
        for destination in outbox.destinations:
            parts[f"exporter:{destination.name}"] = _of(destination, started_ns, clock())
        return parts

    return Health(clock=clock, components=components, policy=_policy(config))


def make_admin(config: Config, health: Health) -> AdminEndpoint | None:
    """Make the admin endpoint, if there is to be one; raise `StartError` when a file that it needs cannot be used."""
    section = config.admin
    if section is None:
        return None
    return AdminEndpoint(health, section.endpoint, tls=server_tls(section.tls), guard=guard(section.auth))


def _of_memory(memory: MemoryGuard, started_ns: int) -> ComponentHealth:
    since_ns = memory.short_since_ns
    if since_ns is None:
        return ComponentHealth(status="StatusOK", since_ns=started_ns)
    error = "memory is short (`memory.limit`): senders are told to come back"
    return ComponentHealth(status="StatusRecoverableError", since_ns=since_ns, error=error)


def _of_worker(worker: Worker, started_ns: int) -> ComponentHealth:
    since_ns = worker.stuck_since_ns
    if since_ns is None:
        return ComponentHealth(status="StatusOK", since_ns=started_ns)
    error = (
        "the worker does not come back from an evaluator or a trajectory: requests go on unread when the inbox is full"
    )
    return ComponentHealth(status="StatusRecoverableError", since_ns=since_ns, error=error)


def _of(destination: Destination, started_ns: int, now_ns: int) -> ComponentHealth:
    refusing = destination.refusing
    if refusing:
        since_ns = now_ns - int(max(each.lasted_s for each in refusing) * 1e9)
        error = ", ".join(f"{each.signal}: {each.reason}" for each in refusing)
        return ComponentHealth(status="StatusPermanentError", since_ns=since_ns, error=error)
    outage = destination.outage
    if outage is None:
        return ComponentHealth(status="StatusOK", since_ns=started_ns)
    since_ns = now_ns - int(outage.lasted_s * 1e9)
    return ComponentHealth(status="StatusRecoverableError", since_ns=since_ns, error=outage.reason)


def _policy(config: Config) -> ErrorPolicy:
    if config.admin is None:
        return ErrorPolicy()
    section = config.admin.component_health
    return ErrorPolicy(
        include_permanent=section.include_permanent_errors,
        include_recoverable=section.include_recoverable_errors,
        recovery_duration_ns=section.recovery_duration,
    )
