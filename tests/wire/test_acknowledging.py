"""A worse release is announced to a webhook, listed on the admin endpoint, and accepted by `toolgauge ack`."""

import json
from pathlib import Path
from typing import Any

from tests.cli.command import run
from tests.wire.alertmanager import webhook_listening
from tests.wire.support import free_port, get, serving, until
from tests.wire.test_regressions import HEALTHY, WATCHED, WORSE, active, send


def test_a_worse_release_is_announced_listed_and_accepted(tmp_path: Path):
    port = free_port()
    with webhook_listening() as webhook:
        settings = (f"admin.endpoint=127.0.0.1:{port}", f"exporters.webhook.url={webhook.url}", *WATCHED)
        traces = "trace_url=https://traces.example/{trace_id}"
        with serving(tmp_path, *settings, traces) as toolgauge:

            def announced(**wanted: object) -> dict[str, Any] | None:
                found = (each for body in tuple(webhook.notifications) for each in body["regressions"])
                lines = (each for each in found if each["stream"]["tool"] == "list_orders")
                return next((each for each in lines if wanted.items() <= each.items()), None)

            def streams() -> list[dict[str, Any]]:
                return json.loads(get(port, "/streams"))["streams"]

            send(toolgauge, HEALTHY, 120, seed=1)
            until(lambda: toolgauge.total("toolgauge_regression_observations") >= 400, "the baselines")
            send(toolgauge, WORSE, 80, seed=2)
            began = until(lambda: announced(phase="began"), "the message")
            assert "`list_orders` fell from" in began["sentence"]
            assert began["traces_after"][0]["url"].startswith("https://traces.example/")
            assert "list_orders" in [each["stream"]["tool"] for each in streams() if each["state"] == "alarm"]
            versions = {arm["version"] for arm in json.loads(get(port, "/comparison"))["arms"]}
            assert {"1.0", "1.1"} <= versions

            admin = ("--admin", f"http://127.0.0.1:{port}")
            assert run("ack", *admin, "--tool", "no_such_tool").code == 1
            accepted = run("ack", *admin, "--all")
            assert (accepted.code, accepted.err) == (0, "")
            assert accepted.out == f"{len(streams())} streams accepted; their baseline is learned again\n"
            assert active(toolgauge) == 0
            assert {each["state"] for each in streams()} == {"learning"}
            until(lambda: announced(phase="ended", acknowledged=True), "the end of the alarm")
        assert "webhook" not in toolgauge.said()
