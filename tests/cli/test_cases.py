"""Offline cases under `toolgauge check`, as people run it in CI."""

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

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


def test_a_case_below_its_threshold_fails_the_run(tmp_path: Path):
    assert score(tmp_path, GOOD, HALF).code == 1
    assert score(tmp_path, GOOD, {**HALF, "pass_at": 0.5}).code == 0
    assert score(tmp_path, GOOD, {**HALF, "pass_at": 0.51}).code == 1


def test_a_bad_line_is_named_and_the_rest_goes_on(tmp_path: Path):
    ended = score(tmp_path, GOOD, "{oops", "", {**GOOD, "id": 5}, {**GOOD, "id": "last"})
    assert ended.code == 1
    assert [line.split()[2] for line in ended.out.splitlines()] == ["good", "last"]
    assert "error: cases.jsonl:2: not JSON: " in ended.err
    assert "error: cases.jsonl:4: `id` must be a text\n" in ended.err
    assert ended.err.endswith("cases: 2 pass, 2 unreadable\n")


def test_an_array_over_many_lines_is_one_error(tmp_path: Path):
    ended = score(tmp_path, json.dumps([GOOD, HALF], indent=2), options=("--cases",))
    assert ended.code == 1
    why = "one JSON object a line, not an array: `jq -c '.[]' FILE` writes such lines"
    assert ended.err == f"error: cases.jsonl:1: {why}\ncases: 1 unreadable\n"


def test_a_wrong_parameter_names_file_line_case_and_key(tmp_path: Path):
    ended = score(tmp_path, {**GOOD, "config": {"stric": True}}, GOOD)
    assert ended.code == 1
    assert "error: cases.jsonl:1: case `good`: invalid_config: config: unknown parameter `stric`" in ended.err
    assert ended.err.endswith("cases: 1 error, 1 pass\n")


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_compressed_cases_score_as_plain_ones(tmp_path: Path, compress: Callable[[bytes], bytes]):
    (tmp_path / "cases.jsonl.z").write_bytes(compress(f"{json.dumps(GOOD)}\n{{oops\n{json.dumps(UNSEEN)}".encode()))
    ended = run("check", "--cases", "cases.jsonl.z", cwd=tmp_path)
    assert [line.split()[0] for line in ended.out.splitlines()] == ["pass", "not_evaluated"]
    assert "error: cases.jsonl.z:2: not JSON: " in ended.err


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


def test_registered_tools_count_where_a_case_has_no_offer(tmp_path: Path):
    (tmp_path / "tools.json").write_text(
        '[{"name": "find", "parameters": {"properties": {"key": {"type": "string"}}}}]'
    )
    called = {"calls": [{"name": "find", "args": {"key": 1}}]}
    case: dict[str, object] = {"id": "a", "evaluator": "arguments_schema", "expected": {}, "actual": called}
    assert score(tmp_path, case).out.startswith("not_evaluated no_tool_offer")
    ended = score(tmp_path, case, options=("--set", "tool_definitions=[tools.json]", "--json"))
    assert json.loads(ended.out)["details"]["calls"][0]["explanation"] == (
        "the arguments of `find` break its schema (as registered): `key` has the wrong type"
    )


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


def test_a_wrong_argument_has_expected_beside_actual(tmp_path: Path):
    case: dict[str, object] = {
        "id": "trip",
        "evaluator": "tool_call_f1",
        "expected": {"calls": [{"name": "book", "args": {"nights": 2, "to": "Rome"}}]},
        "actual": {"calls": [{"name": "book", "args": {"nights": 3, "to": "Rome"}}]},
    }
    row, line = score(tmp_path, case).out.splitlines()
    assert row.startswith(
        "fail          0.000            trip  0 of 1 expected calls match; same tool, other arguments: "
    )
    assert line == "    book: same tool, other arguments: `nights` 3 instead of 2"
    nearly = {**case, "evaluator": "tool_call_args"}
    assert score(tmp_path, nearly).out.splitlines()[1] == "    book: nights: expected 2, got 3"


def test_a_case_of_calls_has_the_reason_of_each_failing_call(tmp_path: Path):
    agent = {"type": "agent", "span_id": "a", "start": 0, "end": 99, "user": "Refund order A-17, please."}
    tool = {"type": "tool", "parent_span_id": "a", "result": "done"}
    find = {**tool, "name": "find_order", "span_id": "b", "args": {"order_id": "A-17"}, "start": 1, "end": 2}
    refunds = [
        {**tool, "name": "refund", "span_id": f"c{n}", "args": {"amount": 700 + n}, "start": 3 + n, "end": 4 + n}
        for n in range(6)
    ]
    case: dict[str, object] = {"id": "half", "evaluator": "grounded_arguments", "expected": {}}
    ended = score(tmp_path, {**case, "actual": {"traces": [{"spans": [agent, find, *refunds]}]}})
    row, *reasons, more = ended.out.splitlines()
    assert row == "fail          0.143            half  mean over 7 of 7 calls"
    assert reasons == ["    `refund` was called with values that had not been seen before: `amount`"] * 5
    assert more == "    and 1 more calls"
