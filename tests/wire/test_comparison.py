"""A running toolgauge is asked, by version, whether a release is worse."""

import itertools
import json
from pathlib import Path

from tests.cli.command import run
from tests.wire.support import Toolgauge, free_port, get, long_ago, serving, until
from toolgauge.demo.drawing import Release, drawn, recordings

SHOP = [each for each in recordings() if (each.framework, each.scenario) == ("openinference-langgraph", "sequence")]
GOOD = Release(version="1.0", failures=0)
WORSE = Release(version="1.1", failures=0.5)


def send(toolgauge: Toolgauge, release: Release, count: int) -> None:
    for body in itertools.islice(drawn(SHOP, release, seed=1, clock=long_ago), count):
        toolgauge.send(body, "http")


def observed(port: int, version: str) -> int:
    arms = json.loads(get(port, "/comparison"))["arms"]
    # Some criteria have a result for few conversations.
    successes = (arm for arm in arms if arm["stream"]["criterion"] == "default.tool_success")
    return min((arm["observations"] for arm in successes if arm["version"] == version), default=0)


def test_a_worse_release_is_worse_as_soon_as_that_is_known(tmp_path: Path):
    port = free_port()
    settings = ("watch.conversation_idle=1s", "assemble.run_end_grace=100ms", f"admin.endpoint=127.0.0.1:{port}")
    with serving(tmp_path, *settings) as toolgauge:
        send(toolgauge, GOOD, 60)
        until(lambda: observed(port, "1.0") >= 60, "the conversations of 1.0")
        early = run("compare", "--live", f"http://127.0.0.1:{port}", "--base", "1.0", "--new", "1.1")
        assert early.code == 3, early.err
        send(toolgauge, WORSE, 60)
        until(lambda: observed(port, "1.1") >= 60, "the conversations of 1.1")
        ended = run("compare", "--live", f"http://127.0.0.1:{port}")
    assert ended.code == 1, ended.err
    assert "comparing `1.1` of `shop-assistant` with `1.0`\n" in ended.err
    assert "worse: `default.tool_success` of tool `list_orders`" in ended.err
