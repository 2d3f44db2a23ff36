"""Signs that spans of a trace went elsewhere, and what looks like one and is none."""

from tests.assemble.support import TRACE, agent, answered, executed, joined, model, reading, requested, span_id
from toolgauge.assemble.join import GatheredTrace, join
from toolgauge.model.observations import CallError, CodeExecuted, MessageSeen, Reading

UNASKED = "a tool ran for which the request of the model never came"
UNSEEN = "a model was given the answer to a call of which no span came"
ORPHANED = "spans of the run never came that others of its spans name as their parents"

RUN = reading("run", agent("clerk"), start=0, end=100)
FIRST_ASK = reading("m1", model(), requested("find", id="c1"), parent="run", start=1, end=10)
FIRST_TOOL = reading("t1", executed("find", id="c1"), parent="run", start=11, end=12)
SECOND_ASK = reading("m2", model(), answered("c1"), requested("find", id="c2"), parent="run", start=20, end=30)
SECOND_TOOL = reading("t2", executed("find", id="c2"), parent="run", start=31, end=32)
LAST_ANSWER = reading("m3", model(), answered("c1"), answered("c2"), parent="run", start=40, end=50)
WHOLE = (RUN, FIRST_ASK, FIRST_TOOL, SECOND_ASK, SECOND_TOOL, LAST_ANSWER)


def sign(*readings: Reading) -> str | None:
    return joined(*readings).split_sign


def without(*left: Reading) -> tuple[Reading, ...]:
    return tuple(one for one in WHOLE if one not in left)


def test_a_whole_run_shows_none():
    assert sign(*WHOLE) is None


def test_a_tool_that_ran_without_a_request_is_a_sign():
    assert sign(*without(SECOND_ASK, LAST_ANSWER)) == UNASKED


def test_a_step_of_a_code_agent_needs_no_request():
    error = CallError(kind="AgentExecutionError", message="Code execution failed")
    step = reading("t2", CodeExecuted(name="find", error=error), parent="run", start=31, end=32)
    assert sign(RUN, FIRST_ASK, FIRST_TOOL, step) is None


def test_a_tool_without_call_ids_is_one_where_its_model_asked_for_it_before():
    again = reading("t2", executed("find"), parent="run", start=31, end=32)
    assert sign(RUN, FIRST_ASK, FIRST_TOOL, again) == UNASKED


def test_a_tool_that_ran_when_its_run_began_is_none():
    # Approved by a person: the request is in an earlier trace.
    resumed = reading("t1", executed("find", id="c1"), parent="run", start=1, end=2)
    assert sign(RUN, resumed, SECOND_ASK, SECOND_TOOL, LAST_ANSWER) is None


def test_a_tool_that_no_model_is_seen_to_ask_for_is_none():
    own = reading("t0", executed("load_profile", id="x"), parent="run", start=33, end=34)
    assert sign(*WHOLE, own) is None


def test_a_tool_after_an_output_without_requests_is_none():
    # Its producer writes down the text of an output, and not its calls.
    silent = reading("m2", model(), answered("c1"), parent="run", start=20, end=30)
    assert sign(RUN, FIRST_ASK, FIRST_TOOL, silent, SECOND_TOOL, LAST_ANSWER) is None


def test_tools_of_models_that_record_no_requests_are_none():
    silent = [reading(f"m{n}", model(), parent="run", start=n * 10, end=n * 10 + 5) for n in (0, 2)]
    assert sign(RUN, *silent, FIRST_TOOL, SECOND_TOOL) is None


def test_an_answer_to_a_call_that_no_span_shows_is_a_sign():
    assert sign(*without(SECOND_ASK, SECOND_TOOL)) == UNSEEN


def test_an_answer_after_an_output_without_requests_is_none():
    # Its producer writes down the text of an output, and not its calls.
    asked = reading("m1", model(), parent="run", start=1, end=10)
    later = reading("m2", model(), answered("c1"), parent="run", start=40, end=50)
    assert sign(RUN, asked, later) is None


