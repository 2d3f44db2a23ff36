"""Calls that failed by nothing but their results: errors as text, exit codes and error pages."""

import pytest
from msgspec.structs import replace

from tests.rows import each_row
from tests.score.support import judge, scored, tool_call, trajectory
from toolgauge.evaluators.tool_checks import ToolSuccess
from toolgauge.model.content import Content, Recorded
from toolgauge.model.json import Json
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import Scored
from toolgauge.model.trajectory import ToolCall, TrajectoryScope
from toolgauge.score.criterion import Criterion, ToolKinds
from toolgauge.score.error_texts import error_in
from toolgauge.score.scorer import Scorer

ERRORS: tuple[Json, ...] = (
    "Error: the order has been shipped",
    "ERROR - no such table",
    "**Error**: no such order",
    "Tool error (404): no such page",
    "Error 503",
    "An error occurred while booking the flight",
    "Internal server error",
    "ValueError: invalid literal for int()",
    "Traceback (most recent call last):\n  File ...",
    "Failed to fetch https://example.org",
    "Unable to cancel the order.",
    "Request failed with status code 500",
    "Invalid order id",
    "404 Not Found",
    "HTTP 502",
    "Exit code: 2\nls: no such file",
    "make: *** [all] Error 2\nCommand exited with code 2",
    "ls: cannot access 'x'\n[exit code 2]",
    {"stdout": "", "stderr": "no such file", "exit_code": 1},
    {"output": "no such file", "metadata": {"exit_code": 127, "duration_seconds": 0.1}},
    {"content": [{"type": "text", "text": "Error: no such order"}]},
)
NO_ERRORS: tuple[Json, ...] = (
    "",
    "3 orders",
    "No results found for 'error handling'",
    "Error handling in Python: a tutorial",
    "The error rate is 5 %",
    "Forbidden City - Wikipedia",
    "Exit code: 0\ndone",
    "Process exited with code 0",
    "An exit code of 1 means that a program failed.",
    "404 items in stock",
    {"exit_code": 0, "stdout": "Error: a line of a log"},
    ["Error: one", "Error: two"],
    None,
    7,
)


def kind_of(result: Content, name: str = "pay") -> str | None:
    error = error_in(tool_call(name, result=result))
    return None if error is None else error.kind


@each_row("value", ERRORS)
def test_an_error_text_is_known_by_its_form(value: Json):
    assert kind_of(Recorded(value)) == "error_text"


@each_row("value", NO_ERRORS)
def test_other_results_are_no_error_texts(value: Json):
    assert kind_of(Recorded(value)) is None


@each_row(
    "value",
    [
        {"error": "no such order"},
        '{"error": "no such order"}',
        {"content": [{"type": "text", "text": '{"success": 0, "error": "no such order"}'}]},
        {"content": [{"type": "text", "text": '{"error": "no such order"}'}], "isError": False},
        [{"type": "text", "text": "{'error': 'no such order'}"}],
    ],
)
def test_an_error_object_is_known_in_every_wrapping(value: Json):
    assert error_in(tool_call("pay", result=Recorded(value))) == CallError(kind="error_object", message="no such order")


LOG = "Error: disk full on node 1\nError: write failed"


@each_row(
    "name",
    ["tail_log", "fetchBuildLog", "mcp__fs__read_text_file", "grep", "view_file", "read_console_output", "query_loki"],
)
def test_what_a_tool_reads_is_content_whatever_it_says(name: str):
    assert kind_of(Recorded(LOG), name) is None
    assert kind_of(Recorded({"error": "no such file"}), name) == "error_object"


@each_row(
    "value",
    [
        {"stdout": "", "stderr": "", "exit_code": 1},
        {"command": "grep TODO src", "output": "", "exit_code": 1, "duration_seconds": 0.1},
        "Exit code 1",
        "(no output)\nCommand exited with code 1",
        "Error: Command failed with exit code 1",
    ],
)
def test_an_exit_code_of_one_without_output_says_that_nothing_was_found(value: Json):
    assert kind_of(Recorded(value), "bash") is None


