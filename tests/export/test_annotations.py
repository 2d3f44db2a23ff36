import math

from msgspec.structs import replace

from tests.export.scorecards import (
    OTHER_TOOL_SPAN,
    ROOT,
    TOOL_SPAN,
    annotations,
    call,
    call_result,
    failed,
    passed,
    scorecard,
    shadow,
    span_attributes,
    trajectory,
    trajectory_result,
)
from toolgauge.export.results import Annotations
from toolgauge.model.outcomes import Difference, Errored, NotEvaluated, Side


def test_call_results_go_to_their_spans_and_trajectory_results_to_the_root():
    card = scorecard(
        call_result(failed(0.25)),
        call_result(passed(1), call(span=OTHER_TOOL_SPAN)),
        trajectory_result(passed(0.9)),
    )
    assert span_attributes(card) == {
        TOOL_SPAN.span_id: {
            "toolgauge.eval.refund-arguments.score": 0.25,
            "toolgauge.eval.refund-arguments.outcome": "fail",
            "toolgauge.eval.refund-arguments.explanation": "`amount` differs",
        },
        OTHER_TOOL_SPAN.span_id: {
            "toolgauge.eval.refund-arguments.score": 1.0,
            "toolgauge.eval.refund-arguments.outcome": "pass",
        },
        ROOT.span_id: {
            "toolgauge.closed_because": "run_ended",
            "toolgauge.eval.refund-f1.score": 0.9,
            "toolgauge.eval.refund-f1.outcome": "pass",
        },
    }


def test_the_root_of_half_a_run_carries_that_it_is_one():
    card = scorecard(trajectory_result(NotEvaluated(reason="incomplete", explanation="it began before")))
    half = replace(card, trajectory=replace(card.trajectory, incomplete="it began before"))
    assert span_attributes(half)[ROOT.span_id] == {
        "toolgauge.closed_because": "run_ended",
        "toolgauge.incomplete": True,
        "toolgauge.incomplete_because": "it began before",
        "toolgauge.eval.refund-f1.outcome": "not_evaluated",
    }


def test_shadow_results_are_nowhere_on_spans():
    assert span_attributes(scorecard(shadow(call_result(failed())), shadow(trajectory_result(passed())))) == {}
    mixed = span_attributes(scorecard(shadow(call_result(failed())), trajectory_result(passed())))
    assert set(mixed) == {ROOT.span_id}


def test_calls_that_share_a_span_leave_no_result_on_it():
    card = scorecard(
        call_result(failed()), call_result(passed(), call("look_up")), call_result(passed(), criterion="alone")
    )
    assert span_attributes(card)[TOOL_SPAN.span_id] == {
        "toolgauge.eval.alone.score": 1.0,
        "toolgauge.eval.alone.outcome": "pass",
    }


def test_conversations_are_not_written_on_spans():
    conversation = replace(trajectory(call()), scope="conversation")
    assert span_attributes(scorecard(call_result(passed()), of=conversation)) == {}


def test_a_span_of_another_trace_is_plainly_claimed_nothing():
    elsewhere = call(span=replace(TOOL_SPAN, trace_id="f" * 32))
    assert set(span_attributes(scorecard(call_result(passed(), elsewhere)))) == {ROOT.span_id}


def test_what_was_said_before_is_said_the_same_again():
    by = annotations()
    outcomes = (
        passed(1),
        failed(0),
        failed(0, "`amount` is missing"),
        failed(1.0),
        passed(math.nan),
        NotEvaluated(reason="no_reference"),
        Errored(error_type="ValueError", message="boom"),
        Errored(error_type="ValueError", message="bang"),
    )
    for outcome in outcomes * 2:
        card = scorecard(call_result(outcome))
        assert span_attributes(card, by) == span_attributes(card)


def explained(by: Annotations, value: str) -> object:
    difference = Difference(where="issue_refund: amount", rule="exact", actual=Side(value=value))
    card = scorecard(call_result(replace(failed(), differences=(difference,))))
    return span_attributes(card, by)[TOOL_SPAN.span_id]["toolgauge.eval.refund-arguments.explanation"]


def test_values_in_explanations_are_shown_only_where_they_may_be():
    hiding, showing = annotations(), annotations(show_values=True)
    assert explained(hiding, "20") == explained(hiding, "30") == "`amount` differs"
    assert explained(showing, "20") == '`amount` differs (issue_refund: amount (exact): got "20")'
    assert explained(showing, "30") == '`amount` differs (issue_refund: amount (exact): got "30")'


def test_secrets_in_explanations_are_masked():
    outcome = Errored(error_type="ValueError", message="no such key: password=hunter2hunter2")
    on_span = span_attributes(scorecard(call_result(outcome)))[TOOL_SPAN.span_id]
    assert on_span["toolgauge.eval.refund-arguments.explanation"] == "no such key: password=[masked]"
