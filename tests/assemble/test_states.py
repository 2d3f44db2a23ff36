"""What became of a call: executed, rejected or only requested, and what the model was told."""

import pytest

from tests.assemble.support import answered, args, executed, joined, model, only_call, reading, requested
from toolgauge.model.content import NOT_RECORDED, Recorded, Unparsed
from toolgauge.model.observations import CallError, Observation, ToolDefinition, ToolsOffered
from toolgauge.model.trajectory import CallState

OFFER = ToolsOffered(tools=(ToolDefinition(name="get_weather"),))
OTHER = reading("other", executed("other"), start=90)


def test_a_tool_that_is_not_on_offer_is_rejected():
    call = only_call(joined(reading("ask", model(), OFFER, requested("get_wether", args()))))
    assert (call.state, call.error) == (
        "rejected",
        CallError(kind="unknown_tool", message="the tool is not on offer"),
    )


@pytest.mark.parametrize(
    "request_",
    [requested("get_weather", Unparsed('{"city": ')), requested("get_weather", args(), usable=False)],
    ids=["broken arguments", "unusable"],
)
def test_a_request_that_cannot_be_carried_out_is_rejected(request_: Observation):
    call = only_call(joined(reading("ask", model(), OFFER, request_)))
    assert (call.state, call.error) == (
        "rejected",
        CallError(kind="invalid_arguments", message="the arguments cannot be parsed"),
    )


def test_arguments_that_we_cut_are_not_the_models_fault():
    call = only_call(joined(reading("ask", model(), requested("f", Unparsed('{"city": ', reason="truncated")))))
    assert (call.state, call.error) == ("requested_only", None)


def test_a_request_that_was_answered_with_an_error_is_rejected():
    told = CallError(kind="retry", message="no such city")
    trajectory = joined(
        reading("ask", model(), requested("f", args(), id="1"), start=0),
        reading("next", model(), answered("1", "no such city", error=told), start=5),
    )
    call = only_call(trajectory)
    assert (call.state, call.error, call.result) == ("rejected", told, Recorded("no such city"))


@pytest.mark.parametrize(("with_tool_spans", "state"), [(False, "executed"), (True, "requested_only")])
def test_an_answer_proves_execution_only_where_nobody_writes_tool_spans(with_tool_spans: bool, state: CallState):  # noqa: FBT001 - the value under test
    trajectory = joined(
        reading("ask", model(), requested("f", args(), id="1"), start=0),
        reading("next", model(), answered("1", "fine"), start=5),
        *([OTHER] if with_tool_spans else []),
    )
    assert (trajectory.calls[0].state, trajectory.calls[0].result) == (state, Recorded("fine"))


def test_a_request_that_nobody_answered_is_only_requested():
    call = only_call(joined(reading("ask", model(), OFFER, requested("get_weather", args()), start=1, end=7)))
    assert (call.state, call.error, call.result, call.span) == (
        "requested_only",
        None,
        NOT_RECORDED,
        reading("ask").ref,
    )
    assert (call.start_ns, call.end_ns) == (7_000_000, 7_000_000)


def test_what_another_agent_was_offered_says_nothing():
    trajectory = joined(
        reading("ask1", model(), OFFER, parent="run", start=0),
        reading("sub", model(), requested("search", args()), parent="run2", start=1),
        parents={"run2": None},
    )
    assert only_call(trajectory).state == "rejected"


def test_the_tool_span_tells_the_result_before_the_history_does():
    trajectory = joined(
        reading("ask", model(), requested("f", args(), id="1"), start=0),
        reading("tool", executed("f", id="1", result=Recorded({"n": 1})), start=1),
        reading("next", model(), answered("1", '{"n": 1}'), start=5),
    )
    assert only_call(trajectory).result == Recorded({"n": 1})


def test_the_history_fills_in_what_the_tool_span_leaves_out():
    trajectory = joined(
        reading("ask", model(), requested("f", args(), id="1"), start=0),
        reading("tool", executed("f", id="1"), start=1),
        reading("next", model(), answered("1", "fine"), start=5),
    )
    assert (only_call(trajectory).result, only_call(trajectory).state) == (Recorded("fine"), "executed")


def test_answers_without_ids_go_by_name_from_the_newest_back():
    trajectory = joined(
        reading("ask1", model(), answered(None, "old", name="f"), requested("f", args(n=1)), start=0),
        reading(
            "ask2", model(), answered(None, "old", name="f"), answered(None, "one", name="f"), requested("g"), start=5
        ),
        reading(
            "ask3",
            model(),
            answered(None, "old", name="f"),
            answered(None, "one", name="f"),
            answered(None, "two", name="g"),
            start=9,
        ),
    )
    assert [call.result for call in trajectory.calls] == [Recorded("one"), Recorded("two")]


def test_history_is_never_a_call():
    trajectory = joined(reading("ask", model(), answered("1", "fine")))
    assert trajectory.calls == ()
