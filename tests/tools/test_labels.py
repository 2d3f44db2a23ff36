"""Labelled runs, invented and few: converted, compared with verdicts, and written into the page of the figures."""

import json
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from tests.rows import each_row
from toolgauge.authoring.firings import Share
from toolgauge.cli.main import main
from tools.bench.labels.chats import agent_process_bench, request_of
from tools.bench.labels.comparison import Comparison, FailedSteps, Place, Verdict, verdicts
from tools.bench.labels.labelled_runs import LabelledError, LabelledRun, Step, read_sets, write_set
from tools.bench.labels.tables import Measured, rewrite, tables
from tools.bench.labels.trail import converted

RUN, OTHER = "a" * 32, "b" * 32
REFUSED = "AgentToolError: Error when executing tool look_up with arguments {'key': 1}: KeyError: 1"


def step(name: str, *, calls: int = 1, failed: bool = False) -> Step:
    spans = [f"{name}.{number}" for number in range(calls + 1)]
    return Step(id=name, spans=spans, calls=spans[1:], failed=failed)


def comparison() -> Comparison:
    steps = [step("1"), step("2"), step("3", failed=True), step("4"), step("5", calls=0)]
    marked = [("1", "Formatting Errors"), ("1", "Goal Deviation"), ("4", "Goal Deviation"), ("5", "System Failure")]
    errors = [LabelledError(step=at, category=category, root=category == "Goal Deviation") for at, category in marked]
    runs = [
        LabelledRun(trace_id=RUN, passed=False, steps=steps, errors=errors),
        LabelledRun(trace_id=OTHER, passed=True, steps=[step("1")], errors=[]),
    ]
    made = [
        Verdict("works", Place(RUN, "1.1"), "look_up", failed=True),
        Verdict("works", Place(RUN, "2.1"), "look_up", failed=True),
        Verdict("works", Place(RUN, "3.1"), "search", failed=True),
        Verdict("works", Place(RUN, "4.1"), "search", failed=False),
        Verdict("works", Place(OTHER, "1.1"), "look_up", failed=True),
        Verdict("ended", Place(RUN, "root"), None, failed=True),
    ]
    return Comparison(runs, made)


def test_a_failed_step_is_marked_or_repeated_or_recorded_or_wrong():
    assert comparison().failed_steps("works") == FailedSteps(marked=1, repeats=1, recorded=1, wrong=1)


def test_a_verdict_on_a_whole_run_fails_no_step_and_flags_the_run():
    found = comparison()
    assert found.failed_steps("ended") == FailedSteps()
    assert found.flagged_runs("ended", passed=False) == Share(1, 1)


def test_precision_counts_repeats_only_where_they_are_asked_for():
    steps = comparison().failed_steps()
    assert (steps.precision, steps.precision_with_repeats) == (Share(1, 4), Share(2, 4))


def test_recall_is_of_structural_errors_on_steps_with_a_call():
    assert comparison().recall() == Share(1, 1)


def test_an_error_beside_a_structural_one_is_not_found_for_itself():
    found = comparison()
    assert found.found_of(["Goal Deviation"]) == Share(0, 1)
    assert found.found_of(["Formatting Errors", "System Failure"]) == Share(1, 2)


def test_the_first_failing_step_is_compared_with_the_decisive_one():
    assert comparison().decisive() == Share(1, 2)


def test_runs_are_flagged_by_verdict():
    found = comparison()
    assert (found.flagged_runs(passed=True), found.flagged_runs(passed=False)) == (Share(1, 1), Share(1, 1))
    assert found.coverage("works") == Share(5, 5)


def span(name: str, kind: str, second: int, *below: dict[str, Any], error: str = "") -> dict[str, Any]:
    identity = name.replace(" ", "")
    return {
        "span_id": identity,
        "span_name": name,
        "timestamp": f"2025-03-19T16:00:{second:02}.5Z",
        "duration": "PT1M0.25S",
        "status_code": "Error" if error else "Unset",
        "status_message": error,
        "span_attributes": {"openinference.span.kind": kind, "tool.name": "look_up", "input.value": "{}"},
        "child_spans": [{**one, "parent_span_id": identity} for one in below],
    }


def trail_row(*, location: str, evidence: str) -> dict[str, Any]:
    worker = span("worker", "AGENT", 2, span("plan", "LLM", 3), span("Step 7", "CHAIN", 4, span("t7", "TOOL", 4)))
    first = span("Step 1", "CHAIN", 1, span("t1", "TOOL", 1), span("m1", "LLM", 1), error=REFUSED)
    top = span("run", "AGENT", 0, first, span("Step 2", "CHAIN", 2, span("m2", "LLM", 2), worker))
    labels = {"errors": [{"category": "Formatting Errors", "location": location, "evidence": evidence}]}
    return {"trace": json.dumps({"trace_id": RUN, "spans": [top]}), "labels": json.dumps(labels)}


