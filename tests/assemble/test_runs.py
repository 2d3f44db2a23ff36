"""Which agent runs a trajectory tells, and which of them made a call."""

from typing import Literal

from tests.assemble.support import (
    TRACE,
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
    span_id,
)
from tests.rows import each_row
from toolgauge.model.observations import (
    CallAnswered,
    Ending,
    MessageSeen,
    ModelCall,
    Reading,
    ToolDefinition,
    Tools,
    ToolsOffered,
)
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import Run, Trajectory

SEARCH = ToolDefinition(name="search")
REFUND = ToolDefinition(name="refund")


def said(role: Literal["user", "assistant"], text: str) -> MessageSeen:
    return MessageSeen(role=role, text=text)


def ref(name: str, trace: str = TRACE) -> SpanRef:
    return SpanRef(trace, span_id(name))


def test_a_run_tells_its_prompt_its_response_and_the_tools_of_its_own_models():
    trajectory = joined(
        reading("run", agent("shop"), start=0, end=20),
        reading("ask", model(), said("user", "Refund A-17"), ToolsOffered(tools=(REFUND,)), parent="run", start=1),
        reading("tool", executed("refund", args(order="A-17")), parent="run", start=3, end=4),
        reading("end", model(), said("assistant", "Done"), ToolsOffered(tools=(REFUND,)), parent="run", start=5),
    )
    assert trajectory.runs == (
        Run(
            span=ref("run"),
            above=None,
            agent="shop",
            prompt="Refund A-17",
            response="Done",
            tools_offered=(REFUND,),
            start_ns=0,
            end_ns=20_000_000,
        ),
    )
    assert only_call(trajectory).run == ref("run")


def test_a_sub_agent_is_a_run_of_its_own_and_owns_its_calls():
    trajectory = joined(
        reading("run", agent("boss"), said("user", "Find it"), said("assistant", "Found"), start=0, end=20),
        reading("sub", agent("finder"), said("user", "search for it"), parent="run", start=2, end=9),
        reading("ask", model(), ToolsOffered(tools=(SEARCH,)), parent="sub", start=3),
        reading("tool", executed("search"), parent="sub", start=5, end=6),
    )
    boss, finder = trajectory.runs
    assert (boss.span, boss.above, boss.prompt, boss.response) == (ref("run"), None, "Find it", "Found")
    assert boss.tools_offered is None
    assert (finder.span, finder.above, finder.prompt) == (ref("sub"), ref("run"), "search for it")
    assert finder.tools_offered == (SEARCH,)
    assert only_call(trajectory).run == ref("sub")


def test_a_trace_without_an_agent_run_is_one_run():
    trajectory = joined(
        reading("request", model(), said("user", "hello"), start=0, end=1),
        reading("tool", executed("search"), start=5, end=6),
    )
    (run,) = trajectory.runs
    assert (run.agent, run.prompt, run.response, run.is_agent) == (None, "hello", None, False)
    assert only_call(trajectory).run == run.span
    assert not trajectory.has_agent_run


def test_a_run_whose_first_model_call_was_given_earlier_turns_has_a_history():
    trajectory = joined(
        reading("one", agent("shop"), start=0, end=10),
        reading("ask", model(), said("user", "hello"), requested("search", id="a"), parent="one", start=1),
        reading("two", agent("shop"), start=11, end=20),
        reading("next", model(), MessageSeen(role="user", text="and?", follows=True), parent="two", start=12),
        reading("three", agent("shop"), start=21, end=30),
        reading("more", model(), said("user", "hello"), CallAnswered(call_id="a"), parent="three", start=22),
        reading("four", agent("shop"), start=31, end=40),
        reading("other", model(), said("user", "hi"), requested("search", id="b"), parent="four", start=32),
        reading("done", model(), said("user", "hi"), CallAnswered(call_id="b"), parent="four", start=35),
    )
    assert [run.has_history for run in trajectory.runs] == [False, True, True, False]


def test_each_trace_of_a_conversation_has_its_own_runs():
    other = "0" * 31 + "2"
    trajectory = joined(
        reading("run", agent("shop"), said("user", "first"), start=0, end=5),
        reading("run", agent("shop"), said("user", "second"), start=10, end=15, trace=other),
        reading("tool", executed("search"), parent="run", start=11, end=12, trace=other),
    )
    assert [(run.span, run.prompt) for run in trajectory.runs] == [(ref("run"), "first"), (ref("run", other), "second")]
    assert only_call(trajectory).run == ref("run", other)


def test_a_call_outside_of_all_runs_belongs_to_the_trace():
    trajectory = joined(
        reading("root", said("user", "ignored"), start=0, end=30),
        reading("run", agent("shop"), parent="root", start=1, end=5),
        reading("tool", executed("search"), parent="root", start=11, end=12),
    )
    assert [run.span for run in trajectory.runs] == [ref("run")]
    assert only_call(trajectory).run == ref("run")


def test_a_workflow_around_agents_says_what_they_were_asked_and_answered():
    trajectory = joined(
        reading("flow", agent("flow"), start=0, end=30),
        reading("first", agent("triage"), said("user", "Refund A-17"), parent="flow", start=1, end=9),
        reading("second", agent("clerk"), said("user", "please"), parent="flow", start=10, end=25),
        reading("end", model(), said("assistant", "Done"), parent="second", start=20, end=22),
        reading("tool", executed("refund"), parent="second", start=12, end=13),
    )
    flow, triage, clerk = trajectory.runs
    assert (flow.prompt, flow.response) == ("Refund A-17", "Done")
    assert (triage.prompt, triage.response) == ("Refund A-17", None)
    assert (clerk.prompt, clerk.response) == ("please", "Done")


