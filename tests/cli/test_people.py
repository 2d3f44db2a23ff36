"""`inspect` and `doctor` as people and scripts run them."""

import json
from pathlib import Path

import pytest

from tests.cli.command import run, run_on_terminal
from tests.wire.agent_runs import AgentRun, request

CORPUS = Path(__file__).parent.parent / "corpus"
HEALTHY = str(CORPUS / "pydantic-ai" / "one_call.otlp.pb")
MAILED = str(CORPUS.parent.parent / "src" / "toolgauge" / "demo" / "traffic" / "pydantic-ai.sequence3.otlp.pb")
SILENT = str(CORPUS / "pydantic-ai" / "content_off.otlp.pb")


def test_doctor_ends_with_1_where_something_is_missing():
    ended = run("doctor", SILENT)
    assert (ended.code, ended.err) == (1, "")
    assert ended.out.startswith("pydantic-ai-demo: pydantic-ai 2.68.0\n")
    assert "problem: no arguments in 3 of 3 calls, no results in 3 of 3 calls" in ended.out


def test_doctor_ends_with_0_where_all_is_well():
    ended = run("doctor", HEALTHY)
    assert (ended.code, ended.err) == (0, "")
    assert "nothing is missing" in ended.out


def test_doctor_finds_nothing_missing_of_no_calls():
    ended = run("doctor", str(CORPUS / "pydantic-ai" / "no_tool.otlp.pb"))
    assert ", 0 calls\n  no tool call: nothing to judge\n" in ended.out
    assert "nothing is missing" not in ended.out


def test_doctor_prints_one_object_a_producer():
    ended = run("doctor", "--json", SILENT, HEALTHY)
    (line,) = ended.out.splitlines()
    assert [missing["what"] for missing in json.loads(line)["missing"]] == ["arguments", "results", "user_text"]


def test_doctor_says_when_nothing_is_recognised(tmp_path: Path):
    empty = tmp_path / "spans.json"
    empty.write_text('{"resourceSpans": []}')
    ended = run("doctor", str(empty))
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("nothing recognised: none of 0 spans and log records")


def test_doctor_of_a_missing_file_is_an_error():
    ended = run("doctor", "/nowhere.otlp.pb")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "error: no such file: `/nowhere.otlp.pb`\n"


def test_stats_are_one_object():
    ended = run("inspect", "--stats", "--json", SILENT)
    assert json.loads(ended.out)["calls"]["arguments"] == {"not_recorded": 3}


def test_stats_name_no_values():
    ended = run("inspect", "--stats", HEALTHY)
    assert ended.out.startswith("spans and log records: 4\n")
    assert "Lima" not in ended.out


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_colour_is_for_terminals_that_want_it(environment: dict[str, str], coloured: bool):  # noqa: FBT001 (a parameter of the test)
    shown = run_on_terminal("inspect", SILENT, environment=environment).out
    assert "get_user" in shown
    assert ("\x1b[" in shown) is coloured


def test_a_pipe_gets_no_colour():
    assert "\x1b[" not in run("inspect", SILENT, environment={"TERM": "xterm"}).out


def test_inspect_masks_secrets_but_not_for_programs():
    shown, printed = run("inspect", MAILED).out, run("inspect", "--json", MAILED).out
    assert 'send_email(to="[email]", ' in shown
    assert "zoe@example.com" not in shown
    assert "zoe@example.com" in printed


def test_doctor_says_that_traces_are_split(tmp_path: Path):
    for number in range(2):
        spans = AgentRun(number, 1_800_000_000_000_000_000, 1_800_000_006_000_000_000).spans()
        (tmp_path / f"{number}.otlp.pb").write_bytes(request(spans if number else [*spans[:2], *spans[3:]]))
    ended = run("doctor", str(tmp_path))
    assert "split: 1 of 2 trajectories lack some spans" in ended.err
    assert "`routing_key: traceID`" in ended.err
