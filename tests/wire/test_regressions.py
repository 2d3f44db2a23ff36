"""A worse release is noticed by a running toolgauge, and not forgotten when that is started anew."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import itertools
from pathlib import Path

from tests.cli.command import run
from tests.wire.destination import receiving
from tests.wire.support import (
    Toolgauge,
    free_port,
    long_ago,
    serving,
    to_grpc,
    until,
)
from toolgauge.demo.drawing import HEALTHY, WORSE, Recording, Release, drawn, recordings

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


def test_a_worse_release_is_logged_sent_as_an_event_and_known_after_a_restart(tmp_path: Path):
    state = f"state.directory={tmp_path / 'state'}"
    with receiving() as destination, serving(tmp_path, *WATCHED, state, to_grpc(destination.grpc_port)) as toolgauge:
        send(toolgauge, HEALTHY, 120, seed=1)
        until(lambda: toolgauge.total("toolgauge_regression_observations") >= 400, "the baselines")
        assert active(toolgauge) == 0
        send(toolgauge, WORSE, 80, seed=2)
        until(lambda: active(toolgauge) >= 1, "the alarm")
        until(lambda: "`default.tool_success` of `list_orders`" in toolgauge.said(), "the line of the log")
        assert "with version 1.1" in toolgauge.said()

        def event() -> str | None:
            records = [each for each in destination.events() if each.event_name == "toolgauge.regression"]
            return next((each.body.string_value for each in records if "list_orders" in each.body.string_value), None)

        assert "fell from" in until(event, "the event at the destination")
    port = free_port()
    with serving(tmp_path, *WATCHED, state, f"admin.endpoint=127.0.0.1:{port}") as toolgauge:
        assert active(toolgauge) >= 1
        send(toolgauge, WORSE, 5, seed=3)
        until(lambda: toolgauge.total("toolgauge_trajectories_total") >= 5, "the traces to close")
        # The agent's stream of all tools may follow: what was announced is not announced again.
        assert "`list_orders` fell from" not in toolgauge.said()
        alarms = active(toolgauge)
        said = ack(port, "--service", "shop-assistant", "--criterion", "default.tool_success")
        assert "accepted; their baseline is learned again" in said
        until(lambda: active(toolgauge) < alarms, "the alarm to end")
        until(lambda: "no longer compared with" in toolgauge.said(), "the line of the log")


def ack(port: int, *words: str) -> str:
    ended = run("ack", "--admin", f"http://127.0.0.1:{port}", *words)
    assert ended.code == 0, ended.err
    return ended.out


def test_without_a_state_directory_the_log_and_a_metric_say_so(tmp_path: Path):
    with serving(tmp_path) as toolgauge:
        until(lambda: "`state.directory` is not set" in toolgauge.said(), "the warning behind the addresses")
        assert toolgauge.total("toolgauge_state_durable") == 0
