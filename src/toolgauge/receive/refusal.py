"""The answer to a request that was not taken, for both transports.

Retryable or not is decided here and nowhere else: a sender drops a request after one kind of answer and
sends it again after the other. Every answer carries a `google.rpc.Status`.
"""

import logging
import math
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode

from toolgauge.model.delivery import Invalid, InvalidReason, Refused, Unsupported
from toolgauge.net.throttle import Throttle, repetitions

Outcome: TypeAlias = Literal[
    "accepted", "refused", "invalid", "unsupported", "too_large", "unread", "unauthenticated", "loop", "error"
]

# The message travels in a gRPC header, percent-encoded; headers end at 8 KiB.
_MAX_MESSAGE = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One refusal in the words of both transports. `retry_after_s` is `None` unless the sender should come back.

    `invalid_reason` is `None` for all outcomes but `invalid`.
    """

    outcome: Outcome
    code: StatusCode
    http_status: int
    message: str
    retry_after_s: float | None = None
    invalid_reason: InvalidReason | None = None

    def status(self) -> bytes:
        """Encode as `google.rpc.Status`."""
        return self.status_message().SerializeToString()

    def status_message(self) -> Status:
        """Make the `google.rpc.Status`, with RetryInfo when the sender should come back."""
        status = Status(code=self.code.value[0], message=self.short_message())
        if self.retry_after_s is not None:
            # RetryInfo holds whole nanoseconds; as milliseconds it stays readable in a packet dump.
            delay = Duration()
            delay.FromMilliseconds(math.ceil(self.retry_after_s * 1000))
            status.details.add().Pack(RetryInfo(retry_delay=delay))
        return status

    def short_message(self) -> str:
        """Cut the message to what a header can carry."""
        return self.message if len(self.message) <= _MAX_MESSAGE else self.message[: _MAX_MESSAGE - 3] + "..."


def refusal(answer: Refused | Invalid | Unsupported) -> Refusal:
    """Translate a consumer's answer for both transports."""
    match answer:
        case Refused(message=message, retry_after_s=retry_after_s):
            return Refusal(
                outcome="refused",
                code=StatusCode.UNAVAILABLE,
                http_status=503,
                message=message,
                retry_after_s=max(0.0, retry_after_s),
            )
        case Invalid(message=message, reason=reason):
            return invalid(message, reason=reason)
        case Unsupported(message=message):
            return Refusal(outcome="unsupported", code=StatusCode.UNIMPLEMENTED, http_status=404, message=message)


def invalid(message: str, *, http_status: int = 400, reason: InvalidReason = "transport") -> Refusal:
    """The request is broken and will stay so."""
    return Refusal(
        outcome="invalid",
        code=StatusCode.INVALID_ARGUMENT,
        http_status=http_status,
        message=message,
        invalid_reason=reason,
    )


def too_large(limit: int) -> Refusal:
    """The request is over the limit; without RetryInfo, so that the sender drops it."""
    return Refusal(
        outcome="too_large",
        code=StatusCode.RESOURCE_EXHAUSTED,
        http_status=413,
        message=f"the request is larger than the limit of {limit} bytes",
    )


def unauthenticated() -> Refusal:
    """The sender has not shown a token that is known here."""
    return Refusal(
        outcome="unauthenticated",
        code=StatusCode.UNAUTHENTICATED,
        http_status=401,
        message="a valid token is needed",
    )


def loop() -> Refusal:
    """What we sent has come back to us."""
    return Refusal(
        outcome="loop",
        code=StatusCode.FAILED_PRECONDITION,
        http_status=400,
        message="loop: this request was sent by this very toolgauge",
    )


def failed(error: Exception) -> Refusal:
    """We failed on the request. Short of memory may pass; a fault of ours will not."""
    if isinstance(error, MemoryError):
        return Refusal(
            outcome="error",
            code=StatusCode.UNAVAILABLE,
            http_status=503,
            message="out of memory",
            retry_after_s=5.0,
        )
    return Refusal(outcome="error", code=StatusCode.INTERNAL, http_status=500, message="internal error")


Transport: TypeAlias = Literal["grpc", "http"]

_log = logging.getLogger("toolgauge.receive")
_NAMES: dict[Transport, str] = {"grpc": "gRPC", "http": "HTTP"}
_SECTIONS: dict[Transport, str] = {"grpc": "receivers.otlp.protocols.grpc", "http": "receivers.otlp.protocols.http"}
_LIMITS: dict[Transport, str] = {"grpc": "max_recv_msg_size", "http": "max_request_body_size"}

