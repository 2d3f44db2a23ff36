"""The connection between the front and one worker: frames over a pair of sockets, in the order in which they were sent.

A frame is its length, its kind, a number that belongs to its answer, and bytes. The end of the connection is the end of the
process at the other side, however it ended.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from enum import IntEnum
from typing import NamedTuple

_HEAD = struct.Struct("<IBI")
_READ_AHEAD_BYTES = 1024 * 1024


class Kind(IntEnum):
    """What a frame holds. From the front: the first group. From a worker: the second. Answers have the number of the question."""

    REQUEST = 1
    ASK = 2
    PREPARE = 3
    ADOPT = 4
    OUTGOING = 5
    OBSERVING = 6
    SHED = 7
    STOP = 8
    FINISH = 9

    READY = 32
    FAILED = 33
    ANSWER = 34
    SNAPSHOT = 35
    PREPARED = 36
    ADOPTED = 37
    OBSERVED = 38
    LAST = 39
    STOPPED = 40


class Frame(NamedTuple):
    """One message."""

    kind: Kind
    number: int
    content: bytes


class Channel:
    """One end of the connection. Belongs to the event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def of(cls, end: socket.socket) -> "Channel":
        """Take over one end of a pair of sockets."""
        end.settimeout(0)
        return cls(*await asyncio.open_connection(sock=end, limit=_READ_AHEAD_BYTES))

    @property
    def bytes_waiting(self) -> int:
        """Bytes that were sent and that the other side has not taken yet."""
        return self._writer.transport.get_write_buffer_size()

    def send(self, kind: Kind, number: int = 0, *content: bytes) -> None:
        """Send one frame, whose content may come in pieces. Does nothing when the other side has gone."""
        if not self._writer.is_closing():
            self._writer.writelines((_HEAD.pack(sum(map(len, content)), kind, number), *content))

    async def frames(self) -> AsyncIterator[Frame]:
        """Yield what the other side sends, until it has gone."""
        try:
            while True:
                size, kind, number = _HEAD.unpack(await self._reader.readexactly(_HEAD.size))
                yield Frame(Kind(kind), number, await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, OSError):
            return

    async def close(self) -> None:
        """Close this end. Works twice."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            # The other side has gone before.
            return
