"""The request handler of both transports: decompresses a body, hands it to the consumer, counts the outcome.

Decompression trusts no claimed size: output stops at the limit. No exception leaves the handler: in gRPC one would answer
UNKNOWN, which means "do not retry", and the data would be lost.
"""

import asyncio
import logging
import sys
import zlib
from collections.abc import Callable
from typing import Protocol, TypeAlias

from msgspec import Struct

from toolgauge.model.delivery import Accepted, Consumer, MessageConsumer, Refused, Signal
from toolgauge.model.errors import DecodeError
from toolgauge.model.ports import OpenTraces
from toolgauge.net.throttle import Throttle, repetitions
from toolgauge.receive.refusal import Outcome, Refusal, RefusalLog, Transport, failed, invalid, refusal, too_large
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.state.ledger import Ledger, OffsetJournal

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_INFLATED_AT_ONCE = 4 * 1024 * 1024
_GZIP = 31  # zlib's number for "gzip header, largest window"
_MAX_MEMBERS = 16  # concatenated members are legal, thousands of empty ones are an attack
# The largest window that a Collector's zstd exporter uses: decompressing takes so much memory beside the body.
_ZSTD_OPTIONS: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 25}
# Between two looks. Most messages are whole sooner, and cost no look.
_LOOK_S = 0.02
# A line that is slower than this is none.
_SLOWEST_BYTES_PER_S = 64 * 1024

_MEMORY_IS_SHORT = refusal(Refused("memory is short"))
_TOO_SLOW = invalid("the message did not come in time", http_status=408)


class Upload(Protocol):
    """A message that is being gathered."""

    async def give_up(self, refused: Refusal) -> None:
        """Answer the sender, and free the bytes that have arrived."""


