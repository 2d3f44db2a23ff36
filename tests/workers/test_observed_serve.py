"""Two workers behind one front are one to look at: one watch, one web view, one line a trajectory."""

import json
import re
from pathlib import Path
from typing import Any

from tests.cli.command import run
from tests.wire.alertmanager import webhook_listening
from tests.wire.destination import receiving
from tests.wire.support import (
    free_port,
    get,
    serving,
    to_grpc,
    until,
    until_equal,
)
from tests.wire.test_regressions import HEALTHY, WATCHED, WORSE, active, announced, send
from tests.workers.support import TWO, state

REGRESSION = "toolgauge.regression"


def streams(admin: int) -> list[dict[str, Any]]:
    return json.loads(get(admin, "/streams"))["streams"]


def observed(admin: int) -> int:
    """Return how many observations there are of all runs."""
    arms = json.loads(get(admin, "/comparison"))["arms"]
    return sum(arm["observations"] for arm in arms if arm["stream"]["criterion"] == "default.coverage")


def test_a_worse_release_is_one_regression_of_two_workers_and_is_known_after_a_restart(tmp_path: Path):
    admin, web = free_port(), free_port()
    settings = (TWO, f"admin.endpoint=127.0.0.1:{admin}", f"web.endpoint=127.0.0.1:{web}", *WATCHED, state(tmp_path))
    with webhook_listening() as webhook, receiving() as destination:

        def events() -> list[str]:
            texts = [each.body.string_value for each in destination.events() if each.event_name == REGRESSION]
            return [text for text in texts if "`default.tool_success` of `list_orders` fell from" in text]

        more = (f"exporters.webhook.url={webhook.url}", to_grpc(destination.grpc_port))
        with serving(tmp_path, *settings, *more, options=("--print", "all")) as toolgauge:
            send(toolgauge, HEALTHY, 60, seed=1)
            until(lambda: toolgauge.total("toolgauge_regression_observations") >= 200, "the baselines")
            send(toolgauge, WORSE, 60, seed=2)
            until(lambda: announced(webhook, phase="began"), "the message")
            until(events, "the event at the destination")
            until(lambda: toolgauge.total("toolgauge_web_trajectories") >= 120, "the trajectories of the web view")
            assert "shop-assistant" in get(web, "/")
            assert "list_orders" in [each["stream"]["tool"] for each in streams(admin) if each["state"] == "alarm"]
            # Every run is one observation, whichever worker has scored it.
            until_equal(lambda: observed(admin), 120, "all observations")
            assert "list_orders" in get(web, "/streams")
            assert toolgauge.total("toolgauge_workers_observations_dropped") == 0
            toolgauge.signal()
            assert toolgauge.ended() == 0
        # A webhook that answers late is told again.
        assert (len({each["sentence"] for each in announced(webhook, phase="began")}), len(events())) == (1, 1)
        assert "120 trajectories, " in toolgauge.said()
        # Of the 20 lines of the first second, one names the service.
        assert len(re.findall(r"pass   shop-assistant 1\.0 ", toolgauge.said())) >= 19
    with serving(tmp_path, *settings) as toolgauge:
        assert active(toolgauge) >= 1
        accepted = run("ack", "--admin", f"http://127.0.0.1:{admin}", "--all")
        assert (accepted.code, accepted.err) == (0, "")
        assert active(toolgauge) == 0
