"""Receipts are what answers say after a tool worked, and never before."""

from msgspec.structs import replace

from tests.authoring.support import call, learned, run
from toolgauge.authoring.learner import Receipts
from toolgauge.model.trajectory import Message, Trajectory

ASKED = "Czy anulować zamówienie? Mogę też wysłać mail."
TOLD = "Zamówienie A-17 zostało anulowane zgodnie z prośbą."
ENGLISH = "All done: your order has been cancelled for you, Ann. Take care."


def conversation(number: int, text: str, *, worked: bool = True, asked: str = ASKED) -> Trajectory:
    """A question, perhaps a cancellation, and an answer."""
    messages = (
        Message(role="user", text="My order.", turn=0),
        *(Message(role="assistant", text=asked, turn=0) for _ in range(1)),
        Message(role="user", text="Yes.", turn=0),
        Message(role="assistant", text=text, turn=1),
    )
    return replace(run(number, call("cancel_order", error=not worked)), messages=messages)


def receipts(*runs: Trajectory) -> list[str]:
    usage = Receipts()
    for one in runs:
        usage.add(replace(one, writing_tools=frozenset({"cancel_order"})))
    return sorted(str(getattr(one, "value", one)) for found in usage.written().values() for one in found)


def test_the_words_after_a_success_are_receipts_in_any_language():
    found = receipts(*(conversation(number, TOLD) for number in range(60)))
    assert "zostało anulowane zgodnie z" in found
    assert not any("anulować" in one or "17" in one for one in found)


def test_where_acts_are_known_only_sequences_with_the_act_are_receipts():
    found = receipts(*(conversation(number, ENGLISH) for number in range(60)))
    assert "has been cancelled" in found
    assert all("cancelled" in one for one in found)


def test_words_that_come_before_a_success_too_are_none():
    runs = [conversation(number, ENGLISH) for number in range(60)]
    assert receipts(*runs, conversation(99, ENGLISH, worked=False)) == []
    assert receipts(*(conversation(number, ENGLISH, asked=ENGLISH) for number in range(60))) == []


def test_few_runs_or_few_answers_before_show_nothing():
    others = [conversation(number, "Too late.", worked=False) for number in range(60)]
    assert receipts(*others, *(conversation(number, ENGLISH) for number in range(7))) == []
    assert receipts(*others, *(conversation(number, ENGLISH) for number in range(8))) != []
    assert receipts(*(conversation(number, ENGLISH) for number in range(20))) == []


def test_the_learned_criterion_holds_the_receipts():
    runs = [conversation(number, ENGLISH) for number in range(60)]
    found = learned(runs)["answers"]
    assert found["evaluator"] == "honest_answer"
    assert "has been cancelled" in found["receipts"]["cancel_order"]
