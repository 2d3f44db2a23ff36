"""Bodies that are half sent take memory like whole ones, and nobody has agreed to take them yet."""

import contextlib
import socket
from pathlib import Path

from tests.wire.support import recorded, serving

MIB = 1 << 20


def test_half_sent_bodies_stay_within_the_limit_of_memory(tmp_path: Path):
    (body,) = recorded("pydantic-ai", "tool_error")
    head = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 60000000\r\n\r\n"
    with serving(tmp_path, "memory.limit=256MiB") as toolgauge, contextlib.ExitStack() as connections:
        senders: list[socket.socket] = []
        for _ in range(15):
            sender = connections.enter_context(socket.create_connection(("127.0.0.1", toolgauge.http_port), 10))
            sender.sendall(head)
            senders.append(sender)
            with contextlib.suppress(OSError):
                for _ in range(50):
                    sender.sendall(b"\0" * MIB)
        # All that they have sent would be 750 MiB.
        assert toolgauge.memory_mib() < 256
        answer = senders[-1].recv(1000)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"Retry-After: 1\r\n" in answer
        # Others may be told to come back for a moment, and are taken then.
        toolgauge.send(body, "http")
