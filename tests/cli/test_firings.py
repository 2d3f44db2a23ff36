"""`check --firings` and `--labels` as people run them, over a recording of runs that fail now and then."""

import json
import re
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Ended
from tests.recordings.recordings import WORSE, written
from tests.walk.test_feedback import verdict
from toolgauge.cli.main import main

ROOT = Path(__file__).parent.parent
HEALTHY = str(ROOT / "corpus" / "pydantic-ai" / "one_call.otlp.pb")
RUNS = 40
JUDGED_BY_A_MODEL = "- {name: choice, evaluator: tool_selection_accuracy, enforce: shadow}"


def run(*arguments: str) -> Ended:
    """Run in this process: most of the time a process takes is its start."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main(["check", "--firings", "--fail-on", "nothing", *arguments])
    return Ended(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(written(tmp_path_factory.mktemp("recorded") / "runs.otlp", WORSE, RUNS, seed=1))


@pytest.fixture(scope="module")
def failing(recording: str) -> dict[str, bool]:
    """By trace: whether `default.tool_success` fails on it, as the results have it."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()):
        main(["check", "--fail-on", "nothing", "--json", recording])
    found: dict[str, bool] = {}
    for line in out.getvalue().splitlines():
        result = json.loads(line)
        if result["criterion"] == "default.tool_success":
            found[result["trace_id"]] = found.get(result["trace_id"], False) or result["outcome"] == "fail"
    return found


@pytest.fixture
def labels(tmp_path: Path, failing: dict[str, bool]) -> Path:
    """Label every failing run but one as failed, and of the others one."""
    fired = [trace for trace, fails in failing.items() if fails]
    quiet = [trace for trace, fails in failing.items() if not fails]
    rows = [
        *((trace, "failed") for trace in (*fired[1:], quiet[0])),
        *((trace, "ok") for trace in (fired[0], *quiet[1:])),
    ]
    file = tmp_path / "labels.csv"
    file.write_text("trace_id,verdict\n" + "".join(f"{trace},{verdict}\n" for trace, verdict in rows))
    return file


def criterion(ended: Ended, name: str) -> dict[str, Any]:
    report = json.loads(ended.out)
    return next(each for each in report["criteria"] if each["criterion"] == name)


def test_a_criterion_fires_as_often_as_runs_fail_in_a_replay(recording: str, failing: dict[str, bool]):
    ended = run("--json", recording)
    fired = criterion(ended, "default.tool_success")["fired"]
    expected = sum(failing.values())
    assert 0 < expected < RUNS
    assert (ended.code, ended.err) == (0, "")
    assert (fired["count"], fired["of"]) == (expected, RUNS)


def test_labels_show_what_it_gets_right(recording: str, failing: dict[str, bool], labels: Path):
    fired = sum(failing.values())
    ended = run(recording, "--labels", str(labels))
    row = next(line for line in ended.out.splitlines() if re.match(r"default\.tool_success +1 of ", line))
    cells = re.split(r" {2,}", row)
    assert cells[1:4] == [f"1 of {RUNS - fired}", f"{fired - 1} of {fired}", "0"]
    assert cells[4].startswith(f"{(fired - 1) / fired:.2f} [")
    assert cells[6].startswith(f"{(RUNS - 2) / RUNS:.2f} [")
    alarm = next(trace for trace, fails in failing.items() if fails)
    heading = "  `default.tool_success` fired, labelled as passed"
    assert f"{heading}\n    {alarm}\n" in ended.out
    assert (ended.code, ended.err) == (0, "")


def test_verdicts_in_the_recording_are_labels(recording: str, failing: dict[str, bool], tmp_path: Path):
    thumbs = [verdict("down" if fails else "up", trace=bytes.fromhex(trace)) for trace, fails in failing.items()]
    for number, body in enumerate((*thumbs, verdict("so-so", trace=bytes(range(16))))):
        (tmp_path / f"{number}.logs.otlp.pb").write_bytes(body)
    ended = run(recording, str(tmp_path), "--json")
    (source,) = json.loads(ended.out)["labels"]
    assert (source["name"], source["passed"] + source["failed"], source["unread"]) == ("thumbs", RUNS, 1)
    (beside,) = criterion(ended, "default.tool_success")["labels"]
    assert (beside["label"], beside["agreement"]["share"], beside["precision"]["share"]) == ("thumbs", 1.0, 1.0)
    assert ended.err == "warning: 1 values of `thumbs` are no verdicts, the first is `so-so`\n"


def test_judge_calls_are_counted_and_none_is_made(tmp_path: Path):
    (tmp_path / "criteria.yaml").write_text(JUDGED_BY_A_MODEL)
    ended = run(HEALTHY, "--criteria", str(tmp_path / "criteria.yaml"), "--json")
    found = criterion(ended, "choice")
    assert (found["judge_calls"], found["reasons"], found["enforce"]) == (1, {"judge_budget": 1}, "shadow")
    shown = run(HEALTHY, "--criteria", str(tmp_path / "criteria.yaml")).out.splitlines()
    assert shown[-1] == "judge calls that `toolgauge serve` would make: at least 1 (`choice` 1)"
