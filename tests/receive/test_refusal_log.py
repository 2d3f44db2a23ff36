"""Refused senders are logged once a minute for each transport and cause, and nothing that they sent is shown."""

import ssl

import pytest

from toolgauge.model.delivery import Refused, Unsupported
from toolgauge.receive.refusal import UNAUTHENTICATED, RefusalLog, invalid, refusal, too_large


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_a_cause_is_logged_once_a_minute_with_the_number_in_between(caplog: pytest.LogCaptureFixture):
    now_s = [0.0]
    log = RefusalLog(lambda: now_s[0])
    for number in range(42):
        log.request("http", UNAUTHENTICATED, f"10.0.0.1:{number}")
    now_s[0] = 59.9
    log.request("http", UNAUTHENTICATED, "10.0.0.1:98")
    assert len(lines(caplog)) == 1
    now_s[0] = 60.0
    log.request("http", UNAUTHENTICATED, "10.0.0.1:99")
    first, second = lines(caplog)
    assert first.startswith("refused 10.0.0.1:0 over HTTP: 401, a valid token is needed; ")
    assert second == first.replace("10.0.0.1:0", "10.0.0.1:99") + " (42 more since the last such line)"


def test_causes_and_transports_are_logged_apart(caplog: pytest.LogCaptureFixture):
    log = RefusalLog(lambda: 0.0)
    for transport in ("grpc", "http"):
        log.request(transport, UNAUTHENTICATED, "10.0.0.1:1")
        log.request(transport, too_large(1024), "10.0.0.1:1")
    assert [line.split("; ")[0] for line in lines(caplog)] == [
        "refused 10.0.0.1:1 over gRPC: UNAUTHENTICATED, a valid token is needed",
        "refused 10.0.0.1:1 over gRPC: RESOURCE_EXHAUSTED, the request is larger than the limit of 1024 bytes",
        "refused 10.0.0.1:1 over HTTP: 401, a valid token is needed",
        "refused 10.0.0.1:1 over HTTP: 413, the request is larger than the limit of 1024 bytes",
    ]


@pytest.mark.parametrize("answer", [Refused("the queue is full"), Unsupported("metrics are not accepted here")])
def test_a_refusal_that_is_no_mistake_of_the_sender_is_not_logged(
    answer: Refused | Unsupported, caplog: pytest.LogCaptureFixture
):
    RefusalLog(lambda: 0.0).request("http", refusal(answer), "10.0.0.1:1")
    assert lines(caplog) == []


@pytest.mark.parametrize("reason", ["undecodable", "wrong_signal", "unknown_keys"])
def test_a_message_that_may_quote_the_body_is_not_shown(reason: str, caplog: pytest.LogCaptureFixture):
    refused = invalid("not JSON: s3cret", reason=reason)  # pyright: ignore[reportArgumentType]
    RefusalLog(lambda: 0.0).request("http", refused, "10.0.0.1:1")
    assert len(lines(caplog)) == 1
    assert "s3cret" not in caplog.text


def test_an_unknown_path_is_plainly_claimed_without_the_path_which_may_hold_a_secret(caplog: pytest.LogCaptureFixture):
    RefusalLog(lambda: 0.0).path("http", refusal(Unsupported("no such path")), "10.0.0.1:1")
    (line,) = lines(caplog)
    assert line.startswith("refused 10.0.0.1:1 over HTTP: 404, no such path; set `OTEL_EXPORTER_OTLP_ENDPOINT`")


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("HTTP_REQUEST", "plain_text"),
        ("WRONG_VERSION_NUMBER", "plain_text"),
        ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "no_client_certificate"),
        ("CERTIFICATE_VERIFY_FAILED", "client_certificate"),
        ("TLSV1_ALERT_UNKNOWN_CA", "server_certificate"),
        ("SSLV3_ALERT_CERTIFICATE_EXPIRED", "server_certificate"),
        ("UNSUPPORTED_PROTOCOL", "tls_version"),
        ("TLSV1_ALERT_PROTOCOL_VERSION", "tls_version"),
        ("NO_SHARED_CIPHER", "tls_version"),
        ("BAD_SIGNATURE", "tls"),
    ],
)
def test_causes_of_a_failed_handshake(reason: str, cause: str, caplog: pytest.LogCaptureFixture):
    error = ssl.SSLError(1, "text of OpenSSL")
    error.reason = reason
    RefusalLog(lambda: 0.0).handshake("http", error, "10.0.0.1:1")
    (record,) = caplog.records
    assert (record.levelname, vars(record)["cause"], vars(record)["peer"]) == ("WARNING", cause, "10.0.0.1:1")


@pytest.mark.parametrize(
    ("reason", "names_grpc"), [("HTTP_REQUEST", False), ("WRONG_VERSION_NUMBER", True), ("RECORD_LAYER_FAILURE", True)]
)
def test_plain_text_that_is_not_http_1_may_be_grpc(reason: str, names_grpc: bool, caplog: pytest.LogCaptureFixture):  # noqa: FBT001 (a test's table)
    error = ssl.SSLError(1, reason)
    error.reason = reason
    RefusalLog(lambda: 0.0).handshake("http", error, "10.0.0.1:1")
    assert ("`receivers.otlp.protocols.grpc.endpoint`" in caplog.text, "`https://`" in caplog.text) == (
        names_grpc,
        True,
    )
