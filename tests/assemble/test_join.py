"""Joining requested and executed views to calls, each call once."""

from itertools import permutations

from msgspec.structs import replace

from tests.assemble.support import (
    agent,
    answered,
    args,
    executed,
    joined,
    log,
    model,
    only_call,
    reading,
    requested,
    shown,
)
from tests.rows import each_row
from toolgauge.model.content import NOT_RECORDED, Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.observations import CallError, MessageSeen


def test_a_request_and_its_tool_span_are_one_call():
    trajectory = joined(
        reading("run", agent("shopper"), start=0, end=10),
        reading("ask", model(), requested("get_weather", args(city="Paris"), id="c1"), parent="run", start=1, end=2),
        reading(
            "tool",
            executed("get_weather", args(city="Paris"), id="c1", result=Recorded(21)),
            parent="run",
            start=3,
            end=4,
        ),
    )
    call = only_call(trajectory)
    assert (call.name, call.arguments, call.result, call.state) == (
        "get_weather",
        args(city="Paris"),
        Recorded(21),
        "executed",
    )
    assert (call.call_id, call.agent, call.agent_path, call.dialect) == ("c1", "shopper", ("shopper",), "test")
    assert (call.start_ns, call.end_ns) == (3_000_000, 4_000_000)
    assert (call.requested_by, call.executed_by, call.span) == (
        reading("ask").ref,
        reading("tool").ref,
        reading("tool").ref,
    )


def test_without_ids_equal_arguments_join_whatever_the_order_of_execution():
    trajectory = joined(
        reading("ask", model(), requested("f", args(n=1), position=0), requested("f", args(n=2), position=1), start=0),
        reading("t1", executed("f", args(n=2.0), result=Recorded("two")), start=5),
        reading("t2", executed("f", args(n=1), result=Recorded("one")), start=6),
    )
    assert [(call.arguments, call.result) for call in trajectory.calls] == [
        (args(n=1), Recorded("one")),
        (args(n=2), Recorded("two")),
    ]


def test_filled_in_defaults_do_not_mix_up_parallel_calls():
    trajectory = joined(
        reading("ask", model(), requested("f", args(city="A"), position=0), requested("f", args(city="B"), position=1)),
        reading("t1", executed("f", args(city="B", unit="c"), result=Recorded("b")), start=5),
        reading("t2", executed("f", args(city="A", unit="c"), result=Recorded("a")), start=6),
    )
    assert [(call.arguments, call.result) for call in trajectory.calls] == [
        (args(city="A"), Recorded("a")),
        (args(city="B"), Recorded("b")),
    ]


def test_a_bare_argument_belongs_to_the_request_with_this_only_value():
    trajectory = joined(
        reading(
            "ask", model(), requested("f", args(mail="a@b"), position=0), requested("f", args(mail="c@d"), position=1)
        ),
        reading("t1", executed("f", Unparsed("c@d"), result=Recorded(2)), start=5),
        reading("t2", executed("f", Unparsed("a@b"), result=Recorded(1)), start=6),
    )
    assert [call.result for call in trajectory.calls] == [Recorded(1), Recorded(2)]


def test_an_execution_goes_to_the_request_that_was_repeated_last():
    trajectory = joined(
        reading("ask1", model(), requested("f", args(n=1)), start=0),
        reading("ask2", model(), requested("f", args(n=1)), start=10),
        reading("tool", executed("f", args(n=1)), start=12),
    )
    assert shown(trajectory) == [(0, 0, "f", "requested_only"), (1, 0, "f", "executed")]


def test_two_different_ids_are_two_calls_even_with_one_name():
    trajectory = joined(
        reading("ask", model(), requested("f", args(n=1), id="1"), start=0),
        reading("tool", executed("f", args(n=2), id="2"), start=5),
    )
    assert shown(trajectory) == [(0, 0, "f", "requested_only"), (1, 0, "f", "executed")]


