"""A sender that is refused is in the log, with its address and what to set; its token, headers and body are not."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import contextlib
import re
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from tests.certificates import Certificates, certificates
from tests.rows import each_row
from tests.wire.support import LISTEN, TRACES, Toolgauge, recorded, until

(BODY,) = recorded("pydantic-ai", "tool_error")
TOKEN = ("authorization", "Bearer s3cret-token")
WRONG = ("authorization", "Bearer wr0ng-token")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolgauge]:
    """Plain text, a token, and room for 64 KiB."""
    auth = 'auth: {token: "s3cret-token"}'
    listen = (
        *LISTEN,
        f'receivers.otlp.protocols.grpc={{endpoint: "127.0.0.1:0", {auth}, max_recv_msg_size: 64KiB}}',
        f'receivers.otlp.protocols.http={{endpoint: "127.0.0.1:0", {auth}, max_request_body_size: 64KiB}}',
    )
    with contextlib.closing(Toolgauge(tmp_path_factory.mktemp("guarded"), listen=listen)) as toolgauge:
        yield toolgauge.wait_until_up()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory, made: Certificates) -> Iterator[Toolgauge]:
    """TLS with client certificates."""
    tls = f'cert_file: "{made.server_cert}", key_file: "{made.server_key}", client_ca_file: "{made.ca_file}"'
    receivers = (
        f'receivers.otlp.protocols.{name}={{endpoint: "127.0.0.1:0", tls: {{{tls}}}}}' for name in ("grpc", "http")
    )
    with contextlib.closing(Toolgauge(tmp_path_factory.mktemp("mutual"), listen=(*LISTEN, *receivers))) as toolgauge:
        yield toolgauge.wait_until_up()


def refused(toolgauge: Toolgauge, beginning: str) -> str:
    """Wait for the one warning that begins so, and return it."""

    def warning() -> str | None:
        found = re.findall(rf"WARNING toolgauge\.receive: ({beginning}.*)", toolgauge.said())
        assert len(found) < 2, found
        return found[0] if found else None

    return until(warning, f"a warning that begins with `{beginning}`")


def send(port: int, data: bytes, context: ssl.SSLContext | None = None) -> str:
    """Send bytes, read until the end, and return the address that they came from."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        host, own_port = connection.getsockname()
        with (
            contextlib.suppress(OSError),
            connection if context is None else context.wrap_socket(connection, server_hostname="localhost") as stream,
        ):
            stream.sendall(data)
            while stream.recv(65536):
                pass
    return f"{host}:{own_port}"


def request(path: str, body: bytes, *headers: tuple[str, str], method: str = "POST") -> bytes:
    named = (("Host", "x"), ("Connection", "close"), ("Content-Length", str(len(body))), *headers)
    head = "".join(f"{name}: {value}\r\n" for name, value in named)
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


PROTOBUF = ("Content-Type", "application/x-protobuf")


def http(path: str, body: bytes, *headers: tuple[str, str], method: str = "POST") -> bytes:
    return request(path, body, PROTOBUF, *headers, method=method)


@each_row(
    ("data", "beginning", "to_set"),
    [
        (http("/v1/traces", b"b0dy", WRONG), "401, a valid token", "`receivers.otlp.protocols.http.auth`"),
        (http("/v1/traces", bytes(70_000), TOKEN), "413, ", "`receivers.otlp.protocols.http.max_request_body_size`"),
        (http("/v1/trace", BODY, TOKEN), "404, no such path", "`OTEL_EXPORTER_OTLP_ENDPOINT`"),
        (request("/v1/traces", b"b0dy", ("Content-Type", "text/plain"), TOKEN), "415, ", "=http/protobuf`"),
        (http("/v1/traces", b"b0dy", TOKEN), "400, the body is not OTLP", "an OTLP exporter"),
        (http("/v1/traces", b"b0dy", TOKEN, ("Content-Encoding", "gzip")), "400, the compressed", "COMPRESSION=gzip`"),
        (b"b0dy\r\n\r\n", "400, the request is not valid HTTP", "a proxy in between"),
        (http("/v1/traces", b"", method="GET"), "405, only POST is served here", "`admin.endpoint`"),
    ],
)
def test_a_refused_request_over_http_is_logged_with_address_and_setting(
    guarded: Toolgauge, data: bytes, beginning: str, to_set: str
):
    peers = [send(guarded.http_port, data) for _ in range(3)]
    line = refused(guarded, rf"refused \S+ over HTTP: {beginning}")
    assert line.startswith(f"refused {peers[0]} over HTTP: ")
    assert to_set in line
    assert not re.search("s3cret|wr0ng|b0dy", guarded.said())


