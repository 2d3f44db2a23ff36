"""A real Alertmanager on a port of its own, and the webhook that it notifies."""

import json
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.http_server import Quiet, answering
from tests.wire.support import Process, free_port, get, request, until

# Debian calls it `prometheus-alertmanager`, upstream `alertmanager`.
BINARY = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
needs_alertmanager = pytest.mark.skipif(
    BINARY is None, reason="no alertmanager on this machine (Debian's `prometheus-alertmanager`)"
)


class Alertmanager:
    def __init__(self, port: int) -> None:
        self.port = port

    def raise_alerts(self, *alerts: Mapping[str, str]) -> None:
        """Raise alerts with these labels, as Prometheus would."""
        body = json.dumps([{"labels": labels} for labels in alerts]).encode()
        status, answer = request(self.port, "POST", "/api/v2/alerts", body, {"Content-Type": "application/json"})
        assert status == 200, answer

    def states(self, **labels: str) -> dict[str, str]:
        """Read which alerts with these labels are active and which are suppressed, by name."""
        alerts = json.loads(get(self.port, "/api/v2/alerts"))
        return {
            alert["labels"]["alertname"]: alert["status"]["state"]
            for alert in alerts
            if labels.items() <= alert["labels"].items()
        }


@contextmanager
def alertmanager_running(folder: Path, config: Mapping[str, object]) -> Generator[Alertmanager]:
    """Run it with this configuration (JSON is YAML), alone and without a cluster."""
    assert BINARY is not None
    port = free_port()
    (folder / "alertmanager.json").write_text(json.dumps(config))
    command = [BINARY, f"--config.file={folder / 'alertmanager.json'}", f"--storage.path={folder / 'alertmanager'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="]
    process = Process(command, folder / "alertmanager.log")

    def is_ready() -> bool:
        assert process.is_running(), process.said()
        return "Completed loading of configuration file" in process.said() and "Listening" in process.said()

    try:
        until(is_ready, "Alertmanager to be ready")
        yield Alertmanager(port)
        process.signal()
        process.ended()
    finally:
        process.close()


class Webhook:
    """Keeps the notifications that it is sent."""

    def __init__(self) -> None:
        self.url = ""
        self.notifications: list[dict[str, Any]] = []

    def alerts(self, status: str) -> list[dict[str, Any]]:
        """All alerts with this status that a notification held, in order of arrival."""
        alerts = [alert for notification in tuple(self.notifications) for alert in notification["alerts"]]
        return [alert for alert in alerts if alert["status"] == status]


@contextmanager
def webhook_listening() -> Generator[Webhook]:
    webhook = Webhook()

    class Notified(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            webhook.notifications.append(json.loads(body))
            self.send_response(200)
            self.end_headers()

    with answering(Notified) as url:
        webhook.url = f"{url}/"
        yield webhook
