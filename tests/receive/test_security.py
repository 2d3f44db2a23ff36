"""Who gets in, over both transports: TLS, client certificates, tokens, browsers."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import asyncio
import ssl
from pathlib import Path

import grpc
import grpc.aio
import pytest
from grpc import StatusCode as Code
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from tests.certificates import Certificates, certificates
from tests.receive.fakes import ClaimedAct, call, call_once, post, raw, read_reply, receiving
from toolgauge.model.errors import StartError
from toolgauge.net.settings import Auth, ServerTls
from toolgauge.receive.settings import Cors
from toolgauge.settings import SECOND

BODY = b"\n\0"
HEAD = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 2\r\n\r\n"
AUTH = Auth(tokens=("s3cret",))


@pytest.fixture
def made(tmp_path: Path) -> Certificates:
    return certificates(tmp_path)


def tls(made: Certificates, *, mutual: bool = False, reload_interval: int = 10 * SECOND) -> ServerTls:
    return ServerTls(
        cert_file=str(made.server_cert),
        key_file=str(made.server_key),
        client_ca_file=str(made.ca_file) if mutual else None,
        reload_interval=reload_interval,
    )


def client_context(made: Certificates, *, mutual: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(made.ca_file))
    if mutual:
        context.load_cert_chain(made.client_cert, made.client_key)
    return context


async def https(port: int, context: ssl.SSLContext) -> tuple[int, bytes]:
    """Post once over TLS; return the status and the server's certificate."""
    reader, writer = await asyncio.open_connection("localhost", port, ssl=context)
    try:
        writer.write(HEAD + BODY)
        status = (await read_reply(reader)).status
        certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.close()
    return status, certificate


async def grpcs(port: int, made: Certificates, *, mutual: bool = False) -> ClaimedAct:
    credentials = grpc.ssl_channel_credentials(
        made.ca_file.read_bytes(),
        made.client_key.read_bytes() if mutual else None,
        made.client_cert.read_bytes() if mutual else None,
    )
    async with grpc.aio.secure_channel(f"localhost:{port}", credentials) as channel:
        return await call(channel, BODY)


async def test_plain_text_is_not_spoken_beside_tls(made: Certificates):
    async with receiving(tls=tls(made)) as receivers:
        reply = await raw(receivers.http.port, HEAD + BODY)
        told = await call_once(receivers.grpc.port, BODY)
    assert (reply.status, told.code) == (0, Code.UNAVAILABLE)
    assert receivers.consumer.taken == []


async def test_only_clients_with_a_certificate_get_in_where_that_is_asked(made: Certificates):
    async with receiving(tls=tls(made, mutual=True)) as receivers:
        assert (await https(receivers.http.port, client_context(made, mutual=True)))[0] == 200
        assert (await grpcs(receivers.grpc.port, made, mutual=True)).code is Code.OK
        with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
            assert (await https(receivers.http.port, client_context(made)))[0] == 200
        assert (await grpcs(receivers.grpc.port, made)).code is Code.UNAVAILABLE
    assert len(receivers.consumer.taken) == 2


