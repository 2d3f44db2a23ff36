"""Gives answers the id under which their call was recorded.

OpenAI's Responses API gives a call two ids: of the item and of the call. Traceloop writes the first beside calls and
the second beside answers; without tool spans no answer would find its call.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from toolgauge.model.json import Value
from toolgauge.model.observations import CallAnswered, Observation
from toolgauge.recognize.messages import Message, read_messages

# How OpenAI begins the ids of items that are calls.
_ITEM = "fc_"


def with_item_ids(received: Value, seen: Iterable[Observation]) -> Iterator[Observation]:
    """Yield what was seen, with the answers of the history `received` renamed where only their order tells."""
    has_items = isinstance(received, str) and f'"{_ITEM}' in received
    items = dict(_items(read_messages(received, "user"))) if has_items else {}
    for one in seen:
        if isinstance(one, CallAnswered) and one.call_id in items:
            yield replace(one, call_id=items[one.call_id])
        else:
            yield one


def _items(history: list[Message]) -> Iterator[tuple[str, str]]:
    """Pair the answers that follow calls with these, in order, where there are as many and no id is shared."""
    asked: list[str] = []
    answered: list[str] = []
    for message in history:
        called = [call.call_id for call in message.calls() if call.call_id is not None]
        if called and answered:
            yield from _paired(asked, answered)
            asked, answered = [], []
        asked += called
        answered += [answer.call_id for answer in message.answers() if answer.call_id is not None]
    yield from _paired(asked, answered)


def _paired(asked: list[str], answered: list[str]) -> Iterator[tuple[str, str]]:
    are_items = all(item.startswith(_ITEM) for item in asked)
    if are_items and len(asked) == len(answered) and set(asked).isdisjoint(answered):
        yield from zip(answered, asked, strict=True)
