"""A trace is judged by what earlier traces of its conversation showed, and nothing is held against it where they were not seen."""

from msgspec.structs import replace

from tests.rows import each_row
from tests.score.support import tool_call, trajectory, user
from toolgauge.evaluators.grounded_arguments import GroundedArguments
from toolgauge.model.content import NOT_RECORDED, Content, Recorded
from toolgauge.model.json import Json
from toolgauge.model.left_out import LeftOut
from toolgauge.model.outcomes import Outcome, Scored
from toolgauge.model.trajectory import EarlierTurns, Trajectory
from toolgauge.score.earlier_traces import EarlierTraces
from toolgauge.score.facts import Facts

SECOND = 1_000_000_000
WRITES = ("pay",)
OK = Recorded("ok")


def turn(
    text: str | None = "Go on.",
    arguments: Json = None,
    *,
    result: Content = OK,
    conversation: str = "c",
    begins: bool | None = None,
    start_ns: int = 0,
    service: str = "shop",
) -> Trajectory:
    """One trace with one call of `pay`; its result is not seen before it."""
    calls = () if arguments is None else (tool_call("pay", arguments, result=result),)
    messages = () if text is None else (user(text, 0),)
    made = trajectory(*calls, messages=messages, conversation_id=conversation, writing_tools=WRITES, service=service)
    return replace(made, has_beginning=begins, start_ns=start_ns, end_ns=start_ns + SECOND)


def judged(memory: EarlierTraces, trace: Trajectory) -> Outcome:
    """Judge a trace as the pipeline does, then remember it."""
    facts = Facts(memory.with_earlier(trace))
    ((_, outcome),) = GroundedArguments().outcomes(facts)
    memory.remember(facts.trajectory, facts.seen)
    return outcome


def after(*traces: Trajectory, memory: EarlierTraces | None = None) -> Outcome:
    """Return the outcome of the last of these traces."""
    memory = memory or EarlierTraces(100)
    return [judged(memory, trace) for trace in traces][-1]


def is_seen(outcome: Outcome) -> bool:
    assert isinstance(outcome, Scored), outcome
    return outcome.value == 1.0


def reason(outcome: Outcome) -> str:
    return getattr(outcome, "reason", str(outcome))


@each_row(
    ("said", "arguments"),
    [
        ("Refund order A-17 of user_88.", {"order_id": "A-17", "user_id": "user_88"}),
        ("Refund order A17.", {"order_id": "A-17"}),
        ("Refund order 9502126.", {"order_id": "#W9502126"}),
        ("It was $1,200.50 for 3.", {"amount": 3601.5}),
        (
            "Ask Sofia Kim on May 16, +1 555 123 4567.",
            {"first_name": "Sofia", "date": "2024-05-16", "phone": "5551234567"},
        ),
        ("My card ends in 7334.", {"card_id": "credit_card_7334"}),
    ],
)
def test_what_the_user_said_in_an_earlier_trace_had_been_seen(said: str, arguments: Json):
    assert is_seen(after(turn(said, {"reason": "x"}), turn("Go on.", arguments)))


def test_an_id_that_no_trace_of_the_conversation_showed_fails():
    first = turn("Refund ORD-771245.", {"order_id": "ORD-771245"})
    assert not is_seen(after(first, turn("Go on.", {"order_id": "ORD-771246"})))
    assert not is_seen(after(first, turn("Go on.", {"order_id": "ORD-771245"}, conversation="another")))
    assert not is_seen(after(turn("Refund it.", {"order_id": "ORD-771245"})))


def test_earlier_turns_whose_results_are_in_the_first_input_had_been_seen():
    held = EarlierTurns(("Refund ORD-771245.",), (Recorded({"other": "ORD-882211"}),))
    for order, is_known in (("ORD-771245", True), ("ORD-882211", True), ("ORD-990000", False)):
        late = replace(turn("Go on.", {"order_id": order}, begins=False), earlier_turns=held)
        assert is_seen(after(late)) == is_known
        assert is_seen(after(replace(late, conversation_id=None))) == is_known
    assert is_seen(after(late, turn("Go on.", {"order_id": "ORD-882211"})))


def test_a_trace_that_begins_its_conversation_anew_is_judged_by_itself():
    unrecorded = turn("Hello.", {"reason": "x"}, result=NOT_RECORDED)
    assert not is_seen(after(unrecorded, turn("Go on.", {"order_id": "ORD-771246"}, begins=True)))


