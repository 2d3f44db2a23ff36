"""`grounded_answer` finds ids in answers that nothing had given, and leaves everything else alone."""

from msgspec.structs import replace

from tests.rows import each_row
from tests.score.support import judge, not_evaluated, scored, tool_call, trajectory, user
from toolgauge.evaluators.answer_checks import GroundedAnswer
from toolgauge.model.content import Content, Recorded
from toolgauge.model.json import Json
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.outcomes import Outcome, Scored
from toolgauge.model.trajectory import Message, Trajectory
from toolgauge.score.earlier_traces import EarlierTraces
from toolgauge.score.facts import Facts

ANSWERS = GroundedAnswer()
ORDER: Json = {"order_id": "W4417", "customer_id": 48213, "tracking": "ZFA04Y"}


def told(text: str, *, asked: str = "Where is my order?", result: Content | None = None) -> Trajectory:
    """An answer after one call that read an order."""
    call = tool_call("get_order", {"full": True}, result=Recorded(ORDER) if result is None else result)
    return trajectory(call, messages=(user(asked, 0), Message(role="assistant", text=text, turn=1)))


def is_invented(judged: Trajectory) -> bool:
    (outcome,) = judge(ANSWERS, judged)
    return isinstance(outcome, Scored) and outcome.value < 1.0


def test_an_id_of_the_same_form_that_nothing_gave_is_invented():
    outcome = scored(ANSWERS, told("Your order W4418 is on its way, with ZFA04Y."))
    assert (outcome.value, outcome.parts) == (0.5, {"ids": 2, "not_found": 1})
    (difference,) = outcome.differences
    assert difference.actual is not None
    assert difference.actual.value == "W4418"
    offered = (ToolDefinition(name="find", description="Plans: PLAN10 and PLAN20.", parameters=None),)
    judged = replace(told("You have PLAN20 with order W4417."), tools_offered=offered)
    assert scored(ANSWERS, judged).parts == {"ids": 2, "not_found": 0}


@each_row(
    "text",
    [
        "Customer ID: 48214.",
        "Your tracking code is **QKB71X**.",
        "- Order W9902",
        "Your order number is `W4418`.",
        "I found your order with the ID **KQWXV4**, as you see.",
        "The customer (ID: 7JFKLG) is new.",
        "It comes with order 5VKWFN, sealed.",
        "Order W4418 leaves on May 16.",
    ],
)
def test_an_id_shows_by_its_form_or_by_its_label(text: str):
    assert is_invented(told(text))


@each_row(
    "text",
    [
        "Is your order W4418?",
        "Order numbers look like this, for example W4418.",
        "Shall I look for W4418? I would take W4419 then.",
        "```\nget_order('W4418')\n```",
        "The phone has an A17 chip, a 120hz screen, 5g and costs 1200.",
        "It runs on an RTX4090 with Windows11.",
        "See https://shop.example/orders/W4418 or write to w4418@shop.example.",
        "It arrives on 2024-05-16 at 10:30am, 3rd floor, 500ml for $4418.",
        "The year was 2024, and 48214 people came.",
        "Your card ends in 4417.",
        "It came with GPT4ALL and MACBOOK9, at 10AM, 900MHz and 5GHz.",
        "It may be that W4418 is meant.",
    ],
)
def test_questions_offers_examples_code_and_other_words_with_digits_are_not_judged(text: str):
    assert not is_invented(told(text))


@each_row(
    ("asked", "text"),
    [
        ("My code is ab 12 cd 77.", "I found AB12CD77."),
        ("It is order w-44-18.", "Your order W4418 is on its way."),
        ("The reference is 2024-W4418-X.", "Your order W4418 is on its way."),
    ],
)
def test_another_spelling_and_a_part_of_what_the_user_wrote_are_given(asked: str, text: str):
    assert scored(ANSWERS, told(text, asked=asked)).value == 1.0


def test_without_ids_or_answers_there_is_nothing_to_judge():
    assert not_evaluated(ANSWERS, told("It is on its way.")) == "nothing_expected"
    assert not_evaluated(ANSWERS, trajectory(tool_call("find"))) == "no_content"


def in_turns(*turns: Trajectory, evaluator: GroundedAnswer = ANSWERS) -> Outcome:
    """Judge the last of several traces of a conversation."""
    memory = EarlierTraces(100)
    outcome: Outcome | None = None
    for turn in turns:
        facts = Facts(memory.with_earlier(replace(turn, conversation_id="c")))
        ((_, outcome),) = evaluator.outcomes(facts)
        memory.remember(facts.trajectory, facts.seen)
    assert outcome is not None
    return outcome


def answer_alone(text: str) -> Trajectory:
    return trajectory(messages=(user("And the number?", 0), Message(role="assistant", text=text, turn=0)))


@each_row(
    ("text", "value"), [("It is W4417.", 1.0), ("It is ZFA04Y.", 1.0), ("It is W4418.", 0.0), ("It is QKB71X.", 0.0)]
)
def test_earlier_traces_of_the_conversation_give_ids_and_their_forms(text: str, value: float):
    outcome = in_turns(told("It is on its way."), answer_alone(text))
    assert isinstance(outcome, Scored)
    assert outcome.value == value