@each_row(
    ("method", "body", "token", "beginning", "to_set"),
    [
        (TRACES, BODY, WRONG, "UNAUTHENTICATED, a valid token", "`receivers.otlp.protocols.grpc.auth`"),
        (TRACES, bytes(70_000), TOKEN, "RESOURCE_EXHAUSTED, ", "`receivers.otlp.protocols.grpc.max_recv_msg_size`"),
        (TRACES, b"b0dy", TOKEN, "INVALID_ARGUMENT, the body is not OTLP", "an OTLP exporter"),
        ("/jaeger.api_v2.CollectorService/PostSpans", BODY, TOKEN, "UNIMPLEMENTED, no such method", "a Collector"),
    ],
)
def test_a_refused_call_over_grpc_is_logged_with_address_and_setting(
    guarded: Toolgauge, method: str, body: bytes, token: tuple[str, str], beginning: str, to_set: str
):
    with grpc.insecure_channel(f"127.0.0.1:{guarded.grpc_port}") as channel:
        for _ in range(3):
            with pytest.raises(grpc.RpcError):
                channel.unary_unary(method)(body, timeout=60, metadata=(token,))
    line = refused(guarded, rf"refused 127\.0\.0\.1:\d+ over gRPC: {beginning}")
    assert to_set in line
    assert not re.search("s3cret|wr0ng|b0dy", guarded.said())


def test_failed_handshakes_of_http_are_logged_with_address_and_setting(
    mutual: Toolgauge, made: Certificates, tmp_path: Path
):
    stranger = certificates(tmp_path)
    without = ssl.create_default_context(cafile=str(made.ca_file))
    of_another_authority = ssl.create_default_context(cafile=str(made.ca_file))
    of_another_authority.load_cert_chain(stranger.client_cert, stranger.client_key)
    distrusting = ssl.create_default_context(cafile=str(stranger.ca_file))
    distrusting.load_cert_chain(made.client_cert, made.client_key)
    for context in (without, of_another_authority, distrusting):
        send(mutual.http_port, http("/v1/traces", BODY), context)
    line = refused(mutual, r"refused 127\.0\.0\.1:\d+ over HTTP: it has no client certificate; ")
    assert "`OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE`" in line
    line = refused(mutual, r"refused 127\.0\.0\.1:\d+ over HTTP: its client certificate is not valid; ")
    assert "`receivers.otlp.protocols.http.tls.client_ca_file`" in line
    line = refused(mutual, r"refused 127\.0\.0\.1:\d+ over HTTP: it does not trust our certificate; ")
    assert "`OTEL_EXPORTER_OTLP_CERTIFICATE`" in line


def test_grpc_over_tls_to_the_port_for_http_is_logged(mutual: Toolgauge, made: Certificates):
    credentials = grpc.ssl_channel_credentials(
        made.ca_file.read_bytes(), made.client_key.read_bytes(), made.client_cert.read_bytes()
    )
    with (
        grpc.secure_channel(f"localhost:{mutual.http_port}", credentials) as channel,
        pytest.raises(grpc.RpcError, match=r"Trying to connect an http1\.x server"),
    ):
        channel.unary_unary(TRACES)(BODY, timeout=60)
    line = refused(mutual, f"a sender speaks gRPC to port {mutual.http_port}, which takes OTLP over HTTP: ")
    assert "`receivers.otlp.protocols.grpc.endpoint`" in line


def test_a_sender_of_grpc_with_a_certificate_and_a_health_check_that_only_connects_are_not_logged(
    mutual: Toolgauge, made: Certificates
):
    before = mutual.said().count("WARNING toolgauge.receive")
    socket.create_connection(("127.0.0.1", mutual.http_port), timeout=60).close()
    send(mutual.http_port, b"")
    credentials = grpc.ssl_channel_credentials(
        made.ca_file.read_bytes(), made.client_key.read_bytes(), made.client_cert.read_bytes()
    )
    with grpc.secure_channel(f"127.0.0.1:{mutual.grpc_port}", credentials) as channel:
        assert channel.unary_unary(TRACES)(BODY, timeout=60) == b""
    assert mutual.said().count("WARNING toolgauge.receive") == before