class Uploads:
    """The messages that one server is gathering, of at most `largest` bytes; `has_memory` answers for so many more.
    A message has `patience_s`, and the time that the largest one needs on a slow line.
    """

    def __init__(self, largest: int, has_memory: Callable[[int], bool], *, patience_s: float = 60.0) -> None:
        self._largest = largest
        self._has_memory = has_memory
        self._longest_s = patience_s + largest / _SLOWEST_BYTES_PER_S
        # In the order in which they began.
        self._begun_s: dict[Upload, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def begin(self, upload: Upload) -> None:
        """Watch a message from here on."""
        loop = asyncio.get_running_loop()
        self._begun_s[upload] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(_LOOK_S, self._look)

    def end(self, upload: Upload) -> None:
        """Watch it no longer: it is whole, or its sender is gone."""
        self._begun_s.pop(upload, None)

    async def give_up_all(self, refused: Refusal) -> None:
        """Wait for none of them any longer."""
        for upload in tuple(self._begun_s):
            await self._end(upload, refused)

    def _look(self) -> None:
        self._timer = None
        if not self._begun_s:
            return
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        # How much came in since the last look is unknown; it was not more than this.
        if not self._has_memory(len(self._begun_s) * self._largest):
            # Those of this moment may well be whole: their reader answers them.
            self._give_up(now_s - _LOOK_S, _MEMORY_IS_SHORT)
        self._give_up(now_s - self._longest_s, _TOO_SLOW)
        if self._begun_s:
            self._timer = loop.call_later(_LOOK_S, self._look)

    def _give_up(self, begun_before_s: float, refused: Refusal) -> None:
        for upload in [upload for upload, begun_s in self._begun_s.items() if begun_s <= begun_before_s]:
            ending = asyncio.create_task(self._end(upload, refused))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    async def _end(self, upload: Upload, refused: Refusal) -> None:
        # It may have become whole meanwhile: a sender that is refused after its request was taken sends it twice.
        if self._begun_s.pop(upload, None) is not None:
            await upload.give_up(refused)


class _Stream(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class TooLargeError(Exception):
    """The body is larger than the limit when decompressed."""


class BrokenBodyError(Exception):
    """The body is not in its declared encoding, or it is cut off."""


# Decompresses a body up to a limit; raises `TooLargeError` or `BrokenBodyError`.
Decode: TypeAlias = Callable[[bytes, int], bytes]


def gunzip(body: bytes, limit: int) -> bytes:
    """Decompress a gzip body of at most `limit` bytes; raise `TooLargeError` or `BrokenBodyError`."""
    return _members(body, limit, lambda: zlib.decompressobj(_GZIP))


def unzstd(body: bytes, limit: int) -> bytes:
    """Decompress a zstd body of at most `limit` bytes, whatever size its frames declare; raise as `gunzip`."""
    return _members(body, limit, lambda: zstd.ZstdDecompressor(options=_ZSTD_OPTIONS))


def inflate(body: bytes, limit: int) -> bytes:
    """Decompress a zlib body (gRPC's and HTTP's `deflate`) of at most `limit` bytes; raise as `gunzip`."""
    part, rest = _decompress(body, limit + 1, zlib.decompressobj())
    if rest:
        raise BrokenBodyError("data behind the end of the compressed body")
    return part


def _members(body: bytes, limit: int, stream: Callable[[], _Stream]) -> bytes:
    parts: list[bytes] = []
    room = limit + 1
    for _ in range(_MAX_MEMBERS):
        part, body = _decompress(body, room, stream())
        parts.append(part)
        room -= len(part)
        if not body:
            return parts[0] if len(parts) == 1 else b"".join(parts)
    raise BrokenBodyError("too many compressed members")


def _decompress(body: bytes, room: int, stream: _Stream) -> tuple[bytes, bytes]:
    parts: list[bytes] = []
    size = 0
    try:
        while not stream.eof:
            # Bit by bit: a bomb is refused before its parts are joined, which takes as much memory again.
            part = stream.decompress(body, _INFLATED_AT_ONCE)
            # zlib hands back the input that it has not read; zstd keeps it.
            body = getattr(stream, "unconsumed_tail", b"")
            if not part and not body and not stream.eof:
                raise BrokenBodyError("the compressed body is cut off")
            parts.append(part)
            size += len(part)
            if size >= room:
                # The exception keeps this frame alive, and with it what was decompressed.
                parts.clear()
                del part
                raise TooLargeError
    except (zlib.error, zstd.ZstdError) as error:
        raise BrokenBodyError("the compressed body is broken") from error
    return parts[0] if len(parts) == 1 else b"".join(parts), stream.unused_data


_log = logging.getLogger("toolgauge.receive")

HOP_HEADER = "x-toolgauge-hop"

# Makes the protobuf request of a JSON one; raises `DecodeError`.
FromJson: TypeAlias = Callable[[Signal, bytes], bytes]

_ACCEPTED = Accepted()
# A body of this size may take tens of milliseconds to decompress, for which other senders should not wait.
_LARGE_COMPRESSED_BYTES = 128 * 1024
# A JSON document of this size takes milliseconds to decode.
_LARGE_JSON_BYTES = 32 * 1024


class OtlpHandler:
    """Takes whole requests of one transport; `limit` bounds a body before and after decompression."""

    def __init__(
        self,
        consumer: Consumer,
        *,
        transport: Transport,
        limit: int,
        metrics: SelfMetrics,
        hop_id: str,
        refusal_log: RefusalLog,
    ) -> None:
        self.refusal_log = refusal_log
        self.hop_id = hop_id
        self.limit = limit
        self._consumer = consumer
        self._transport: Transport = transport
        self._requests = metrics.requests
        self._requests_invalid = metrics.requests_invalid
        self._throttle = Throttle()

    async def take(
        self,
        signal: Signal,
        body: bytes,
        sender: str | None,
        decode: Decode | None = None,
        from_json: FromJson | None = None,
    ) -> Refusal | None:
        """Hand the request on; `None` means that it was accepted. Others have their turn while a large one is read."""
        try:
            plain = body
            if decode is not None and body:
                # zlib releases the interpreter lock meanwhile.
                is_large = len(body) > _LARGE_COMPRESSED_BYTES
                plain = await asyncio.to_thread(decode, body, self.limit) if is_large else decode(body, self.limit)
            if from_json is not None and plain:
                is_large = len(plain) > _LARGE_JSON_BYTES
                plain = await asyncio.to_thread(from_json, signal, plain) if is_large else from_json(signal, plain)
            answer = await self._consumer.consume(signal, plain, sender) if plain else _ACCEPTED
        except TooLargeError:
            return self.refuse(signal, too_large(self.limit), sender)
        except BrokenBodyError as error:
            return self.refuse(signal, invalid(str(error), reason="compression"), sender)
        except DecodeError as error:
            return self.refuse(signal, invalid(str(error), reason=error.reason), sender)
        except asyncio.CancelledError:
            # The sender went away: there is no connection for an answer.
            self.miss(signal)
            raise
        except Exception as error:  # noqa: BLE001 - the receiver handler answers for whatever fails behind it
            return self._fail(signal, error, sender)
        if isinstance(answer, Accepted):
            self._count(signal, "accepted")
            return None
        return self.refuse(signal, refusal(answer), sender)

    def refuse(self, signal: Signal, refused: Refusal, sender: str | None) -> Refusal:
        """Count and log a refusal, and hand it back."""
        self.refusal_log.request(self._transport, refused, sender)
        self._count(signal, refused.outcome)
        if refused.invalid_reason is not None:
            self._requests_invalid.add(1, (self._transport, signal, refused.invalid_reason))
        return refused

    def miss(self, signal: Signal) -> None:
        """Count a request that was not read to its end: too large for the transport, or the sender went away."""
        self._count(signal, "unread")

    def _fail(self, signal: Signal, error: Exception, sender: str | None) -> Refusal:
        # The log names each kind once a minute, and shows nothing of the request.
        kind = type(error).__name__
        suppressed = self._throttle.suppressed(f"{signal} {kind}")
        if suppressed is not None:
            _log.error(
                "a %s request over %s failed inside: %s%s",
                signal,
                self._transport,
                kind,
                repetitions(suppressed),
                extra={"signal": signal, "transport": self._transport, "error.type": kind},
            )
        return self.refuse(signal, failed(error), sender)

    def _count(self, signal: Signal, outcome: Outcome) -> None:
        self._requests.add(1, (self._transport, signal, outcome))


class BrokerParts(Struct, frozen=True, kw_only=True):
    """The rest of the process for a `MessageReceiver`, which is made with `(settings, parts)`.
    `late_ns`: how long ids of closed traces are remembered.
    """

    consumer: MessageConsumer
    offsets: OffsetJournal
    ledger: Ledger
    traces: OpenTraces
    metrics: SelfMetrics
    hop_id: str
    clock: Callable[[], int]
    late_ns: int
