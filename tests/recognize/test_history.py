import json

from toolgauge.model.content import Recorded
from toolgauge.model.json import Json
from toolgauge.model.observations import CallAnswered, MessageSeen, Observation
from toolgauge.recognize import conventions
from toolgauge.recognize.dialect import HistoryReader
from toolgauge.recognize.messages import read_messages

OWNER = ("trace", "agent")
OPENING: list[Json] = [
    {"role": "system", "parts": [{"type": "text", "content": "Be brief. " * 100}]},
    {"role": "user", "parts": [{"type": "text", "content": "Where is my order?"}]},
]


def answered(number: int, result: Json = "on its way") -> Json:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": f"call_{number}", "response": result}]}


def history(count: int, result: Json = "on its way") -> str:
    return json.dumps([*OPENING, *(answered(number, result) for number in range(count))])


def whole(text: str) -> list[Observation]:
    return conventions.received(read_messages(text, "user"))


def answers(seen: list[Observation]) -> list[CallAnswered]:
    return [one for one in seen if isinstance(one, CallAnswered)]


def test_a_masked_part_of_a_message_is_none_of_its_text():
    parts = [{"type": "text", "content": text} for text in ("[REDACTED]", "Where is my order?")]
    (message,) = read_messages(json.dumps([{"role": "user", "parts": parts}]), "user")
    assert message.text == "Where is my order?"


def test_what_a_longer_history_repeats_is_not_read_again():
    reader = HistoryReader()
    first = reader.received(history(2), OWNER)
    second = reader.received(history(3), OWNER)

    assert second == whole(history(3))
    assert [one.call_id for one in answers(second)] == ["call_0", "call_1", "call_2"]
    assert all(now is before for now, before in zip(answers(second), answers(first), strict=False))


def test_histories_of_several_agents_and_conversations_stay_apart():
    reader = HistoryReader()
    for count in range(1, 6):
        for number, owner in enumerate([("one", "a"), ("one", "b"), ("other", "a"), ("other", None)]):
            text = history(count, number)
            assert reader.received(text, owner) == whole(text)


def test_a_history_that_was_rewritten_is_read_anew():
    reader = HistoryReader()
    reader.received(history(5), OWNER)
    for text in (history(3), history(4, "lost"), history(5).replace("brief", "curt"), json.dumps(["x" * 2000])):
        assert reader.received(text, OWNER) == whole(text)


def test_the_newest_user_text_may_be_far_back_and_may_be_new():
    reader = HistoryReader()
    reader.received(history(1), OWNER)
    assert reader.received(history(2), OWNER)[-1] == MessageSeen(role="user", text="Where is my order?")
    asked = history(2)[:-1] + ', {"role": "user", "content": "And now?"}]'
    assert reader.received(asked, OWNER)[-1] == MessageSeen(role="user", text="And now?", follows=True)


def test_what_has_no_owner_is_not_remembered():
    reader = HistoryReader()
    for count in (2, 3):
        assert reader.received(history(count), (None, "agent")) == whole(history(count))
    assert len(reader.known) == 0


def test_the_histories_of_longest_ago_are_forgotten_when_all_together_are_too_long():
    reader = HistoryReader()
    for number in range(60):
        reader.received(history(1, "x" * 200_000), (f"trace {number}", "agent"))
    assert 0 < len(reader.known) < 30


def test_one_input_does_not_push_out_all_others():
    reader = HistoryReader()
    reader.received(history(1), ("other", "agent"))
    reader.received(history(1, "x" * 3_000_000), OWNER)
    assert len(reader.known) == 1


def test_a_picture_beside_the_text_of_an_answer_is_kept():
    blocks: list[Json] = [{"type": "text", "text": "the scan"}, {"type": "image_url", "image_url": {"url": "data:x"}}]
    told: list[Json] = [{"role": "tool", "tool_call_id": "1", "content": blocks}]
    (message,) = read_messages(json.dumps(told), "user")
    assert [answer.result for answer in message.answers()] == [Recorded(blocks)]
