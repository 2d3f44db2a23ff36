"""Two workers behind one front are one to look at: one watch, one web view, one line a trajectory."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

from tests.cli.command import run
from tests.wire.alertmanager import webhook_listening
from tests.wire.destination import receiving
from tests.wire.support import (
    Toolgauge,
    free_port,
    get,
    long_ago,
    serving,
    to_grpc,
    until,
    until_equal,
)
from tests.wire.test_regressions import HEALTHY, WATCHED, WORSE, active, send, shop
from tests.workers.support import TWO, state
from toolgauge.demo.drawing import Release, drawn

RUNS = 60


def settings(admin: int, web: int) -> tuple[str, ...]:
    return (TWO, f"admin.endpoint=127.0.0.1:{admin}", f"web.endpoint=127.0.0.1:{web}", *WATCHED)


def streams(admin: int) -> list[dict[str, Any]]:
    return json.loads(get(admin, "/streams"))["streams"]


def all_are_shown(toolgauge: Toolgauge, web: int, count: int) -> None:
    until(lambda: toolgauge.total("toolgauge_web_trajectories") >= count, "the trajectories of the web view")
    assert "shop-assistant" in get(web, "/")


def test_a_worse_release_is_one_regression_of_two_workers_and_is_known_after_a_restart(tmp_path: Path):
    admin, web = free_port(), free_port()
    with webhook_listening() as webhook, receiving() as destination:
        more = (f"exporters.webhook.url={webhook.url}", state(tmp_path), to_grpc(destination.grpc_port))
        with serving(tmp_path, *settings(admin, web), *more) as toolgauge:
            send(toolgauge, HEALTHY, 120, seed=1)
            until(lambda: toolgauge.total("toolgauge_regression_observations") >= 400, "the baselines")
            all_are_shown(toolgauge, web, 120)
            send(toolgauge, WORSE, 80, seed=2)

            def began() -> list[dict[str, Any]]:
                found = (each for body in tuple(webhook.notifications) for each in body["regressions"])
                return [each for each in found if (each["phase"], each["stream"]["tool"]) == ("began", "list_orders")]

            def events() -> list[str]:
                records = (each for each in destination.events() if each.event_name == "toolgauge.regression")
                return [
                    each.body.string_value for each in records if "`list_orders` fell from" in each.body.string_value
                ]

            until(began, "the message")
            until(events, "the event at the destination")
            until(lambda: toolgauge.total("toolgauge_trajectories_total") >= 200, "all traces to close")
            assert "list_orders" in [each["stream"]["tool"] for each in streams(admin) if each["state"] == "alarm"]
            # Every run is one observation, whichever worker has scored it.
            until_equal(lambda: observed(admin), 200, "all observations")
            assert "list_orders" in get(web, "/streams")
            assert toolgauge.total("toolgauge_workers_observations_dropped") == 0
        assert (len(began()), len(events())) == (1, 1)
    with serving(tmp_path, *settings(admin, web), state(tmp_path)) as toolgauge:
        assert active(toolgauge) >= 1
        accepted = run("ack", "--admin", f"http://127.0.0.1:{admin}", "--all")
        assert (accepted.code, accepted.err) == (0, "")
        assert active(toolgauge) == 0


def observed(admin: int) -> int:
    """Return how many observations there are of all runs."""
    arms = json.loads(get(admin, "/comparison"))["arms"]
    return sum(arm["observations"] for arm in arms if arm["stream"]["criterion"] == "default.coverage")


def test_runs_of_both_workers_are_printed(tmp_path: Path):
    admin, web = free_port(), free_port()
    release = Release(version="1.0", failures=0)
    with serving(tmp_path, *settings(admin, web), options=("--print", "all")) as toolgauge:
        for body in itertools.islice(drawn(shop(), release, seed=1, clock=long_ago), RUNS):
            toolgauge.send(body, "http")
        all_are_shown(toolgauge, web, RUNS)
        toolgauge.signal()
        assert toolgauge.ended() == 0
    assert f"{RUNS} trajectories, " in toolgauge.said()
    # Of the 20 lines of the first second, one names the service.
    assert len(re.findall(r"pass   shop-assistant 1\.0 ", toolgauge.said())) >= 19
