"""The answer to a request that was not taken, for both transports.

Retryable or not is decided here and nowhere else: a sender drops a request after one kind of answer and
sends it again after the other. Every answer carries a `google.rpc.Status`.
"""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode

from toolgauge.model.delivery import Invalid, InvalidReason, Refused, Unsupported

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
