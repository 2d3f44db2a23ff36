"""Reads the history that a model was given: the calls in it, and what the user wrote between them.

Arrives: the messages of an input, in order. Leaves: the calls, numbered by the outputs that asked for them, and texts of the
user. What ends an output is an answer to a call or a message of the user: OpenAI's Responses API lists the calls of one
output one by one. A repair asks for all this; joining a trace that has no damage does not.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.observations import CallRequested, MessageSeen
from toolgauge.recognize.messages import Message


class PastMessage(Struct, frozen=True):
    """A message of a history: the calls that it asks for, whether it answers any, and the text of one by the user."""

    calls: Sequence[CallRequested] = ()
    has_answers: bool = False
    user: str = ""


def past_calls(messages: Iterable[Message]) -> Iterator[CallRequested | MessageSeen]:
    """Yield the calls of a history and the texts of the user."""
    yield from numbered(map(_past, messages))


def numbered(messages: Iterable[PastMessage]) -> Iterator[CallRequested | MessageSeen]:
    """Yield the calls and texts of the messages; `output` and `position` of calls count from 0."""
    output, position = 0, 0
    for message in messages:
        if message.user:
            output, position = _after(output, position)
            yield MessageSeen(role="user", text=message.user)
        for call in message.calls:
            yield replace(call, output=output, position=position)
            position += 1
        if message.has_answers:
            output, position = _after(output, position)


def _after(output: int, position: int) -> tuple[int, int]:
    return (output + 1, 0) if position else (output, position)


def _past(message: Message) -> PastMessage:
    return PastMessage(
        calls=message.calls() if message.role != "tool" else (),
        has_answers=bool(message.answers()),
        user=message.text if message.role == "user" else "",
    )
