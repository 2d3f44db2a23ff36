"""`error_handling`: how did the agent handle a failed call? Messages are read only where no later call repaired the failure."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator, Set
from functools import cached_property
from itertools import accumulate, chain, islice
from typing import ClassVar, Literal, TypeAlias, get_args

from toolgauge.model.json import Leaf, canonical, leaves, tagged
from toolgauge.model.judging import Judged
from toolgauge.model.outcomes import Level, NotEvaluated, Outcome, Reason, Scored
from toolgauge.model.ports import Needs
from toolgauge.model.trajectory import ToolCall, Trajectory, has_succeeded
from toolgauge.score.answer_claims import (
    Reading,
    acts_of,
    claimed_acts,
    claims,
    is_about,
    may_admit,
    may_report,
    read_answer,
    worked_earlier,
)
from toolgauge.score.contracts import name_words
from toolgauge.score.facts import Facts, FactsEvaluator
from toolgauge.score.recorded_values import occurs_alone, result_leaves, written
from toolgauge.score.selection import CUT_SHORT, not_executed, nothing_to_judge, readable_arguments, shown, was_stopped

Handling: TypeAlias = Literal["fixed", "retried", "other_way", "gave_up", "ignored"]
_VALUES: dict[Handling, float] = {"fixed": 1.0, "retried": 1.0, "other_way": 1.0, "gave_up": 0.5, "ignored": 0.0}

_NO_FAILURE = NotEvaluated(reason="no_calls", explanation="no call failed")
# Shorter texts and numbers are the same by chance.
_SHORTEST_TEXT = 3
_SMALLEST_NUMBER = 100
# So many answers after a call are searched for its words.
_MAX_ANSWERS = 20
# Numbers of two digits or more; smaller ones are in any text.
_NUMBER = re.compile(r"\d[\d.]*\d")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
# The answers are compared with so many failed reads.
_MAX_READS = 50
# So many values of a call are looked at.
_MAX_VALUES = 200


class ErrorHandling(FactsEvaluator):
    """What became of each failed call: 1 when it was made good or another way was found, 1/2 when the agent gave up.

    - `fixed` (1): the same agent called the same tool again with other arguments in a later turn, and it worked;
    - `retried` (1): so it did with the same arguments, or with arguments that were not recorded;
    - `other_way` (1): later another tool worked that got one of the same values (one that changes state, where the failed
      one does), it was handed over, or an answer admits the failure and the user wrote again;
    - `gave_up` (1/2): the answer after it admits that something did not work;
    - `ignored` (0): a call that would have changed something was never made good, and the answer claims that it worked.

    An answer that neither admits the failure nor claims success leaves the call not evaluated (`undecided`). Neither is a failed
    call evaluated that changes nothing, waits for a person, or was refused by one. Parts: one of the five is 1, the others are 0.
    Results that are errors count as they do for `tool_success`.
    """

    version: ClassVar[str] = "5"
    level: ClassVar[Level] = "call"
    needs: ClassVar[Needs] = Needs(reference="none", recent_offer=True)

    def outcomes(self, facts: Facts) -> list[Judged]:
        """Return one outcome for each failed call, and one for each that did not run."""
        trajectory = facts.error_texts.trajectory
        calls = self.calls(trajectory)
        failed = [call for call in calls if call.has_failed] if facts.without_effect else []
        stopped = [call for call in calls if was_stopped(call)] if facts.without_effect else []
        if not failed and not stopped:
            return [(None, _NO_FAILURE if calls else nothing_to_judge(trajectory))]
        recorded = {call.order: call for call in facts.trajectory.calls}
        outcomes: list[Judged] = [(recorded[call.order], not_executed(call)) for call in stopped]
        successes = facts.made_good(trajectory.calls)
        later = _Later(trajectory, facts)
        for call in failed:
            success = successes.get(call.order)
            if call.name not in trajectory.writing_tools and later.report_on(call):
                outcome: Outcome = _scored("ignored", call, "and the answer reads as if it had worked")
            elif success is None:
                outcome = later.outcome(call)
            else:
                before, after = readable_arguments(call), readable_arguments(success)
                is_fixed = before is not None and after is not None and canonical(before) != canonical(after)
                how = "with other arguments" if is_fixed else "when it was called again"
                what = f"and worked {how} in call {success.order + 1}"
                outcome = _scored("fixed" if is_fixed else "retried", call, what)
            outcomes.append((recorded[call.order], outcome))
        return outcomes


def _values(call: ToolCall) -> dict[Hashable, Leaf]:
    """Return the values in a call's arguments that are not the same in other calls by chance."""
    found: dict[Hashable, Leaf] = {}
    for value in islice(leaves(readable_arguments(call) or {}), _MAX_VALUES):
        is_text = isinstance(value, str) and len(value) >= _SHORTEST_TEXT
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) >= _SMALLEST_NUMBER
        if is_text or is_number:
            found[tuple(tagged(value))] = value
    return found


