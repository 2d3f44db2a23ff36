"""What is written of one run and of several, and what these files accept and refuse."""

import json
from pathlib import Path

import pytest

from tests.authoring.written import document_of, loaded, run_of, score, text_of
from tests.score.support import tool_call, trajectory, user
from toolgauge.authoring.documents import reference_lines
from toolgauge.authoring.runs import Fault, RecordedRun, key_of
from toolgauge.model.content import NOT_RECORDED, NotRecorded, Recorded
from toolgauge.model.errors import RecordingError
from toolgauge.model.json import JsonObject
from toolgauge.model.observations import CallError
from toolgauge.model.trajectory import Trajectory

SAID = user("Refund 20 of order A-17 and 30 of order A-18", 0)


def refund(args: JsonObject, *more: tuple[str, JsonObject], case: str = "refund") -> Trajectory:
    calls = [tool_call(name, given, result=Recorded({})) for name, given in (("issue_refund", args), *more)]
    return trajectory(*calls, messages=(SAID,), attributes={"eval.case.id": case})


def accepts(tmp_path: Path, runs: list[Trajectory], judged: Trajectory) -> bool:
    (criterion,) = loaded(document_of([run_of(one) for one in runs]), tmp_path)
    return score(criterion, judged).value == 1.0


ONE: JsonObject = {"order_id": "A-17", "amount": 20}


def test_the_file_of_one_run():
    made = refund({**ONE, "note": "a gesture for all of the trouble"}, ("list_orders", {}))
    assert text_of(document_of([run_of(made)])).splitlines() == [
        "# Written by `toolgauge expect` from 1 run. It holds values of recorded runs: read it before you share it.",
        "criteria:",
        "  # case refund: 1 run: trace 0af7651916cd43dd8448eb211c80319c",
        "  - name: expect-refund",
        "    evaluator: tool_call_f1",
        "    when: {attributes: {eval.case.id: refund}}",
        "    tools: writes",
        "    expected:",
        "      - name: issue_refund",
        "        args:",
        "          order_id: A-17",
        "          amount: 20",
        "    arguments:",
        "      issue_refund.note: ignore  # free text",
    ]


def test_a_changed_argument_is_refused_and_a_free_one_is_not(tmp_path: Path):
    made = refund({**ONE, "note": "a gesture for all of the trouble"})
    assert accepts(tmp_path, [made], refund({**ONE, "note": "as agreed on the telephone"}))
    assert accepts(tmp_path, [made], refund(ONE))
    assert not accepts(tmp_path, [made], refund({**ONE, "amount": 21}))
    assert not accepts(tmp_path, [made], refund({**ONE, "force": True}))


def test_what_differs_from_run_to_run_is_free(tmp_path: Path):
    runs = [refund({**ONE, "ticket": ticket}) for ticket in (101, 102, 103)]
    assert accepts(tmp_path, runs, refund({**ONE, "ticket": 7}))
    assert not accepts(tmp_path, runs, refund({**ONE, "order_id": "A-18", "ticket": 7}))
    assert "issue_refund.ticket: ignore  # differs from run to run: 3 values in 3 runs" in text_of(
        document_of([run_of(one) for one in runs])
    )


@pytest.mark.parametrize(
    ("first", "second", "other"),
    [
        ("Ann Lee", "ann lee", "ANN LEE"),
        ("2025-01-31T10:00:00Z", "2025-01-31T11:00:00+01:00", "2025-01-31T12:00:00+02:00"),
        (["a", "b", "c"], ["b", "a", "c"], ["c", "b", "a"]),
    ],
)
def test_the_tightest_rule_that_all_runs_meet(tmp_path: Path, first: str, second: str, other: str):
    runs = [refund({**ONE, "x": value}) for value in (first, second)]
    assert accepts(tmp_path, runs, refund({**ONE, "x": other}))
    assert not accepts(tmp_path, runs, refund({**ONE, "x": "z"}))


def test_a_call_that_some_runs_have_is_optional(tmp_path: Path):
    notify: tuple[str, JsonObject] = ("send_mail", {"order_id": "A-17"})
    runs = [refund(ONE, notify), refund(ONE), refund(ONE, notify)]
    assert accepts(tmp_path, runs, refund(ONE))
    assert accepts(tmp_path, runs, refund(ONE, notify))
    assert not accepts(tmp_path, runs, refund(ONE, notify, notify))
    assert "      # in 2 of 3 runs" in text_of(document_of([run_of(one) for one in runs])).splitlines()


def test_an_argument_that_is_free_in_one_call_binds_in_another(tmp_path: Path):
    made = refund({"order_id": "A-17"}, ("issue_refund", {"order_id": "Q-99123"}))
    assert accepts(tmp_path, [made], refund({"order_id": "A-17"}, ("issue_refund", {"order_id": "Q-55555"})))
    assert not accepts(tmp_path, [made], refund({"order_id": "Q-1"}, ("issue_refund", {"order_id": "Q-55555"})))
    assert "      - issue_refund.order_id  # where it is not expected" in text_of(document_of([run_of(made)]))


def test_arguments_that_were_not_recorded_are_any():
    made = trajectory(
        tool_call("issue_refund", arguments=NOT_RECORDED), tool_call("send_mail", arguments=NotRecorded("redacted"))
    )
    lines = text_of(document_of([run_of(made)])).splitlines()
    assert lines[-4:] == [
        "      # any arguments: its arguments were not recorded",
        "      - name: issue_refund",
        "      # any arguments: its arguments were redacted",
        "      - name: send_mail",
    ]


