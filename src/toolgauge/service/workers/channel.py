"""The connection between the front and one worker: ordered frames over a pair of sockets.

Contents are pickled: both ends run the same code over a private socket, and no pickle comes from outside.
"""

import asyncio
import contextlib
import copyreg
import ctypes
import io
import os
import pickle
import signal
import socket
import struct
import time
from collections.abc import AsyncIterator
from enum import IntEnum
from threading import Lock
from typing import NamedTuple, TypeVar

from toolgauge.model.delivery import Signal

_HEAD = struct.Struct("<IBI")
_READ_AHEAD_BYTES = 1024 * 1024
_SENT_AT_ONCE_BYTES = 1024 * 1024  # A request that does not fit into the buffer of a socket takes three times the CPU
_SIGNALS: tuple[Signal, ...] = ("traces", "metrics", "logs")
_BEAT_S = 0.5
_PR_SET_PDEATHSIG = 1  # As <sys/prctl.h> has it
_T = TypeVar("_T")


class Kind(IntEnum):
    """Frames from the front, then those from a worker. Answers have the number of the question."""

    REQUEST = 1
    ASK = 2
    PREPARE = 3
    ADOPT = 4
    OUTGOING = 5
    OBSERVING = 6
    RELIEVE = 7
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

    def read(self, *of: type[_T]) -> _T:
        """Return the object in this frame, which is one of these types."""
        value: object = pickle.loads(self.content)  # noqa: S301 (written by a process of ours, see above)
        if not isinstance(value, of):
            raise TypeError(f"a frame holds {type(value).__name__}, not {' or '.join(one.__name__ for one in of)}")
        return value


class _Pickler(pickle.Pickler):
    # A counter has a lock, and its copy a new one.
    dispatch_table = {**copyreg.dispatch_table, type(Lock()): lambda _lock: (Lock, ())}  # noqa: RUF012 (as pickle has it)


def packed(value: object) -> bytes:
    """Write an object as the content of a frame; raise `RecursionError` where it is nested too deep for that."""
    written = io.BytesIO()
    _Pickler(written, pickle.HIGHEST_PROTOCOL).dump(value)
    return written.getvalue()


def request_head(signal: Signal, sender: str | None) -> bytes:
    """Write the part of a request's frame before its body."""
    name = (sender or "").encode()
    return bytes((_SIGNALS.index(signal),)) + len(name).to_bytes(2) + name


def unpack_request(content: bytes) -> tuple[Signal, str | None, bytes]:
    """Read a request: its signal, its sender and its body."""
    end = 3 + int.from_bytes(content[1:3])
    return _SIGNALS[content[0]], content[3:end].decode() or None, content[end:]


def beat(descriptor: int) -> None:
    """Show the front for ever that this process runs. When the front dies, the kernel continues a stopped process and sets an
    alarm, which ends the process unless this loop runs and cancels it.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "prctl"):
        library.signal(signal.SIGALRM, None)  # The default action, which needs no interpreter
        library.signal(signal.SIGCONT, library.alarm)  # Called with the number of the signal, 18: as many seconds
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)
    while True:
        signal.alarm(0)
        # The front has died, or is stopped and the pipe is full.
        with contextlib.suppress(OSError):
            os.write(descriptor, b".")
        time.sleep(_BEAT_S)


class Channel:
    """One end of the connection. Belongs to the event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def of(cls, end: socket.socket) -> "Channel":
        """Take over one end of a pair of sockets."""
        end.settimeout(0)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SENT_AT_ONCE_BYTES)
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
        """Yield the frames of the other side, until it has gone."""
        try:
            while True:
                size, kind, number = _HEAD.unpack(await self._reader.readexactly(_HEAD.size))
                yield Frame(Kind(kind), number, await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, OSError):
            return

    async def close(self) -> None:
        """Close this end. Works twice."""
        self._writer.close()
        # The other side may have gone before.
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
