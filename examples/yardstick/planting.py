"""Plants one known fault at a time in copies of recorded conversations, which are lists of OpenAI chat messages."""

import json
import random
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass

Message = dict[str, object]
Conversation = list[Message]

READS = re.compile(r"(?:get|find|list|search|check|calculate|think|transfer)_?.*")
# What an answer says of an act that was done.
DONE = re.compile(
    r"\b(?:booked|cancell?ed|updated|changed|modified|added|issued|sent|processed|returned|exchanged|upgraded|confirmed|refunded)\b",
    re.I,
)
NOT_DONE = re.compile(
    r"\?|\b(?:if|once|would|will|could|can|cannot|unable|not|should|shall|may|let me|need to)\b|n't", re.I
)
# Letters and digits together, or nine digits and more.
ID = re.compile(r"(?<![\w@/.$#-])(?:(?=\w*\d)(?=\w*[A-Za-z])[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*|\d{9,})(?![\w@-]|\.\d)")
ORDINAL = re.compile(r"\d+(?:st|nd|rd|th|am|pm|kg|lbs?|h|min|x|k)", re.I)


@dataclass(frozen=True)
class Planted:
    """A copy of the conversation `twin` with one fault of `kind`."""

    kind: str
    twin: int
    messages: Conversation


def plant(conversations: list[Conversation], seed: int = 0) -> Iterator[Planted]:
    """Yield each fault that can be planted in each conversation; the same ones for the same seed."""
    for number, messages in enumerate(conversations):
        for kind, planted_by in KINDS.items():
            copy = planted_by(deepcopy(messages), random.Random(f"{seed} {kind} {number}"))  # noqa: S311 (no secret)
            if copy is not None:
                yield Planted(kind, number, copy)


def text_of(message: Message) -> str:
    """Return the text of a message, which may have none."""
    return str(message.get("content") or "")


def calls_of(message: Message) -> list[dict[str, dict[str, str]]]:
    """Return the calls that a message asks for."""
    return message.get("tool_calls") or []  # type: ignore[return-value]


def _acts(messages: Conversation) -> list[int]:
    """Return the places of the messages with one call that changed something and worked; its result follows."""
    return [
        at
        for at, message in enumerate(messages[:-1])
        if len(calls_of(message)) == 1
        and not READS.fullmatch(calls_of(message)[0]["function"]["name"])
        and messages[at + 1]["role"] == "tool"
        and not text_of(messages[at + 1]).startswith("Error")
    ]


def _told_acts(messages: Conversation) -> list[int]:
    """Return the acts that the very next message tells of as done, each the only one with its tool."""
    names = [call["function"]["name"] for message in messages for call in calls_of(message)]
    return [
        at
        for at in _acts(messages)
        if at + 2 < len(messages)
        and messages[at + 2]["role"] == "assistant"
        and names.count(calls_of(messages[at])[0]["function"]["name"]) == 1
        and any(
            DONE.search(one) and not NOT_DONE.search(one)
            for one in re.split(r"(?<=[.!?\n])\s+", text_of(messages[at + 2]))
        )
    ]


def _ids(text: str) -> list[str]:
    return [one for one in ID.findall(text) if len(one) >= 5 and not ORDINAL.fullmatch(one)]


def _other(known: str, messages: Conversation, dice: random.Random) -> str:
    """Make an id of the same form that stands nowhere in the conversation."""
    everything = json.dumps(messages)
    while True:
        other = "".join(_shuffled(letter, dice) for letter in known)
        if other not in everything:
            return other


def _shuffled(letter: str, dice: random.Random) -> str:
    if letter.isdigit():
        return dice.choice("0123456789")
    if letter.isupper():
        return dice.choice("ABCDEFGHJKLMNPQRSTUVWXYZ")
    return letter


