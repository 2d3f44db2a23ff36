"""Unpacks compressed bodies piece by piece, so that each piece can be counted before the next one is made.

No claimed size is trusted: output stops at the limit.
"""

import itertools
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# Yields the pieces of a body up to a limit; raises `TooLargeError` or `BrokenBodyError`.
Unpack: TypeAlias = Callable[[bytes, int], Iterator[bytes]]

LARGEST_PIECE = 4 * 1024 * 1024
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
            piece = stream.decompress(body, LARGEST_PIECE)
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
