"""Rules about the order of calls: each kind, what counts as done, and what cannot be judged."""

import pytest
from pydantic import ValidationError

from tests.rows import each_row
from tests.score.support import judge, not_evaluated, scored, tool_call, trajectory, user
from toolgauge.evaluators.order_rules import OrderRules
from toolgauge.model.content import NOT_RECORDED
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import Scored
from toolgauge.model.trajectory import Message, ToolCall, Trajectory

VERIFIED_FIRST = {"before": "refund*", "call": "verify"}
RECEIPT_AFTER = {"after": "book", "call": "send_receipt"}
CLOSED_LAST = {"never_before": "refund", "call": "close"}
CONFIRMED = {"requires_confirmation": "cancel*"}
LARGE = {"tool": "refund", "arguments": {"amount": {"at_least": 100}}}


def rules(*written: object, **parameters: object) -> OrderRules:
    return OrderRules.model_validate({"rules": written, **parameters})


def failed(name: str) -> ToolCall:
    return tool_call(name, error=CallError(kind="", message=""))


def names(*calls: str | ToolCall) -> Trajectory:
    return trajectory(*(tool_call(call) if isinstance(call, str) else call for call in calls))


def value(rule: object, judged: Trajectory, **parameters: object) -> float | str:
    """The value of the only outcome, or the reason why it has none."""
    (outcome,) = judge(rules(rule, **parameters), judged)
    return outcome.value if isinstance(outcome, Scored) else getattr(outcome, "reason", "error")


@each_row(
    ("rule", "calls", "expected"),
    [
        (VERIFIED_FIRST, ["verify", "refund"], 1.0),
        (VERIFIED_FIRST, ["refund", "verify"], 0.0),
        (VERIFIED_FIRST, ["verify"], "nothing_expected"),
        (RECEIPT_AFTER, ["send_receipt", "book"], 0.0),
        (RECEIPT_AFTER, ["book", "send_receipt", "book"], 0.0),
        (CLOSED_LAST, ["refund", "close"], 1.0),
        (CLOSED_LAST, ["close", "refund"], 0.0),
        ({"never": "drop_*"}, ["find"], 1.0),
        ({"never": "drop_*"}, ["find", "drop_table"], 0.0),
        ({"at_most": 2, "call": "refund*"}, ["refund", "refund_all"], 1.0),
        ({"at_most": 2, "call": "refund*"}, ["refund", "find", "refund_all", "refund"], 0.0),
    ],
)
def test_a_rule_holds_or_does_not(rule: object, calls: list[str], expected: float | str):
    assert value(rule, names(*calls)) == expected


def test_patterns_look_at_arguments():
    rule = {"before": LARGE, "call": {"tool": "verify", "arguments": {"level": "full"}}}
    small, large = tool_call("refund", {"amount": 5}), tool_call("refund", {"amount": 500})
    weak, full = tool_call("verify", {"level": "weak"}), tool_call("verify", {"level": "full"})
    assert value(rule, trajectory(small)) == "nothing_expected"
    assert value(rule, trajectory(weak, large)) == 0.0
    assert value(rule, trajectory(weak, full, small, large)) == 1.0


def test_what_must_have_been_done_must_have_worked_and_what_must_not_counts_when_it_was_tried():
    assert value(RECEIPT_AFTER, names(failed("book"))) == "nothing_expected"
    assert value(VERIFIED_FIRST, names(tool_call("verify", state="requested_only"), "refund")) == 1.0
    assert value({"never": "drop"}, names(tool_call("drop", state="rejected"))) == 0.0
    assert value({"at_most": 1, "call": "pay"}, names(failed("pay"), "pay")) == 0.0


def test_failed_calls_may_be_ignored():
    assert value({"never": "drop"}, names(failed("drop"), "find"), failed_calls="ignore") == 1.0
    assert value({"at_most": 1, "call": "pay"}, names(failed("pay"), "pay"), failed_calls="ignore") == 1.0
    assert value({"never": "drop"}, names(failed("drop")), failed_calls="ignore") == "no_calls"


def test_the_score_is_the_share_of_rules_with_something_to_judge():
    outcome = scored(
        rules(VERIFIED_FIRST, RECEIPT_AFTER, {"never": "drop"}, {"never": "pay", "name": "no payments"}),
        names("refund", "pay", "pay"),
    )
    assert outcome.value == pytest.approx(1 / 3)
    kinds = {"before_applied": 1, "before_violated": 1, "never_applied": 2, "never_violated": 1}
    assert outcome.parts == {"applied": 3, "violated": 2, **kinds}
    assert "rule 4 `no payments`: `pay` (call 2)" in outcome.explanation
    assert [difference.rule for difference in outcome.differences] == ["before", "never", "never"]
    assert outcome.differences[2].where.startswith("call 3: pay, rule 4")
    beyond = scored(rules({"at_most": 1, "call": ["pay", "refund"]}), names("pay", "find", "refund", "pay"))
    assert "rule 1: `refund` (call 3) beyond 1, and 1 more" in beyond.explanation


