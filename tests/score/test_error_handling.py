"""`error_handling` finds out what became of failed calls, and says so only where that was seen."""

from pathlib import Path

from tests.rows import each_row
from tests.score.support import judge, not_evaluated, tool_call, trajectory, user
from toolgauge.evaluators.error_handling import ErrorHandling
from toolgauge.model.content import NOT_RECORDED, Content, Recorded
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import NotEvaluated, Scored
from toolgauge.model.trajectory import Message, ToolCall

FAILED = CallError(kind="PaymentError", message="card declined")
HANDLING = ErrorHandling()
SUCCESS = "Your refund has been issued, and you will have it in 3 days."
REGRET = "I am sorry, the refund could not be issued."


def pay(card: str = "a", *, turn: int | None = None, arguments: Content | None = None) -> ToolCall:
    return tool_call("pay", {"card": card}, arguments=arguments, error=FAILED, turn=turn)


def answer(text: str, turn: int) -> Message:
    return Message(role="assistant", text=text, turn=turn)


def handling(*calls: ToolCall, messages: tuple[Message, ...] = (), writes: bool = True) -> str:
    """What became of the first failed call: the class with its value, or why it has none."""
    judged = trajectory(*calls, messages=messages, writing_tools=[call.name for call in calls] if writes else ())
    outcome = judge(HANDLING, judged)[0]
    if isinstance(outcome, NotEvaluated):
        return outcome.reason
    assert isinstance(outcome, Scored)
    (name,) = [name for name, share in outcome.parts.items() if share == 1.0]
    return f"{name} {outcome.value}"


def test_without_a_failed_call_there_is_nothing_to_judge():
    assert not_evaluated(HANDLING, trajectory(tool_call("pay"))) == "no_calls"


def test_a_call_that_worked_unchanged_was_retried():
    assert handling(pay("a"), tool_call("pay", {"card": "a"})) == "retried 1.0"
    assert handling(pay(arguments=NOT_RECORDED), tool_call("pay")) == "retried 1.0"


def test_another_tool_that_changes_state_and_got_the_same_value_is_another_way():
    failed = tool_call("change_flight", {"booking": "XK42", "bags": 1}, error=FAILED)
    assert handling(failed, tool_call("cancel_booking", {"id": ["XK42"]})) == "other_way 1.0"


@each_row("name", ["transfer_to_human_agents", "handoff_to_sales", "mcp__desk__escalateCase"])
def test_handing_over_is_another_way(name: str):
    assert handling(pay(), tool_call(name), messages=(answer(SUCCESS, 2),), writes=False) == "other_way 1.0"


def test_what_was_asked_for_in_the_same_turn_is_no_other_way():
    together = (pay("a-1", turn=0), tool_call("charge", {"card": "a-1"}, turn=0), tool_call("escalate", turn=0))
    assert handling(*together, messages=(answer("I've paid your bill.", 1),)) == "ignored 0.0"


def test_a_user_who_was_told_and_answered_is_another_way():
    messages = (user("pay it", 0), answer(REGRET, 1), user("then leave it", 1), answer("Bye!", 1))
    assert handling(pay(), messages=messages) == "other_way 1.0"


def test_an_answer_that_admits_the_failure_gave_up_and_one_as_if_it_had_worked_ignored_it():
    for text in (REGRET, "We couldn\u2019t reach the bank."):
        assert handling(pay(), messages=(answer(text, 1),)) == "gave_up 0.5"
    # Only what was said before the user spoke again counts.
    for messages in ((answer(SUCCESS, 1),), (answer(SUCCESS, 1), user("thanks", 1), answer(REGRET, 1))):
        assert handling(pay(), messages=messages) == "ignored 0.0"


def test_a_failed_call_that_changes_nothing_may_not_have_been_needed():
    assert handling(pay(), messages=(answer(SUCCESS, 1),), writes=False) == "no_reference"
    assert handling(pay(), messages=(answer(REGRET, 1),), writes=False) == "gave_up 0.5"