def test_an_id_of_the_frameworks_own_making_does_not_split_a_call():
    trajectory = joined(
        reading("ask", model(), requested("f", args(n=1), id="1"), start=0),
        reading("tool", executed("f", args(n=1), id="run-77", error=CallError(kind="E", message="")), start=5),
    )
    assert (only_call(trajectory).call_id, only_call(trajectory).state) == ("1", "executed")


def test_by_order_only_within_one_agent_run():
    trajectory = joined(
        reading("run1", agent("a"), start=0),
        reading("ask", model(), requested("f"), parent="run1", start=1),
        reading("run2", agent("b"), start=2),
        reading("tool", executed("f", args(n=1)), parent="run2", start=3),
    )
    assert [(call.agent, call.state) for call in trajectory.calls] == [("a", "requested_only"), ("b", "executed")]


def test_calls_that_no_model_asked_for_are_turns_of_their_own_among_the_others():
    trajectory = joined(
        reading("t1", executed("first"), start=0),
        reading("ask", model(), requested("second", id="1"), start=5),
        reading("t2", executed("second", id="1"), start=6),
        reading("t3", executed("third"), start=6, end=9),
        reading("t4", executed("fourth"), start=7),
    )
    assert shown(trajectory) == [
        (0, 0, "first", "executed"),
        (1, 0, "second", "executed"),
        (2, 0, "third", "executed"),
        (3, 0, "fourth", "executed"),
    ]


@each_row(
    ("asked", "given", "counted"),
    [
        (Unparsed('{"n": 1'), args(n=1), args(n=1)),
        (args(n="1"), args(n=1), args(n=1)),
        (args(n=1, unit="c"), args(n=1), args(n=1)),
        (args(), args(n=1), args(n=1)),
        (args(n=1), args(), args(n=1)),
        # What was cut or masked on its way was no empty object.
        (args(), Unparsed('{"n": 1', "truncated"), Unparsed('{"n": 1', "truncated")),
        (args(), NotRecorded("redacted"), NotRecorded("redacted")),
        (args(n=1), Unparsed('{"n": 1', "truncated"), args(n=1)),
        (args(n=1), NotRecorded("redacted"), args(n=1)),
        (args(), Unparsed('{"n": 1'), args()),
        (args(n=1), NOT_RECORDED, args(n=1)),
        (args(n=1), Recorded("1"), args(n=1)),
        # Defaults that were filled in, and state that the framework injects.
        (args(n=1), args(n=1, unit="c"), args(n=1)),
        (Unparsed('{"n": '), args(city='{"n": '), Unparsed('{"n": ')),
    ],
)
def test_executed_arguments_count_where_both_views_disagree(asked: Content, given: Content, counted: Content):
    trajectory = joined(
        reading("ask", model(), requested("f", asked, id="1")), reading("tool", executed("f", given, id="1"), start=5)
    )
    assert (only_call(trajectory).arguments, only_call(trajectory).state) == (counted, "executed")


def test_a_span_and_its_log_record_tell_of_one_request():
    trajectory = joined(
        reading("ask", model(), requested("f", id="1"), start=0), log("ask", requested("f", args(n=1), id="1"), start=1)
    )
    assert (only_call(trajectory).arguments, only_call(trajectory).call_id) == (args(n=1), "1")


def test_a_request_is_found_by_the_id_and_arguments_that_an_earlier_log_record_told():
    trajectory = joined(
        reading("ask", model(), requested("f"), requested("g", args(n=0), id="0", position=1), start=0),
        log("ask", requested("f", args(n=1)), start=1),
        log("ask", requested("f", args(n=1), id="1"), start=2),
        log("ask", requested("f", id="1"), start=3),
        log("ask", requested("f", args(n=1), id="2"), start=4),
    )
    assert [(call.name, call.call_id, call.arguments) for call in trajectory.calls] == [
        ("f", "1", args(n=1)),
        ("f", "2", args(n=1)),
        ("g", "0", args(n=0)),
    ]


