"""Offline cases under `toolgauge check`, as people run it in CI."""

import json
from pathlib import Path

from tests.cli.command import Ended, run

GOOD: dict[str, object] = {
    "id": "good",
    "evaluator": "uipath.tool_call_order",
    "expected": {"tool_calls_order": ["a"]},
    "actual": {"trajectory": ["a"]},
}
HALF: dict[str, object] = {**GOOD, "id": "half", "expected": {"tool_calls_order": ["a", "b"]}}
UNSEEN: dict[str, object] = {**GOOD, "id": "unseen", "expected": None}


def score(folder: Path, *cases: dict[str, object] | str, options: tuple[str, ...] = ()) -> Ended:
    (folder / "cases.jsonl").write_text(
        "\n".join(case if isinstance(case, str) else json.dumps(case) for case in cases)
    )
    return run("check", "cases.jsonl", *options, cwd=folder)


def test_a_row_a_case_and_a_summary(tmp_path: Path):
    ended = score(tmp_path, GOOD, UNSEEN)
    assert ended.code == 0
    assert ended.out.splitlines() == [
        "pass          1.000            good  1 of 1 expected calls were made in the expected order",
        "not_evaluated no_reference     unseen  nothing is given to compare with",
    ]
    assert ended.err == "cases: 1 pass, 1 not_evaluated\n"


def test_a_bad_line_is_named_and_the_rest_goes_on(tmp_path: Path):
    ended = score(tmp_path, GOOD, "{oops", "", {**GOOD, "id": 5}, {**GOOD, "id": "last"})
    assert ended.code == 1
    assert [line.split()[2] for line in ended.out.splitlines()] == ["good", "last"]
    assert "error: cases.jsonl:2: not JSON: " in ended.err
    assert "error: cases.jsonl:4: `id` must be a text\n" in ended.err
    assert ended.err.endswith("cases: 2 pass, 2 unreadable\n")


def test_a_wrong_parameter_names_file_line_case_and_key(tmp_path: Path):
    ended = score(tmp_path, {**GOOD, "config": {"stric": True}}, GOOD)
    assert ended.code == 1
    assert "error: cases.jsonl:1: case `good`: invalid_config: config: unknown parameter `stric`" in ended.err
    assert ended.err.endswith("cases: 1 error, 1 pass\n")


def test_cases_of_one_id_are_all_scored_and_a_warning_names_both(tmp_path: Path):
    (tmp_path / "more.jsonl").write_text(json.dumps(GOOD))
    (tmp_path / "cases.jsonl").write_text("\n\n".join(map(json.dumps, (GOOD, UNSEEN, GOOD))))
    ended = run("check", "--cases", "cases.jsonl", "more.jsonl", cwd=tmp_path)
    assert ended.code == 0
    assert ended.err.splitlines() == [
        "warning: cases.jsonl:5: case `good` has the id of cases.jsonl:1",
        "warning: more.jsonl:1: case `good` has the id of cases.jsonl:1",
        "cases: 3 pass, 1 not_evaluated",
    ]


def test_line_breaks_are_line_breaks_and_no_text_passes_for_a_row(tmp_path: Path):
    hostile = "y\x1b[31m\r\npass          1.000            forged"
    ended = score(tmp_path, {**GOOD, "config": {"x": 1, hostile: 2}})
    lines = ended.out.splitlines()
    assert lines[0] == "error         invalid_config   good  2 problems in the configuration"
    assert lines[1].startswith("      config: unknown parameter `x` of evaluator `uipath.tool_call_order`")
    assert lines[2] == "      config: unknown parameter `y\\x1b[31m"
    assert lines[3].startswith("    pass          1.000            forged` of evaluator ")
    assert ended.err.splitlines()[1].startswith("      config: unknown parameter `x` ")
    assert "\x1b" not in ended.out + ended.err
