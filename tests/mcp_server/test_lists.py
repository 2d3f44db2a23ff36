"""Runs are listed page by page; answers about many of them stay small."""

import json
from pathlib import Path

from tests.mcp_server.support import CORPUS, SHOWN, Called, client, text_of, trace_id, write_runs

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


async def test_what_producers_leave_out_is_diagnosed():
    async with client(CORPUS / "openai-v2" / "content_off.otlp.pb") as asked:
        answer = await asked.call_tool("diagnose_recording")
    (producer,) = answer.structured_content["producers"]
    assert not producer["ok"]
    missing = {one["what"]: one for one in producer["missing"]}
    assert missing["arguments"]["grade"] == "problem"
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in " ".join(missing["arguments"]["switches"])
