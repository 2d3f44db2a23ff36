"""One trajectory as its page shows it: verdicts by criterion, calls in turns, and missing facts.

Calls, differences and characters of a value are bounded, however large the trajectory is. Templates escape the texts.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import TypeAlias

from msgspec import Struct

from toolgauge.export.redact import MASKED, Redactor
from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json, kind
from toolgauge.model.outcomes import Difference, Observed, OutcomeWord, Result, Scored, outcome_word
from toolgauge.model.plain_words import WHY_NOT_RECORDED, error_words, reason_words, rule_words, state_words
from toolgauge.model.records import ENVIRONMENT, VERSION
from toolgauge.model.trajectory import ToolCall, Trajectory, recovered
from toolgauge.report.explanations import ShownVerdict, origin_lines, shown_verdict
from toolgauge.score.failing_calls import argument_of, differences_by_call
from toolgauge.score.origins.value_origin import failing_chains

# Calls on one page, and the characters shown of each of their values; of a call that is asked for more.
CALLS_PER_PAGE = 100
_ROOM, _ROOM_ASKED = 2_000, 200_000
_ONE_LINE = 88
# Arguments of a call, and of one that is asked for; so much of each is shown where others have taken the room.
_MAX_ARGUMENTS, _MAX_ARGUMENTS_ASKED = 50, 1_000
_LEAST_ROOM = 250
_MAX_NAME = 120
_MAX_VERDICTS = 20
_MAX_MESSAGES, _MESSAGE_ROOM = 50, 2_000
_MAX_TOOLS = 200
_BY_URGENCY: tuple[OutcomeWord, ...] = ("fail", "error", "not_evaluated", "pass")


class ShownValue(Struct, frozen=True, kw_only=True):
    """A value, or why it cannot be read. `text` is empty without a value; `is_cut` where it is longer."""

    text: str = ""
    note: str = ""
    is_cut: bool = False


_Argument: TypeAlias = tuple[str, ShownValue, tuple[tuple[str, str], ...]]


class ShownCall(Struct, frozen=True, kw_only=True):
    """One call. `number` is its place among all, from 0; `verdicts` are about it alone.

    `arguments` have a name, a value, and the values that criteria expected in its place, each with the criterion's name.
    """

    number: int
    call: ToolCall
    arguments: tuple[_Argument, ...]
    more_arguments: int
    whole: ShownValue | None
    result: ShownValue
    error_kind: str
    error: str | None
    verdicts: tuple[ShownVerdict, ...]
    missing: tuple[str, ...]
    is_asked: bool
    # It failed, and a later call made it good.
    is_recovered: bool
    # Where the values of its arguments are from; only of calls that a run failed with.
    origins: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """Its state as people read it."""
        return state_words(self.call.state)

    @property
    def is_cut(self) -> bool:
        """Whether a value of it is not shown to its end."""
        values = [value for _, value, _ in self.arguments] + [self.result, *filter(None, (self.whole,))]
        return self.more_arguments > 0 or any(value.is_cut for value in values)


class ShownCriterion(Struct, frozen=True, kw_only=True):
    """All results of one criterion. `verdicts` are those worth reading, `words` count the results by outcome."""

    criterion: str
    word: OutcomeWord
    is_shadow: bool
    is_of_calls: bool
    words: Mapping[str, int]
    total: int
    verdicts: tuple[ShownVerdict, ...]
    more: int


def head(trajectory: Trajectory) -> dict[str, object]:
    """Collect the facts at the head of a trajectory's page."""
    return {
        "trajectory": trajectory,
        "version": trajectory.resource.get(VERSION, ""),
        "environment": trajectory.resource.get(ENVIRONMENT, ""),
        "duration_ns": max(0, trajectory.end_ns - trajectory.start_ns) if trajectory.start_ns > 0 else None,
        "has_user_text": any(message.role == "user" for message in trajectory.messages),
    }