async def test_renewed_certificate_is_used_without_a_restart(made: Certificates):
    async with receiving(tls=tls(made, reload_interval=SECOND // 20)) as receivers:
        _, first = await https(receivers.http.port, client_context(made))
        renewed = ssl.PEM_cert_to_DER_cert(made.renew_server().decode())
        async with asyncio.timeout(60):
            while (await https(receivers.http.port, client_context(made)))[1] != renewed:
                assert (await grpcs(receivers.grpc.port, made)).code is Code.OK
        assert first != renewed
        assert (await grpcs(receivers.grpc.port, made)).code is Code.OK


async def test_broken_renewal_leaves_the_certificate_that_worked(made: Certificates, caplog: pytest.LogCaptureFixture):
    async with receiving(tls=tls(made, reload_interval=SECOND // 20)) as receivers:
        made.server_cert.write_text("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
        async with asyncio.timeout(60):
            while "the certificate in use stays" not in caplog.text:
                await asyncio.sleep(0.02)
        assert (await https(receivers.http.port, client_context(made)))[0] == 200


@pytest.mark.parametrize("broken", ["missing", "no pem", "other key"])
async def test_unusable_file_is_named_at_the_start(made: Certificates, broken: str):
    if broken == "missing":
        made.server_key.unlink()
    elif broken == "no pem":
        made.server_key.write_text("hello")
    else:
        made.server_key.write_bytes(made.client_key.read_bytes())
    with pytest.raises(StartError, match=r"server\.key"):
        async with receiving(tls=tls(made)):
            pass


async def test_the_token_alone_opens_both_transports():
    async with receiving(auth=AUTH) as receivers:
        none = await post(receivers.http.port, BODY)
        wrong = await post(receivers.http.port, BODY, Authorization="Bearer wrong")
        grpc_none = await call_once(receivers.grpc.port, BODY)
        grpc_wrong = await call_once(receivers.grpc.port, BODY, metadata=(("authorization", "Bearer wrong"),))
        assert receivers.consumer.taken == []
        right = await post(receivers.http.port, BODY, Authorization="Bearer s3cret")
        grpc_right = await call_once(receivers.grpc.port, BODY, metadata=(("authorization", "Bearer s3cret"),))
    assert (none.status, none.headers["www-authenticate"], wrong.status) == (401, "Bearer", 401)
    assert (grpc_none.code, grpc_wrong.code) == (Code.UNAUTHENTICATED, Code.UNAUTHENTICATED)
    assert (right.status, grpc_right.code) == (200, Code.OK)
    counts = {"unauthenticated": 2, "accepted": 1}
    assert receivers.outcomes() == {
        (transport, "traces", outcome): count for transport in ("http", "grpc") for outcome, count in counts.items()
    }


async def test_allowed_page_may_ask_and_send():
    cors = Cors(allowed_origins=("https://*.example.com",), allowed_headers=("x-api-key",), max_age=600)
    async with receiving(cors=cors) as receivers:
        asked = await post(
            receivers.http.port,
            b"",
            method="OPTIONS",
            Origin="https://app.example.com",
            Access_Control_Request_Method="POST",
        )
        sent = await post(receivers.http.port, BODY, Origin="https://app.example.com")
    assert asked.status == 204
    assert asked.headers["access-control-allow-origin"] == "https://app.example.com"
    assert asked.headers["access-control-allow-methods"] == "POST"
    assert "x-api-key" in asked.headers["access-control-allow-headers"]
    assert "Content-Type" in asked.headers["access-control-allow-headers"]
    assert asked.headers["access-control-max-age"] == "600"
    assert (sent.status, sent.headers["access-control-allow-origin"]) == (200, "https://app.example.com")


@pytest.mark.parametrize("origin", ["https://example.com.evil.org", "http://app.example.com", "null", ""])
async def test_other_pages_are_told_nothing(origin: str):
    cors = Cors(allowed_origins=("https://*.example.com",))
    async with receiving(cors=cors) as receivers:
        asked = await post(
            receivers.http.port, b"", method="OPTIONS", Origin=origin, Access_Control_Request_Method="POST"
        )
        sent = await post(receivers.http.port, BODY, Origin=origin)
    assert asked.status == 405
    assert not any(name.startswith("access-control") for name in (*asked.headers, *sent.headers))


@pytest.mark.parametrize(
    ("allowed", "credentials"),
    [
        (("http://app.test",), "true"),
        (("https://other.test", "HTTP://App.Test"), "true"),
        (("*", "http://app.test"), "true"),
        (("*",), None),
        (("http://*",), None),
        (("http://*.test",), None),
    ],
)
async def test_credentials_are_allowed_for_origins_that_are_written_out(
    allowed: tuple[str, ...], credentials: str | None
):
    # `navigator.sendBeacon` with JSON always sends them.
    async with receiving(cors=Cors(allowed_origins=allowed)) as receivers:
        asked = await post(
            receivers.http.port,
            b"",
            method="OPTIONS",
            Origin="http://app.test",
            Access_Control_Request_Method="POST",
            Access_Control_Request_Headers="content-type",
        )
        sent = await post(receivers.http.port, BODY, Origin="http://app.test")
    assert (asked.status, sent.status) == (204, 200)
    for answer in (asked, sent):
        assert answer.headers["access-control-allow-origin"] == "http://app.test"
        assert answer.headers.get("access-control-allow-credentials") == credentials


async def test_grpc_health_says_not_serving_while_stopping():
    async with receiving() as receivers, grpc.aio.insecure_channel(f"127.0.0.1:{receivers.grpc.port}") as channel:
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(HealthCheckRequest().SerializeToString())
        first = await watch.read()
        await receivers.grpc.stop(0.5)
        second = await watch.read()
    assert isinstance(first, bytes)
    assert isinstance(second, bytes)
    assert HealthCheckResponse.FromString(first).status == HealthCheckResponse.SERVING
    assert HealthCheckResponse.FromString(second).status == HealthCheckResponse.NOT_SERVING
