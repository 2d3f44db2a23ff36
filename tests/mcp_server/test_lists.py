"""Runs are listed page by page; answers about many of them stay small."""

import json
import os
from pathlib import Path

from tests.mcp_server.support import CORPUS, SHOWN, Called, client, error_of, text_of, trace_id, write_runs

GOOD = [Called(tool="find", arguments={"id": 1})]
BAD = [Called(tool="pay", arguments={"id": 1}, error="Timeout")]


async def test_failed_runs_come_first_and_pages_follow_each_other(tmp_path: Path):
    runs = write_runs(tmp_path / "runs.jsonl", [GOOD, BAD, GOOD, BAD, GOOD])
    async with client(runs) as asked:
        first = await asked.call_tool("list_trajectories", {"limit": 3})
        second = await asked.call_tool("list_trajectories", {"limit": 3, "offset": 3})
        newest = await asked.call_tool("list_trajectories", {"order": "newest_first", "limit": 1})
    ids = [one["id"] for one in first.structured_content["trajectories"]]
    assert ids == [trace_id(3), trace_id(1), trace_id(4)]
    assert first.structured_content["next_offset"] == 3
    assert [one["id"] for one in second.structured_content["trajectories"]] == [trace_id(2), trace_id(0)]
    assert second.structured_content["next_offset"] is None
    assert newest.structured_content["trajectories"][0]["id"] == trace_id(4)
    described = first.structured_content["trajectories"][0]
    assert (described["service"], described["agent"], described["calls"]) == ("shop", "clerk", 1)
    assert (described["criterion"], described["why"]) == ("default.tool_success", "`pay` failed with `Timeout`")
    success = {one["criterion"]: one for one in first.structured_content["criteria"]}["default.tool_success"]
    assert (success["results"], success["mean"]) == ({"pass": 3, "fail": 2}, 0.6)


async def test_runs_are_chosen_by_outcome_tool_and_criterion(tmp_path: Path):
    runs = write_runs(tmp_path / "runs.jsonl", [GOOD, BAD, GOOD])
    async with client(runs) as asked:
        failed = await asked.call_tool("list_trajectories", {"outcome": "failed"})
        finding = await asked.call_tool("list_trajectories", {"tool": "find"})
        passed = await asked.call_tool("list_trajectories", {"outcome": "passed", "criterion": "default.tool_success"})
        elsewhere = await asked.call_tool("list_trajectories", {"service": "other"})
        unknown = await asked.call_tool("list_trajectories", {"criterion": "default.tool_sucess"})
    assert [answer.structured_content["matching"] for answer in (failed, finding, passed, elsewhere)] == [1, 2, 2, 0]
    assert error_of(unknown)[1] == "hint: did you mean `default.tool_success`?"


async def test_a_criterion_that_matches_nothing_is_named(tmp_path: Path):
    runs = write_runs(tmp_path / "runs.jsonl", [GOOD])
    criteria = tmp_path / "criteria.yaml"
    criteria.write_text("- {name: elsewhere, evaluator: tool_success, when: {service: 'no-such-*'}}")
    async with client(runs, criteria=criteria) as asked:
        answer = await asked.call_tool("list_trajectories")
    assert answer.structured_content["without_a_match"] == [
        "`elsewhere` matched no trajectory: look at `when.service: no-such-*`"
    ]


async def test_runs_that_there_is_no_room_for_are_counted_and_can_be_explained(tmp_path: Path):
    runs = write_runs(tmp_path / "runs.jsonl", [GOOD, BAD, *[GOOD] * 10])
    async with client(runs, max_trajectories=4) as asked:
        listed = await asked.call_tool("list_trajectories", {"limit": 50})
        answer = await asked.call_tool("explain_failure", {"trajectory": trace_id(0)})
    found = listed.structured_content
    assert (found["trajectories_total"], found["matching"], found["not_kept"]) == (12, 4, 8)
    assert found["trajectories"][0]["id"] == trace_id(1)
    success = {one["criterion"]: one for one in found["criteria"]}["default.tool_success"]
    assert success["results"] == {"pass": 11, "fail": 1}
    assert answer.structured_content["trace_id"] == trace_id(0)


async def test_answers_stay_small_however_much_there_is(tmp_path: Path):
    many = [Called(tool=f"tool_{'x' * 100}_{number}", arguments={f"argument_{place}": "y" * 5_000 for place in range(60)}, error="Timeout") for number in range(60)]  # fmt: skip
    runs = write_runs(tmp_path / "runs.jsonl", [many, *[BAD] * 60])
    async with client(runs, overrides=SHOWN) as asked:
        listed = await asked.call_tool("list_trajectories", {"limit": 50})
        answer = await asked.call_tool("explain_failure", {"trajectory": trace_id(0)})
    for found in (listed, answer):
        assert len(text_of(found)) < 20_000
        assert len(json.dumps(found.structured_content)) < 50_000
    assert answer.structured_content["calls_total"] == 60
    assert len(answer.structured_content["calls"]) < 40
    assert answer.structured_content["more_verdicts"] > 0


async def test_recordings_are_listed_the_newest_first(tmp_path: Path):
    older = write_runs(tmp_path / "older.jsonl", [GOOD])
    newer = write_runs(tmp_path / "newer.jsonl", [BAD], first=1)
    (tmp_path / "notes.json").write_text('{"nothing": "of OTLP"}')
    os.utime(older, (1_700_000_000, 1_700_000_000))
    async with client(tmp_path) as asked:
        answer = await asked.call_tool("list_recordings")
        one = await asked.call_tool("list_trajectories", {"recording": str(newer)})
        all_of_them = await asked.call_tool("list_trajectories")
    listed = answer.structured_content["recordings"]
    assert [found["recording"] for found in listed] == [str(newer), str(older)]
    assert listed[1]["modified"] == "2023-11-14T22:13:20Z"
    assert one.structured_content["trajectories_total"] == 1
    assert all_of_them.structured_content["trajectories_total"] == 2


async def test_what_producers_leave_out_is_diagnosed():
    async with client(CORPUS / "openai-v2" / "content_off.otlp.pb") as asked:
        answer = await asked.call_tool("diagnose_recording")
    (producer,) = answer.structured_content["producers"]
    assert not producer["ok"]
    missing = {one["what"]: one for one in producer["missing"]}
    assert missing["arguments"]["grade"] == "problem"
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in " ".join(missing["arguments"]["switches"])
