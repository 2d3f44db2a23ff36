"""`one_effect` finds acts that were made twice, and leaves alone those that were asked for, taken back or lost on the way."""

import pytest
from msgspec.structs import replace

from tests.rows import each_row
from tests.score.support import agent_run, judge, not_evaluated, scored, sides, tool_call, trajectory, user
from toolgauge.evaluators.repeated_calls import OneEffect
from toolgauge.model.content import NotRecorded, Recorded
from toolgauge.model.json import Json
from toolgauge.model.observations import CallError, ToolDefinition
from toolgauge.model.outcomes import Outcome, Scored
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import Message, ToolCall, Trajectory
from toolgauge.score.earlier_traces import EarlierTraces
from toolgauge.score.facts import Facts

ONE_EFFECT = OneEffect()
ORDER: Json = {"order_id": "ORD-7", "amount": 20}
WRITES = (
    *("refund_order", "cancel_order", "buy_gift_card", "emailer", "set_address", "delete_card", "add"),
    *("buy_ticket", "delete_ticket"),
)


def refund(number: int = 4, args: Json = ORDER, *, name: str = "refund_order", turn: int | None = None) -> ToolCall:
    return tool_call(name, args, result=Recorded({"refund_id": f"R-{number}", "amount": 20}), turn=turn)


def run(*calls: ToolCall, said: tuple[Message, ...] = (), **more: str) -> Trajectory:
    messages = said or (user("My lamp is broken, please refund ORD-7.", 0),)
    return trajectory(*calls, messages=messages, writing_tools=WRITES, conversation_id=more.get("conversation", "c"))


def second(of: Trajectory, evaluator: OneEffect = ONE_EFFECT) -> Outcome:
    """The outcome of the last call."""
    return judge(evaluator, of)[-1]


def value(of: Trajectory, evaluator: OneEffect = ONE_EFFECT) -> float | str:
    """The score of the last call, rounded, or why it has none."""
    outcome = second(of, evaluator)
    return round(outcome.value, 2) if isinstance(outcome, Scored) else getattr(outcome, "reason", "error")


def results(*said: Json, args: Json = ORDER) -> float | str:
    """The score of the last of equal calls with these results."""
    return value(run(*(tool_call("refund_order", args, result=Recorded(one)) for one in said)))


def test_the_same_act_with_another_id_in_its_result_fails_and_shows_both():
    first, again = refund(), refund(5)
    timed = run(replace(first, start_ns=1, end_ns=2_000_000_000), replace(again, start_ns=25_000_000_000))
    outcome = second(timed)
    assert isinstance(outcome, Scored)
    assert (outcome.value, outcome.parts) == (0, {"identical": 2})
    assert all(said in outcome.explanation for said in ("call 1", "23 s apart", "`refund_id`"))
    (difference,) = outcome.differences
    assert (difference.where, *sides(difference)) == ("refund_order: refund_id", "R-4", "R-5")
    assert value(run(refund(), replace(refund(5), agent="cook", agent_path=("clerk", "cook")))) == 0


def test_the_same_result_lowers_the_score_and_passes_once():
    calls = [refund(turn=turn) for turn in range(3)]
    scores = [outcome.value for outcome in judge(ONE_EFFECT, run(*calls)) if isinstance(outcome, Scored)]
    assert scores == [1.0, 0.5, pytest.approx(1 / 3)]


@each_row(
    ("first", "then"),
    [
        ({"refund_id": "R-4"}, {"refund_id": "R-5"}),
        ({"refundId": "HATHAT", "state": "paid"}, {"refundId": "HATHUG", "state": "paid"}),
        ({"refund": {"id": 17, "state": "part"}}, {"refund": {"id": 18, "state": "whole"}}),
        ("Refund R-4 was issued.", "Refund R-5 was issued."),
        ({"total": 20}, {"total": 40}),
        ({"total": "20.0", "limit": "40.0"}, {"total": "40.0", "limit": "40.0"}),
        ({"payments": [{"amount": 20}]}, {"payments": [{"amount": 20}, {"amount": 20}]}),
        (
            {"content": [{"type": "text", "text": '{"id": "R-4"}'}]},
            {"content": [{"type": "text", "text": '{"id": "R-5"}'}]},
        ),
    ],
)
def test_another_id_or_number_is_another_effect(first: Json, then: Json):
    assert results(first, then) == 0


def test_arguments_are_equal_by_value():
    assert value(run(refund(), refund(5, {"amount": 20.0, "order_id": "ORD-7"}))) == 0
    assert value(run(refund(), refund(5, {"amount": "20", "order_id": "ORD-7"}))) == 1


@each_row(
    ("text", "score"),
    [
        ("Thank you, that is all I needed.", 0),
        ("I restarted my phone again, and it is still not working.", 0),
        ("Now please refund ORD-8 as well.", 0),
        ("Please refund ORD-7 again.", "undecided"),
        ("I need another refund of 20 for it.", "undecided"),
        ("Could you refund the second lamp, too?", "undecided"),
        ("I have not received the refund.", "undecided"),
        ("Noch einmal, bitte.", "undecided"),
    ],
)
def test_a_message_of_the_user_excuses_where_it_may_ask_again(text: str, score: float | str):
    said = (user("My lamp is broken, please refund ORD-7.", 0), user(text, 1))
    assert value(run(refund(), refund(5), said=said)) == score


def test_an_act_after_its_effect_was_taken_back_is_new():
    bought = [tool_call("buy_ticket", {"seat": 5}, result=Recorded({"ticket_id": f"T-{n}"})) for n in (1, 2)]
    removed, other = (tool_call("delete_ticket", {"ticket_id": id}, result=Recorded("ok")) for id in ("T-1", "T-9"))
    assert value(run(bought[0], removed, bought[1])) == 1
    assert value(run(bought[0], other, bought[1])) == 0