class TrajectoryWriter:
    """Makes the shown form of trajectories; `pass_at` is as in `shown_verdict`. Values longer than a line are indented."""

    def __init__(self, redactor: Redactor, pass_at: Mapping[str, float]) -> None:
        self._redactor = redactor
        self._pass_at = pass_at

    def shown(
        self,
        trajectory: Trajectory,
        results: Sequence[Result],
        asked: int | None = None,
        per_page: int = CALLS_PER_PAGE,
    ) -> dict[str, object]:
        """Return the names that the templates use for a trajectory with its results.

        `asked` is the number of a call to show whole, with the calls around it. `first` is the number of the first call that is
        shown, `total` counts all.
        """
        calls, messages, tools = trajectory.calls, trajectory.messages, trajectory.tools_offered or ()
        asked = asked if asked is not None and 0 <= asked < len(calls) else None
        first = 0 if asked is None else asked - asked % per_page
        observed = Observed(trajectory)
        missing = Counter(reason_words(reason) for call in calls for reason in observed.missing(call))
        shown_messages = messages[:_MAX_MESSAGES] if self._redactor.shows_values else ()
        return {
            "criteria": self._criteria(results),
            "turns": [*self._turns(trajectory, results, first, first + per_page, asked)],
            "first": first,
            "total": len(calls),
            "per_page": per_page,
            "messages": [
                (
                    message.role,
                    self._redactor.masked(message.text, _MESSAGE_ROOM)[:_MESSAGE_ROOM],
                    message.time_ns,
                    len(message.text) > _MESSAGE_ROOM,
                )
                for message in shown_messages
            ],
            "more_messages": len(messages) - len(shown_messages),
            "hides_values": not self._redactor.shows_values,
            "missing": missing.most_common(),
            "tools": [tool.name for tool in tools[:_MAX_TOOLS]],
            "more_tools": max(0, len(tools) - _MAX_TOOLS),
        }

    def _criteria(self, results: Sequence[Result]) -> tuple[ShownCriterion, ...]:
        by_criterion: dict[tuple[str, str], list[tuple[Result, OutcomeWord]]] = {}
        for result in results:
            of = by_criterion.setdefault((result.criterion, result.enforce), [])
            of.append((result, outcome_word(result.outcome)))
        shown: list[ShownCriterion] = []
        for (name, enforce), of in by_criterion.items():
            words = Counter(word for _, word in of)
            worst: OutcomeWord = next(known for known in _BY_URGENCY if words[known])
            # Of a criterion that passed and of one that did not alike: what decided, not what else was fine.
            noted = [result for result, word in of if word == worst]
            noted += [result for result, word in of if (worst, word) == ("fail", "error")]
            # Passes accepted in spite of a fault.
            faulty = [
                one for one in noted if worst == "pass" and isinstance(one.outcome, Scored) and one.outcome.value < 1
            ]
            noted = faulty or noted
            room = 1 if worst in ("pass", "not_evaluated") and not faulty else _MAX_VERDICTS
            shown.append(
                ShownCriterion(
                    criterion=name,
                    word=worst,
                    is_shadow=enforce == "shadow",
                    is_of_calls=any(result.call is not None for result, _ in of),
                    words=words,
                    total=len(of),
                    verdicts=tuple(shown_verdict(one, self._redactor, self._pass_at) for one in noted[:room]),
                    more=max(0, len(noted) - room),
                )
            )
        return tuple(sorted(shown, key=lambda one: (one.is_shadow, _BY_URGENCY.index(one.word), one.criterion)))

    def _turns(
        self, trajectory: Trajectory, results: Sequence[Result], first: int, end: int, asked: int | None
    ) -> Iterator[tuple[int, list[ShownCall]]]:
        """Yield turns with the calls of one model output."""
        window = trajectory.calls[first:end]
        about: dict[int, list[ShownVerdict]] = {id(call): [] for call in window}
        for result in results:
            if result.call is not None and id(result.call) in about:
                about[id(result.call)].append(shown_verdict(result, self._redactor, self._pass_at))
        differing = differences_by_call(results, trajectory.calls)
        chains = failing_chains(trajectory, results, window)
        observed, recoveries, shows_values = Observed(trajectory), recovered(trajectory), self._redactor.shows_values
        for turn, group in groupby(enumerate(window, start=first), key=lambda entry: entry[1].turn):
            shown: list[ShownCall] = []
            for number, call in group:
                room = _ROOM_ASKED if number == asked else _ROOM
                arguments, more = self._arguments(call, tuple(differing.get(id(call), ())), room)
                is_empty = isinstance(call.arguments, Recorded) and call.arguments.value == {}
                whole = ShownValue(note="none") if is_empty else self._value(call.arguments, room)
                error = call.error
                text = "" if error is None or not shows_values else self._redactor.error(error.message, room)
                shown.append(
                    ShownCall(
                        number=number,
                        call=call,
                        arguments=arguments,
                        more_arguments=more,
                        whole=None if arguments else whole,
                        result=self._value(call.result, room),
                        error_kind="" if error is None else self._name(error_words(error.kind)),
                        error=None if error is None else text,
                        verdicts=tuple(sorted(about[id(call)], key=lambda verdict: _BY_URGENCY.index(verdict.word))),
                        missing=tuple(map(reason_words, observed.missing(call))),
                        is_asked=number == asked,
                        origins=origin_lines(chains.get(call.order), self._redactor),
                        is_recovered=call.order in recoveries,
                    )
                )
            yield turn, shown

    def _arguments(
        self, call: ToolCall, differing: Sequence[tuple[str, Difference]], room: int
    ) -> tuple[tuple[_Argument, ...], int]:
        given = call.arguments.value if isinstance(call.arguments, Recorded) else None
        if not isinstance(given, dict):
            return (), 0
        limit = _MAX_ARGUMENTS if room == _ROOM else _MAX_ARGUMENTS_ASKED
        values: dict[str, ShownValue] = {}
        for name, value in islice(given.items(), limit):
            is_private = self._redactor.is_private(name)
            values[name] = ShownValue(text=MASKED) if is_private else self._json(value, max(_LEAST_ROOM, room))
            room -= len(values[name].text)
        for _, difference in differing:
            name = argument_of(difference)
            if name is not None and name not in given:
                values.setdefault(name, ShownValue(note="missing"))
        shown = ((self._name(name), value, tuple(self._expected(name, differing))) for name, value in values.items())
        return tuple(shown), max(0, len(given) - limit)

    def _expected(self, name: str, differing: Sequence[tuple[str, Difference]]) -> Iterator[tuple[str, str]]:
        for criterion, difference in differing[:_MAX_VERDICTS]:
            if argument_of(difference) != name:
                continue
            if difference.expected is None:
                yield criterion, f"at fault ({rule_words(difference.rule)})"
            elif self._redactor.shows_values:
                expected = self._redactor.side(difference, difference.expected, _ONE_LINE) or ""
                yield criterion, f"expected {expected[:_ONE_LINE]}{'…' if len(expected) > _ONE_LINE else ''}"
            else:
                yield criterion, f"differs ({rule_words(difference.rule)})"

    def _name(self, name: str) -> str:
        """Write the name of an argument or an error: senders choose keys and classes, and put secrets in them."""
        return self._redactor.masked(name, _MAX_NAME)[:_MAX_NAME]

    def _value(self, content: Content, room: int) -> ShownValue:
        match content:
            case Recorded(value=value):
                return self._json(value, room)
            case Unparsed(text=text, reason=reason) if self._redactor.shows_values:
                shown = self._redactor.masked(text, room)[:room]
                return ShownValue(text=shown, note=WHY_NOT_RECORDED[reason], is_cut=len(text) > room)
            case Unparsed(reason=reason):
                return ShownValue(note=f"hidden text; {WHY_NOT_RECORDED[reason]}")
            case NotRecorded(reason=reason):
                return ShownValue(note=WHY_NOT_RECORDED[reason])

    def _json(self, value: Json, room: int) -> ShownValue:
        if not self._redactor.shows_values:
            return ShownValue(note=f"hidden ({kind(value)})")
        if isinstance(value, str) and "\n" in value:
            return ShownValue(text=self._redactor.masked(value, room)[:room], is_cut=len(value) > room)
        text = self._redactor.json(value, min(_ONE_LINE, room), depth=20)
        if len(text) > _ONE_LINE:
            text = self._redactor.json(value, room, depth=20, is_indented=True)
        return ShownValue(text=text[:room], is_cut=len(text) > room)
