"""People are told of single runs: of failed ones, and of those that still go on and fail already."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from tests.captures import sample
from tests.walk.shapes import ERROR, request, tool
from tests.walk.support import CORPUS, Walk
from toolgauge.service.criteria_factory import load_for_replay

FAILED = (CORPUS / "pydantic-ai" / "tool_error.otlp.pb").read_bytes()
LOOPS = "defaults.repeated_calls={notify: true}"
EFFECTS = "defaults.one_effect={notify: true}"


def told(*settings: str) -> Walk:
    criteria = load_for_replay((), settings, (), {})[1]
    return Walk(*settings, criteria=criteria)


class Sends(Protocol):
    def send(self, body: bytes) -> object: ...


class Run:
    """A run that goes on: each call is a request of its own, one a second."""

    def __init__(self, *walks: Sends, scopes: Sequence[str] = ("agent",)) -> None:
        self._walks = walks
        self._scopes = scopes
        self._number = 0

    def call(self, name: str, arguments: str = "{}", result: str = "still running", *, fails: bool = False) -> None:
        self._number += 1
        status = ERROR if fails else Status.STATUS_CODE_UNSET
        for scope in self._scopes:
            id = f"{scope}{self._number}"
            made = tool(name, arguments, result=result, at=self._number, id=id, scope=scope, status=status)
            for walk in self._walks:
                walk.send(request(made).SerializeToString())


def found(walk: Walk) -> list[tuple[str, str | None, bool]]:
    return [(one.criterion, one.tool, one.is_open) for one in walk.notices]


def test_a_failed_result_of_a_marked_criterion_is_told_without_values():
    walk = told("defaults.tool_success={notify: true}")
    walk.send(FAILED)
    walk.wait(60)
    (notice,) = walk.notices
    assert (notice.criterion, notice.is_marked, notice.is_open) == ("default.tool_success", True, False)
    assert (notice.tool, notice.trace_id) == ("delete_file", walk.scorecards()[0].trace_id.hex())
    assert notice.explanation.startswith("`delete_file`")


def test_nothing_is_told_unless_it_is_asked_for():
    walk, trial = told(), told("defaults.tool_success={notify: true, enforce: shadow}")
    for one in (walk, trial):
        one.send(FAILED)
        one.wait(60)
        assert one.notices == []


def test_a_webhook_may_name_the_criteria():
    walk = told("exporters.webhook={url: http://localhost:1, notify: [default.tool_*]}")
    walk.send(FAILED)
    walk.wait(60)
    assert [(one.criterion, one.is_marked) for one in walk.notices] == [("default.tool_success", False)]


def test_a_loop_is_told_with_its_tenth_identical_call_while_the_run_goes_on():
    walk = told(LOOPS)
    run = Run(walk)
    for _ in range(9):
        run.call("process", '{"action": "poll", "session": 7}')
    assert walk.notices == []
    run.call("process", '{"action": "poll", "session": 7}')
    assert found(walk) == [("default.repeated_calls", "process", True)]
    assert (
        walk.notices[0].explanation
        == "`process` was called 10 times with the same arguments and nothing changed in between"
    )
    for _ in range(100):
        run.call("process", '{"action": "poll", "session": 7}')
    assert len(walk.notices) == 1
    assert walk.scorecards() == []


@pytest.mark.parametrize("result", ["12:00:07 still running", '{"rows": [], "elapsed_ms": 3}'])
def test_times_in_results_make_no_other_result(result: str):
    walk = told(LOOPS)
    run = Run(walk)
    for number in range(10):
        run.call("process", '{"action": "poll"}', result.replace("3", str(number)).replace("07", f"{number:02}"))
    assert len(walk.notices) == 1


def progress() -> Iterator[tuple[str, str, str]]:
    for number in range(30):
        yield "edit_file", f'{{"line": {number}}}', "ok"
        yield "run_tests", "{}", f"{number} failed"


@pytest.mark.parametrize(
    "calls",
    [
        [("find_order", f'{{"id": {number}}}', "none") for number in range(30)],
        [("next_page", "{}", f"page {name}") for name in "abcdefghijklmnopqrstuvwxyz"],
        [("find_order", "{}", f"page {name}") for name in "abcdefghijklmnopqrstuvwxyz"],
        [("get_job_status", "{}", "running")] * 30,
        [("wait_for_job", "{}", "running"), ("find_order", "{}", "none")] * 30,
        list(progress()),
    ],
    ids=[
        "other arguments",
        "other results of a change",
        "pages",
        "polling",
        "waiting in between",
        "changes in between",
    ],
)
def test_a_run_that_makes_progress_is_no_loop(calls: Sequence[tuple[str, str, str]]):
    walk = told(LOOPS, EFFECTS)
    run = Run(walk)
    for call in calls:
        run.call(*call)
    assert walk.notices == []


def test_a_span_that_comes_twice_counts_once():
    walk = told(LOOPS)
    run = Run(walk, scopes=("agent", "agent"))
    for _ in range(9):
        run.call("find_order")
    assert walk.notices == []


def test_an_act_is_told_when_it_worked_a_third_time():
    walk = told(EFFECTS)
    run = Run(walk)
    run.call("issue_refund", '{"order": "A-17"}', "R-1")
    run.call("issue_refund", '{"order": "A-17"}', "timeout", fails=True)
    run.call("issue_refund", '{"order": "A-17"}', "R-2")
    assert walk.notices == []
    run.call("issue_refund", '{"order": "A-17"}', "R-3")
    assert found(walk) == [("default.one_effect", "issue_refund", True)]


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ("calls: 3", "calls: 4, and at most 3"),
        ("errors: 1", "errors: 2, and at most 1"),
        ("duration: 2s", "duration: 2.1 s, and at most 2 s"),
        ('per_tool: {"find_*": {calls: 2}}', "calls of `find_*`: 3, and at most 2"),
    ],
)
def test_a_budget_that_is_exceeded_is_told_at_once(limits: str, why: str):
    walk = told(f"criteria=[{{name: limits, evaluator: budget, notify: true, {limits}}}]")
    run = Run(walk)
    for number in range(6):
        run.call("find_order", f'{{"id": {number}}}', fails=number % 2 == 1)
    assert [(one.criterion, one.tool, one.explanation) for one in walk.notices] == [("limits", None, why)]


@pytest.mark.parametrize(
    ("when", "is_told"),
    [("service: shop", True), ("service: other", False), ("agent: a", False), ("attributes: {a: b}", False)],
)
def test_open_runs_are_looked_at_where_the_criterion_certainly_applies(when: str, is_told: bool):  # noqa: FBT001 (a case)
    walk = told(f"criteria=[{{name: limits, evaluator: budget, notify: true, calls: 1, when: {{{when}}}}}]")
    run = Run(walk)
    for number in range(3):
        run.call("find_order", f'{{"id": {number}}}')
    assert bool(walk.notices) == is_told


def test_looking_at_open_runs_changes_no_score():
    walks = [told(), told(LOOPS, EFFECTS)]
    run = Run(*walks)
    for number in range(20):
        run.call("find_order", f'{{"id": {number % 2}}}')
    for walk in walks:
        walk.wait(10_000)
    plain, looked_at = [[span.SerializeToString() for span in walk.scorecards()] for walk in walks]
    assert len(plain) == 1
    assert plain == looked_at


def test_counters_of_open_runs_are_bounded_and_forgotten_when_the_run_is_scored():
    walk = told(LOOPS)
    run = Run(walk)
    for number in range(600):
        run.call("find_order", f'{{"id": {number}}}')
    for _ in range(12):
        run.call("find_order", '{"id": 0}')
    assert len(walk.notices) == 1
    walk.wait(10_000)
    assert [one.is_open for one in walk.notices] == [True, False]


def test_recorded_runs_of_other_agents_are_no_loops():
    walk = told(LOOPS, EFFECTS)
    files = [file for captured in sample().values() for file in captured.files()]
    assert len(files) > 100
    for file in files:
        if not file.name.endswith(".logs.otlp.pb"):
            walk.send(file.read_bytes())
    assert walk.notices == []
