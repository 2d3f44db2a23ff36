"""A worse release is noticed by a running toolgauge, announced, compared by version, accepted, and not forgotten at a restart."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import itertools
import json
from pathlib import Path
from typing import Any

from tests.cli.command import run
from tests.wire.alertmanager import Webhook, webhook_listening
from tests.wire.destination import receiving
from tests.wire.support import Toolgauge, free_port, get, long_ago, serving, to_grpc, until
from toolgauge.demo.sample_sender import Recording, Release, drawn, recordings

HEALTHY, WORSE = Release(version="1.0", failures=0), Release(version="1.1", failures=0.5)
WATCHED = (
    "assemble.sender_retry=0s",
    "watch.baseline_min=30",
    "watch.false_alarms_per_week=4",
    "watch.conversation_idle=1s",
    "assemble.run_end_grace=100ms",
)


def shop() -> list[Recording]:
    return [each for each in recordings() if (each.framework, each.scenario) == ("openinference-langgraph", "sequence")]


def send(toolgauge: Toolgauge, release: Release, count: int, seed: int) -> None:
    for body in itertools.islice(drawn(shop(), release, seed=seed, clock=long_ago), count):
        toolgauge.send(body, "http")


def active(toolgauge: Toolgauge) -> float:
    return toolgauge.total("toolgauge_regression_active")


def announced(webhook: Webhook, **wanted: object) -> list[dict[str, Any]]:
    """What the webhook was told of the success of `list_orders`."""
    found = (each for body in tuple(webhook.notifications) for each in body["regressions"])
    which = {"tool": "list_orders", "criterion": "default.tool_success"}
    lines = (each for each in found if which.items() <= each["stream"].items())
    return [each for each in lines if wanted.items() <= each.items()]


def test_a_worse_release_is_announced_sent_known_after_a_restart_and_accepted(tmp_path: Path):
    port = free_port()
    admin = ("--admin", f"http://127.0.0.1:{port}")

    def streams() -> list[dict[str, Any]]:
        return json.loads(get(port, "/streams"))["streams"]

    with webhook_listening() as webhook, receiving() as destination:
        settings = (*WATCHED, f"admin.endpoint=127.0.0.1:{port}", f"state.directory={tmp_path / 'state'}")
        settings += (f"exporters.webhook.url={webhook.url}", "trace_url=https://traces.example/{trace_id}")
        with serving(tmp_path, *settings, to_grpc(destination.grpc_port)) as toolgauge:
            send(toolgauge, HEALTHY, 60, seed=1)
            until(lambda: toolgauge.total("toolgauge_regression_observations") >= 200, "the baselines")
            assert active(toolgauge) == 0
            live = ("compare", "--live", f"http://127.0.0.1:{port}")
            assert run(*live, "--base", "1.0", "--new", "1.1").code == 3
            send(toolgauge, WORSE, 60, seed=2)
            (began,) = until(lambda: announced(webhook, phase="began"), "the message")
            assert "`list_orders` fell from" in began["sentence"]
            assert began["traces_after"][0]["url"].startswith("https://traces.example/")
            until(lambda: "`default.tool_success` of `list_orders`" in toolgauge.said(), "the line of the log")
            assert "with version 1.1" in toolgauge.said()
            assert "list_orders" in [each["stream"]["tool"] for each in streams() if each["state"] == "alarm"]

            def event() -> str | None:
                records = [each for each in destination.events() if each.event_name == "toolgauge.regression"]
                texts = (each.body.string_value for each in records)
                return next((text for text in texts if "list_orders" in text), None)

            assert "fell from" in until(event, "the event at the destination")
            compared = until(lambda: found if (found := run(*live)).code == 1 else None, "enough conversations of 1.1")
            assert "comparing `1.1` of `shop-assistant` with `1.0`\n" in compared.err
            assert "worse: `default.tool_success` of tool `list_orders`" in compared.err
        with serving(tmp_path, *settings) as toolgauge:
            assert active(toolgauge) >= 1
            send(toolgauge, WORSE, 5, seed=3)
            until(lambda: toolgauge.total("toolgauge_trajectories_total") >= 5, "the traces to close")
            # Other streams may follow: what was announced is not announced again.
            assert "`default.tool_success` of `list_orders` fell from" not in toolgauge.said()
            assert run("ack", *admin, "--tool", "no_such_tool").code == 1
            accepted = run("ack", *admin, "--all")
            assert (accepted.code, accepted.err) == (0, "")
            assert accepted.out == f"{len(streams())} streams accepted; their baseline is learned again\n"
            assert active(toolgauge) == 0
            assert {each["state"] for each in streams()} == {"learning"}
            until(lambda: announced(webhook, phase="ended", acknowledged=True), "the end of the alarm")
            until(lambda: "no longer compared with" in toolgauge.said(), "the line of the log")


def test_without_a_state_directory_the_log_and_a_metric_say_so(tmp_path: Path):
    with serving(tmp_path) as toolgauge:
        until(lambda: "`state.directory` is not set" in toolgauge.said(), "the warning behind the addresses")
        assert toolgauge.total("toolgauge_state_durable") == 0
