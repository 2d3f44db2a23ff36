"""The web view of a running toolgauge: from a sender's spans to a page, through reloads, to the end."""

import contextlib
import http.client
import re
import socket
from pathlib import Path

import pytest

from tests.cli.command import run
from tests.wire.support import SENDING_SHORTLY, Toolgauge, free_port, get, recorded, request, serving, to_grpc, until
from tests.wire.test_reload import other_trace, running
from toolgauge.model.json import Json


def web_port(toolgauge: Toolgauge) -> int:
    found = until(lambda: re.search(r"web view on http://127.0.0.1:(\d+)", toolgauge.said()), "its address in the log")
    return int(found[1])


def tag_of(port: int, path: str) -> str:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", path)
        return connection.getresponse().headers["ETag"]


def trace_links(port: int) -> list[str]:
    return re.findall(r'href="(/trajectories/[0-9a-f]{32})"', get(port, "/trajectories"))


def test_a_trajectory_changes_the_list_and_has_a_page(tmp_path: Path):
    with serving(tmp_path) as toolgauge:
        port = web_port(toolgauge)
        shown = {"If-None-Match": tag_of(port, "/trajectories")}
        toolgauge.send_recorded("pydantic-ai", "tool_error")
        until(lambda: request(port, "GET", "/trajectories", None, shown)[0] == 200, "a change of the page")
        [link] = set(until(lambda: trace_links(port), "the trajectory"))
        page = get(port, link)
        assert "<html" in page
        assert "tool_success" in page
        assert request(port, "GET", "/trajectories/" + 32 * "0", None, {})[0] == 404
        assert toolgauge.total("toolgauge_web_trajectories") == 1
        assert 1000 < toolgauge.total("toolgauge_web_trajectories_bytes") < 100_000
        assert toolgauge.total("toolgauge_web_trajectories_evicted_total") == 0
        assert request(port, "GET", "/", None, {"Host": "evil.example"})[0] == 403
        assert toolgauge.total("toolgauge_faults_total") == 0


def test_pages_are_answered_while_it_stops_and_open_ones_hold_nothing_up(tmp_path: Path):
    with serving(tmp_path, to_grpc(free_port()), patched=SENDING_SHORTLY) as toolgauge:
        port = web_port(toolgauge)
        toolgauge.send_recorded("pydantic-ai", "tool_error")
        until(lambda: trace_links(port), "the trajectory")
        with socket.create_connection(("127.0.0.1", port)) as silent:
            silent.sendall(b"GET / HTTP/1.1\r\n")
            toolgauge.signal()
            until(lambda: "stopping: " in toolgauge.said(), "the beginning of the end")
            assert trace_links(port)
            assert toolgauge.ended() == 1


def test_links_redaction_and_criteria_are_adopted_and_sizes_wait_for_the_next_start(tmp_path: Path):
    before, after = (f"https://{moment}.example/" for moment in ("before", "after"))
    mine: Json = {"name": "mine", "evaluator": "tool_call_f1", "match": "name", "expected": ["pay"], "pass_at": 0.7}
    (body,) = recorded("pydantic-ai", "tool_error")
    with running(tmp_path, {"trace_url": before + "{trace_id}"}) as toolgauge:
        port = web_port(toolgauge)
        toolgauge.send(body, "http")
        [link] = set(until(lambda: trace_links(port), "the trajectory"))
        assert before in get(port, link)
        changed: dict[str, Json] = {"redact": {"values": "show"}, "trace_url": after + "{trace_id}", "criteria": [mine]}
        said = toolgauge.reload(changed)
        assert "redact.values" in said
        assert "criterion mine is new" in said
        assert after in get(port, link)
        toolgauge.send(other_trace(body), "http")
        [other] = until(lambda: set(trace_links(port)) - {link}, "another trajectory")
        assert "passes at 0.7" in get(port, other)
        # The test's own section replaces none of these keys.
        toolgauge.file.write_text(toolgauge.file.read_text().replace('"web": {', '"web": {"max_trajectories": 7, '))
        toolgauge.hang_up()
        until(lambda: "not applied until the next start: web.max_trajectories" in toolgauge.said(), "the warning")


def test_without_it_nothing_listens_and_nothing_is_kept(tmp_path: Path):
    with serving(tmp_path, "web=null") as toolgauge:
        toolgauge.send_recorded("pydantic-ai", "tool_error")
        until(lambda: toolgauge.total("toolgauge_trajectories_total"), "the trajectory")
        assert "web view" not in toolgauge.said()
        assert "toolgauge_web_" not in toolgauge.exposition()


def test_the_catalogue_of_a_running_process_is_the_same_by_page_command_and_metrics(tmp_path: Path):
    prices = "costs.prices={stub*: {input_per_million: 1000, output_per_million: 1000}}"
    with serving(tmp_path, prices) as toolgauge:
        port = web_port(toolgauge)
        for scenario in ("sequence3", "tool_error"):
            toolgauge.send_recorded("pydantic-ai", scenario)
        until(lambda: toolgauge.total("toolgauge_trajectories_total") == 2, "two runs")
        ended = run("compare", "--agents", "--live", f"http://127.0.0.1:{port}")
        assert ended.out.startswith("assistant of pydantic-ai-demo\n  2 runs, 1 without a fault seen, 1 failed\n")
        assert toolgauge.total("toolgauge_trajectory_tokens_count") == 2
        assert toolgauge.total("toolgauge_trajectory_duration_seconds_count") == 2
        tokens = toolgauge.total("toolgauge_trajectory_tokens_sum")
        assert toolgauge.total("toolgauge_trajectory_cost_sum") == pytest.approx(tokens / 1000)
        assert f"tokens {tokens:,.0f}, time " in ended.out
        assert f", cost {tokens / 1000:.4g} USD\n" in ended.out
        [link] = re.findall(r'href="(/agents/[0-9a-f]{16})"', get(port, "/agents"))
        assert "get_user" in get(port, link)
