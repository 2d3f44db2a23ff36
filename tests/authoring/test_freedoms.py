"""Which values one run alone shows to be its own."""

from collections.abc import Mapping

from msgspec.structs import replace

from tests.authoring.written import run_of
from tests.rows import each_row
from tests.score.support import tool_call, trajectory, user
from toolgauge.model.content import Recorded
from toolgauge.model.json import JsonObject
from toolgauge.model.trajectory import Message, ToolCall, Trajectory

# 2025-06-10T12:00:00Z
NOON_NS = 1_749_556_800 * 10**9


def free(args: JsonObject, *messages: Message, before: tuple[ToolCall, ...] = ()) -> Mapping[str, str]:
    """Return the reason for each argument of the last call that is left free."""
    made = trajectory(*before, tool_call("issue_refund", args), messages=messages or (user("please", 0),))
    made = replace(made, start_ns=NOON_NS, end_ns=NOON_NS + 10**9)
    (*_, last) = run_of(made).calls
    return {".".join(step or "*" for step in place): freedom.why for place, freedom in last.free.items()}


UNSEEN = "an id that nothing before the call had shown"
TIME = "the time of the run"
TODAY = Message(role="system", text="Today is 2024-05-15.", turn=0)
LISTED = tool_call("list_orders", {}, result=Recorded({"orders": [{"id": "A-1001"}]}))
MADE = tool_call("create_order", {"sku": "X"}, result=Recorded({"order_id": "A-1001", "sku": "X"}))


@each_row(
    ("args", "said", "expected"),
    [
        ({"order_id": "A-1001"}, (user("Refund order A-1001, please", 0),), {}),
        ({"key": "6f1c1f9e-94a5-4a4b-9d0e-2b1c7a5d3e10"}, (), {"key": UNSEEN}),
        ({"ids": ["A-1001", "B-2002"]}, (user("order A-1001", 0),), {"ids": UNSEEN}),
        ({"note": "the customer sounded unhappy about the parcel"}, (), {"note": "free text"}),
        ({"reason": "arrived damaged"}, (user("It arrived damaged, so I want a refund", 0),), {}),
        ({"cabin": "economy", "amount": 42.5, "express": True, "seats": 2, "extra": None}, (), {}),
        ({"at": "2025-06-10T12:00:00Z", "ms": 1_749_556_800_123}, (), {"at": TIME, "ms": TIME}),
        ({"day": "2025-06-10"}, (user("on June 10, 2025", 0),), {}),
        ({"day": "2024-05-15"}, (TODAY, user("now", 0)), {"day": TIME}),
        ({"day": "2024-05-16"}, (user("book it for tomorrow", 0),), {"day": "a day that is relative to the run"}),
    ],
)
def test_values_that_only_this_run_could_have_are_free(
    args: JsonObject, said: tuple[Message, ...], expected: Mapping[str, str]
):
    assert free(args, *said) == expected


def test_an_id_that_a_call_returned_is_expected_and_one_that_it_made_is_free():
    assert free({"order_id": "A-1001"}, before=(LISTED,)) == {}
    assert free({"order_id": "A-1001"}, before=(MADE,)) == {"order_id": "made in the run by `create_order`"}


def test_an_id_is_expected_where_its_origin_may_not_have_been_recorded():
    made = trajectory(tool_call("issue_refund", {"order_id": "A-1001"}))
    assert run_of(made).calls[0].free == {}


def test_secrets_are_free_whatever_they_are():
    key, card = "sk-" + "a1B2" * 8, "4111 1111 1111 1111"
    said = user(f"my key is {key}, my card {card}, my mail ann@example.com", 0)
    found = free({"a": key, "b": card, "c": "ann@example.com", "password": 7, "deep": [{"api_key": "x"}]}, said)
    assert set(found) == {"a", "b", "c", "password", "deep.*.api_key"}
    assert set(found.values()) == {"looks like a secret or an address"}


def test_numbers_and_texts_that_no_file_can_hold_are_free():
    assert free({"a": float("inf"), "b": 10**5000, "c": "\ud800"}) == dict.fromkeys("abc", "a file cannot hold it")


def test_very_large_arguments_are_not_compared():
    made: Trajectory = trajectory(tool_call("issue_refund", {"items": list(range(1000))}))
    (call,) = run_of(made).calls
    assert (call.args, call.unread) == (None, "its arguments are too large or too deep to be compared by value")