def test_a_call_that_log_records_show_takes_its_name_and_id_from_whichever_tells_them():
    trajectory = joined(
        log("run", executed("", id="1"), start=1),
        log("run", executed("look", args(n=1), id="1"), start=2),
        log("run", executed("", id="1", result=Recorded("fine")), start=3),
        log("run", executed("look", args(n=2), id="2"), start=4),
    )
    assert [(call.name, call.call_id, call.arguments, call.result) for call in trajectory.calls] == [
        ("look", "1", args(n=1), Recorded("fine")),
        ("look", "2", args(n=2), NotRecorded()),
    ]


def test_log_records_of_one_moment_and_size_may_come_in_any_order():
    told = (
        log("ask", MessageSeen(role="user", text="go there")),
        log("ask", MessageSeen(role="system", text="be good.")),
        log("ask", answered(None, 1, name="look")),
        log("ask", answered(None, 2, name="look")),
    )
    asked = reading("ask", model(), requested("look"), requested("look", position=1))
    joined_first = joined(asked, *told)
    assert {joined(asked, *arriving) == joined_first for arriving in permutations(told)} == {True}


def test_two_instrumentations_without_ids_count_each_of_several_equal_calls_once():
    trajectory = joined(
        reading("m1", model(), requested("f", args(n=1)), requested("f", args(n=1), position=1), end=9, scope="one"),
        reading("m2", model(), requested("f", args(n=1)), requested("f", args(n=1), position=1), end=8, scope="two"),
        *(
            reading(f"{scope}{number}", executed("f", args(n=1)), start=10 + number, end=30, scope=scope)
            for scope in ("one", "two")
            for number in (1, 2)
        ),
    )
    assert shown(trajectory) == [(0, 0, "f", "executed"), (0, 1, "f", "executed")]


def test_equal_calls_of_one_instrumentation_at_the_same_time_are_several():
    trajectory = joined(
        reading("t1", executed("f", args(n=1)), start=1, end=30),
        reading("t2", executed("f", args(n=1)), start=2, end=30),
    )
    assert len(trajectory.calls) == 2


def test_a_call_that_was_executed_again_has_the_outcome_of_the_last_attempt():
    trajectory = joined(
        reading("ask", model(), requested("f", args(n=1), id="1"), start=0),
        reading("t1", executed("f", args(n=1), id="1", error=CallError(kind="E", message="")), start=10, end=11),
        reading("t2", executed("f", args(n=1), id="1", result=Recorded("ok")), start=20, end=21),
    )
    assert (only_call(trajectory).error, only_call(trajectory).result) == (None, Recorded("ok"))


def test_an_agents_summary_of_its_calls_adds_none():
    trajectory = joined(
        reading("run", agent("a"), requested("f", id="1"), requested("g", id="2", position=1), start=0, end=99),
        reading("ask1", model(), requested("f", id="1"), parent="run", start=1),
        reading("ask2", model(), requested("g", id="2"), parent="run", start=2),
    )
    assert shown(trajectory) == [(0, 0, "f", "requested_only"), (1, 0, "g", "requested_only")]


