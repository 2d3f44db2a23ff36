"""Bodies that are half sent, or sent by strangers, take memory like others, and nobody has agreed to take them yet."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import contextlib
import select
import socket
from pathlib import Path

import grpc

from tests.wire.support import TRACES, recorded, serving, until

MIB = 1 << 20


def test_half_sent_bodies_stay_within_the_limit_of_memory(tmp_path: Path):
    (body,) = recorded("pydantic-ai", "tool_error")
    head = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 60000000\r\n\r\n"
    with serving(tmp_path, "memory.limit=256MiB") as toolgauge, contextlib.ExitStack() as connections:
        senders: list[socket.socket] = []
        for _ in range(9):
            sender = connections.enter_context(socket.create_connection(("127.0.0.1", toolgauge.http_port), 60))
            sender.sendall(head)
            senders.append(sender)
            with contextlib.suppress(OSError):
                for _ in range(50):
                    sender.sendall(b"\0" * MIB)
        # All that they have sent would be 450 MiB.
        assert toolgauge.memory_mib() < 256
        answers: list[bytes] = []

        def answered() -> bool:
            for sender in select.select(senders, [], [], 1)[0]:
                # Who went on sending after the answer may find the connection reset.
                senders.remove(sender)
                with contextlib.suppress(ConnectionError):
                    answers.append(sender.recv(1000))
            return any(answers)

        until(answered, "an answer to one of them")
        for answer in filter(None, answers):
            assert answer.startswith(b"HTTP/1.1 503")
            assert b"Retry-After: 1\r\n" in answer
        # Others may be told to come back for a moment, and are taken then.
        toolgauge.send(body, "http")


def code_of(call: "grpc.Future[bytes]") -> grpc.StatusCode:
    try:
        call.result()
    except grpc.RpcError as error:
        return error.code()  # pyright: ignore[reportAttributeAccessIssue]
    return grpc.StatusCode.OK


def test_messages_of_strangers_are_turned_away_before_they_are_read(tmp_path: Path):
    options = (("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1))
    with (
        serving(tmp_path, "receivers.otlp.protocols.grpc.auth.token=s3cret") as toolgauge,
        contextlib.ExitStack() as channels,
    ):
        before = toolgauge.memory_mib()
        calls: list[grpc.Future[bytes]] = []
        for _ in range(6):
            channel = grpc.insecure_channel(f"127.0.0.1:{toolgauge.grpc_port}", options=options)
            calls.append(channels.enter_context(channel).unary_unary(TRACES).future(b"\0" * 60 * MIB, timeout=60))
        most = before
        while not all(call.done() for call in calls):
            most = max(most, toolgauge.memory_mib())
        assert {code_of(call) for call in calls} == {grpc.StatusCode.UNAUTHENTICATED}
        # What they have to say is 360 MiB.
        assert most - before < 60
