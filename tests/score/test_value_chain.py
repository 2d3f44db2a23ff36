"""Argument values of a call are followed back to the user, to results of earlier calls, and to what the model made up."""

from msgspec.structs import replace

from tests.rows import each_row
from tests.score.support import agent_run, tool_call, trajectory, user
from toolgauge.export.redact import Redactor
from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.json import Json
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.report.explanations import origin_lines
from toolgauge.score.origins.value_origin import value_chain

SHOWING = Redactor(show_values=True)
SPEC = user("Cancel the order of Ann Lee, ann.lee@shop.test", 0)


def lines(judged: Trajectory, redactor: Redactor = SHOWING) -> list[str]:
    """Write where the values of the last call are from."""
    return list(origin_lines(value_chain(judged, judged.calls[-1]), redactor))


def call(name: str, arguments: Json, result: Json = None) -> ToolCall:
    return tool_call(name, arguments, result=Recorded(result))


def shop(*calls: ToolCall) -> Trajectory:
    return trajectory(*calls, messages=(SPEC,))


FOUND = call("find_user", {"name": "Ann Lee"}, {"user_id": "u-5512"})
LISTED = call("list_orders", {"user_id": "u-5512"}, {"orders": [{"order_id": "A-17", "total": 42.5}]})


def test_the_chain_is_data():
    judged = shop(FOUND, LISTED, call("cancel_order", {"order_id": "A-17"}))
    (value,) = value_chain(judged, judged.calls[2]).values
    assert (value.path, value.value, value.source) == ("order_id", "A-17", "result")
    assert value.result_of is not None
    assert value.result_of.call is judged.calls[1]
    (behind,) = value.result_of.values
    assert (behind.path, behind.source) == ("user_id", "result")
    assert behind.result_of is not None
    assert behind.result_of.call is judged.calls[0]
    assert [(one.path, one.source, one.result_of) for one in behind.result_of.values] == [("name", "user", None)]


def test_a_value_that_nothing_held_is_the_models_own_also_where_a_result_repeats_it():
    looked_up = call("get_order", {"order_id": "B-99"}, {"order_id": "B-99", "state": "open"})
    assert lines(shop(call("cancel_order", {"order_id": "B-99"}))) == ['`order_id` "B-99" is the model\'s own']
    assert lines(shop(looked_up, call("cancel_order", {"order_id": "B-99"}))) == [
        '`order_id` "B-99" is from the result of call 1 `get_order`, whose `order_id` is the model\'s own'
    ]


@each_row(
    ("value", "words"),
    [
        ("no longer needed", "from the user"),
        ("Ordered by mistake", "from the result of call 1 `get_reasons`"),
        (True, "too common to trace"),
        ("", "too common to trace"),
        (3, "too common to trace"),
        (2, "from the user"),
        ("EUR", "too common to trace"),
        (85, "derived from earlier values"),
        ('Line one\nof "two"', "from the result of call 1 `get_reasons`"),
    ],
)
def test_words_and_numbers_of_any_conversation(value: Json, words: str):
    reasons = call("get_reasons", {}, {"reasons": ["ordered by mistake", 'line one\nof "two"'], "currency": "EUR"})
    asked = user("I have two of them for 42.50, and they are no longer needed", 0)
    judged = trajectory(reasons, call("cancel", {"reason": value}), messages=(asked,))
    (line,) = lines(judged)
    assert line.endswith(f" is {words}")


def test_what_one_agent_asks_of_another_is_followed_further_back():
    outer, inner = (SpanRef("0" * 32, f"{number:016x}") for number in (8, 9))
    boss = agent_run(outer, agent="boss", prompt="Cancel the order of Ann Lee")
    clerk = replace(boss, span=inner, above=outer, agent="clerk", prompt="Cancel order A-17 of user u-9")
    asked = (user("Cancel order A-17 of user u-9", 2),)
    cancelled = replace(call("cancel_order", {"order_id": "A-17", "user_id": "u-9"}), run=inner)
    judged = replace(trajectory(FOUND, LISTED, cancelled, messages=asked), runs=(boss, clerk))
    order, customer = lines(judged)
    assert order.startswith('`order_id` "A-17" is from the result of call 2 `list_orders`')
    assert customer == '`user_id` "u-9" is the model\'s own'


def test_arguments_that_cannot_be_read_have_no_origins():
    assert lines(shop(tool_call("pay", arguments=Unparsed('{"id": ')))) == []
    assert lines(shop(call("pay", ["A-17"]))) == []


def test_hidden_values_and_secrets_are_not_shown():
    arguments: Json = {"order_id": "A-17", "api_key": "sesame-80412", "mail": "ann.lee@shop.test"}
    judged = shop(FOUND, LISTED, call("cancel_order", arguments))
    hidden = "\n".join(lines(judged, Redactor(show_values=False)))
    assert not any(value in hidden for value in ("A-17", "ann.lee"))
    assert "`order_id` is from the result of call 2 `list_orders`" in hidden
    shown = "\n".join(lines(judged))
    assert "`api_key` [masked] is" in shown
    assert '`mail` "[email]" is' in shown
