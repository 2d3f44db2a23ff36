"""gRPC that comes to the port for HTTP, and the other way round: both sides log it, with what to change."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wire.support import Toolgauge, serving, until


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Toolgauge]:
    (tmp_path / "receiver").mkdir()
    with serving(tmp_path / "receiver") as toolgauge:
        yield toolgauge


def test_grpc_on_the_port_for_http_is_logged_on_both_sides(tmp_path: Path, receiver: Toolgauge):
    endpoint = f"http://user:secret@127.0.0.1:{receiver.http_port}"
    with serving(tmp_path, f"exporters.otlp={{endpoint: '{endpoint}', protocol: grpc}}") as sender:
        sender.send_recorded("pydantic-ai", "tool_error")
        outage = (
            f"destination otlp (http://<redacted>@127.0.0.1:{receiver.http_port}) does not accept requests "
            "(unavailable: it answers in HTTP/1, not gRPC: is `protocol: http` meant?); retrying"
        )
        until(lambda: outage in sender.said(), "the cause in the sender's log")
        assert "secret" not in sender.said()
        seen = (
            f"a sender speaks gRPC to port {receiver.http_port}, which takes OTLP over HTTP: point it to the port of "
            "`receivers.otlp.protocols.grpc.endpoint`, or let it send `http/protobuf`"
        )
        until(lambda: seen in receiver.said(), "the wrong protocol in the receiver's log")
        # What is queued has nowhere to go.
        sender.close()
