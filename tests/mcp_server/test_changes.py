"""What has changed between two questions is read again, what has not is answered from memory."""

from pathlib import Path

import pytest

from tests.mcp_server.support import Called, client, error_of, trace_id, write_runs
from toolgauge.mcp_server.scored_recordings import ScoredRecordings, ScoringFiles, Work
from toolgauge.model.errors import RecordingError

CHECKS = """
from pathlib import Path
from toolgauge.model.outcomes import Scored

with Path({ran!r}).open("a") as file:
    file.write({explanation!r} + "\\n")

class Own:
    version = "1"
    level = "trajectory"

    def evaluate(self, trajectory, expected):
        yield None, Scored(0.0, {explanation!r})
"""
GOOD = [Called(tool="find", arguments={"id": 1})]
BAD = [Called(tool="pay", arguments={"id": 1}, error="Timeout")]


async def test_a_recording_that_grows_is_read_again(tmp_path: Path):
    runs = write_runs(tmp_path / "runs.jsonl", [GOOD])
    async with client(tmp_path) as asked:
        before = await asked.call_tool("list_trajectories")
        write_runs(runs, [BAD], first=1)
        after = await asked.call_tool("explain_failure")
        write_runs(tmp_path / "more.jsonl", [BAD], first=2)
        more = await asked.call_tool("list_trajectories", {"outcome": "failed"})
        runs.unlink()
        less = await asked.call_tool("list_trajectories")
    assert before.structured_content["trajectories_total"] == 1
    assert after.structured_content["trace_id"] == trace_id(1)
    assert more.structured_content["matching"] == 2
    assert less.structured_content["trajectories_total"] == 1


def test_few_recordings_are_kept(tmp_path: Path):
    paths = [write_runs(tmp_path / f"{number}.jsonl", [GOOD]) for number in range(6)]
    recordings, scoring = ScoredRecordings(), ScoringFiles().load()
    found = [recordings.scored((str(path),), scoring, Work()) for path in paths]
    assert recordings.scored((str(paths[-1]),), scoring, Work()) is found[-1]
    assert recordings.scored((str(paths[0]),), scoring, Work()) is not found[0]


def test_reading_ends_when_the_question_is_withdrawn(tmp_path: Path):
    runs = write_runs(tmp_path / "runs.jsonl", [GOOD] * 3)
    work = Work()
    work.withdraw()
    with pytest.raises(RecordingError, match="withdrawn"):
        ScoredRecordings().scored((str(runs),), ScoringFiles().load(), work)
    assert 0 < work.done_bytes < runs.stat().st_size
    assert work.total_bytes == runs.stat().st_size


async def test_code_of_evaluators_runs_at_the_start_and_never_for_a_question(tmp_path: Path):
    runs = write_runs(tmp_path / "runs.jsonl", [GOOD])
    criteria, code, ran = tmp_path / "criteria.yaml", tmp_path / "checks.py", tmp_path / "ran"
    code.write_text(CHECKS.format(ran=str(ran), explanation="as at the start"))
    criteria.write_text("- {name: own, evaluator: './checks.py:Own'}")
    async with client(runs, criteria=criteria) as asked:
        before = await asked.call_tool("explain_failure")
        criteria.write_text("- {name: renamed, evaluator: './checks.py:Own'}")
        renamed = await asked.call_tool("explain_failure")
        (tmp_path / "other.py").write_text(CHECKS.format(ran=str(ran), explanation="another file"))
        criteria.write_text("- {name: own, evaluator: './other.py:Own'}")
        other = await asked.call_tool("explain_failure")
        code.write_text(CHECKS.format(ran=str(ran), explanation="changed since"))
        criteria.write_text("- {name: own, evaluator: './checks.py:Own'}")
        changed = await asked.call_tool("explain_failure")
    assert before.structured_content["verdicts"][0]["explanation"] == "as at the start"
    assert renamed.structured_content["verdicts"][0]["criterion"] == "renamed"
    assert f"`{tmp_path / 'other.py'}` is code that was not named when this process was started" in error_of(other)[0]
    assert error_of(changed)[0].startswith(f"error: the evaluators in `{code}` have changed")
    assert ran.read_text() == "as at the start\n"
