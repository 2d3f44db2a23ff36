"""A `toolgauge serve` that listens beyond loopback: a certificate or a token on every port, and both renewed in passing."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import contextlib
import http.client
import re
import signal
import ssl
from pathlib import Path

import grpc
import pytest

from tests.certificates import Certificates, certificates
from tests.wire.support import LISTEN, TRACES, Toolgauge, recorded, until

(BODY,) = recorded("pydantic-ai", "tool_error")
PATHS = {"http": "/v1/traces", "metrics": "/metrics", "admin": "/status"}


@pytest.fixture
def made(tmp_path: Path) -> Certificates:
    return certificates(tmp_path)


def configured(folder: Path, made: Certificates, bind: str) -> tuple[str, ...]:
    """Token and TLS on what speaks HTTP, client certificates for gRPC."""
    tls = f'cert_file: "{made.server_cert}", key_file: "{made.server_key}", reload_interval: 100ms'
    guarded = f'{{endpoint: "{bind}", tls: {{{tls}}}, auth: {{filename: "{folder / "tokens"}"}}}}'
    mutual = f'{{endpoint: "{bind}", tls: {{{tls}, client_ca_file: "{made.ca_file}"}}}}'
    return (
        f"receivers.otlp.protocols.grpc={mutual}",
        f"receivers.otlp.protocols.http={guarded}",
        f"exporters.prometheus={guarded}",
        f"admin={guarded}",
    )


def asked(toolgauge: Toolgauge, made: Certificates, name: str, token: str | None) -> int:
    """Ask one of the three that speak HTTP; return the status."""
    port = {"http": toolgauge.http_port, "metrics": toolgauge.metrics_port}.get(name) or admin_port(toolgauge)
    context = ssl.create_default_context(cafile=str(made.ca_file))
    connection = http.client.HTTPSConnection("localhost", port, timeout=60, context=context)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        if name == "http":
            connection.request("POST", PATHS[name], BODY, {**headers, "Content-Type": "application/x-protobuf"})
        else:
            connection.request("GET", PATHS[name], headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def admin_port(toolgauge: Toolgauge) -> int:
    found = until(lambda: re.search(r"health on port (\d+)", toolgauge.said()), "the port in the log")
    return int(found[1])


def export(toolgauge: Toolgauge, made: Certificates, *, with_certificate: bool) -> grpc.StatusCode:
    key, certificate = (
        (made.client_key.read_bytes(), made.client_cert.read_bytes()) if with_certificate else (None, None)
    )
    credentials = grpc.ssl_channel_credentials(made.ca_file.read_bytes(), key, certificate)
    with grpc.secure_channel(f"localhost:{toolgauge.grpc_port}", credentials) as channel:
        try:
            channel.unary_unary(TRACES)(BODY, timeout=60)
        except grpc.RpcError as error:
            return error.code()  # pyright: ignore[reportAttributeAccessIssue]
    return grpc.StatusCode.OK


def presented(port: int, made: Certificates) -> str:
    return ssl.get_server_certificate(("127.0.0.1", port), ca_certs=str(made.ca_file))


def test_nobody_gets_in_on_any_port_without_what_was_asked_for(tmp_path: Path, made: Certificates):
    (tmp_path / "tokens").write_text("first\n")
    with contextlib.closing(Toolgauge(tmp_path, listen=configured(tmp_path, made, "[::]:0"))) as toolgauge:
        toolgauge.wait_until_up()
        for name in PATHS:
            assert asked(toolgauge, made, name, None) == 401, name
            assert asked(toolgauge, made, name, "wrong") == 401, name
            assert asked(toolgauge, made, name, "first") == 200, name
        assert export(toolgauge, made, with_certificate=False) is grpc.StatusCode.UNAVAILABLE
        assert export(toolgauge, made, with_certificate=True) is grpc.StatusCode.OK
        assert "first" not in toolgauge.said()
        toolgauge.signal(signal.SIGTERM)
        assert toolgauge.ended() == 0


@pytest.mark.parametrize(
    ("endpoint", "addresses"),
    [("localhost:0", ("127.0.0.1", "[::1]")), ("[::]:0", ("[::1]",)), ("0.0.0.0:0", ("127.0.0.1",))],
)
def test_tls_of_grpc_serves_every_address_of_its_endpoint(
    endpoint: str, addresses: tuple[str, ...], tmp_path: Path, made: Certificates
):
    tls = f'cert_file: "{made.server_cert}", key_file: "{made.server_key}"'
    secured = f'receivers.otlp.protocols.grpc={{endpoint: "{endpoint}", insecure: true, tls: {{{tls}}}}}'
    with contextlib.closing(Toolgauge(tmp_path, listen=(*LISTEN, secured))) as toolgauge:
        toolgauge.wait_until_up()
        credentials = grpc.ssl_channel_credentials(made.ca_file.read_bytes())
        name = (("grpc.ssl_target_name_override", "localhost"),)
        for address in addresses:
            with grpc.secure_channel(f"{address}:{toolgauge.grpc_port}", credentials, name) as channel:
                assert channel.unary_unary(TRACES)(BODY, timeout=60) == b""


def test_tokens_and_certificates_are_renewed_on_every_port_while_it_runs(tmp_path: Path, made: Certificates):
    (tmp_path / "tokens").write_text("first\n")
    with contextlib.closing(Toolgauge(tmp_path, listen=configured(tmp_path, made, "127.0.0.1:0"))) as toolgauge:
        toolgauge.wait_until_up()
        ports = [toolgauge.http_port, toolgauge.metrics_port, admin_port(toolgauge)]
        before = {port: presented(port, made) for port in ports}
        (tmp_path / "tokens").write_text("second\n")
        renewed = made.renew_server().decode()
        for port in ports:
            until(lambda port=port: presented(port, made) not in ("", before[port]), "another certificate")
            assert presented(port, made).split() == renewed.split()
        for name in PATHS:
            until(lambda name=name: asked(toolgauge, made, name, "second") == 200, f"the other token for {name}")
            assert asked(toolgauge, made, name, "first") == 401, name
        assert export(toolgauge, made, with_certificate=True) is grpc.StatusCode.OK
