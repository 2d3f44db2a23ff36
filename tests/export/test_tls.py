"""TLS to a destination, over both transports."""

import logging
import ssl
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import grpc
import pytest

from tests.certificates import Certificates, certificates
from tests.export.fakes import MS, OK, Seen, always, grpc_sink, http_sink, request, sending, until
from toolgauge.export.settings import Transport
from toolgauge.net.settings import ClientTls
from toolgauge.net.tls import tls_cause

both = pytest.mark.parametrize("protocol", ["grpc", "http"])


@pytest.fixture
def made(tmp_path: Path) -> Certificates:
    return certificates(tmp_path)


def secure_sink(protocol: Transport, made: Certificates, *, mutual: bool = False) -> AbstractAsyncContextManager[Seen]:
    if protocol == "grpc":
        pair = [(made.server_key.read_bytes(), made.server_cert.read_bytes())]
        authority = made.ca_file.read_bytes() if mutual else None
        credentials = grpc.ssl_server_credentials(pair, authority, require_client_auth=mutual)
        return grpc_sink(always(OK), credentials=credentials)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(made.ca_file) if mutual else None)
    context.load_cert_chain(made.server_cert, made.server_key)
    if mutual:
        context.verify_mode = ssl.CERT_REQUIRED
    return http_sink(always(OK), context)


@both
async def test_requests_arrive_over_tls_also_where_the_certificate_has_another_name(
    protocol: Transport, made: Certificates
):
    made.renew_server("elsewhere.example")
    tls = ClientTls(ca_file=str(made.ca_file), server_name_override="elsewhere.example")
    async with secure_sink(protocol, made) as seen, sending(seen.endpoint, protocol=protocol, tls=tls) as out:
        out.destination.put(request(b"\n\0", spans=2))
        await until(lambda: out.destination.queue.spans == 0)
    assert out.spans() == {("forwarded", "", "otlp"): 2}


@both
async def test_client_certificate_is_shown_where_it_is_asked_for(protocol: Transport, made: Certificates):
    tls = ClientTls(ca_file=str(made.ca_file), cert_file=str(made.client_cert), key_file=str(made.client_key))
    async with (
        secure_sink(protocol, made, mutual=True) as seen,
        sending(seen.endpoint, protocol=protocol, tls=tls) as out,
    ):
        out.destination.put(request(b"\n\0"))
        await until(lambda: out.destination.queue.spans == 0)
    assert out.spans() == {("forwarded", "", "otlp"): 1}


FAULTS: dict[str, tuple[Callable[[Certificates], object], str]] = {
    "expired": (lambda made: made.renew_server(lasts_days=(-9, -2)), "its certificate has expired"),
    "early": (lambda made: made.renew_server(lasts_days=(2, 9)), "its certificate is not yet valid"),
    "host": (lambda made: made.renew_server("elsewhere.example"), "its certificate is for another host name"),
    "issuer": (lambda made: certificates(made.ca_file.parent), "its certificate is from an issuer that is not trusted"),
    "self-signed": (Certificates.sign_itself, "its certificate is self-signed and not trusted"),
}


@both
@pytest.mark.parametrize("fault", FAULTS)
async def test_the_log_says_why_a_certificate_is_not_accepted(
    protocol: Transport, made: Certificates, tmp_path: Path, fault: str, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING, "toolgauge.export")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(made.ca_file.read_bytes())
    spoil, cause = FAULTS[fault]
    spoil(made)
    async with (
        secure_sink(protocol, made) as seen,
        sending(
            f"https://localhost:{seen.endpoint.rpartition(':')[2]}",
            protocol=protocol,
            tls=ClientTls(ca_file=str(trusted)),
        ) as out,
    ):
        out.destination.put(request(b"\n\0"))
        await until(lambda: sum(out.failures().values()) > 2)
    said = [record.getMessage() for record in caplog.records if "does not accept requests" in record.getMessage()]
    assert (len(said), seen.arrived, set(out.failures())) == (1, [], {("otlp", "traces", "tls")})
    assert f"(tls: {cause}" in said[0]


@both
@pytest.mark.parametrize("shown", [False, True])
async def test_the_log_says_that_a_client_certificate_may_be_missing_or_refused(
    protocol: Transport, made: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, shown: bool
):
    caplog.set_level(logging.WARNING, "toolgauge.export")
    (tmp_path / "other").mkdir()
    other = certificates(tmp_path / "other")
    cert, key = (str(other.client_cert), str(other.client_key)) if shown else (None, None)
    tls = ClientTls(ca_file=str(made.ca_file), cert_file=cert, key_file=key)
    async with (
        secure_sink(protocol, made, mutual=True) as seen,
        sending(seen.endpoint, protocol=protocol, tls=tls) as out,
    ):
        out.destination.put(request(b"\n\0"))
        await until(lambda: "client certificate" in caplog.text)
    assert "is a client certificate missing or refused? See `tls.cert_file`" in caplog.text


@both
async def test_the_log_says_that_a_destination_does_not_speak_tls(
    protocol: Transport, made: Certificates, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING, "toolgauge.export")
    plain = grpc_sink(always(OK)) if protocol == "grpc" else http_sink(always(OK))
    async with plain as seen:
        port = seen.endpoint.rpartition(":")[2].strip("/")
        async with sending(
            f"https://localhost:{port}", protocol=protocol, tls=ClientTls(ca_file=str(made.ca_file))
        ) as out:
            out.destination.put(request(b"\n\0"))
            await until(lambda: bool(out.failures()))
    assert "(tls: it does not answer in TLS: is the port right?)" in caplog.text


def test_a_reason_is_found_in_what_any_library_writes():
    assert tls_cause("[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required").startswith(
        "it asks for a client certificate"
    )
    assert tls_cause("OPENSSL_internal:TLSV1_ALERT_PROTOCOL_VERSION: OK") == (
        "it shares no version of TLS: see `tls.min_version`"
    )
    assert tls_cause("self signed certificate in certificate chain").startswith("its certificate is from an issuer")
    assert tls_cause("Cannot check peer: missing selected ALPN property.").startswith("it does not offer HTTP/2")
    assert not tls_cause("Socket closed")


@both
async def test_renewed_authority_is_trusted_without_a_restart(protocol: Transport, made: Certificates, tmp_path: Path):
    (tmp_path / "other").mkdir()
    other = certificates(tmp_path / "other")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(other.ca_file.read_bytes())
    async with (
        secure_sink(protocol, made) as seen,
        sending(
            seen.endpoint,
            protocol=protocol,
            tls=ClientTls(ca_file=str(trusted), reload_interval=50 * MS),
            timeout=1000 * MS,
        ) as out,
    ):
        out.destination.put(request(b"\n\0"))
        await until(lambda: bool(out.failures()))
        trusted.write_bytes(made.ca_file.read_bytes())
        await until(lambda: out.destination.queue.spans == 0)
    assert out.spans() == {("forwarded", "", "otlp"): 1}