def test_a_call_that_failed_is_not_expected(tmp_path: Path):
    failed = tool_call("issue_refund", {"order_id": "A-1"}, error=CallError(kind="timeout", message="too late"))
    made = trajectory(failed, tool_call("issue_refund", ONE), messages=(SAID,))
    assert accepts(tmp_path, [made], refund(ONE))


def test_secrets_are_not_written():
    key = "sk-" + "a1B2" * 8
    made = refund({**ONE, "auth": key, "nested": [{"x": key}], "password": "hunter22"})
    text = text_of(document_of([run_of(made)])) + "".join(reference_lines(document_of([run_of(made)])))
    assert (key in text, "hunter22" in text) == (False, False)


def test_text_of_spans_neither_ends_a_line_nor_hides_in_one(tmp_path: Path):
    hostile = "x\u202e\u200b\u0085\x1b[2J\n---\n- name: y # ${env:HOME}"
    made = trajectory(
        tool_call(hostile, {hostile: 1, "label": hostile}),
        messages=(user(hostile, 0),),
        attributes={"eval.case.id": hostile},
    )
    for is_promoted in (False, True):
        written = document_of([run_of(made)], is_promoted=is_promoted)
        text = text_of(written)
        assert all(line.isprintable() for line in text.split("\n"))
        (criterion,) = loaded(written, tmp_path)
        assert criterion.when.attributes == {"eval.case.id": hostile}
    assert "correct_this_case" in text


def test_a_secret_among_other_texts_is_not_written_where_all_runs_have_it():
    key = "sk-" + "a1B2" * 8
    runs = [
        run_of(refund({**ONE, "lines": ["a text of the agent", key], "deep": [[{"x": ["y", key]}]]})) for _ in range(3)
    ]
    assert key not in text_of(document_of(runs))


def test_lines_of_a_reference_file_carry_what_was_left_free():
    runs = [run_of(refund(ONE)), run_of(refund({"order_id": "Q-99123"}, case="other"))]
    written = document_of([runs[0]], [runs[1]], is_one_criterion=True)
    first, second = map(json.loads, reference_lines(written))
    assert first["expected"] == [{"name": "issue_refund", "args": {"order_id": "A-17", "amount": 20}}]
    assert second["expected"] == [{"name": "issue_refund", "args": {}}]
    assert "issue_refund: free: order_id (an id that nothing before the call had shown)" in second["note"]


def _promoted(*calls: tuple[str, JsonObject], at_fault: int | None) -> tuple[Trajectory, RecordedRun]:
    made = trajectory(*(tool_call(*one) for one in calls), messages=(SAID,))
    call = None if at_fault is None else key_of(made.calls[at_fault])
    return made, run_of(made, Fault(criterion="policy", explanation="too much", call=call, is_default=False))


def test_a_failing_run_becomes_a_case_that_it_fails(tmp_path: Path):
    made, run = _promoted(("issue_refund", ONE), ("issue_refund", {"order_id": "A-18", "amount": 900}), at_fault=1)
    written = document_of([run], is_promoted=True)
    (criterion,) = loaded(written, tmp_path)
    assert score(criterion, made).value < 1.0
    assert text_of(written).splitlines()[3:] == [
        "  # promoted from a failing run: trace 0af7651916cd43dd8448eb211c80319c, 1970-01-01T00:00:00+00:00, service shop",
        "  # the run names no case: give the runs that are to do better the attribute of `when`, with its value",
        "  # user: Refund 20 of order A-17 and 30 of order A-18",
        "  - name: promoted-0af7651916cd43dd",
        "    evaluator: tool_call_f1",
        "    when: {attributes: {eval.case.id: promoted-0af7651916cd43dd}}",
        "    tools: writes",
        "    expected:",
        "      - name: issue_refund",
        "        args:",
        "          order_id: A-17",
        "          amount: 20",
        "      # CORRECT: policy: too much",
        "      # - name: issue_refund",
        "      #   args:",
        "      #     order_id: A-18",
        "      #     amount: 900",
    ]


@pytest.mark.parametrize("at_fault", [None, 0])
def test_a_case_without_calls_that_are_right_waits_for_them(tmp_path: Path, at_fault: int | None):
    made, run = _promoted(("issue_refund", ONE), at_fault=at_fault)
    written = document_of([run], is_promoted=True)
    (criterion,) = loaded(written, tmp_path)
    assert "correct_this_case" in [call.name for call in written.criteria[0].cases[0].expected]
    assert score(criterion, made).value < 1.0


def test_the_value_at_fault_is_shown_to_the_person_who_corrects_it():
    _, run = _promoted(("issue_refund", {"order_id": "Q-99123"}), at_fault=0)
    text = text_of(document_of([run], is_promoted=True))
    assert "      #     order_id: Q-99123" in text.splitlines()
    assert "ignore" not in text


def test_a_reference_file_holds_a_case_once():
    _, run = _promoted(("issue_refund", ONE), at_fault=0)
    with pytest.raises(RecordingError, match="several references would be of case"):
        document_of([run], [run], is_promoted=True, is_one_criterion=True)
