"""The form of a recording: requests one after another, each as its size (a varint) and its bytes.

A request of log records or metrics begins with a field that OTLP does not have, number 15, whose text is the signal: decoders
of protobuf skip it. One of spans has none, so that a recording of spans is what other tools write.
"""

from toolgauge.model.delivery import Signal

_FIELD = b"\x7a"  # number 15, with a length
_SIGNALS: tuple[Signal, ...] = ("traces", "metrics", "logs")
_MARKS: dict[Signal, bytes] = {signal: _FIELD + bytes([len(signal)]) + signal.encode() for signal in _SIGNALS}


def framed(signal: Signal, body: bytes) -> bytes:
    """Encode one request of a recording."""
    # A sender's request may itself begin with that field: then it gets one of ours, which is the one taken off.
    mark = b"" if signal == "traces" and not body.startswith(_FIELD) else _MARKS[signal]
    return b"".join((_varint(len(mark) + len(body)), mark, body))


def signal_and_body(request: bytes, otherwise: Signal) -> tuple[Signal, bytes]:
    """Split one request of a recording; `otherwise` is the signal of one that names none."""
    for signal, mark in _MARKS.items():
        if request.startswith(mark):
            return signal, request[len(mark) :]
    return otherwise, request


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