def test_a_record_that_was_changed_in_another_way_in_between_may_be_changed_back():
    change: list[Json] = [{"order_id": "ORD-7", "reason": reason} for reason in ("late", "broken", "late")]
    calls = [refund(number, args, name="cancel_order") for number, args in enumerate(change)]
    assert value(run(*calls)) == 1
    assert value(run(calls[0], calls[2])) == 0


@each_row("message", ["Request timed out", "connection reset by peer", "504 Gateway Timeout", "ETIMEDOUT"])
def test_a_call_that_works_after_a_lost_one_may_have_happened_twice(message: str):
    lost = replace(refund(), error=CallError(kind="Error", message=message), result=NotRecorded())
    outcome = scored(ONE_EFFECT, run(lost, refund(5)))
    assert (outcome.value, outcome.parts) == (1.0, {"may_have_happened_twice": 1})
    assert value(run(lost, refund(5), refund(6))) == 0


def test_failed_calls_and_results_that_read_like_errors_are_no_effects():
    failed = replace(refund(), error=CallError(kind="NotFound", message="no such order"))
    assert value(run(failed, refund(5))) == 1
    told = tool_call("refund_order", ORDER, result=Recorded("Error: no such order 4"))
    assert value(run(told, refund(5))) == 1
    unseen = replace(refund(), state="requested_only", result=NotRecorded())
    assert value(run(unseen, refund(5))) == 1


def test_an_idempotency_key_makes_equal_calls_one_and_others_two():
    keyed: list[Json] = [{"order_id": "ORD-7", "idempotency_key": key} for key in ("k1", "k1", "k2")]
    calls = [refund(number, args) for number, args in enumerate(keyed)]
    assert [value(run(*calls[:2])), value(run(calls[0], calls[2]))] == [1, 1]


@each_row("name", ["set_address", "emailer", "add", "delete_card"])
def test_settings_and_tools_whose_names_show_no_act_are_left_out(name: str):
    assert not_evaluated(ONE_EFFECT, run(refund(name=name), refund(5, name=name))) == "no_calls"


def test_tools_that_are_named_are_acts():
    named = OneEffect(tools=("emailer",))
    assert value(run(refund(name="emailer"), refund(5, name="emailer")), named) == 0
    assert not_evaluated(named, run(refund(), refund(5))) == "no_calls"


@each_row("name", ["book_search", "order_status", "exchange_rate", "get_refund", "weather"])
def test_tools_that_look_are_left_out(name: str):
    calls = [replace(refund(number), name=name) for number in (4, 5)]
    looked = trajectory(*calls, writing_tools=[name], messages=(user("Go.", 0),), conversation_id="c")
    assert not_evaluated(ONE_EFFECT, looked) == "no_calls"


def test_tools_without_arguments_and_those_that_may_be_repeated_by_their_hints_are_left_out():
    assert not_evaluated(ONE_EFFECT, run(refund(args={}), refund(5, args={}))) == "no_calls"
    offered = (ToolDefinition(name="refund_order", is_repeatable=True),)
    assert not_evaluated(ONE_EFFECT, replace(run(refund(), refund(5)), tools_offered=offered)) == "no_calls"


def test_runs_of_a_trace_without_a_conversation_may_be_those_of_several_users():
    spans = [SpanRef("a" * 32, number) for number in "12"]
    first = agent_run(spans[0])
    calls = [replace(refund(number), run=span) for number, span in enumerate(spans)]
    of_several = replace(run(*calls), conversation_id=None, runs=(first, replace(first, span=spans[1])))
    assert value(of_several) == 1
    assert value(replace(of_several, runs=(first, replace(first, span=spans[1], above=spans[0])))) == 0
    assert value(replace(of_several, conversation_id="c")) == 0


def test_without_any_message_of_a_user_another_trace_may_have_been_asked_for():
    calls = [refund(), replace(refund(5), span=SpanRef("b" * 32, "2"))]
    assert value(replace(run(*calls), messages=(), scope="conversation")) == "undecided"


def in_two_traces(between: tuple[str, ...] = (), *, gap: str | None = None, damaged: bool = False) -> float | str:
    """The score of a second refund, two traces after the first one, with texts of the user in the trace between."""
    memory = EarlierTraces(10)
    traces = [
        run(refund()),
        run(said=tuple(user(text, 0) for text in between)),
        run(refund(5), said=(user("Thanks.", 0),)),
    ]
    score: float | str = ""
    for trace in traces:
        known = memory.with_earlier(trace)
        assert known.earlier is not None
        if known.earlier.effects:
            effects = b"?" if damaged else known.earlier.effects
            known = replace(known, earlier=replace(known.earlier, effects=effects, gap=gap))
        facts = Facts(known)
        outcome = [one for _, one in ONE_EFFECT.outcomes(facts)][-1]
        score = outcome.value if isinstance(outcome, Scored) else getattr(outcome, "reason", "error")
        memory.remember(known, effects=facts.effects)
    (kept,) = memory.take_changes()
    assert kept.values.user_texts == ()
    return score


def test_effects_of_earlier_traces_are_known_by_hashes():
    assert in_two_traces(("Thanks.",)) == 0
    assert in_two_traces(("Please refund it again.",)) == "undecided"
    assert in_two_traces(("Please refund it again.", "x" * 5000)) == "undecided"
    assert in_two_traces(("x" * 5000,)) == 0


def test_effects_that_cannot_be_read_or_with_traces_missing_are_not_held_against_a_call():
    assert in_two_traces(damaged=True) == 1
    assert in_two_traces(gap="incomplete") == "undecided"
