"""The admin endpoint: health for everybody, and a small API about regressions for those who may use it.

Names of services, agents and tools, and the means to silence an alarm, are not for every page in a browser and every pod in
a cluster: on loopback the Host header must name this machine (a page elsewhere can point its own name here, DNS
rebinding, but cannot choose that header), and beyond loopback a token is asked for. With a token any Host will do,
because no page has it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias, TypeVar

import msgspec
from aiohttp import web
from msgspec import UNSET, Struct, UnsetType

from toolgauge.config.model import Admin
from toolgauge.model.metrics import fit_label
from toolgauge.model.outcomes import Level
from toolgauge.model.regressions import Arm, StreamStatus
from toolgauge.net.browsers import is_own_host
from toolgauge.net.listen import IDLE_TIMEOUT_S, HttpEndpoint
from toolgauge.net.settings import is_loopback
from toolgauge.service.health import Health
from toolgauge.settings import split_address

# By field of `Stream`; an empty text asks for streams without it.
Filters: TypeAlias = Mapping[str, str]

_HEALTH = frozenset({"/", "/status"})
_ACK = "/ack"
_PATHS = frozenset({"/streams", "/comparison", _ACK})
_MAX_BODY_BYTES = 64 * 1024
_BODY_TIMEOUT_S = 10.0
# The worker is asked between two pieces of its work; one that is stuck would never answer.
_ANSWER_TIMEOUT_S = 15.0
_JSON = "application/json"
_T = TypeVar("_T")
_Asked = TypeVar("_Asked", bound=Struct)


class Watching(Protocol):
    """Streams of scores, and the detectors that watch them. Its methods are called on the event loop."""

    async def statuses(self) -> Sequence[StreamStatus]:
        """Return what the detector of each stream knows."""
        ...

    async def arms(self) -> Sequence[Arm]:
        """Return the observations of each stream by version."""
        ...

    async def acknowledge(self, filters: Filters) -> int:
        """Accept the scores of the matching streams as their new normal; return how many streams matched."""
        ...


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
    """Serves `GET /` and `GET /status[?verbose]`, and of regressions `GET /streams`, `GET /comparison` and `POST /ack`.

    `watching` is `None` where nothing is watched.
    """

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
        self._admit(request)
        watching = self._watching
        if watching is None:
            raise _Refused(404, "nothing is watched for regressions: `watch.enabled` is false")
        filters: Filters = await _filters(request) if request.path == _ACK else {}
        try:
            async with asyncio.timeout(self._answer_timeout_s):
                match request.path:
                    case "/streams":
                        return {"streams": await watching.statuses()}
                    case "/comparison":
                        return {"arms": await watching.arms()}
                    case _:
                        return {"acknowledged": await watching.acknowledge(filters)}
        except TimeoutError as error:
            raise _Refused(503, "the worker is busy and did not answer in time") from error

    def _admit(self, request: web.BaseRequest) -> None:
        if self._has_token:
            return
        if not is_loopback(self._host):
            raise _Refused(
                403,
                "the admin endpoint listens beyond loopback and has no `admin.auth`: without a token there is only "
                "`/` and `/status`",
            )
        if not is_own_host(request.headers.get("Host", ""), self._host):
            raise _Refused(403, "the Host header does not name this machine: ask `localhost`")


async def _filters(request: web.BaseRequest) -> Filters:
    """Read the fields of the streams; a page of another origin cannot send this content type without asking first."""
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
