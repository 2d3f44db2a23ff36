"""Clients that open thousands of TLS connections, and end no handshake, keep nobody else from sending."""

import contextlib
import os
import socket
import threading
import time
from pathlib import Path

import pytest

from tests.certificates import certificates
from tests.wire.support import LISTEN, Toolgauge
from tests.wire.test_secured import asked, configured, export

_CLIENTS, _EACH = 4, 100
_HELLO = bytes.fromhex("160301020001") + os.urandom(40)


def flooding(port: int, ended: threading.Event) -> None:
    """Open connections, send nothing, garbage or half a hello, and keep the newest of them open."""
    kept: list[socket.socket] = []
    while not ended.is_set():
        with contextlib.suppress(OSError):
            opened = socket.create_connection(("localhost", port), timeout=5)
            opened.sendall((b"", b"GET / HTTP/1.1\r\n\r\n", _HELLO)[len(kept) % 3])
            kept.append(opened)
        for old in kept[:-_EACH]:
            old.close()
        del kept[:-_EACH]
        # Some hundreds a second: as fast as it goes, two cores have time for nothing else.
        time.sleep(0.01)
    for left in kept:
        left.close()


@pytest.mark.parametrize("port", ["grpc", "http"])
def test_senders_get_through_while_others_end_no_handshake(tmp_path: Path, port: str, pytestconfig: pytest.Config):
    seconds = 8 if pytestconfig.getoption("--long") else 0.5
    made = certificates(tmp_path)
    (tmp_path / "tokens").write_text("secret\n")
    toolgauge = Toolgauge(tmp_path, *configured(tmp_path, made, "localhost:0"), listen=LISTEN)
    ended = threading.Event()
    try:
        toolgauge.wait_until_up()
        flooded = {"grpc": toolgauge.grpc_port, "http": toolgauge.http_port}[port]
        floods = [threading.Thread(target=flooding, args=(flooded, ended), daemon=True) for _ in range(_CLIENTS)]
        for flood in floods:
            flood.start()
        until = time.monotonic() + seconds
        answers: list[bool] = []
        while time.monotonic() < until:
            answers.append(export(toolgauge, made, with_certificate=True).value[0] == 0)
            answers.append(asked(toolgauge, made, "http", "secret") == 200)
        assert all(answers)
        assert len(answers) > 1
        ended.set()
        assert toolgauge.said().count("WARNING toolgauge.receive") < 20
        assert "Traceback" not in toolgauge.said()
    finally:
        ended.set()
        toolgauge.close()
