"""The API about regressions: what it answers, and whom."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import pytest

from toolgauge.config.model import Admin
from toolgauge.model.json import JsonObject
from toolgauge.model.regressions import Arm, Stream, StreamStatus
from toolgauge.service.health import AdminEndpoint, Health
from toolgauge.service.watching import Watching
from toolgauge.watch.watcher import Watcher

HEALTH_PAGE = Path(__file__).parents[2] / "docs" / "health.md"
NOW_NS = 7
_T = TypeVar("_T")
STREAM = Stream(
    service="shop",
    environment=None,
    agent="orders",
    tool="find_order",
    criterion="default.tool_success",
    revision="9f86d081884c",
    level="call",
)
STATUS = StreamStatus(
    stream=STREAM,
    state="alarm",
    observations=240,
    needed=200,
    baseline=0.97,
    current=0.84,
    evidence=1.0,
    since_ns=5,
)
ARM = Arm(stream=STREAM, version="1.1", observations=3, sum=2.5, sum_of_squares=2.25, first_seen_ns=1, last_seen_ns=2)
AS_JSON = {
    "service": "shop",
    "environment": None,
    "agent": "orders",
    "tool": "find_order",
    "criterion": "default.tool_success",
    "revision": "9f86d081884c",
    "level": "call",
}


class Answering(Watcher):
    """Answers the same each time, and keeps what it was asked to acknowledge."""

    def __init__(self) -> None:
        self.filters: list[Mapping[str, str]] = []

    def statuses(self) -> Sequence[StreamStatus]:
        return (STATUS,)

    def arms(self) -> Sequence[Arm]:
        return (ARM,)

    def acknowledge(self, filters: Mapping[str, str], now_ns: int) -> int:
        assert now_ns == NOW_NS
        self.filters.append(filters)
        return 2


class Watched(Watching):
    """Has one of these asked."""

    def __init__(self) -> None:
        self._watcher = watcher = Answering()
        self._on_worker = None
        self.filters = watcher.filters


API = (
    ("GET", "/streams"),
    ("GET", "/comparison"),
    ("POST", "/ack"),
)


@asynccontextmanager
async def serving(
    watching: Watching | None,
    admin: Admin | None = None,
    *,
    answer_timeout_s: float = 60,
) -> AsyncGenerator[str, None]:
    health = Health(clock=lambda: NOW_NS, components=dict)
    health.enter("running")
    endpoint = AdminEndpoint(
        health, admin or Admin(endpoint="127.0.0.1:0"), watching, answer_timeout_s=answer_timeout_s
    )
    await endpoint.start()
    try:
        yield f"http://127.0.0.1:{endpoint.port}"
    finally:
        await endpoint.stop()


async def asked(method: str, url: str, **options: Any) -> tuple[int, JsonObject]:  # noqa: ANN401 (aiohttp's options)
    async with aiohttp.ClientSession() as session, session.request(method, url, **options) as response:
        return response.status, await response.json() if response.content_type == "application/json" else {}


async def test_streams_are_listed_with_their_state():
    async with serving(Watched()) as url:
        assert await asked("GET", f"{url}/streams") == (
            200,
            {
                "streams": [
                    {
                        "stream": AS_JSON,
                        "state": "alarm",
                        "observations": 240,
                        "needed": 200,
                        "baseline": 0.97,
                        "current": 0.84,
                        "evidence": 1.0,
                        "since_ns": 5,
                        "incident": "",
                    }
                ]
            },
        )


@pytest.mark.parametrize("path", ["/streams", "/comparison"])
async def test_the_page_names_each_key_of_an_answer(path: str):
    async with serving(Watched()) as url:
        _, answer = await asked("GET", f"{url}{path}")
    (found,) = answer.values()
    assert isinstance(found, list)
    (row,) = (line for line in HEALTH_PAGE.read_text().splitlines() if line.startswith(f"| `GET {path}` |"))
    assert isinstance(found[0], dict)
    assert [key for key in found[0] if f"`{key}`" not in row] == []


async def test_comparison_has_the_observations_of_each_version():
    async with serving(Watched()) as url:
        assert await asked("GET", f"{url}/comparison") == (
            200,
            {
                "arms": [
                    {
                        "stream": AS_JSON,
                        "version": "1.1",
                        "observations": 3,
                        "sum": 2.5,
                        "sum_of_squares": 2.25,
                        "first_seen_ns": 1,
                        "last_seen_ns": 2,
                    }
                ]
            },
        )


@pytest.mark.parametrize(
    ("body", "filters"),
    [
        ({}, {}),
        ({"criterion": "default.tool_success", "tool": "find_order"}, None),
        ({"tool": None, "level": "call"}, {"tool": "", "level": "call"}),
        ({"agent": "a\nb" + "c" * 200}, {"agent": "a\ufffdb" + "c" * 125}),
    ],
)
async def test_acknowledging_passes_on_the_filters(body: JsonObject, filters: JsonObject | None):
    watched = Watched()
    async with serving(watched) as url:
        assert await asked("POST", f"{url}/ack", json=body) == (200, {"acknowledged": 2})
    assert watched.filters == [body if filters is None else filters]


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("body", "headers", "status", "complaint"),
    [
        (b'{"tol": "x"}', JSON, 400, "unknown field `tol`"),
        (b'{"tool": 3}', JSON, 400, "$.tool"),
        (b'{"level": "span"}', JSON, 400, "$.level"),
        (b"[]", JSON, 400, "Expected `object`"),
        (b"", JSON, 400, "is not JSON"),
        (b'{"tool": "\xff"}', JSON, 400, "is not JSON"),
        (b'{"x":' + b"[" * 60_000, JSON, 400, "unknown field `x`"),
        (b'{"tool": "' + b"x" * 65_536 + b'"}', JSON, 413, ""),
        (b"{}", {**JSON, "Content-Encoding": "gzip"}, 400, "encoded"),
        # What a page may send without asking.
        (b"{}", {"Content-Type": "text/plain"}, 415, ""),
        (b"{}", {"Content-Type": "multipart/form-data"}, 415, ""),
    ],
)
async def test_bad_input_is_refused_with_the_field_s_name(
    body: bytes, headers: dict[str, str], status: int, complaint: str
):
    watched = Watched()
    async with serving(watched) as url:
        answered, answer = await asked("POST", f"{url}/ack", data=body, headers=headers)
        preflight, _ = await asked("OPTIONS", f"{url}/ack", headers={"Origin": "https://evil.example"})
    assert (answered, preflight, watched.filters) == (status, 405, [])
    assert complaint in str(answer.get("error"))


@pytest.mark.parametrize("host", ["evil.example:{port}", "10.0.0.7:{port}", ""])
async def test_host_that_is_not_ours_learns_no_names(host: str):
    watched = Watched()
    async with serving(watched) as url:
        headers = {"Host": host.format(port=url.rpartition(":")[2])}
        for method, path in API:
            status, answer = await asked(method, f"{url}{path}", headers=headers)
            assert (status, "Host" in str(answer["error"])) == (403, True)
        assert (await asked("GET", f"{url}/", headers=headers))[0] == 200
    assert watched.filters == []


async def test_beyond_loopback_there_is_only_health_without_a_token():
    watched = Watched()
    async with serving(watched, Admin(endpoint="0.0.0.0:0", insecure=True)) as url:
        assert (await asked("GET", f"{url}/"))[0] == 200
        assert (await asked("GET", f"{url}/status"))[0] == 200
        status, answer = await asked("GET", f"{url}/streams")
        assert (status, "`admin.auth`" in str(answer["error"])) == (403, True)
        for method, path in API:
            assert (await asked(method, f"{url}{path}", json={}))[0] == 403
    assert watched.filters == []


async def test_where_nothing_is_watched_the_api_says_so():
    async with serving(None) as url:
        status, answer = await asked("GET", f"{url}/streams")
    assert (status, answer) == (404, {"error": "nothing is watched for regressions: `watch.enabled` is false"})


@pytest.mark.parametrize(("method", "path"), [("GET", "/streams"), ("GET", "/comparison"), ("POST", "/ack")])
async def test_worker_that_never_answers_keeps_nobody_waiting(method: str, path: str):
    class Stuck(Watched):
        async def ask(self, question: Callable[[Watcher], _T]) -> _T:
            del question
            return await asyncio.Future()

    async with serving(Stuck(), answer_timeout_s=0.1) as url:
        status, answer = await asked(method, f"{url}{path}", **({"json": {}} if method == "POST" else {}))
    assert status == 503
    assert "busy" in str(answer["error"])
