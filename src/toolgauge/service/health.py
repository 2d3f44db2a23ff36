"""Health and the admin endpoint, in the words of the Collector's health check extensions.

Ready means: the ports are bound and the process is not stopping. An absent destination does not call for a restart. The API
about regressions asks on loopback for a Host header of this machine (against DNS rebinding), elsewhere for a token.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import msgspec
from aiohttp import web
from msgspec import UNSET, Struct, UnsetType

from toolgauge.config.model import Admin, ErrorPolicy
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.metrics import fit_label
from toolgauge.model.outcomes import Level
from toolgauge.net.auth import is_own_host
from toolgauge.net.listen import IDLE_TIMEOUT_S, HttpEndpoint
from toolgauge.net.settings import is_loopback
from toolgauge.service.process import MemoryGuard
from toolgauge.service.watching import Watching
from toolgauge.settings import split_address

Phase: TypeAlias = Literal["starting", "running", "stopping", "stopped"]
Status: TypeAlias = Literal[
    "StatusStarting",
    "StatusOK",
    "StatusRecoverableError",
    "StatusPermanentError",
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
_SEVERITY: Mapping[Status, int] = {"StatusRecoverableError": 1, "StatusPermanentError": 2}


@dataclass(frozen=True, slots=True)
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


def parts_of_process(memory: MemoryGuard, started_ns: int) -> dict[str, ComponentHealth]:
    """Describe the receivers and the memory, whose shortage passes like an outage: a restart would only lose spans that wait."""
    short = "memory is short (`memory.limit`): requests are refused with a retryable status"
    return {
        "receiver:otlp/grpc": part(started_ns),
        "receiver:otlp/http": part(started_ns),
        "processor:memory_limiter": part(started_ns, short, memory.short_since_ns),
    }


def part(started_ns: int, error: str | None = None, since_ns: int | None = None) -> ComponentHealth:
    """Describe a part that is well without an error, or without a time since when it has one."""
    if error is None or since_ns is None:
        return ComponentHealth("StatusOK", started_ns)
    return ComponentHealth("StatusRecoverableError", since_ns, error)


_HEALTH = frozenset({"/", "/status"})
_ACK = "/ack"
_PATHS = frozenset({"/streams", "/comparison", _ACK})
_MAX_BODY_BYTES = 64 * 1024
_BODY_TIMEOUT_S = 10.0
# The worker is asked between two pieces of its work; one that is stuck would never answer.
_ANSWER_TIMEOUT_S = 15.0
_JSON = "application/json"


class _Filters(Struct, forbid_unknown_fields=True, omit_defaults=True):
    service: str | UnsetType | None = UNSET
    environment: str | UnsetType | None = UNSET
    agent: str | UnsetType | None = UNSET
    tool: str | UnsetType | None = UNSET
    criterion: str | UnsetType = UNSET
    revision: str | UnsetType = UNSET
    level: Level | UnsetType = UNSET


class _Refused(Exception):  # noqa: N818 (an answer, no fault)
    """A request is answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class AdminEndpoint(HttpEndpoint):
    """Serves health, and the API about regressions unless `watching` is `None`."""

    def __init__(
        self,
        health: Health,
        settings: Admin,
        watching: Watching | None = None,
        *,
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        answer_timeout_s: float = _ANSWER_TIMEOUT_S,
    ) -> None:
        super().__init__(settings, idle_timeout_s=idle_timeout_s, post_paths={_ACK})
        self._health = health
        self._watching = watching
        self._answer_timeout_s = answer_timeout_s
        self._host, _ = split_address(settings.endpoint)
        self._has_token = settings.auth is not None

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Answer with the state of health, or about regressions."""
        if request.path in _HEALTH:
            if request.path == "/":
                status, body = self._health.simple()
            else:
                verbose = request.query.get("verbose")
                is_verbose = verbose is not None and verbose.lower() not in ("false", "0", "no")
                status, body = self._health.detailed(verbose=is_verbose)
            return web.json_response(body, status=status)
        try:
            answered = await self._of_regressions(request)
        except _Refused as refused:
            return web.json_response({"error": refused.message}, status=refused.status)
        return web.Response(body=msgspec.json.encode(answered), content_type=_JSON)

    async def _of_regressions(self, request: web.BaseRequest) -> object:
        if request.path not in _PATHS:
            raise _Refused(404, "no such path; there is `/`, `/status`, `/streams`, `/comparison` and `/ack`")
        if not self._has_token:
            if not is_loopback(self._host):
                raise _Refused(
                    403,
                    "the admin endpoint listens beyond loopback and has no `admin.auth`: without a token there is only "
                    "`/` and `/status`",
                )
            if not is_own_host(request.headers.get("Host", ""), self._host):
                raise _Refused(403, "the Host header does not name this machine: ask `localhost`")
        watching = self._watching
        if watching is None:
            raise _Refused(404, "nothing is watched for regressions: `watch.enabled` is false")
        filters = await _filters(request) if request.path == _ACK else {}
        try:
            async with asyncio.timeout(self._answer_timeout_s):
                match request.path:
                    case "/streams":
                        return {"streams": await watching.ask(lambda watcher: watcher.statuses())}
                    case "/comparison":
                        return {"arms": await watching.ask(lambda watcher: watcher.arms())}
                    case _:
                        now_ns = self._health.clock()
                        count = await watching.ask(lambda watcher: watcher.acknowledge(filters, now_ns))
                        return {"acknowledged": count}
        except TimeoutError as error:
            raise _Refused(503, "the worker is busy and did not answer in time") from error


async def _filters(request: web.BaseRequest) -> dict[str, str]:
    """Read the fields of the streams, an empty text for streams without one; a page of another origin cannot send this content type without asking first."""
    if request.content_type != _JSON:
        raise _Refused(415, f"the body must be JSON: `Content-Type: {_JSON}`")
    body = b""
    try:
        async with asyncio.timeout(_BODY_TIMEOUT_S):
            while chunk := await request.content.readany():
                body += chunk
                if len(body) > _MAX_BODY_BYTES:
                    raise _Refused(413, f"the body must be at most {_MAX_BODY_BYTES} bytes")
    except TimeoutError as error:
        raise _Refused(408, "the body did not come in time") from error
    except web.RequestPayloadError as error:
        raise _Refused(400, "the body cannot be read: it is not encoded as its headers say") from error
    try:
        filters = msgspec.json.decode(body, type=_Filters)
    except msgspec.ValidationError as error:
        fields = ", ".join(f"`{name}`" for name in _Filters.__struct_fields__)
        raise _Refused(400, f"{error}; an object of any of {fields} is expected") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _Refused(400, "the body is not JSON") from error
    values = ((name, getattr(filters, name)) for name in filters.__struct_fields__)
    return {name: fit_label(value or "") for name, value in values if value is not UNSET}