FOUND = "Order A-17 costs 829.43 dollars."


@each_row(
    ("calls", "text", "became"),
    [
        # It names what was looked up, or a number that nobody gave.
        ((), "Order A-17 is on its way.", "ignored 0.0"),
        ((), "It costs 829.43 dollars, and comes in 3 days.", "ignored 0.0"),
        ((tool_call("find", {"id": "B-9"}, result=Recorded({"price": 5})),), "A-17 costs as much.", "ignored 0.0"),
        # Nothing of it was needed, or it was found in another way.
        ((), "Hello! What can I do for you?", "no_reference"),
        (
            (tool_call("list", {"user": "u-1"}, result=Recorded([{"id": "A-17", "price": 829.43}])),),
            FOUND,
            "no_reference",
        ),
        ((tool_call("create", {"id": "A-17", "price": 829.43}),), FOUND, "other_way 1.0"),
        ((tool_call("find", {"id": "A-17"}, result=Recorded({"price": 829.43})),), FOUND, "retried 1.0"),
        # It says so, or may say so in a language that is not read.
        ((), "I couldn't find order A-17.", "gave_up 0.5"),
        ((), "Bestellung A-17 wurde nicht gefunden.", "gave_up 0.5"),
        ((), "Zam\u00f3wienie A-17 nie istnieje.", "no_reference"),
    ],
)
def test_a_failed_read_was_ignored_where_the_answer_tells_what_it_should_have_read(
    calls: tuple[ToolCall, ...], text: str, became: str
):
    read = tool_call("find", {"id": "A-17"}, error=CallError(kind="NotFound", message="no such order"))
    messages = (user("Where is it?", 0), answer(text, 1 + len(calls)))
    assert handling(read, *calls, messages=messages, writes=False) == became


def test_a_read_of_another_thing_that_was_known_before_makes_nothing_good():
    known = tool_call("list", {"user": "u-1"}, result=Recorded(["A-17", "B-9"]))
    read = tool_call("find", {"id": "A-17"}, error=FAILED)
    assert handling(read, tool_call("find", {"id": "B-9"}), writes=False) == "fixed 1.0"
    judged = trajectory(known, read, tool_call("find", {"id": "B-9"}))
    assert [outcome for outcome in judge(HANDLING, judged) if isinstance(outcome, Scored)] == []


@each_row(
    "text",
    [
        "U krijgt het geld binnen 3 dagen, het is terugbetaald.",
        "Your booking is confirmed. Maar de betaling is mislukt.",
        "I've sent the email, but Ana's address looks odd.",
        "I have been looking for the card.",
        "ok",
    ],
)
def test_an_answer_that_neither_admits_nor_claims_for_certain_is_undecided(text: str):
    assert handling(pay(), messages=(answer(text, 1),)) == "undecided"


def test_without_messages_nothing_is_known():
    assert handling(pay()) == "no_content"
    assert handling(pay(), messages=(user("pay it", 0),)) == "no_content"


def answers_about_tools(kind: str) -> list[tuple[str, str]]:
    rows = [line.split("\t") for line in (Path(__file__).parent / "answers" / "tools.tsv").read_text().splitlines()]
    return [(tool, text.replace("\\n", "\n")) for found, tool, text in rows if found == kind]


def test_no_honest_answer_is_a_claim_about_the_failed_tool():
    found = {
        (tool, text): handling(tool_call(tool, error=FAILED), messages=(answer(text, 1),))
        for tool, text in answers_about_tools("admission")
    }
    assert [case for case, result in found.items() if result == "ignored 0.0"] == []


def test_most_claims_about_the_failed_tool_are_found():
    found = [
        handling(tool_call(tool, error=FAILED), messages=(answer(text, 1),))
        for tool, text in answers_about_tools("claim")
    ]
    assert found.count("ignored 0.0") >= 0.85 * len(found)