# By HTTP status, or for status 400 by reason. Other refusals (queue full, memory short, a signal that is not forwarded) are no mistakes of
# a sender, and are logged elsewhere or only counted.
_ADVICE = {
    "401": "send the header of `{section}.auth` (by default `Authorization: Bearer <token>`), for example with "
    "`OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20<token>`",
    "404": "set `OTEL_EXPORTER_OTLP_ENDPOINT` to the address without a path, to which exporters add their own, or "
    "`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` to the whole URL with `/v1/traces`",
    "405": "send OTLP with POST; a health check belongs to `admin.endpoint`",
    "408": "send smaller batches, or look for a slow network or proxy in between",
    "413": "send smaller batches (`OTEL_BSP_MAX_EXPORT_BATCH_SIZE`), or raise `{section}.{limit}`",
    "415": "set `OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf` and `OTEL_EXPORTER_OTLP_COMPRESSION=gzip` in the sender",
    "transport": "send with an OTLP exporter, and look for a proxy in between that changes requests",
    "compression": "set `OTEL_EXPORTER_OTLP_COMPRESSION=gzip` in the sender",
    "undecodable": "send with an OTLP exporter, best with `OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf` or `grpc`",
    "wrong_signal": "send each signal to its own path: check `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, `..._LOGS_ENDPOINT` and "
    "`..._METRICS_ENDPOINT` of the sender",
    "unknown_keys": "write OTLP's JSON, with keys such as `resourceSpans`, or set `OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf`",
    "loop": "let `exporters.otlp` send to the next hop, not to an address from which requests come back",
}
# The messages of these to the sender may quote its body.
_DESCRIPTIONS = {
    "undecodable": "the body is not OTLP",
    "wrong_signal": "the body holds another signal than its path or method names",
    "unknown_keys": "the JSON of the body has none of OTLP's keys",
}
_METHOD_ADVICE = "send OTLP with an exporter for OTLP over gRPC; other protocols need a Collector in between"

# What a TLS client, and one that speaks HTTP/2 without asking, such as gRPC's, begin with.
_TLS_RECORD = b"\x16\x03"
_HTTP2_PREFACE = b"PRI * HTTP/2.0"
_PLAIN_PORT_ADVICE = "set `http://` in the sender's endpoint (in a Collector `tls.insecure: true`), or give this port a certificate with `{section}.tls`"
_NO_CALL_ADVICE = (
    "set `https://` in the sender, the authority of `{section}.tls.cert_file`, and with `{section}.tls.client_ca_file` a client "
    "certificate; with `GRPC_VERBOSITY=info` in the environment of toolgauge, gRPC writes its own reason to standard error"
)
_GRPC_PORT_ADVICE = "point it to the port of `receivers.otlp.protocols.grpc.endpoint`, or let it send `http/protobuf`"
_PLAIN_TEXT = "it does not speak TLS, and this port does"
_PLAIN_TEXT_ADVICE = "set `https://` in the sender's endpoint, or remove `{section}.tls`"
# The causes of a failed handshake by words in OpenSSL's name for it, the first that matches.
_HANDSHAKES = (
    (
        ("HTTP_REQUEST", "HTTPS_PROXY_REQUEST"),
        "plain_text",
        _PLAIN_TEXT,
        _PLAIN_TEXT_ADVICE,
    ),
    # Rule: OpenSSL names plain HTTP/1 and nothing else, so any other plain text may be gRPC, which belongs to another port.
    (
        ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE"),
        "plain_text",
        _PLAIN_TEXT,
        f"if it speaks gRPC, {_GRPC_PORT_ADVICE}; else {_PLAIN_TEXT_ADVICE}",
    ),
    (
        ("PEER_DID_NOT_RETURN_A_CERTIFICATE",),
        "no_client_certificate",
        "it has no client certificate",
        "set `OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE` and `OTEL_EXPORTER_OTLP_CLIENT_KEY` in the sender (in a Collector `tls.cert_file` and "
        "`tls.key_file`), or remove `{section}.tls.client_ca_file`",
    ),
    (
        ("CERTIFICATE_VERIFY_FAILED",),
        "client_certificate",
        "its client certificate is not valid",
        "use a certificate in the sender that an authority in `{section}.tls.client_ca_file` has signed, and that has not expired",
    ),
    (
        ("ALERT_UNKNOWN_CA", "ALERT_BAD_CERTIFICATE", "ALERT_CERTIFICATE", "ALERT_UNSUPPORTED_CERTIFICATE"),
        "server_certificate",
        "it does not trust our certificate",
        "set `OTEL_EXPORTER_OTLP_CERTIFICATE` in the sender (in a Collector `tls.ca_file`) to the authority of `{section}.tls.cert_file`, "
        "and check that the certificate names the sender's host for us and has not expired",
    ),
    (
        ("PROTOCOL", "VERSION", "NO_SHARED_CIPHER"),
        "tls_version",
        "it has no version of TLS or cipher in common with us",
        "raise the version of TLS in the sender, or lower `{section}.tls.min_version`",
    ),
)