@each_row("value", ["Exit code 2", {"exit_code": 2, "stdout": ""}, "no such table\nExit code 1"])
def test_other_exit_codes_and_those_with_output_are_errors(value: Json):
    assert kind_of(Recorded(value), "bash") == "error_text"


def test_two_content_blocks_are_no_error_object():
    texts = ['{"error": "no such order"}', "3 orders"]
    assert kind_of(Recorded({"content": [{"type": "text", "text": text} for text in texts]})) is None


def answered(name: str, result: Json) -> ToolCall:
    return tool_call(name, result=Recorded(result))


def passed(*calls: ToolCall, incomplete: str | None = None, writing_tools: tuple[str, ...] = ()) -> list[float]:
    judged = trajectory(*calls, incomplete=incomplete, writing_tools=writing_tools)
    return [outcome.value for outcome in judge(ToolSuccess(), judged) if isinstance(outcome, Scored)]


def test_a_tool_that_answered_twice_with_errors_and_never_worked_has_failed():
    calls = answered("pay", "Error: card 4111"), answered("find", "x"), answered("pay", "Error: no such card")
    assert passed(*calls) == [0.0, 1.0, 0.0]
    # It may have worked in a call that was not seen.
    assert passed(*calls, incomplete="spans are missing") == [1.0, 1.0, 1.0]
    first, *_ = judge(ToolSuccess(), trajectory(*calls))
    assert isinstance(first, Scored)
    assert "4111" not in first.explanation
    assert [one.actual.value for one in first.differences if one.actual] == ["Error: card 4111"]


def test_error_texts_of_a_tool_that_worked_in_the_run_fail_nothing():
    assert passed(answered("pay", "Error: a"), answered("pay", "done"), answered("pay", "Error: b")) == [1.0, 1.0, 1.0]
    assert passed(answered("pay", "Error: a"), answered("pay", "Error: b"), tool_call("pay")) == [1.0, 1.0, 1.0]


def test_exit_codes_and_error_objects_count_towards_the_two():
    assert passed(answered("sh", {"exit_code": 2}), answered("sh", "Error: no such file")) == [0.0, 0.0]
    assert passed(answered("pay", "Error: a"), answered("pay", {"error": "b"})) == [0.0, 0.0]


def test_a_result_that_reports_an_error_is_a_failed_call_at_once():
    failed = answered("pay", {"ok": False, "message": "a"})
    assert passed(failed, answered("pay", 1)) == [0.0, 1.0]
    assert passed(failed, incomplete="spans are missing") == [0.0]
    outcome = scored(ToolSuccess(), trajectory(failed))
    assert [difference.actual.value for difference in outcome.differences if difference.actual] == ["a"]


def test_what_a_writing_tool_says_of_itself_beside_its_arguments_is_a_failure():
    call = tool_call("refund", {"order": "A-17"}, result=Recorded({"order": "A-17", "status": "declined"}))
    assert (passed(call, writing_tools=("refund",)), passed(call)) == ([0.0], [1.0])


@each_row("page", ["Title: Error\n", "Title: Error 403, a novel by B. Author\n", "Title: Room 404\n"])
def test_other_titles_fail_nothing(page: str):
    assert passed(answered("visit", page)) == [1.0]


@pytest.mark.parametrize(("scope", "told"), [("trace", {"fail": 1, "pass": 1}), ("conversation", {})])
def test_results_that_read_like_errors_are_counted_once_a_call(scope: TrajectoryScope, told: dict[str, int]):
    criteria = [Criterion(name="c", evaluator_name="tool_success", evaluator=ToolSuccess(), revision="r")]
    scorer = Scorer(criteria, ToolKinds())
    judged = trajectory(answered("pay", "done"), answered("pay", "Error: a"), answered("pay", {"error": "b"}))
    scorer.score(replace(judged, scope=scope))
    assert scorer.reported_errors == told
