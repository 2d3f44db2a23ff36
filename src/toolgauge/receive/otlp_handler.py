"""The request handler of both transports: unpacks a body, hands it to the consumer, counts the outcome.

What unpacking and reading takes is reserved before, in one budget of all receivers; no claimed size is trusted. No exception leaves
the handler: in gRPC one would answer UNKNOWN, which means "do not retry", and the data would be lost.
"""

import asyncio
import itertools
import logging
import sys
import zlib
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Protocol, TypeAlias, TypeVar

from msgspec import Struct

from toolgauge.model.delivery import Accepted, Consumer, MessageConsumer, Refused, Signal
from toolgauge.model.errors import DecodeError
from toolgauge.model.ports import OpenTraces
from toolgauge.net.byte_budget import ByteBudget, OverBudgetError, Reservation
from toolgauge.net.throttle import Throttle, repetitions
from toolgauge.receive.refusal import (
    TOO_MUCH_MEMORY,
    Refusal,
    RefusalLog,
    Transport,
    failed,
    invalid,
    refusal,
    too_large,
)
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.state.ledger import Ledger, OffsetJournal

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# Yields the pieces of a body up to a limit; raises `TooLargeError` or `BrokenBodyError`.
Unpack: TypeAlias = Callable[[bytes, int], Iterator[bytes]]

_LARGEST_PIECE = 4 * 1024 * 1024
_GZIP = 31  # zlib's number for "gzip header, largest window"
_GZIP_MAGIC = b"\x1f\x8b"
_MAX_MEMBERS = 16  # concatenated members are legal, thousands of empty ones are an attack
# The largest window that a Collector's zstd exporter uses: decompressing takes so much memory beside the body.
_ZSTD_OPTIONS: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 25}
# How much larger telemetry mostly is than its compressed form, at most.
_RATIO = 10


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


def gunzip(body: bytes, limit: int) -> Iterator[bytes]:
    """Decompress a gzip body of at most `limit` bytes; raise `TooLargeError` or `BrokenBodyError`."""
    return _members(body, limit, lambda: zlib.decompressobj(_GZIP))


def unzstd(body: bytes, limit: int) -> Iterator[bytes]:
    """Decompress a zstd body of at most `limit` bytes, with any declared size of its frames; raise as `gunzip`."""
    return _members(body, limit, lambda: zstd.ZstdDecompressor(options=_ZSTD_OPTIONS))


def inflate(body: bytes, limit: int) -> Iterator[bytes]:
    """Decompress a zlib body (gRPC's and HTTP's `deflate`) of at most `limit` bytes, or one without zlib's header; raise as `gunzip`."""
    has_header = body[:1] != b"" and body[0] & 15 == zlib.DEFLATED and int.from_bytes(body[:2]) % 31 == 0
    stream = zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)
    yield from _pieces(body, limit, stream)
    if stream.unused_data:
        raise BrokenBodyError("data behind the end of the compressed body")


def decompress_message(body: bytes, limit: int) -> Iterator[bytes]:
    """Decompress a gRPC message that begins as a compressed one."""
    if body[:2] == _GZIP_MAGIC:
        yield from gunzip(body, limit)
        return
    # 0x78 begins a zlib stream and could begin an unknown field 15 as well.
    if int.from_bytes(body[:2], "big") % 31:
        yield body
        return
    pieces = inflate(body, limit)
    try:
        # No field 15 looks like megabytes of a zlib stream.
        begun = [*itertools.islice(pieces, 2)]
    except BrokenBodyError:
        yield body
    else:
        yield from begun
        yield from pieces


def declared_bytes(body: bytes) -> int:
    """Estimate the unpacked size of a compressed body by what its format declares, or by a cautious ratio."""
    if body[:2] == _GZIP_MAGIC:
        return max(len(body), int.from_bytes(body[-4:], "little"))
    try:
        declared = zstd.get_frame_info(body).decompressed_size
    except zstd.ZstdError:
        declared = None
    return declared or _RATIO * len(body)


