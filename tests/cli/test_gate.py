"""`replay` and `score` as a step of CI runs them: exit codes, last lines, reports, annotations."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.command import Ended, run, unbroken
from tests.forked import start
from toolgauge.model.json import JsonObject

TRAFFIC = Path(__file__).parents[2] / "src" / "toolgauge" / "demo" / "traffic"
REFUND = [str(file) for file in sorted(TRAFFIC.glob("openinference-langgraph.sequence.*"))]
# The run refunds 42.5, and looks up another customer.
CRITERIA = """
- name: amounts
  evaluator: tool_call_args
  tools: [refund_order]
  expected: [{name: refund_order, args: {amount: 40.0}}]
- name: trial
  evaluator: tool_call_args
  enforce: shadow
  tools: [find_customer]
  expected: [{name: find_customer, args: {email: eve@example.com}}]
- {name: typo, evaluator: tool_success, when: {service: "no-such-*"}}
"""
IN_ACTIONS = {"GITHUB_ACTIONS": "true"}
ON_MACHINE = {"GITHUB_ACTIONS": "", "GITHUB_STEP_SUMMARY": ""}


@pytest.fixture
def criteria(tmp_path: Path) -> str:
    (tmp_path / "criteria.yaml").write_text(CRITERIA)
    return str(tmp_path / "criteria.yaml")


def replay(criteria: str, *options: str, environment: dict[str, str] = ON_MACHINE) -> Ended:
    """Run the check with conditions, and without the one that no run may fail."""
    return run("check", "--fail-on", "nothing", "--criteria", criteria, *options, *REFUND, environment=environment)


def test_without_a_condition_failures_end_with_0_and_the_options_are_named_last(criteria: str):
    ended = replay(criteria)
    assert ended.code == 0
    assert unbroken(ended.err).splitlines()[-1] == (
        "exit code 0, although 1 result is `fail` or `error`; "
        "`--fail-on fail,error` or `--fail-under NAME=0.9` end with 1"
    )


def test_each_condition_that_does_not_hold_is_named_and_ends_with_1(criteria: str):
    ended = replay(criteria, "--fail-on", "fail,error", "--fail-on", "not_evaluated", "--fail-under", "amounts=0.5")
    assert ended.code == 1
    assert [line for line in ended.err.splitlines() if line.startswith("gate")] == [
        "gate passed: `--fail-on error`: no result is `error`; 19 scores",
        "gate failed: `--fail-on fail`: 1 result `fail`: `amounts` 1",
        "gate failed: `--fail-on not_evaluated`: `typo` matched no trajectory",
        "gate failed: `--fail-under amounts=0.5`: the mean of `amounts` is 0.000 (1 score), under 0.5",
    ]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--fail-under", "amuonts=0.9"), "no criterion called `amuonts`; known: `default.run_completed`, "),
        (("--fail-under", "amounts=90"), "`amounts=90` is no NAME=SCORE with a score from 0 to 1"),
        (("--fail-under", "amounts"), "`amounts` is no NAME=SCORE"),
        (("--fail-under", "amounts=1", "--fail-under", "amounts=0.5"), "criterion `amounts` is given twice"),
        (("--fail-on", "fail,failure"), "no outcome called `failure`; known: `fail`, `error`, `not_evaluated`"),
        (("--junit", "no-such-place/report.xml"), "there is no directory `no-such-place`"),
    ],
)
def test_what_cannot_be_meant_ends_with_2(criteria: str, option: tuple[str, ...], message: str):
    ended = replay(criteria, *option)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err


def test_reports_of_a_replay_have_expected_beside_actual_where_values_are_shown(criteria: str, tmp_path: Path):
    junit, markdown = tmp_path / "report.xml", tmp_path / "report.md"
    options = ("--junit", str(junit), "--markdown", str(markdown))
    shown = replay(criteria, *options, "--set", "redact.values=show", "--fail-on", "fail")
    assert shown.code == 1
    (failure,) = ET.parse(junit).findall("testsuite[@name='amounts']/testcase/failure")  # noqa: S314 - our own
    difference = "refund_order: amount (exact): expected 40.0, got 42.5"
    assert f"  {difference}" in (failure.text or "").splitlines()
    assert "expected 40.0&#44; got 42.5</code>" in markdown.read_text()
    assert markdown.read_text().startswith("### toolgauge check: failed, 1 failure\n")
    assert replay(criteria, *options).code == 0
    assert "42.5" not in junit.read_text() + markdown.read_text()
    assert markdown.read_text().startswith("### toolgauge check: 1 failure\n")


def test_the_summary_of_a_step_is_appended_to(criteria: str, tmp_path: Path):
    summary = tmp_path / "summary.md"
    summary.write_text("# Mine\n")
    environment = {"GITHUB_STEP_SUMMARY": str(summary), "GITHUB_ACTIONS": ""}
    assert replay(criteria, "--markdown", str(summary), environment=environment).code == 0
    assert summary.read_text().startswith("# Mine\n### toolgauge check: 1 failure\n")


def test_annotations_go_to_standard_error_where_actions_run(criteria: str):
    ended = replay(criteria, "--json", "--fail-on", "fail", environment=IN_ACTIONS)
    assert [line for line in ended.out.splitlines() if not line.startswith("{")] == []
    commands = [line for line in ended.err.splitlines() if line.startswith("::")]
    assert [command.partition("::amounts")[0].split(" of shop")[0] for command in commands] == [
        "::error title=--fail-on fail::1 result `fail`: `amounts` 1",
        "::error title=amounts%3A trace 7eabeccfb1a92e956d7b86c8164360e8",
    ]
    assert "::" not in replay(criteria, "--fail-on", "fail").err


def without_reader(arguments: Sequence[str], directory: Path) -> int:
    """Run `toolgauge` with a closed pipe as standard output."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    words = [sys.executable, "-m", "toolgauge", *arguments]
    with (directory / "err").open("w") as err:
        code = start(words, stdout=write_end, stderr=err.fileno(), env=ON_MACHINE, cwd=directory).wait(300)
    os.close(write_end)
    return code


def test_a_gate_holds_also_when_nobody_reads_the_results(criteria: str, tmp_path: Path):
    options: tuple[list[str], ...] = (["--fail-on", "error"], [], ["--fail-on", "fail", "--json"])
    words = ("check", "--criteria", criteria, *REFUND)
    assert [without_reader([*words, *some], tmp_path) for some in options] == [0, 1, 1]


def test_a_verdict_is_the_exit_code_also_when_nobody_reads_the_results(tmp_path: Path):
    case: JsonObject = {
        "evaluator": "tool_call_f1",
        "config": {},
        "expected": {"calls": [{"name": "pay"}]},
        "actual": {"calls": []},
    }
    (tmp_path / "cases.jsonl").write_text("".join(f"{json.dumps({'id': str(n), **case})}\n" for n in range(500)))
    (tmp_path / "empty.json").write_text('{"resourceSpans": []}')
    commands = (["check", "cases.jsonl"], ["compare", REFUND[0], REFUND[0]], ["doctor", "empty.json"])
    assert [without_reader(words, tmp_path) for words in commands] == [1, 3, 1]