class RefusalLog:
    """Logs one WARNING a minute at most for each transport and cause, with the number of refusals in between.

    All receivers of a process share one. `clock` is monotonic, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._throttle = Throttle(clock=clock)

    def request(self, transport: Transport, refused: Refusal, peer: str | None) -> None:
        """Log a refused request, unless the refusal is no mistake of the sender."""
        cause = str(refused.http_status)
        if cause == "400":
            cause = refused.invalid_reason or refused.outcome
        # A signal that is not forwarded is answered with 404, too.
        if cause in _ADVICE and refused.outcome != "unsupported":
            described = _DESCRIPTIONS.get(cause, refused.message)
            self._refused(transport, cause, peer, f"{_answer(transport, refused)}, {described}", _ADVICE[cause])

    def path(self, transport: Transport, refused: Refusal, peer: str | None) -> None:
        """Log a request with an unknown path of HTTP, or method of gRPC."""
        described = f"{_answer(transport, refused)}, {refused.message}"
        self._refused(transport, "404", peer, described, _ADVICE["404"] if transport == "http" else _METHOD_ADVICE)

    def handshake(self, transport: Transport, error: ssl.SSLError, peer: str | None) -> None:
        """Log a failed TLS handshake, unless the client only went away, as health checks of TCP do."""
        if isinstance(error, ssl.SSLEOFError):
            return
        reason = error.reason or ""
        for words, cause, described, advice in _HANDSHAKES:
            if any(word in reason for word in words):
                self._refused(transport, cause, peer, described, advice)
                return
        # OpenSSL's own name: one of a closed set.
        described = f"the TLS handshake failed: {reason.lower().replace('_', ' ') or 'unknown error'}"
        self._refused(transport, "tls", peer, described, "look into the log of the sender")

    def first_bytes(self, data: bytes, peer: str | None, port: int) -> bool:
        """Log a client of a plain port for HTTP whose first bytes are those of TLS or of gRPC; False for all others."""
        if data.startswith(_TLS_RECORD):
            self._refused(
                "http", "tls_on_plain_port", peer, "it speaks TLS, and this port does not", _PLAIN_PORT_ADVICE
            )
            return True
        if data.startswith(_HTTP2_PREFACE):
            text = f"a sender speaks gRPC to port {port}, which takes OTLP over HTTP: {_GRPC_PORT_ADVICE}"
            self._warn("http", "grpc_on_http", peer, text)
            return True
        return False

    def no_call(self, within_s: int) -> None:
        """Log connections to a TLS port of gRPC that bring no call; gRPC does not report why."""
        described = f"a connection brought no call within {within_s} s, probably because of its TLS handshake"
        self._refused("grpc", "no_call", None, described, _NO_CALL_ADVICE)

    def _refused(self, transport: Transport, cause: str, peer: str | None, described: str, advice: str) -> None:
        to_set = advice.format(section=_SECTIONS[transport], limit=_LIMITS[transport])
        text = f"refused {peer or 'a sender'} over {_NAMES[transport]}: {described}; {to_set}"
        self._warn(transport, cause, peer, text)

    def _warn(self, transport: Transport, cause: str, peer: str | None, text: str) -> None:
        suppressed = self._throttle.suppressed(f"{transport} {cause}")
        if suppressed is not None:
            extra = {"transport": transport, "peer": peer, "cause": cause, "suppressed": suppressed}
            _log.warning("%s%s", text, repetitions(suppressed), extra=extra)


def _answer(transport: Transport, refused: Refusal) -> str:
    return str(refused.http_status) if transport == "http" else refused.code.name