def _members(body: bytes, limit: int, stream: Callable[[], _Stream]) -> Iterator[bytes]:
    for _ in range(_MAX_MEMBERS):
        member = stream()
        for piece in _pieces(body, limit, member):
            limit -= len(piece)
            yield piece
        body = member.unused_data
        if not body:
            return
    raise BrokenBodyError("too many compressed members")


def _pieces(body: bytes, limit: int, stream: _Stream) -> Iterator[bytes]:
    try:
        while not stream.eof:
            piece = stream.decompress(body, _LARGEST_PIECE)
            # zlib hands back the input that it has not read; zstd keeps it.
            body = getattr(stream, "unconsumed_tail", b"")
            if not piece and not body and not stream.eof:
                raise BrokenBodyError("the compressed body is cut off")
            limit -= len(piece)
            if limit < 0:
                raise TooLargeError
            if piece:
                yield piece
    except (zlib.error, zstd.ZstdError) as error:
        raise BrokenBodyError("the compressed body is broken") from error


# Between two looks. Most messages are whole sooner, and cost no look.
_LOOK_S = 0.02
# A slower line counts as broken.
SLOWEST_BYTES_PER_S = 64 * 1024

_MEMORY_IS_SHORT = refusal(Refused("memory is short"))
_TOO_SLOW = invalid("the message did not come in time", http_status=408)


# Answers the sender of a message that is being gathered, and frees the bytes that have arrived.
GiveUp: TypeAlias = Callable[[Refusal], Awaitable[None]]


