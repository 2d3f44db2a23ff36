"""Signs that spans of a trace went elsewhere, and what looks like one and is none."""

from tests.assemble.support import TRACE, agent, answered, executed, joined, model, reading, requested, span_id
from tests.rows import each_row
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


TURN = MessageSeen(role="user", text="and now?", follows=True)
BROKE = CallError(kind="AgentExecutionError", message="Code execution failed")
CODE_STEP = reading("t2", CodeExecuted(name="find", error=BROKE), parent="run", start=31, end=32)
# Its producer writes down the text of an output, and not its calls.
SILENT = reading("m2", model(), answered("c1"), parent="run", start=20, end=30)
WITHOUT_IDS = reading("t2", executed("find"), parent="run", start=31, end=32)
# Approved by a person, or of a browser: the request is in an earlier trace.
RESUMED = reading("t1", executed("find", id="c1"), parent="run", start=1, end=2)
ANSWERED = reading("m1", model(), answered("c0"), requested("find", id="c1"), parent="run", start=1, end=10)
OWN = reading("t0", executed("load_profile", id="x"), parent="run", start=33, end=34)
LATER = reading("m1", model(), TURN, answered("c0"), requested("find", id="c1"), parent="run", start=50, end=60)
TALKING = reading("m3", model(), TURN, answered("c0"), parent="run", start=40, end=50)
ALL_ANSWERS = reading("m3", model(), TURN, *map(answered, ("c0", "c1", "c2")), parent="run", start=40, end=50)
ALONE = (
    reading("m1", model(), requested("find", id="c1"), start=1, end=10),
    reading("m2", model(), answered("c9"), start=20, end=30),
)


@each_row(
    ("readings", "found"),
    [
        (WHOLE, None),
        (without(SECOND_ASK, LAST_ANSWER), UNASKED),
        ((RUN, FIRST_ASK, FIRST_TOOL, CODE_STEP), None),
        # Without ids, it counts that its model asked for the tool before.
        ((RUN, FIRST_ASK, FIRST_TOOL, WITHOUT_IDS), UNASKED),
        ((RUN, RESUMED, SECOND_ASK, SECOND_TOOL, LAST_ANSWER), None),
        # A tool that no model is seen to ask for.
        ((*WHOLE, OWN), None),
        ((RUN, FIRST_ASK, FIRST_TOOL, SILENT, SECOND_TOOL, LAST_ANSWER), None),
        ((RUN, reading("m1", model(), parent="run", end=5), FIRST_TOOL, SILENT, SECOND_TOOL), None),
        (without(SECOND_ASK, SECOND_TOOL), UNSEEN),
        ((RUN, reading("m1", model(), parent="run", start=1, end=10), LAST_ANSWER), None),
        # An answer that follows one of the run, in a later turn too.
        ((RUN, FIRST_ASK, FIRST_TOOL, ALL_ANSWERS), UNSEEN),
        # A model plans with tools of its own; the other one has the conversation.
        ((RUN, FIRST_ASK, FIRST_TOOL, TALKING), None),
        ((RUN, ANSWERED, FIRST_TOOL, SECOND_ASK, SECOND_TOOL, LAST_ANSWER), None),
        ((RUN, LATER, reading("t1", executed("find", id="c1"), parent="run", start=61, end=62)), None),
        # Calls of a model without a run around them.
        (ALONE, None),
    ],
)
def test_signs_are_tools_and_answers_that_nothing_in_the_run_explains(readings: tuple[Reading, ...], found: str | None):
    assert sign(*readings) == found


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


def test_parents_in_another_service_are_none():
    away = reading("t2", executed("find", id="c2"), parent="client", start=31, end=32, service="tools")
    marked = reading("t2", executed("find", id="c2"), parent="client", start=31, end=32, is_remote=True)
    for tool in (away, marked):
        assert sign(RUN, FIRST_ASK, FIRST_TOOL, SECOND_ASK, tool, LAST_ANSWER) is None
