"""Both shapes of health, over a real socket."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import pytest

from tests.rows import each_row
from toolgauge.config.model import Admin, ErrorPolicy
from toolgauge.model.json import JsonObject
from toolgauge.net.settings import Auth
from toolgauge.service.health import AdminEndpoint, ComponentHealth, Health, Phase

SECOND = 1_000_000_000
START_NS = 1_800_000_000 * SECOND
OK = ComponentHealth(status="StatusOK", since_ns=START_NS)
AWAY = ComponentHealth(status="StatusRecoverableError", since_ns=START_NS, error="unavailable")
REFUSED = ComponentHealth(status="StatusPermanentError", since_ns=START_NS, error="unauthenticated")
COUNTING = ErrorPolicy(include_recoverable_errors=True, recovery_duration=60 * SECOND)


@dataclass
class World:
    """A clock and the parts, both in the test's hand."""

    now_ns: int = START_NS
    parts: dict[str, ComponentHealth] = field(default_factory=lambda: {"receiver:otlp": OK, "exporter:otlp": OK})

    def health(self, policy: ErrorPolicy | None = None) -> Health:
        health = Health(clock=lambda: self.now_ns, components=lambda: self.parts, policy=policy or ErrorPolicy())
        health.enter("running")
        return health


@asynccontextmanager
async def serving(health: Health, auth: Auth | None = None) -> AsyncGenerator[str, None]:
    endpoint = AdminEndpoint(health, Admin(endpoint="127.0.0.1:0", auth=auth))
    await endpoint.start()
    try:
        yield f"http://127.0.0.1:{endpoint.port}"
    finally:
        await endpoint.stop()


async def asked(url: str, **headers: str) -> tuple[int, JsonObject]:
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        return response.status, await response.json() if response.content_type == "application/json" else {}


async def test_running_is_available_with_its_uptime():
    world = World()
    health = world.health()
    world.now_ns += 90 * SECOND
    async with serving(health) as url:
        status, body = await asked(f"{url}/")
    assert (status, body) == (
        200,
        {"status": "Server available", "upSince": "2027-01-15T08:00:00+00:00", "uptime": "90.000s"},
    )


@pytest.mark.parametrize("phase", ["starting", "stopping", "stopped"])
async def test_not_running_is_not_available(phase: Phase):
    health = World().health()
    health.enter(phase)
    async with serving(health) as url:
        assert await asked(f"{url}/") == (503, {"status": "Server not available"})
        status, body = await asked(f"{url}/status")
    assert (status, body["status"], body["healthy"]) == (503, f"Status{phase.capitalize()}", False)


async def test_status_is_short_unless_asked_for_more():
    async with serving(World().health()) as url:
        status, body = await asked(f"{url}/status")
        _, verbose = await asked(f"{url}/status?verbose")
    assert status == 200
    assert body == {
        "start_time": "2027-01-15T08:00:00+00:00",
        "healthy": True,
        "status": "StatusOK",
        "status_time": "2027-01-15T08:00:00+00:00",
    }
    part = {"healthy": True, "status": "StatusOK", "status_time": "2027-01-15T08:00:00+00:00"}
    assert verbose["components"] == {
        "pipeline:toolgauge": {**part, "components": {"exporter:otlp": part, "receiver:otlp": part}}
    }


async def test_destination_that_is_away_is_plainly_claimed_and_no_reason_for_a_restart():
    world = World()
    world.parts["exporter:otlp"] = AWAY
    health = world.health()
    world.now_ns += 3600 * SECOND
    async with serving(health) as url:
        status, body = await asked(f"{url}/status?verbose=true")
        assert (await asked(f"{url}/"))[0] == 200
    told = {
        "healthy": True,
        "status": "StatusRecoverableError",
        "status_time": "2027-01-15T08:00:00+00:00",
        "error": "unavailable",
    }
    fine = {"healthy": True, "status": "StatusOK", "status_time": "2027-01-15T08:00:00+00:00"}
    parts = {"exporter:otlp": told, "receiver:otlp": fine}
    assert (status, body) == (
        200,
        {
            "start_time": "2027-01-15T08:00:00+00:00",
            **told,
            "components": {"pipeline:toolgauge": {**told, "components": parts}},
        },
    )


@each_row(
    ("part", "policy", "after_s", "status"),
    [
        (AWAY, ErrorPolicy(), 3600, 200),
        (AWAY, COUNTING, 0, 200),
        (AWAY, COUNTING, 60, 500),
        (REFUSED, ErrorPolicy(), 0, 200),
        (REFUSED, ErrorPolicy(include_permanent_errors=True), 0, 500),
    ],
)
def test_errors_count_where_and_when_that_is_asked_for(
    part: ComponentHealth, policy: ErrorPolicy, after_s: int, status: int
):
    world = World()
    world.parts["exporter:otlp"] = part
    health = world.health(policy)
    world.now_ns += after_s * SECOND
    answered, body = health.detailed(verbose=False)
    assert (answered, body["status"], body["healthy"]) == (status, part.status, status == 200)


async def test_token_is_asked_for_on_every_path():
    async with serving(World().health(), Auth(tokens=("s3cret",))) as url:
        for path in ("/", "/status", "/nothing"):
            assert await asked(url + path) == (401, {"error": "a valid token is needed"})
        assert (await asked(f"{url}/", Authorization="Bearer s3cret"))[0] == 200


async def test_a_client_that_says_nothing_keeps_no_connection():
    endpoint = AdminEndpoint(World().health(), Admin(endpoint="127.0.0.1:0"), idle_timeout_s=0.1)
    await endpoint.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(b"GET /sta")
        async with asyncio.timeout(60):
            assert await reader.read() == b""
        writer.close()
    finally:
        await endpoint.stop()