def test_steps_of_trail_hold_the_spans_of_their_own_agent():
    run, request = converted(trail_row(location="plan", evidence=""))
    assert [(one.id, list(one.calls), list(one.agents), one.failed) for one in run.steps] == [
        ("Step1", ["t1"], [], True),
        ("Step2", [], ["worker"], False),
        ("plan", [], [], False),
        ("Step7", ["t7"], [], False),
    ]
    encoded = request["resourceSpans"][1]["scopeSpans"][0]["spans"][0]
    assert (encoded["startTimeUnixNano"], encoded["endTimeUnixNano"]) == ("1742400001500000000", "1742400061750000000")
    assert encoded["status"] == {"code": 2, "message": REFUSED}


@each_row(
    ("location", "evidence", "placed"),
    [
        ("m2", f"Error:\n{REFUSED.partition(': ')[2]}", "Step1"),
        ("m2", "with arguments {'key': 1}: KeyError", "Step1"),
        ("m2", "KeyError", "Step2"),
        ("m2", "", "Step2"),
        ("t7", "a text of its own, long enough", "Step7"),
        ("run", "", "run"),
        ("elsewhere", "", None),
    ],
)
def test_a_label_of_trail_belongs_to_the_step_whose_error_its_evidence_quotes(
    location: str, evidence: str, placed: str | None
):
    run, _ = converted(trail_row(location=location, evidence=evidence))
    assert [error.step for error in run.errors] == [placed]


def call(name: str, number: int) -> dict[str, Any]:
    return {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": '{"order": 7}'}}


def chat(*tools: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Where is order 7?"}]
    for number, tool in enumerate(tools):
        messages.append({"role": "assistant", "content": None, "tool_calls": [call(tool, number)]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "Error: no such order"})
    return [*messages, {"role": "assistant", "content": "I cannot find it."}]


@pytest.mark.parametrize(("label", "passed"), [(1, True), (0, None), (-1, False)])
def test_a_bad_message_of_agentprocessbench_is_an_error_without_a_category(
    tmp_path: Path, label: int, *, passed: bool | None
):
    row = {"messages": chat("find_order"), "tools": "[]", "step_labels": {"1": -1, "3": 1}, "final_label": label}
    file = tmp_path / "tau2.jsonl"
    file.write_text(json.dumps(row))
    ((run, _),) = agent_process_bench(file)
    assert (run.passed, [error.step for error in run.errors]) == (passed, ["1"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three runs, of which two call the tool that a criterion forbids."""
    runs: list[tuple[LabelledRun, dict[str, Any]]] = []
    for trace_id, passed, tools in ((RUN, False, ("refund",)), (OTHER, True, ("refund",)), ("c" * 32, True, ("find",))):
        steps, request = request_of(trace_id, chat(*tools), [])
        runs.append((LabelledRun(trace_id=trace_id, passed=passed, steps=steps, errors=[]), request))
    assert write_set(tmp_path, "chats", runs) == 3
    (tmp_path / "criteria.yaml").write_text("criteria: [{name: no-refund, evaluator: policy, forbid: [refund]}]")
    return tmp_path


def test_backtest_flags_the_same_runs_by_the_written_verdicts(folder: Path):
    traces, criteria = folder / "chats.jsonl.xz", str(folder / "criteria.yaml")
    found = Comparison(read_sets(folder)["chats"], verdicts(traces, (), [criteria]))
    labels = f"--labels={folder / 'chats.verdicts.csv'}"
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()):
        assert (
            main(
                ["check", "--firings", "--fail-on", "nothing", str(traces), labels, f"--criteria={criteria}", "--json"]
            )
            == 0
        )
    report = json.loads(out.getvalue())
    counted = {one["criterion"]: _fired(one) for one in report["criteria"] if one["labels"]}
    assert counted["no-refund"] == (1, 1)
    assert counted == {name: _flagged(found, name.removeprefix("default.")) for name in counted}
    assert _fired(report["all_together"]) == _flagged(found, None) == (1, 1)


def _fired(reported: Mapping[str, Any]) -> tuple[int, int]:
    (labels,) = reported["labels"]
    return labels["passed_runs"]["count"], labels["failed_runs"]["count"]


def _flagged(found: Comparison, criterion: str | None) -> tuple[int, int]:
    passed, failed = (found.flagged_runs(criterion, passed=passed) for passed in (True, False))
    return passed.count, failed.count


def test_tables_replace_those_of_the_page(tmp_path: Path):
    both = {"chats": comparison()}
    made = tables(["works"], Measured(both, both))
    assert made["works"].splitlines()[2] == (
        "| chats | 1.00 | 4: 1 + 1 + 1 + 1 | 0.25 [0.05, 0.70] | 0.50 [0.15, 0.85] | 1 of 1: 1.00 [0.21, 1.00] "
        "| 1 of 1: 1.00 [0.21, 1.00] |"
    )
    page = tmp_path / "evidence.md"
    places = "".join(f"<!-- figures: {name} -->\nold\n<!-- end -->\n" for name in made)
    page.write_text(f"# Page\n{places}after\n")
    rewrite(page, made)
    text = page.read_text()
    assert "old" not in text
    assert text.endswith("<!-- end -->\nafter\n")
    rewrite(page, made)
    assert page.read_text() == text


def test_a_table_without_a_place_on_the_page_is_an_error(tmp_path: Path):
    page = tmp_path / "evidence.md"
    page.write_text("# Page\n")
    with pytest.raises(ValueError, match="no place for the table `works`"):
        rewrite(page, {"works": "| a |"})