def test_a_summary_that_tells_its_outputs_apart_tells_which_calls_went_together():
    summed = [replace(requested(name, id=name, position=at), output=at // 2) for at, name in enumerate("fgh")]
    trajectory = joined(
        reading("run", agent("a"), *summed, start=0, end=99),
        reading("t1", executed("g", id="g"), parent="run", start=5),
        reading("t2", executed("f", id="f"), parent="run", start=6),
        reading("t3", executed("h", id="h"), parent="run", start=7),
    )
    assert shown(trajectory) == [(0, 0, "f", "executed"), (0, 1, "g", "executed"), (1, 0, "h", "executed")]


def test_a_wrapper_and_the_span_of_another_instrumentation_below_it_are_one_call():
    failed = CallError(kind="ValidationError", message="no number")
    trajectory = joined(
        reading("ask", model(), requested("f", args(n="x"), id="1"), start=0),
        reading("outer", executed("f", args(n="x"), result=Recorded("no number")), start=5, end=9),
        reading("inner", executed("f", id="1", error=failed), parent="outer", start=6, end=8),
    )
    call = only_call(trajectory)
    assert (call.span, call.call_id, call.error) == (reading("outer").ref, "1", failed)


def test_client_and_server_side_of_a_protocol_are_one_call():
    trajectory = joined(
        reading("tool", executed("search", args(q="x"), id="1"), start=0, end=9),
        reading("client", executed("search", mcp=True), parent="tool", start=1, end=8),
        reading("send", executed("tools/call search", mcp=True), parent="client", start=2, end=7),
        reading(
            "server",
            executed("search", error=CallError(kind="tool_error", message=""), mcp=True),
            parent="send",
            start=3,
        ),
    )
    call = only_call(trajectory)
    assert (call.span, call.name, call.error) == (
        reading("tool").ref,
        "search",
        CallError(kind="tool_error", message=""),
    )


def test_an_agent_used_as_a_tool_makes_calls_of_its_own():
    trajectory = joined(
        reading("run", agent("boss"), start=0, end=99),
        reading("outer", executed("ask_expert"), parent="run", start=1, end=50),
        reading("sub", agent("expert"), parent="outer", start=2, end=49),
        reading("inner", executed("search"), parent="sub", start=3, end=48),
    )
    assert [(call.name, call.agent, call.agent_path) for call in trajectory.calls] == [
        ("ask_expert", "boss", ("boss",)),
        ("search", "expert", ("boss", "expert")),
    ]


def test_an_agent_that_delegates_again_makes_a_second_call_of_the_same_tool():
    trajectory = joined(
        reading("outer", executed("delegate", args(to="b")), start=1, end=50),
        reading("sub", agent("b"), parent="outer", start=2, end=49),
        reading("inner", executed("delegate", args(to="c")), parent="sub", start=3, end=48),
    )
    assert [call.arguments for call in trajectory.calls] == [args(to="b"), args(to="c")]


def test_a_log_record_on_the_runs_span_tells_of_the_tool_span_with_its_id():
    trajectory = joined(
        reading("run", agent("shopper"), start=0, end=100),
        reading("t1", executed("read", id="c1"), parent="run", start=10, end=20),
        reading("t2", executed("read", id="c2"), parent="run", start=30, end=40),
        log("run", executed("read", args(n=1), id="c1"), start=20),
        log("run", executed("read", args(n=1), id="c2"), start=40),
        log("run", executed("read", args(n=1), id="c3"), start=50),
    )
    assert [(call.call_id, call.arguments, call.span) for call in trajectory.calls] == [
        ("c3", args(n=1), reading("run").ref),
        ("c1", args(n=1), reading("t1").ref),
        ("c2", args(n=1), reading("t2").ref),
    ]


def test_a_nameless_view_of_a_call_is_the_call_of_its_span_or_none():
    trajectory = joined(
        reading("run", agent("shopper"), start=0, end=100),
        reading("t1", executed("read", id="c1"), parent="run", start=10, end=20),
        log("t1", executed("", args(n=1), result=Recorded("one")), start=20),
        reading("t2", executed("", id="c9"), parent="run", start=30),
    )
    call = only_call(trajectory)
    assert (call.name, call.call_id, call.arguments, call.result) == ("read", "c1", args(n=1), Recorded("one"))


def test_a_circle_of_parents_is_cut_open_at_its_earliest_span_in_any_order_of_arrival():
    spans = (
        reading("first", agent("boss"), parent="third", start=0, end=9),
        reading("second", agent("sub"), parent="first", start=1, end=8),
        reading("third", executed("look"), parent="second", start=2, end=3),
        reading("below", executed("book"), parent="third", start=4, end=5),
    )
    for arriving in permutations(spans):
        trajectory = joined(*arriving)
        assert trajectory.root == spans[0].ref
        assert [(call.name, call.agent_path) for call in trajectory.calls] == [
            ("look", ("boss", "sub")),
            ("book", ("boss", "sub")),
        ]
