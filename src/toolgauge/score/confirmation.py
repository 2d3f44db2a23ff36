"""Finds whether the user could have agreed to a call: the agent had named the call, and then the user spoke.

A sign of form, read in favour of the agent. A message names a call when it holds all words of one of its argument values, or, if
the agent named no value, a word of the tool's name, unless the last message of the user is the first to name a value: then it
asked for the call. Only messages before the call count.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from toolgauge.model.json import leaves
from toolgauge.model.outcomes import NotEvaluated
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.patterns import Pattern
from toolgauge.score.recorded_values import written
from toolgauge.score.selection import readable_arguments

_WORD = re.compile(r"\w+")
_NAME_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SHORTEST_VALUE = 2
_SHORTEST_NAME = 3
_MAX_VALUES = 200
_MAX_WORDS = 50
_MAX_NAME = 256

_NO_USER = NotEvaluated(reason="no_content", explanation="no message of the user was recorded")
_NO_REPLY = NotEvaluated(
    reason="no_content",
    explanation="the agent named the call, and a reply that repeats the one before is recorded once",
)
_OTHER_TRACES = NotEvaluated(
    reason="incomplete", explanation="the agent may have asked in another trace of the conversation"
)
_CUT = NotEvaluated(reason="truncated", explanation="texts were cut, in which the agent may have named the call")


class Dialogue:
    """The messages of user and agent, with an index of the first message of each that holds a word."""

    __slots__ = ("_agent", "_agent_words", "_doubt", "_turns", "_user", "_user_words")

    def __init__(self, trajectory: Trajectory) -> None:
        spoken = [message for message in trajectory.messages if message.role != "system"]
        self._turns = [message.turn for message in spoken]
        self._user = [(place, message.text) for place, message in enumerate(spoken) if message.role == "user"]
        self._agent = [place for place, message in enumerate(spoken) if message.role == "assistant"]
        self._user_words: dict[str, int] = {}
        self._agent_words: dict[str, int] = {}
        for place, message in enumerate(spoken):
            first = self._user_words if message.role == "user" else self._agent_words
            for word in _WORD.findall(message.text.casefold()):
                first.setdefault(word, place)
        # Why the agent may have named a call that it is not seen to have named.
        self._doubt: NotEvaluated | None = None
        is_part = trajectory.scope == "trace" and trajectory.conversation_id is not None
        if trajectory.left_out.texts:
            self._doubt = _CUT
        elif trajectory.has_beginning is False or (trajectory.has_beginning is None and is_part):
            self._doubt = _OTHER_TRACES

    def answers(self, agreeing: Pattern | None) -> tuple[int, ...]:
        """Return the places of the user's messages that agree; without a pattern, of all of them."""
        return tuple(place for place, text in self._user if agreeing is None or agreeing.matches(text))

    def confirmation(self, call: ToolCall, answers: Sequence[int]) -> bool | NotEvaluated:
        """Return whether an answer was given after the agent named the call and before the call; `NotEvaluated` if not known."""
        if not self._user:
            return _NO_USER
        known = bisect_left(self._turns, call.turn + 1)
        # The words of each argument value that can be looked for.
        words_of = (
            _WORD.findall(written(leaf).casefold())[:_MAX_WORDS] for leaf in leaves(readable_arguments(call) or {})
        )
        values = list(
            islice((some for some in words_of if max(map(len, some), default=0) >= _SHORTEST_VALUE), _MAX_VALUES)
        )
        asked = min(_places(values, self._agent_words), default=None)
        # The place of the last message of the user, and of the agent's last one before it.
        before = bisect_left(self._user, (known, ""))
        last = self._user[before - 1][0] if before else -1
        before = bisect_left(self._agent, last)
        since = self._agent[before - 1] if before else -1
        is_request = any(since < place <= last for place in _places(values, self._user_words))
        if (asked is None or asked > last) and not is_request:
            names = _NAME_WORD.findall(call.name[:_MAX_NAME])
            words = [[word.casefold()] for word in names if len(word) >= _SHORTEST_NAME]
            named = min(_places(words, self._agent_words), default=None)
            asked = min((place for place in (asked, named) if place is not None), default=None)
        if asked is None or asked >= known:
            return False if self._doubt is None else self._doubt
        place = bisect_left(answers, asked)
        if place < len(answers) and answers[place] < known:
            return True
        return False if asked < last else _NO_REPLY


def _places(values: Iterable[Sequence[str]], first: dict[str, int]) -> Iterator[int]:
    """Yield the first place by which all words of a value occurred, for each value with such a place."""
    for words in values:
        places = [first.get(word, -1) for word in words]
        if min(places) >= 0:
            yield max(places)