class Uploads:
    """The messages that one server is gathering, of at most `largest` bytes; `has_memory` answers for so many more.
    A message has `patience_s`, and the time that the largest one needs on a slow line.
    """

    def __init__(self, largest: int, has_memory: Callable[[int], bool], *, patience_s: float = 60.0) -> None:
        self._largest = largest
        self._has_memory = has_memory
        self._longest_s = patience_s + largest / SLOWEST_BYTES_PER_S
        # In the order in which they began.
        self._begun_s: dict[GiveUp, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def begin(self, give_up: GiveUp) -> None:
        """Watch a message from here on; `give_up` stands for it."""
        loop = asyncio.get_running_loop()
        self._begun_s[give_up] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(_LOOK_S, self._look)

    def end(self, give_up: GiveUp) -> None:
        """Watch it no longer: it is whole, or its sender is gone."""
        self._begun_s.pop(give_up, None)

    async def give_up_all(self, refused: Refusal) -> None:
        """Wait for none of them any longer."""
        for give_up in tuple(self._begun_s):
            await self._end(give_up, refused)

    def _look(self) -> None:
        self._timer = None
        if not self._begun_s:
            return
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        # How much came in since the last look is unknown; it was not more than this.
        if not self._has_memory(len(self._begun_s) * self._largest):
            # Messages of this moment may well be whole: their reader answers them.
            self._give_up(now_s - _LOOK_S, _MEMORY_IS_SHORT)
        self._give_up(now_s - self._longest_s, _TOO_SLOW)
        if self._begun_s:
            self._timer = loop.call_later(_LOOK_S, self._look)

    def _give_up(self, begun_before_s: float, refused: Refusal) -> None:
        for give_up in [one for one, begun_s in self._begun_s.items() if begun_s <= begun_before_s]:
            ending = asyncio.create_task(self._end(give_up, refused))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    async def _end(self, give_up: GiveUp, refused: Refusal) -> None:
        # It may have become whole meanwhile: a sender that is refused after its request was taken sends it twice.
        if self._begun_s.pop(give_up, None) is not None:
            await give_up(refused)


_log = logging.getLogger("toolgauge.receive")

HOP_HEADER = "x-toolgauge-hop"

# Makes the protobuf request of a JSON one; raises `DecodeError`.
FromJson: TypeAlias = Callable[[Signal, bytes], bytes]

_ACCEPTED = Accepted()
# A body of this size may take tens of milliseconds to decompress, for which other senders should not wait.
_LARGE_COMPRESSED_BYTES = 128 * 1024
# What a request takes at most while it is read, in relation to its bytes: itself, its envelope, an item, and the ids of that; or in
# JSON itself, and one text of four bytes a character. Measured in `tests/otlp/test_bounds.py`.
_READING_COPIES, _JSON_COPIES = 4, 7
# Senders time out after five seconds or more.
_PATIENCE_S = 2.0
_T = TypeVar("_T")
# A JSON document of this size takes milliseconds to decode.
_LARGE_JSON_BYTES = 32 * 1024


class OtlpHandler:
    """Takes whole requests of one transport; `limit` bounds a body before and after decompression, `budget` all of them together."""

    def __init__(
        self,
        consumer: Consumer,
        *,
        transport: Transport,
        limit: int,
        budget: ByteBudget | None,
        metrics: SelfMetrics,
        hop_id: str,
        refusal_log: RefusalLog,
    ) -> None:
        self.refusal_log = refusal_log
        self.hop_id = hop_id
        self.limit = limit
        self.budget = budget or ByteBudget()
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
        unpack: Unpack | None = None,
        from_json: FromJson | None = None,
    ) -> Refusal | None:
        """Hand the request on; `None` means that it was accepted. Others have their turn while a large one is read."""
        copies = self.budget.elsewhere + (_READING_COPIES if from_json is None else _JSON_COPIES)
        size_bytes = copies * (len(body) if unpack is None else min(declared_bytes(body), self.limit))
        try:
            with Reservation(self.budget) as reserved:
                await reserved.take(size_bytes, _PATIENCE_S)
                plain = body
                if unpack is not None and body:
                    plain = await self._unpacked(unpack, body, reserved, copies)
                if from_json is not None and plain:
                    is_large = len(plain) > _LARGE_JSON_BYTES
                    plain = await _beside(partial(from_json, signal, plain)) if is_large else from_json(signal, plain)
                answer = await self._consumer.consume(signal, plain, sender) if plain else _ACCEPTED
        except OverBudgetError as error:
            could_fit = self.budget.memory.could_fit(error.size_bytes)
            return self.refuse(signal, _MEMORY_IS_SHORT if could_fit else TOO_MUCH_MEMORY, sender)
        except TooLargeError:
            return self.refuse(signal, too_large(self.limit), sender)
        except BrokenBodyError as error:
            return self.refuse(signal, invalid(str(error), reason="compression"), sender)
        except DecodeError as error:
            return self.refuse(signal, invalid(str(error), reason=error.reason), sender)
        except asyncio.CancelledError:
            # The sender went away: no connection is left for an answer.
            self.miss(signal)
            raise
        except Exception as error:  # noqa: BLE001 - the receiver handler answers for any failure behind it
            return self._fail(signal, error, sender)
        if isinstance(answer, Accepted):
            self._requests.add(1, (self._transport, signal, "accepted"))
            return None
        return self.refuse(signal, refusal(answer), sender)

    async def _unpacked(self, unpack: Unpack, body: bytes, reserved: Reservation, copies: int) -> bytes:
        pieces: list[bytes] = []
        size_bytes = 0
        is_large = len(body) > _LARGE_COMPRESSED_BYTES
        take_piece: Callable[[], bytes] = partial(next, unpack(body, self.limit), b"")
        while piece := (await _beside(take_piece) if is_large else take_piece()):
            pieces.append(piece)
            size_bytes += len(piece)
            is_large = is_large or len(piece) == _LARGEST_PIECE
            reserved.grow_to(copies * size_bytes)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def refuse(self, signal: Signal, refused: Refusal, sender: str | None) -> Refusal:
        """Count and log a refusal, and hand it back."""
        self.refusal_log.request(self._transport, refused, sender)
        self._requests.add(1, (self._transport, signal, refused.outcome))
        if refused.invalid_reason is not None:
            self._requests_invalid.add(1, (self._transport, signal, refused.invalid_reason))
        return refused

    def miss(self, signal: Signal) -> None:
        """Count a request that was not read to its end: too large for the transport, or the sender went away."""
        self._requests.add(1, (self._transport, signal, "unread"))

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


async def _beside(work: Callable[[], _T]) -> _T:
    """Do the work in a thread. Its memory is in use until it ends, also where the sender has given up."""
    doing = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.gather(doing, return_exceptions=True)
        raise
    finally:
        # An error in it refers to this frame, and to the unpacked body: both would wait for the garbage collector.
        del doing


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
