"""As much of an HTTP/2 client as it takes to send half a gRPC message, which no gRPC library does."""

import select
import socket
import struct
from collections.abc import Iterator, Mapping

from tests.wire.support import TRACES

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
_ACK, _END_STREAM, _END_HEADERS = 1, 1, 4
_INITIAL_WINDOW_SIZE = 4
_FIRST_WINDOW = 65_535
_LARGEST_FRAME = 16_384


class HalfSender:
    """One connection with calls of `Export`; `ended` holds the streams that the server has ended."""

    def __init__(self, port: int, headers: Mapping[str, str] | None = None) -> None:
        self._headers = headers or {}
        self._socket = socket.create_connection(("127.0.0.1", port), 60)
        self._socket.sendall(_PREFACE + _frame(_SETTINGS, 0, 0, b""))
        self._received = b""
        self._window = self._first_window = _FIRST_WINDOW
        self._windows: dict[int, int] = {}
        self.ended: set[int] = set()

    def close(self) -> None:
        self._socket.close()

    def begin(self, message_bytes: int) -> int:
        """Open a stream and announce a message of so many bytes; return the stream's number."""
        stream = 2 * len(self._windows) + 1
        told = {":method": "POST", ":scheme": "http", ":path": TRACES, ":authority": "x"}
        told |= {"content-type": "application/grpc", "te": "trailers", **self._headers}
        block = b"".join(b"\0" + _text(name) + _text(value) for name, value in told.items())
        self._socket.sendall(_frame(_HEADERS, _END_HEADERS, stream, block))
        self._windows[stream] = self._first_window
        self.send(stream, b"\0" + message_bytes.to_bytes(4, "big"))
        return stream

    def send(self, stream: int, data: bytes, silence_s: float = 3.0) -> int:
        """Send as the server's windows allow, until it ends the stream or is silent; return how much went."""
        sent = 0
        while sent < len(data) and stream not in self.ended:
            room = min(self._window, self._windows[stream], _LARGEST_FRAME)
            if room > 0:
                piece = data[sent : sent + room]
                self._socket.sendall(_frame(_DATA, 0, stream, piece))
                self._window -= len(piece)
                self._windows[stream] -= len(piece)
                sent += len(piece)
            if not self.listen(0 if room > 0 else silence_s) and room <= 0:
                break
        return sent

    def reset(self, stream: int) -> None:
        """Go away in the middle of a call."""
        self._socket.sendall(_frame(_RST_STREAM, 0, stream, (8).to_bytes(4, "big")))

    def listen(self, wait_s: float) -> bool:
        """Take in what the server says; True when it said anything."""
        if not select.select([self._socket], [], [], wait_s)[0]:
            return False
        self._received += self._socket.recv(1 << 16)
        for kind, flags, stream, payload in self._frames():
            self._take(kind, flags, stream, payload)
        return True

    def _frames(self) -> Iterator[tuple[int, int, int, bytes]]:
        while len(self._received) >= 9:
            size = int.from_bytes(self._received[:3], "big")
            if len(self._received) < 9 + size:
                return
            kind, flags, stream = struct.unpack(">BBL", self._received[3:9])
            payload, self._received = self._received[9 : 9 + size], self._received[9 + size :]
            yield kind, flags, stream, payload

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _SETTINGS and not flags & _ACK:
            for name, value in struct.iter_unpack(">HL", payload):
                if name == _INITIAL_WINDOW_SIZE:
                    for number in self._windows:
                        self._windows[number] += value - self._first_window
                    self._first_window = value
            self._socket.sendall(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            self._socket.sendall(_frame(_PING, _ACK, 0, payload))
        elif kind == _WINDOW_UPDATE and stream:
            self._windows[stream] += int.from_bytes(payload, "big")
        elif kind == _WINDOW_UPDATE:
            self._window += int.from_bytes(payload, "big")
        elif kind == _RST_STREAM or (kind in (_HEADERS, _DATA) and flags & _END_STREAM):
            self.ended.add(stream)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBL", kind, flags, stream) + payload


def _text(text: str) -> bytes:
    encoded = text.encode()
    assert len(encoded) < 127
    return bytes((len(encoded),)) + encoded