def _again(messages: Conversation, dice: random.Random, *, with_another_result: bool) -> Conversation | None:
    acts = [at for at in _acts(messages) if _ids(text_of(messages[at + 1])) or not with_another_result]
    if not acts:
        return None
    at = acts[-1]
    request, result = deepcopy(messages[at]), deepcopy(messages[at + 1])
    calls_of(request)[0]["id"] = result["tool_call_id"] = f"{result['tool_call_id']}again"  # type: ignore[assignment]
    if with_another_result:
        given = json.dumps(messages[: at + 1])
        new = [one for one in _ids(text_of(result)) if one not in given]
        if not new:
            return None
        result["content"] = text_of(result).replace(new[0], _other(new[0], messages, dice))
    messages[at + 2 : at + 2] = [request, result]
    return messages


def done_twice(messages: Conversation, dice: random.Random) -> Conversation | None:
    """Repeat an act with equal arguments; the result has another new id."""
    return _again(messages, dice, with_another_result=True)


def changed_twice(messages: Conversation, dice: random.Random) -> Conversation | None:
    """Repeat an act with equal arguments and an equal result."""
    return _again(messages, dice, with_another_result=False)


def act_not_done(messages: Conversation, dice: random.Random) -> Conversation | None:
    """Take out an act that the answer tells of."""
    acts = _told_acts(messages)
    if not acts:
        return None
    at = dice.choice(acts)
    del messages[at : at + 2]
    return messages


def act_failed(messages: Conversation, dice: random.Random) -> Conversation | None:
    """Let an act fail that the answer tells of as done."""
    acts = _told_acts(messages)
    if not acts:
        return None
    messages[dice.choice(acts) + 1]["content"] = "Error: the service is not available"
    return messages


def told_error(messages: Conversation, dice: random.Random) -> Conversation | None:
    """Let a lookup return an error as data, where the answer right after it tells an id that only its result gave."""
    places: list[int] = []
    for at, message in enumerate(messages[:-1]):
        if message["role"] == "tool" and READS.fullmatch(str(message.get("name"))):
            before, after = json.dumps(messages[:at]), messages[at + 1]
            found = [one for one in _ids(text_of(message)) if one not in before and one in text_of(after)]
            later = json.dumps([calls_of(one) for one in messages[at + 1 :]])
            if after["role"] == "assistant" and found and not any(one in later for one in found):
                places.append(at)
    if not places:
        return None
    messages[dice.choice(places)]["content"] = '{"error": "not found"}'
    return messages


def answer_id(messages: Conversation, dice: random.Random) -> Conversation | None:
    """Change one id in the last answer that has one which a result gave."""
    results = "\n".join(text_of(one) for one in messages if one["role"] == "tool")
    for message in reversed(messages):
        told = [one for one in _ids(text_of(message)) if one in results] if message["role"] == "assistant" else []
        if told:
            known = dice.choice(told)
            message["content"] = text_of(message).replace(known, _other(known, messages, dice))
            return messages
    return None


def argument_id(messages: Conversation, dice: random.Random) -> Conversation | None:
    """Change one id in the arguments of the last act, and in its result."""
    for at in reversed(_acts(messages)):
        function = calls_of(messages[at])[0]["function"]
        before = json.dumps(messages[:at])
        given = [one for one in _ids(function["arguments"]) if one in before]
        if given:
            known = dice.choice(given)
            other = _other(known, messages, dice)
            function["arguments"] = function["arguments"].replace(known, other)
            messages[at + 1]["content"] = text_of(messages[at + 1]).replace(known, other)
            return messages
    return None


def empty_answer(messages: Conversation, dice: random.Random) -> Conversation | None:
    """Take the text out of the last answer."""
    del dice
    last = next((one for one in reversed(messages) if one["role"] == "assistant"), None)
    if last is None or calls_of(last) or not text_of(last):
        return None
    last["content"] = ""
    return messages


KINDS: dict[str, Callable[[Conversation, random.Random], Conversation | None]] = {
    one.__name__: one
    for one in (done_twice, changed_twice, act_not_done, act_failed, told_error, answer_id, argument_id, empty_answer)
}