@each_row(
    ("first", "expected"),
    [
        (turn("Hello.", {"reason": "x"}, result=NOT_RECORDED), "results_not_recorded"),
        (replace(turn("Hello.", {"reason": "x"}), left_out=LeftOut(texts=1)), "truncated"),
        (replace(turn("Hello.", {"reason": "x"}), has_media=True), "no_content"),
        (replace(turn("Hello.", {"reason": "x"}), incomplete="half of it"), "incomplete"),
    ],
)
def test_what_an_earlier_trace_did_not_record_is_not_held_against_a_later_one(first: Trajectory, expected: str):
    later = turn("Go on.", {"order_id": "ORD-771246"})
    assert reason(after(first, later)) == expected
    assert reason(after(first, turn("Hm.", {"reason": "x"}), later)) == expected
    assert is_seen(after(first, turn("ORD-771246!", {"reason": "x"}), later))


def test_a_conversation_may_be_older_than_a_process_that_joined_midway():
    memory = EarlierTraces(100, live_since_ns=100 * SECOND, ongoing_ns=60 * SECOND)
    invented: Json = {"order_id": "ORD-771246"}
    assert not is_seen(judged(memory, turn("Go on.", invented, start_ns=101 * SECOND, conversation="1")))
    spanning = replace(turn("Go on.", invented, start_ns=99 * SECOND, conversation="2"), end_ns=102 * SECOND)
    assert reason(judged(memory, spanning)) == "incomplete"
    assert reason(judged(memory, turn("Go on.", invented, start_ns=103 * SECOND, conversation="3"))) == "incomplete"
    begins = turn("Go on.", invented, start_ns=103 * SECOND, conversation="4", begins=True)
    assert not is_seen(judged(memory, begins))
    other = turn("Go on.", invented, start_ns=103 * SECOND, conversation="5", service="bank")
    assert not is_seen(judged(memory, other))
    assert not is_seen(judged(memory, turn("Go on.", invented, start_ns=161 * SECOND, conversation="6")))


def test_where_other_processes_have_traces_of_a_conversation_one_is_judged_by_its_beginning_alone():
    memory = EarlierTraces(100, is_divided=True)
    first = turn("Refund ORD-771245.", {"order_id": "ORD-771245"}, begins=True)
    assert is_seen(judged(memory, first))
    assert is_seen(judged(memory, turn("Go on.", {"order_id": "ORD-771245"})))
    assert reason(judged(memory, turn("Go on.", {"order_id": "ORD-771246"}))) == "incomplete"
    assert not is_seen(judged(memory, turn("Go on.", {"order_id": "ORD-771246"}, conversation="d", begins=True)))


def test_it_outlives_a_restart():
    first, second = EarlierTraces(100), EarlierTraces(100)
    judged(first, turn("Refund ORD-771245.", {"order_id": "ORD-771245"}, conversation="someone@example.com"))
    judged(first, replace(turn("Refund ORD-771245.", {"reason": "x"}), conversation_id=None))
    (change,) = changes = first.take_changes()
    assert first.take_changes() == []
    assert (len(change.conversation), b"771245" in change.values.hashes) == (16, False)
    second.restore(changes)
    assert second.take_changes() == []
    for order, is_known in (("ORD-771245", True), ("ORD-771246", False)):
        later = turn("Go on.", {"order_id": order}, conversation="someone@example.com")
        assert is_seen(judged(second, later)) is is_known


def test_half_of_the_values_go_when_memory_is_short_and_are_known_to_be_missing():
    memory = EarlierTraces(100)
    later: Json = {"order_id": "ORD-771245"}
    for name in ("1", "2", "3"):
        judged(memory, turn("Refund ORD-771245.", {"reason": "x"}, conversation=name))
    memory.shed()
    assert is_seen(judged(memory, turn("Go on.", later, conversation="3")))
    assert reason(judged(memory, turn("Go on.", later, conversation="1"))) == "incomplete"


def test_a_conversation_with_too_many_values_is_not_judged_from_then_on():
    many = turn(" ".join(f"P{number}" for number in range(17_000)), {"reason": "x"})
    assert reason(after(many, turn("Go on.", {"order_id": "ORD-771246"}))) == "incomplete"