def test_an_answer_that_follows_one_of_the_run_is_a_sign_in_later_turns_too():
    turn = MessageSeen(role="user", text="and now?", follows=True)
    last = reading("m3", model(), turn, answered("c0"), answered("c1"), answered("c2"), parent="run", start=40, end=50)
    assert sign(RUN, FIRST_ASK, FIRST_TOOL, last) == UNSEEN


def test_answers_of_earlier_turns_are_none_for_the_second_model_of_a_run():
    # A model plans with tools of its own; the other one has the conversation.
    turn = MessageSeen(role="user", text="and now?", follows=True)
    talking = reading("m3", model(), turn, answered("c0"), parent="run", start=40, end=50)
    assert sign(RUN, FIRST_ASK, FIRST_TOOL, talking) is None


def test_answers_that_a_run_began_with_are_none():
    # Tools of a browser: the request is in an earlier trace.
    resumed = reading("m1", model(), answered("c0"), requested("find", id="c1"), parent="run", start=1, end=10)
    assert sign(RUN, resumed, FIRST_TOOL, SECOND_ASK, SECOND_TOOL, LAST_ANSWER) is None


def test_answers_of_earlier_turns_are_none():
    asked = MessageSeen(role="user", text="and now?", follows=True)
    later = reading("m1", model(), asked, answered("c0"), requested("find", id="c1"), parent="run", start=50, end=60)
    assert sign(RUN, later, reading("t1", executed("find", id="c1"), parent="run", start=61, end=62)) is None


def test_a_model_client_without_a_run_around_it_shows_none():
    asking = reading("m1", model(), requested("find", id="c1"), start=1, end=10)
    later = reading("m2", model(), answered("c9"), start=20, end=30)
    assert sign(asking, later) is None


STEP = "step"


def in_steps(*, lost: bool, filtered: bool, remote: bool = False, mcp: bool = False) -> str | None:
    """Return the sign of a run whose models and tools are below steps, which no dialect reads."""
    readings = [RUN]
    parents: dict[str, str | None] = {}
    for number in (1, 2):
        step = f"{STEP}{number}"
        readings += [
            reading(f"m{number}", model(), requested("find", id=f"c{number}"), parent=step, start=number * 20, end=number * 20 + 5),
            reading(f"t{number}", executed("find", id=f"c{number}", mcp=mcp), parent=step, start=number * 20 + 6, is_remote=remote),
        ]  # fmt: skip
        if not filtered and not (lost and number == 2):
            parents[step] = "run"
    known = {one.ref.span_id: one.parent_span_id for one in readings}
    known |= {span_id(step): span_id(above) for step, above in parents.items() if above}
    trace = GatheredTrace(trace_id=TRACE, readings=readings, parents=known)
    trajectory = join([trace], scope="trace", closed_because="run_ended")
    assert trajectory is not None
    return trajectory.split_sign


def test_parents_that_are_missing_inside_are_a_sign():
    assert in_steps(lost=False, filtered=False) is None
    assert in_steps(lost=True, filtered=False) == ORPHANED


def test_parents_that_are_filtered_out_are_none():
    assert in_steps(lost=False, filtered=True) is None


def test_missing_parents_of_a_run_whose_own_parent_never_came_are_none():
    below = reading("run", agent("clerk"), parent="request", start=0, end=100)
    asked = reading("m1", model(), requested("find", id="c1"), parent="step1", start=1, end=10)
    assert sign(below, asked, FIRST_TOOL) is None


def test_parents_in_another_service_are_none():
    away = reading("t2", executed("find", id="c2"), parent="client", start=31, end=32, service="tools")
    marked = reading("t2", executed("find", id="c2"), parent="client", start=31, end=32, is_remote=True)
    for tool in (away, marked):
        assert sign(RUN, FIRST_ASK, FIRST_TOOL, SECOND_ASK, tool, LAST_ANSWER) is None
