"""The answer to a refused request, for both transports, and the log of refused senders.

Retryable or not is decided only here. The log names the sender's address, the cause and the setting that helps
(`refusal_advice.json`), each cause once a minute. Headers, paths and bodies may hold secrets and are never shown.
"""

import logging
import math
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode
from msgspec import Struct

from toolgauge.model.delivery import Invalid, Refused, Unsupported
from toolgauge.model.errors import InvalidReason
from toolgauge.net.throttle import Throttle, repetitions

Outcome: TypeAlias = Literal[
    "accepted", "refused", "invalid", "unsupported", "too_large", "unread", "unauthenticated", "loop", "error"
]

# The message travels in a gRPC header, percent-encoded; headers end at 8 KiB.
_MAX_MESSAGE = 400


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal for both transports; `retry_after_s` if the sender may retry, `invalid_reason` for the outcome `invalid`."""

    outcome: Outcome
    code: StatusCode
    http_status: int
    message: str
    retry_after_s: float | None = None
    invalid_reason: InvalidReason | None = None

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
            wait_s = max(0.0, retry_after_s)
            return Refusal("refused", StatusCode.UNAVAILABLE, 503, message, retry_after_s=wait_s)
        case Invalid(message=message, reason=reason):
            return invalid(message, reason=reason)
        case Unsupported(message=message):
            return Refusal("unsupported", StatusCode.UNIMPLEMENTED, 404, message)


def invalid(message: str, *, http_status: int = 400, reason: InvalidReason = "transport") -> Refusal:
    """The request is broken and will stay so."""
    return Refusal("invalid", StatusCode.INVALID_ARGUMENT, http_status, message, invalid_reason=reason)


def too_large(limit: int) -> Refusal:
    """The request is over the limit; without RetryInfo, so that the sender drops it."""
    message = f"the request is larger than the limit of {limit} bytes"
    return Refusal("too_large", StatusCode.RESOURCE_EXHAUSTED, 413, message)


TOO_MUCH_MEMORY = Refusal(
    "too_large", StatusCode.RESOURCE_EXHAUSTED, 413, "reading the request takes more memory than `memory.limit` leaves"
)
UNAUTHENTICATED = Refusal("unauthenticated", StatusCode.UNAUTHENTICATED, 401, "a valid token is needed")
LOOP = Refusal("loop", StatusCode.FAILED_PRECONDITION, 400, "loop: this request was sent by this very toolgauge")


def failed(error: Exception) -> Refusal:
    """We failed on the request. Short of memory may pass; a fault of ours will not."""
    if isinstance(error, MemoryError):
        return Refusal("error", StatusCode.UNAVAILABLE, 503, "out of memory", retry_after_s=5.0)
    return Refusal("error", StatusCode.INTERNAL, 500, "internal error")


Transport: TypeAlias = Literal["grpc", "http"]


class _Handshake(Struct, frozen=True, forbid_unknown_fields=True):
    # Words in OpenSSL's name for the cause of a failed handshake.
    words: tuple[str, ...]
    cause: str
    described: str
    advice: str


class _Advice(Struct, frozen=True, forbid_unknown_fields=True):
    # By HTTP status, or for status 400 by reason. Other refusals (queue full, memory short, a signal that is not forwarded) are
    # not mistakes of a sender, and are logged elsewhere or only counted.
    advice: dict[str, str]
    # In place of messages to the sender that may quote its body.
    descriptions: dict[str, str]
    method: str
    plain_port: str
    grpc_port: str
    # The first that matches. OpenSSL names plain HTTP/1 and nothing else, so any other plain text may be gRPC, for another port.
    handshakes: tuple[_Handshake, ...]


_log = logging.getLogger("toolgauge.receive")
_ADVICE = msgspec.json.decode(Path(__file__).with_name("refusal_advice.json").read_bytes(), type=_Advice)
_NAMES: dict[Transport, str] = {"grpc": "gRPC", "http": "HTTP"}
_LIMITS: dict[Transport, str] = {"grpc": "max_recv_msg_size", "http": "max_request_body_size"}
# The first bytes of a TLS client, and of one that speaks HTTP/2 without asking, such as gRPC's.
_TLS_RECORD = b"\x16\x03"
_HTTP2_PREFACE = b"PRI * HTTP/2.0"


class RefusalLog:
    """Warns once a minute at most for each transport and cause; shared by all receivers. `clock` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._throttle = Throttle(clock=clock)

    def request(self, transport: Transport, refused: Refusal, peer: str | None) -> None:
        """Log a refused request, if it is a mistake of the sender."""
        cause = str(refused.http_status)
        if cause == "400":
            cause = refused.invalid_reason or refused.outcome
        # A signal that is not forwarded is answered with 404, too.
        if cause in _ADVICE.advice and refused.outcome != "unsupported":
            described = _ADVICE.descriptions.get(cause, refused.message)
            described = f"{_answer(transport, refused)}, {described}"
            self._refused(transport, cause, peer, described, _ADVICE.advice[cause])

    def path(self, transport: Transport, refused: Refusal, peer: str | None) -> None:
        """Log a request with an unknown path of HTTP, or method of gRPC."""
        described = f"{_answer(transport, refused)}, {refused.message}"
        advice = _ADVICE.advice["404"] if transport == "http" else _ADVICE.method
        self._refused(transport, "404", peer, described, advice)

    def handshake(self, transport: Transport, error: ssl.SSLError, peer: str | None) -> None:
        """Log a failed TLS handshake, unless the client only went away, as health checks of TCP do."""
        if isinstance(error, ssl.SSLEOFError):
            return
        reason = error.reason or ""
        for known in _ADVICE.handshakes:
            if any(word in reason for word in known.words):
                self._refused(transport, known.cause, peer, known.described, known.advice)
                return
        # OpenSSL's own name: one of a closed set.
        described = f"the TLS handshake failed: {reason.lower().replace('_', ' ') or 'unknown error'}"
        self._refused(transport, "tls", peer, described, "look into the log of the sender")

    def first_bytes(self, data: bytes, peer: str | None, port: int) -> bool:
        """Log a client of a plain port for HTTP whose first bytes are TLS or gRPC; False for all others."""
        if data.startswith(_TLS_RECORD):
            described = "it speaks TLS, and this port does not"
            self._refused("http", "tls_on_plain_port", peer, described, _ADVICE.plain_port)
            return True
        if data.startswith(_HTTP2_PREFACE):
            text = f"a sender speaks gRPC to port {port}, which takes OTLP over HTTP: {_ADVICE.grpc_port}"
            self._warn("http", "grpc_on_http", peer, text)
            return True
        return False

    def _refused(self, transport: Transport, cause: str, peer: str | None, described: str, advice: str) -> None:
        to_set = advice.format(section=f"receivers.otlp.protocols.{transport}", limit=_LIMITS[transport])
        text = f"refused {peer or 'a sender'} over {_NAMES[transport]}: {described}; {to_set}"
        self._warn(transport, cause, peer, text)

    def _warn(self, transport: Transport, cause: str, peer: str | None, text: str) -> None:
        suppressed = self._throttle.suppressed(f"{transport} {cause}")
        if suppressed is not None:
            extra = {"transport": transport, "peer": peer, "cause": cause, "suppressed": suppressed}
            _log.warning("%s%s", text, repetitions(suppressed), extra=extra)


def _answer(transport: Transport, refused: Refusal) -> str:
    return str(refused.http_status) if transport == "http" else refused.code.name
