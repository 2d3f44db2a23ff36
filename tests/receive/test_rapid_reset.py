"""A client that opens and resets streams without end costs other senders time, and not their answers."""

import asyncio
import contextlib
import socket
import struct
import threading

import grpc.aio
from grpc import StatusCode as Code

from tests.receive.fakes import OWN_HOP, TRACES, FakeConsumer, call
from toolgauge.model.metrics import MetricRegistry
from toolgauge.receive.grpc import GrpcReceiver
from toolgauge.receive.settings import GrpcSettings
from toolgauge.selfmetrics import SelfMetrics

BODY = b"\n\0"


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def header(name: bytes, value: bytes) -> bytes:
    return b"\0" + bytes((len(name),)) + name + bytes((len(value),)) + value


HEADERS = (
    b"\x83\x86"
    + header(b":path", TRACES.encode())
    + header(b":authority", b"localhost")
    + header(b"content-type", b"application/grpc")
    + header(b"te", b"trailers")
)


def reset_streams(port: int, begun: threading.Semaphore, over: threading.Event) -> None:
    """Open streams and reset them at once, over one connection."""
    with socket.create_connection(("127.0.0.1", port)) as sender, contextlib.suppress(OSError):
        sender.settimeout(0.1)
        sender.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(4, 1, 0, b""))
        for stream in range(1, 1 << 30, 100):
            pairs = (
                frame(1, 4, each, HEADERS) + frame(3, 0, each, struct.pack(">I", 8))
                for each in range(stream, stream + 100, 2)
            )
            rest = b"".join(pairs)
            while rest and not over.is_set():
                with contextlib.suppress(TimeoutError):
                    rest = rest[sender.send(rest) :]
                with contextlib.suppress(TimeoutError, BlockingIOError):
                    sender.recv(1 << 16, socket.MSG_DONTWAIT)
            if over.is_set():
                return
            begun.release()


async def test_other_senders_are_answered_while_one_resets_streams():
    consumer = FakeConsumer()
    settings = GrpcSettings(endpoint="127.0.0.1:0")
    receiver = GrpcReceiver(consumer, settings, metrics=SelfMetrics(MetricRegistry()), hop_id=OWN_HOP)
    await receiver.start()
    begun, over = threading.Semaphore(0), threading.Event()
    # Over four connections: in the process of the server, one alone is too slow.
    attacks = [asyncio.to_thread(reset_streams, receiver.port, begun, over) for _ in range(4)]
    attacking = asyncio.gather(*attacks)
    try:
        for _ in range(40):
            await asyncio.to_thread(begun.acquire)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{receiver.port}") as channel:
            answers = [await call(channel, BODY) for _ in range(5)]
    finally:
        over.set()
        await attacking
        await receiver.stop(0)
    assert [told.code for told in answers] == [Code.OK] * 5