def test_arguments_that_were_not_recorded_leave_a_rule_open():
    unseen = tool_call("refund", arguments=NOT_RECORDED)
    large = tool_call("refund", {"amount": 500})
    assert value({"never": LARGE}, trajectory(unseen)) == "arguments_not_recorded"
    assert value({"never": LARGE}, trajectory(unseen, large)) == 0.0
    assert value({"at_most": 1, "call": LARGE}, trajectory(unseen)) == 1.0
    assert value({"at_most": 1, "call": LARGE}, trajectory(large, unseen)) == "arguments_not_recorded"
    assert value({"before": "close", "call": LARGE}, trajectory(unseen, tool_call("close"))) == "arguments_not_recorded"
    assert value({"before": "close", "call": LARGE}, trajectory(unseen, large, tool_call("close"))) == 1.0
    assert value({"before": LARGE, "call": "verify"}, trajectory(tool_call("verify"), unseen)) == "nothing_expected"
    assert value({"before": LARGE, "call": "verify"}, trajectory(unseen)) == "arguments_not_recorded"


def test_a_broken_rule_counts_although_another_cannot_be_judged():
    unseen = tool_call("refund", arguments=NOT_RECORDED)
    outcome = scored(rules({"never": LARGE}, {"never": "drop"}), names(unseen, "drop"))
    assert (outcome.value, "1 more could not be judged" in outcome.explanation) == (0.0, True)
    # A run does not pass while a rule cannot be judged.
    assert not_evaluated(rules({"never": "drop"}, {"never": LARGE}), names(unseen)) == "arguments_not_recorded"


def agent(text: str, turn: int) -> Message:
    return Message(role="assistant", text=text, turn=turn)


def talk(*messages: Message, call: ToolCall | None = None, conversation_id: str | None = None) -> Trajectory:
    """A call of `cancel_booking` after one call that reads."""
    cancel = tool_call("cancel_booking", {"booking_id": "X-17", "nights": 3}) if call is None else call
    return trajectory(tool_call("find"), cancel, messages=messages, conversation_id=conversation_id)


REQUEST = user("Cancel my booking X-17, please.", 0)
QUESTION = agent("I will cancel booking x-17. Shall I?", 1)


def test_the_user_has_to_speak_after_the_agent_named_the_call():
    assert value(CONFIRMED, talk(REQUEST, QUESTION, user("Yes", 1))) == 1.0
    assert value(CONFIRMED, talk(REQUEST)) == 0.0
    assert value(CONFIRMED, talk(agent("Hello! How can I help?", 0), REQUEST)) == 0.0
    assert value(CONFIRMED, talk(REQUEST, agent("Done: X-17 is cancelled.", 2), user("Thanks", 2))) == 0.0
    # The agent may have named it some messages ago, and by its tool instead of values.
    between = (user("Yes. Is breakfast included?", 1), agent("It is.", 1), user("Fine", 1))
    assert value(CONFIRMED, talk(REQUEST, QUESTION, *between)) == 1.0
    named = agent("Shall I cancel the stay in Rome?", 1)
    assert value(CONFIRMED, talk(user("Rome is off.", 0), named, user("Yes", 1))) == 1.0


def test_a_value_that_the_user_has_just_given_was_not_confirmed():
    asked = agent("I can cancel that. What is the number of the booking?", 1)
    assert value(CONFIRMED, talk(user("Cancel it.", 0), asked, user("X-17", 1))) == 0.0


def test_the_answer_may_have_to_match_a_pattern():
    rule = {**CONFIRMED, "yes": r"(?is).*\b(yes|sure)\b.*"}
    assert value(rule, talk(REQUEST, QUESTION, user("Well,\nyes please", 1))) == 1.0
    assert value(rule, talk(REQUEST, QUESTION, user("No, wait", 1))) == 0.0
    assert value(rule, talk(user("Yes? Cancel X-17.", 0), QUESTION, user("No", 1))) == 0.0


def test_an_answer_that_repeats_the_one_before_is_not_recorded_again():
    assert value(CONFIRMED, talk(user("Yes", 0), QUESTION)) == "no_content"


REFUSED: list[tuple[list[object], str]] = [
    ([], "is empty"),
    ([{}], "exactly one of"),
    ([{"never": "x", "at_most": 1}], "exactly one of"),
    ([{"before": "x"}], "call"),
    ([{"never": "x", "call": "y"}], "call"),
    ([{"at_most": 0, "call": "x"}], "at_most"),
    ([{"requires_confirmation": "x", "yes": "("}], "no regular expression"),
]


@each_row(("written", "complaint"), REFUSED)
def test_rules_that_mean_nothing_are_refused(written: list[object], complaint: str):
    with pytest.raises(ValidationError, match=complaint):
        rules(*written)


def test_without_messages_of_the_user_nothing_is_judged():
    assert value(CONFIRMED, talk()) == "no_content"
    assert value(CONFIRMED, talk(QUESTION)) == "no_content"