def asking(*inputs: tuple[MessageSeen | CallAnswered, ...]) -> Trajectory:
    """One model call after the other, each with what its input held."""
    return joined(
        reading("run", agent("a"), MessageSeen(role="user", text="newest of all", follows=True), start=0, end=900),
        *(
            reading(
                f"ask{number}", model(), *given, requested("f", id=f"c{number}"), parent="run", start=10 * number + 1
            )
            for number, given in enumerate(inputs)
        ),
    )


FIRST, LATER = MessageSeen(role="user", text="first"), MessageSeen(role="user", text="later", follows=True)


@each_row(
    ("inputs", "beginning"),
    [
        (((FIRST,), (FIRST, answered("c0")), (LATER, answered("c0"))), True),
        (((LATER,), (LATER, answered("c0"))), False),
        # Inputs that hold only what is new do not show where they begin.
        (((FIRST,), (answered("c0"),)), None),
        (((answered("c0"),),), None),
        (((FIRST, answered("earlier")),), False),
        # An answer that another trace brought later is of the model's own call.
        (((FIRST, answered("c0")),), True),
    ],
)
def test_the_first_input_shows_whether_it_is_the_beginning(
    inputs: tuple[tuple[MessageSeen | CallAnswered, ...], ...], *, beginning: bool | None
):
    assert asking(*inputs).has_beginning is beginning


def test_a_run_that_a_tool_started_is_another_one_under_any_name():
    for name in ("boss", None):
        trajectory = joined(
            reading("run", agent("boss"), ToolsOffered(tools=(REFUND,)), start=0, end=20),
            reading("tool", executed("ask"), parent="run", start=1, end=15),
            reading("sub", agent(name), ToolsOffered(tools=(SEARCH,)), parent="tool", start=2, end=9),
            reading("inner", executed("search"), parent="sub", start=5, end=6),
        )
        outer, inner = trajectory.runs
        assert (outer.span, outer.tools_offered) == (ref("run"), (REFUND,))
        assert (inner.span, inner.above, inner.tools_offered) == (ref("sub"), ref("run"), (SEARCH,))
        assert [call.run for call in trajectory.calls] == [ref("run"), ref("sub")]


def test_whoever_calls_an_agent_as_a_tool_is_no_part_of_its_run():
    trajectory = joined(
        reading("ask", model(), requested("ask"), ToolsOffered(tools=(REFUND,)), start=0, end=1),
        reading("tool", executed("ask"), start=1, end=15),
        reading("sub", agent("helper"), ToolsOffered(tools=(SEARCH,)), parent="tool", start=2, end=9),
        reading("inner", executed("search"), parent="sub", start=5, end=6),
    )
    (run,) = trajectory.runs
    assert (run.span, run.tools_offered) == (ref("sub"), (SEARCH,))
    assert [call.run for call in trajectory.calls] == [ref("tool"), ref("sub")]


EMPTY, CUT = ModelCall(ending="empty"), ModelCall(ending="length")


def ending(*readings: Reading) -> Ending | None:
    (run,) = [run for run in joined(*readings).runs if run.above is None]
    return run.ending


def test_a_run_ends_as_its_last_model_call_does():
    run = reading("run", agent("shop"), start=0, end=9)
    first, last = (
        reading("ask", CUT, parent="run", start=1, end=2),
        reading("say", model(), parent="run", start=3, end=4),
    )
    assert ending(run, first, last) is None
    assert ending(run, first) == "length"
    assert ending(first) == "length"


def test_an_answer_is_empty_where_no_view_of_it_and_not_the_run_has_one():
    run = reading("run", agent("shop"), start=0, end=9)
    first = reading("ask", model(), said("assistant", "I will look."), parent="run", start=1, end=2)
    assert ending(run, first, reading("say", EMPTY, parent="run", start=3, end=4)) == "empty"
    repeated = reading("run", agent("shop"), said("assistant", "I will look."), start=0, end=9)
    assert ending(repeated, first, reading("say", EMPTY, parent="run", start=3, end=4)) == "empty"
    blank = reading("say", EMPTY, said("assistant", " "), parent="run", start=3, end=4)
    assert ending(run, first, blank) == "empty"
    answering = reading("run", agent("shop"), said("assistant", "Here it is."), start=0, end=9)
    assert ending(answering, first, reading("say", EMPTY, parent="run", start=3, end=4)) is None
    logged = log("say", said("assistant", "Here it is."), start=4)
    assert ending(run, first, reading("say", EMPTY, parent="run", start=3, end=4), logged) is None
    asking = reading("say", EMPTY, requested("find", args(), id="1"), parent="run", start=3, end=4)
    assert ending(run, first, asking) is None


def test_a_run_has_the_offer_that_its_model_calls_repeat_as_the_same_object():
    offer = Tools((SEARCH, REFUND))
    trajectory = joined(
        reading("run", agent("boss"), start=0, end=9),
        reading("ask", model(), ToolsOffered(tools=offer), parent="run", start=1),
        reading("end", model(), ToolsOffered(tools=offer), parent="run", start=5),
    )
    assert trajectory.tools_offered is offer
    assert trajectory.runs[0].tools_offered is offer
    twice = joined(reading("ask", model(), ToolsOffered(tools=(REFUND, REFUND))))
    assert twice.tools_offered == (REFUND,)
