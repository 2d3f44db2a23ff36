"""Reads the inputs of model calls, each of which repeats the history before it: what was read once is not read again.

JSON tells from its beginning: where a text begins as one that was read before and a comma follows, what comes after it
is a list of further messages. Without this, reading a conversation would take the square of its length. Whatever is not
JSON to the letter, is too large, or does not go on from what is known, is read whole.
"""

from typing import TypeAlias

from msgspec import Struct

from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, Value
from toolgauge.model.observations import CallAnswered, MessageSeen, Observation
from toolgauge.recognize import values
from toolgauge.recognize.conventions import content
from toolgauge.recognize.messages import MAX_ITEMS, messages_of, read_messages

# Whose inputs follow on each other: the conversation or the trace, `None` when not known, and the agent.
Owner: TypeAlias = tuple[str | None, str | None]

# What is shorter is read in the time in which it is remembered.
_SHORTEST = 1000
_MOST_OWNERS = 1024
_MOST_BYTES = 16 << 20
# One input must not push out all others.
_MOST_BYTES_OF_ONE = _MOST_BYTES // 4
# What an input takes in memory beside its texts, an observation, and an element of a value.
_ENTRY_BYTES, _OBSERVATION_BYTES, _ELEMENT_BYTES = 600, 240, 80
# Bytes that a character takes in the widest of texts.
_WIDEST = 4
_JSON_SPACES = " \t\n\r"


class _Known(Struct, frozen=True):
    """What was read from an input: `begun` is its text without the last bracket, `kept` what was read may take in bytes."""

    begun: str
    count: int
    told: list[Observation]
    user: list[MessageSeen]
    kept: int


_NOTHING = _Known("", 0, [], [], 0)


class HistoryReader:
    """Reads inputs; remembers the newest of each owner as long as there is room."""

    def __init__(self) -> None:
        self._known: dict[Owner, _Known] = {}
        self._size = 0

    @property
    def remembered(self) -> int:
        """Number of inputs in memory."""
        return len(self._known)

    @property
    def size_bytes(self) -> int:
        """About how many bytes they take, or more."""
        return self._size

    def received(self, value: Value, owner: Owner) -> list[Observation]:
        """Read what `content.received` reads."""
        known = self._read(value, owner) if isinstance(value, str) and len(value) >= _SHORTEST else None
        return content.received(read_messages(value, "user")) if known is None else [*known.told, *known.user]

    def _read(self, value: str, owner: Owner) -> _Known | None:
        if owner[0] is None or values.is_too_large(value):
            return None
        text = value.strip()
        known = self._known.get(owner)
        if known is not None and text.startswith(known.begun):
            rest = text[len(known.begun) :].lstrip(_JSON_SPACES)
            if rest == "]":
                return known
            items = values.elements("[" + rest[1:]) if rest.startswith(",") else None
            # With nothing after its comma it is no JSON.
            if items and known.count + len(items) <= MAX_ITEMS:
                return self._remember(owner, text, known, items)
        items = values.elements(text)
        return self._remember(owner, text, _NOTHING, items) if items and len(items) <= MAX_ITEMS else None

    def _remember(self, owner: Owner, text: str, before: _Known, items: list[Json]) -> _Known:
        """Read the messages `items`, with which the text ends, after what came before; keep all if there is room."""
        messages = messages_of(items, "user")
        told = content.told_before(messages)
        known = _Known(
            text[:-1].rstrip(_JSON_SPACES),
            before.count + len(items),
            [*before.told, *told] if told else before.told,
            content.newest_user_text(messages) or before.user,
            before.kept + _texts(text[len(before.begun) :]) + _kept(told),
        )
        self._forget(owner)
        size = _size(owner, known)
        if size <= _MOST_BYTES_OF_ONE:
            self._known[owner] = known
            self._size += size
            while self._size > _MOST_BYTES or len(self._known) > _MOST_OWNERS:
                self._forget(next(iter(self._known)))
        return known

    def _forget(self, owner: Owner) -> None:
        known = self._known.pop(owner, None)
        if known is not None:
            self._size -= _size(owner, known)


def _size(owner: Owner, known: _Known) -> int:
    return _ENTRY_BYTES + known.begun.__sizeof__() + owner[0].__sizeof__() + owner[1].__sizeof__() + known.kept


def _texts(new: str) -> int:
    """Tell what the texts may take that are read from this: together they are no longer."""
    # But one escaped character may make each character of a text take four bytes.
    return new.__sizeof__() * (_WIDEST if "\\u" in new else 1)


def _kept(told: list[Observation]) -> int:
    """Tell what all but texts takes."""
    size = len(told) * _OBSERVATION_BYTES
    for seen in told:
        if type(seen) is CallAnswered and type(seen.result) is Recorded:
            level = [seen.result.value]
            while level:
                below: list[Json] = []
                for value in level:
                    if type(value) is dict:
                        size += value.__sizeof__()
                        below += value.values()
                    elif type(value) is list:
                        size += value.__sizeof__()
                        below += value
                size += len(below) * _ELEMENT_BYTES
                level = below
    return size
