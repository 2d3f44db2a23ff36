"""One attempt to send a request over gRPC."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import contextlib
import re
from collections.abc import Iterator

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode

from toolgauge.export.sender import (
    CONNECTION_REFUSED,
    MAX_RESPONSE_BYTES,
    UNKNOWN_HOST,
    Permanent,
    Transient,
    Verdict,
    delivered,
    is_on_this_machine,
    target,
)
from toolgauge.export.settings import DestinationSettings
from toolgauge.model.delivery import Signal
from toolgauge.net.settings import ClientTls
from toolgauge.net.tls import CLOSED, client_context, read_pem, tls_cause
from toolgauge.otlp.request import SERVICES
from toolgauge.settings import SECOND, file_path

_TRANSIENT_CODES = ("cancelled", "deadline_exceeded", "aborted", "out_of_range", "unavailable", "data_loss")
_LASTING_CODES = ("unauthenticated", "permission_denied", "unimplemented", "not_found")
# INVALID_ARGUMENT is what the protocol asks for; gRPC itself answers the others to bytes that it cannot decode, or too many.
_CODES_ABOUT_CONTENT = ("invalid_argument", "resource_exhausted", "internal", "unknown")
_MAX_METADATA_BYTES = 1 << 20
# Details of gRPC's connection errors: the code is the same for a closed port and for a bad certificate.
_TLS_FAILED = re.compile(r"failed to connect.*(?:handshake failed|hostname verification)", re.IGNORECASE | re.DOTALL)
_CLOSED = ("Socket closed", "Connection reset")
_NO_CONNECTION = ("failed to connect", "errors resolving", "DNS resolution failed")
# Texts in these details, and their meaning.
_CAUSES = {
    "http1.x server": "it answers in HTTP/1, not gRPC: is `protocol: http` meant?",
    "Connection refused": CONNECTION_REFUSED,
    "hostname lookup": UNKNOWN_HOST,
    "DNS resolution failed": UNKNOWN_HOST,
}


class GrpcSender:
    """One channel; gRPC reconnects by itself."""

    def __init__(
        self, settings: DestinationSettings, *, metadata: tuple[tuple[str, str], ...], user_agent: str
    ) -> None:
        self._settings = settings
        self._endpoint = settings.endpoint or ""
        self._timeout_s = settings.timeout / SECOND
        # Made once: gRPC would make one of the same of them with every call.
        self._metadata = grpc.aio.Metadata(*metadata)
        self._user_agent = user_agent
        self._channel: grpc.aio.Channel | None = None
        self._calls: dict[Signal, grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]] = {}
        # The URL's scheme decides; without one the settings do.
        self._tls = settings.client_tls
        if self._endpoint.startswith(("https://", "http://")):
            self._tls = (self._tls or ClientTls()) if self._endpoint.startswith("https://") else None

    async def start(self) -> None:
        """Open the channel; it connects with the first request. Raise `StartError` when a TLS file cannot be used."""
        tls, address = self._tls, target(self._endpoint)
        gzip = self._settings.compression == "gzip"
        compression = grpc.Compression.Gzip if gzip else grpc.Compression.NoCompression
        options = tuple(self._options(address))
        if tls is None:
            channel = grpc.aio.insecure_channel(address, compression=compression, options=options)
        else:
            # gRPC takes any text for a certificate and fails with each request; OpenSSL looks at it now.
            client_context(tls)
            files = (tls.ca_file, tls.key_file, tls.cert_file)
            pems = [None if file is None else read_pem(file_path(file)) for file in files]
            credentials = grpc.ssl_channel_credentials(*pems)
            channel = grpc.aio.secure_channel(address, credentials, compression=compression, options=options)
        self._calls = {signal: channel.unary_unary(f"/{service}/Export") for signal, service in SERVICES.items()}
        self._channel = channel

    def _options(self, address: str) -> Iterator[tuple[str, int | str]]:
        yield "grpc.primary_user_agent", self._user_agent
        yield "grpc.max_send_message_length", -1
        yield "grpc.max_receive_message_length", MAX_RESPONSE_BYTES
        # An answer with a longer message would be taken for RESOURCE_EXHAUSTED with any code; gRPC allows 8 KiB.
        yield "grpc.max_metadata_size", _MAX_METADATA_BYTES
        yield "grpc.absolute_max_metadata_size", _MAX_METADATA_BYTES
        # Retries are the queue's, which counts them.
        yield "grpc.enable_retries", 0
        # A destination that is back should be found within seconds; gRPC would take up to two minutes.
        yield "grpc.initial_reconnect_backoff_ms", 250
        yield "grpc.min_reconnect_backoff_ms", 2000
        yield "grpc.max_reconnect_backoff_ms", 2000
        yield "grpc.use_local_subchannel_pool", 1
        # With `http_proxy` in the environment gRPC asks the proxy even for this machine's own ports.
        yield "grpc.enable_http_proxy", int(not is_on_this_machine(address))
        if self._tls is not None and self._tls.server_name_override is not None:
            yield "grpc.ssl_target_name_override", self._tls.server_name_override

    async def renew(self) -> None:
        """Use changed TLS files from now on; requests under way end over the channel they began on."""
        old = self._channel
        await self.start()
        if old is not None:
            await old.close(self._timeout_s)

    async def send(self, signal: Signal, body: bytes) -> Verdict:
        """Send once."""
        call = self._calls.get(signal)
        if call is None:
            return Transient("closed")
        try:
            response = await call(body, timeout=self._timeout_s, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            code, details = error.code(), error.details() or ""
            reason = code.name.lower()
            retry_after_s = None
            for key, value in error.trailing_metadata() or ():
                if key == "grpc-status-details-bin" and isinstance(value, bytes):
                    info = RetryInfo()
                    with contextlib.suppress(DecodeError):
                        if any(detail.Unpack(info) for detail in Status.FromString(value).details):
                            delay = info.retry_delay
                            retry_after_s = max(0.0, delay.seconds + delay.nanos / 1e9)
            if reason in _TRANSIENT_CODES or (code is StatusCode.RESOURCE_EXHAUSTED and retry_after_s is not None):
                if code is StatusCode.UNAVAILABLE and details.startswith(_NO_CONNECTION):
                    reason, cause = self._no_connection(details)
                    return Transient(reason, retry_after_s, cause)
                return Transient(reason, retry_after_s)
            return Permanent(
                reason, is_lasting=reason in _LASTING_CODES, is_about_content=reason in _CODES_ABOUT_CONTENT
            )
        return delivered(signal, response)

    def _no_connection(self, details: str) -> tuple[str, str]:
        """Return the reason and the cause of a failed connection."""
        cause = next((cause for words, cause in _CAUSES.items() if words in details), "")
        if cause or self._tls is None:
            return "unavailable", cause
        cause = tls_cause(details)
        is_tls = bool(cause) or _TLS_FAILED.match(details) is not None
        if not cause and (is_tls or any(words in details for words in _CLOSED)):
            cause = CLOSED
        return "tls" if is_tls else "unavailable", cause

    async def close(self) -> None:
        """Close the channel and drop it: gRPC keeps a thread and sockets for as long as there is one."""
        channel, self._channel = self._channel, None
        self._calls = {}
        if channel is not None:
            await channel.close(None)