def _numbers(text: str) -> Iterator[float | str]:
    for found in _NUMBER.findall(_THOUSANDS.sub("", text)):
        yield float(found) if found.count(".") <= 1 else found


class _Later:
    """The calls and answers after failed calls of one trajectory that no call of the same tool made good."""

    def __init__(self, trajectory: Trajectory, facts: Facts) -> None:
        self._trajectory = trajectory
        self._facts = facts
        self._writing = trajectory.writing_tools
        self._successes = [call for call in trajectory.calls if has_succeeded(call)]
        self._hand_over = next((call for call in reversed(self._successes) if facts.kinds.hands_over(call.name)), None)
        self._reads_left = _MAX_READS
        self._messages = [message for message in trajectory.messages if message.role != "system"]
        # Of messages without times it is known at least which turns of calls came before.
        self._has_times = all(message.time_ns for message in self._messages)
        self._places = [message.time_ns if self._has_times else message.turn for message in self._messages]
        # A request of one agent to another looks like a message of the user.
        is_alone = len(trajectory.agents) <= 1 and all(run.above is None for run in trajectory.runs)
        self._users = [place for place, one in enumerate(self._messages) if one.role == "user" and is_alone]

    @cached_property
    def _last_with(self) -> dict[tuple[Hashable, bool], ToolCall]:
        """The last success that got a value, by the value and by whether it changes state."""
        return {(value, call.name in self._writing): call for call in self._successes for value in _values(call)}

    @cached_property
    def _readings(self) -> list[Reading | None]:
        """How each message reads; `None` for the user's and empty ones."""
        return [
            read_answer(one.text) if one.role == "assistant" and one.text and not one.text.isspace() else None
            for one in self._messages
        ]

    @cached_property
    def _counts(self) -> dict[Reading, list[int]]:
        """For each place how many answers of each reading come before."""
        return {
            one: [*accumulate([reading == one for reading in self._readings], initial=0)] for one in get_args(Reading)
        }

    def outcome(self, call: ToolCall) -> Outcome:
        """Decide by the last call that took the place of a failed one, else by the answers."""
        writing = call.name in self._writing
        other = self._hand_over
        if other is None or other.turn <= call.turn:
            found = (
                self._last_with.get((value, True)) or (None if writing else self._last_with.get((value, False)))
                for value in _values(call)
            )
            later = (one for one in found if one is not None and one.turn > call.turn and one.name != call.name)
            other = next(later, None)
        if other is None:
            return self._by_answers(call, changes_state=writing)
        how = "it was handed over with" if self._facts.kinds.hands_over(other.name) else "another way was found with"
        return _scored("other_way", call, f"and {how} {shown(other.name)} in call {other.order + 1}")

    def _by_answers(self, call: ToolCall, *, changes_state: bool) -> Outcome:
        """Decide by the answers between a failed call and the next message of the user."""
        start = self._after(call)
        following = bisect_left(self._users, start)
        is_answered = following < len(self._users)
        end = self._users[following] if is_answered else len(self._places)
        found: set[Reading] = {reading for reading, counts in self._counts.items() if counts[end] > counts[start]}
        if "admits" in found:
            if is_answered:
                return _scored("other_way", call, "the answer admits it, and the user wrote again")
            return _scored("gave_up", call, "and the answer admits it")
        was_cut_short = self._trajectory.closed_because in CUT_SHORT
        # The agent answered after its last call.
        last = self._after(self._trajectory.calls[-1])
        is_final = not was_cut_short and any(counts[end] > counts[last] for counts in self._counts.values())
        if not found or not (is_answered or is_final):
            if was_cut_short:
                return _unknown(call, "incomplete", "no answer at the end was seen")
            # A call that a model was seen to ask for shows that its texts are recorded too.
            is_recorded = call.requested_by is not None and bool(self._messages)
            if is_recorded or any(message.role == "assistant" for message in self._messages):
                return _unknown(call, "no_answer", "the run has no final answer")
            return _unknown(call, "no_content", "no answer of the agent was recorded")
        if not changes_state:
            return _unknown(call, "no_reference", "whether the answer needed it is not known")
        if not self._is_claimed(call, start, end, found):
            return _unknown(call, "undecided", "could not tell whether the answer admits the failure")
        return _scored("ignored", call, "was never made good, and the answer admits nothing")

    def report_on(self, call: ToolCall) -> bool:
        """Return whether the next answers state a value that a failed call should have read, and admit no failure."""
        start = self._after(call)
        following = bisect_left(self._users, start)
        asked = self._users[following - 1] if following else -1
        end = self._users[following] if following < len(self._users) else len(self._places)
        texts = [message.text for message in self._messages[start:end] if message.role == "assistant" and message.text]
        self._reads_left -= 1
        if self._reads_left < 0 or not texts or any(map(may_admit, texts)):
            return False
        known = [one for one in self._trajectory.calls if has_succeeded(one) and asked < self._after(one) <= end]
        later = [one for one in known if one.turn > call.turn and one.name not in self._trajectory.neutral_tools]
        if all(one.name in self._trajectory.writing_tools for one in later):
            # Without a later read, the answers are from the calls before it and beside it, or from nothing.
            numbers = islice(chain.from_iterable(map(_numbers, texts)), _MAX_VALUES)
            if any(number not in self._numbers_seen for number in numbers):
                return True
        words = {value: written(leaf) for value, leaf in _values(call).items()}
        stated = {value for value, word in words.items() if word and any(occurs_alone(word, text) for text in texts)}
        # Another call of the tool, or a later call, may have been given or have found the value.
        stated.difference_update(value for one in known if stated and one.name == call.name for value in _values(one))
        values = (
            leaf for one in later if stated for part in (one.arguments, one.result) for leaf in result_leaves(part)
        )
        texts = [str(leaf) for leaf in values]
        return any(not any(occurs_alone(words[value], text) for text in texts) for value in stated)

    @cached_property
    def _numbers_seen(self) -> frozenset[float | str]:
        """The numbers in the texts of users and systems, in results, and in the arguments of calls."""
        texts = [message.text for message in self._trajectory.messages if message.role != "assistant"]
        calls = [call for call in self._trajectory.calls if call.name not in self._trajectory.neutral_tools]
        values = (leaf for call in calls for part in (call.arguments, call.result) for leaf in result_leaves(part))
        return frozenset(chain.from_iterable(map(_numbers, chain(texts, map(str, values)))))

    def _is_claimed(self, call: ToolCall, start: int, end: int, readings: Set[Reading]) -> bool:
        """Return whether the answers claim success of this call, not of another act, or plainly claim its act."""
        # The tools that changed state at least once.
        worked = {one.name for one in self._successes if one.name in self._writing}
        places = [at for at in range(max(start, end - _MAX_ANSWERS), end) if self._messages[at].role == "assistant"]
        if "claims" in readings and "unclear" not in readings:
            words, theirs = name_words(call.name), {word for name in worked for word in name_words(name)}
            claiming = [self._messages[at].text for at in places if self._readings[at] == "claims"]
            if any(is_about(sentence, words, theirs) for text in claiming for sentence in claims(text)):
                return True
        texts = [self._messages[at].text for at in places]
        claimed = claimed_acts(texts, (acts_of(call.name),), list(map(acts_of, worked)))
        found = [participle for claim in claimed for participle in claim.participles]
        if not found or worked_earlier(call.name, self._facts.trajectory):
            return False
        return not may_report(found, self._facts.given(self._facts.trajectory))

    def _after(self, call: ToolCall) -> int:
        """Return how many messages there are before, and with, a call."""
        return bisect_right(self._places, call.end_ns if self._has_times else call.turn)


def _unknown(call: ToolCall, reason: Reason, what: str) -> NotEvaluated:
    return NotEvaluated(reason=reason, explanation=f"{shown(call.name)} failed; {what}")


def _scored(handling: Handling, call: ToolCall, what: str) -> Scored:
    parts = {name: float(name == handling) for name in _VALUES}
    return Scored(value=_VALUES[handling], explanation=f"{shown(call.name)} failed, {what}", parts=parts)
