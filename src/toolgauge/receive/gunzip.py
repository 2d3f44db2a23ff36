"""Decompresses request bodies without trusting what they claim.

A few kilobytes of gzip can stand for gigabytes: output stops at the limit, whatever is left of the input.
"""

import zlib

_GZIP = 31  # zlib's number for "gzip header, largest window"
_MAX_MEMBERS = 16  # concatenated members are legal, thousands of empty ones are an attack


class TooLargeError(Exception):
    """The body is larger than the limit when decompressed."""


class BrokenBodyError(Exception):
    """The body is not what its encoding says, or it is cut off."""


def gunzip(body: bytes, limit: int) -> bytes:
    """Decompress a gzip body of at most `limit` bytes; raise `TooLargeError` or `BrokenBodyError`."""
    parts: list[bytes] = []
    room = limit + 1
    for _ in range(_MAX_MEMBERS):
        part, body = _inflate(body, _GZIP, room)
        parts.append(part)
        room -= len(part)
        if not body:
            return parts[0] if len(parts) == 1 else b"".join(parts)
    raise BrokenBodyError("too many gzip members")


def inflate(body: bytes, limit: int) -> bytes:
    """Decompress a zlib body (gRPC's and HTTP's `deflate`) of at most `limit` bytes; raise as `gunzip`."""
    part, rest = _inflate(body, zlib.MAX_WBITS, limit + 1)
    if rest:
        raise BrokenBodyError("data behind the end of the compressed body")
    return part


def _inflate(body: bytes, window: int, room: int) -> tuple[bytes, bytes]:
    stream = zlib.decompressobj(window)
    try:
        part = stream.decompress(body, room)
    except zlib.error as error:
        raise BrokenBodyError("the compressed body is broken") from error
    if len(part) >= room:
        raise TooLargeError
    if not stream.eof:
        raise BrokenBodyError("the compressed body is cut off")
    return part, stream.unused_data
