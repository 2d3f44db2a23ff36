"""What each producer of a recording leaves out, what turns it on, and what cannot be evaluated meanwhile.

Judged by the calls as they were joined, not by single spans: a library that records no arguments is fine where the
same call is told with arguments by another span. A fact that only some calls of a trace lack is left alone: that is
what happens in a run, not how its producer is set up.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.offline.replay.advice import CONTENT_IS_ON, RECORDED_ELSEWHERE, Fact, Remedy, remedy
from toolgauge.offline.replay.needs import Needs
from toolgauge.offline.replay.tally import Heard, Producer, Tally, TraceHeard

Grade: TypeAlias = Literal["problem", "note"]

# Without these the calls themselves cannot be judged; the rest narrows what can be asked about them.
_PROBLEMS: tuple[Fact, ...] = ("calls", "arguments", "results")
_OF_A_CALL: tuple[Fact, ...] = ("arguments", "results", "call_ids")
_AROUND: tuple[Fact, ...] = ("tool_definitions", "user_text")
_NOTES: tuple[Fact, ...] = ("tool_definitions", "user_text", "conversation_id", "call_ids")

_COSTS: Mapping[Fact, str] = {
    "calls": "what the model asked for is unknown: no call can be judged",
    "arguments": "it is known that a tool was called, not with what",
    "results": "what a tool answered is unknown: only errors tell whether a call worked",
    "tool_definitions": "a tool that does not exist cannot be told from one that does",
    "user_text": "judges do not know what was asked for",
    "conversation_id": "criteria with `scope: conversation` see every trace as a conversation of its own",
    "call_ids": "requests and executions are joined by name, arguments and order instead",
}
_NAMES: Mapping[Fact, str] = {
    "calls": "tool calls",
    "arguments": "arguments",
    "results": "results",
    "tool_definitions": "tool definitions",
    "user_text": "text of the user",
    "conversation_id": "conversation id",
    "call_ids": "call ids",
}
_WITHHELD = "__REDACTED__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A fact that a producer leaves out: in `count` of `of` places (`unit`)."""

    fact: Fact
    grade: Grade
    count: int
    of: int
    unit: str
    remedy: Remedy
    # Evaluators that cannot judge, and those whose judge is shown less.
    not_evaluated: tuple[str, ...]
    shown_less: tuple[str, ...]

    @property
    def what(self) -> str:
        """Say what is missing, for a person."""
        return f"no {_NAMES[self.fact]} in {self.count} of {self.of} {self.unit}"

    @property
    def cost(self) -> str:
        """Say what that means."""
        return _COSTS[self.fact]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One producer: what it sent and what it leaves out. `calls` counts those it told of itself."""

    producer: Producer
    heard: Heard
    calls: int
    missing: tuple[Missing, ...]

    @property
    def has_problems(self) -> bool:
        """Tell whether calls cannot be judged because of this producer."""
        return any(missing.grade == "problem" for missing in self.missing)


@dataclass(slots=True)
class _Counts:
    """By fact: in how many places it could be, and in how many it is missing."""

    calls: int = 0
    # Traces in which some call came with its arguments: whatever switches content on, is on.
    with_content: int = 0
    places: Counter[Fact] = field(default_factory=Counter[Fact])
    missing: Counter[Fact] = field(default_factory=Counter[Fact])

    def add(self, fact: Fact, places: int, missing: int) -> None:
        self.places[fact] += places
        self.missing[fact] += missing


class Doctor:
    """Takes the trajectories of a recording and tells, at its end, what ails its producers."""

    def __init__(self, tally: Tally, needs: Needs) -> None:
        self._tally = tally
        self._needs = needs
        self._counts: dict[Producer, _Counts] = {}
        # Services with tool spans: where they show none, none was called.
        self._executing: set[str] = set()

    def add(self, trajectory: Trajectory) -> None:
        """Take one trajectory, once what its trace says has been read."""
        heard = self._tally.take(trajectory.trace_id)
        if not trajectory.calls:
            self._add_silence(heard, trajectory)
            return
        by_producer: dict[Producer, list[ToolCall]] = {}
        for call in trajectory.calls:
            executed_by = heard.producer(call.executed_by)
            if executed_by is not None:
                self._executing.add(executed_by.service)
            for producer in _producers(call, heard):
                by_producer.setdefault(producer, []).append(call)
        for producer, calls in by_producer.items():
            self._add_calls(producer, calls)
        for producer in heard.runs or by_producer:
            self._add_surroundings(producer, trajectory)

    def diagnoses(self) -> Iterator[Diagnosis]:
        """Yield one diagnosis a producer, sorted."""
        for producer, heard in sorted(self._tally.producers.items(), key=lambda entry: entry[0]):
            shows_all = producer.service in self._executing
            counts = _completed(self._counts.get(producer, _Counts()), heard, shows_all_calls=shows_all)
            missing = tuple(
                self._missing(fact, producer, heard, counts) for fact in (*_PROBLEMS, *_NOTES) if counts.missing[fact]
            )
            yield Diagnosis(producer=producer, heard=heard, calls=counts.calls, missing=missing)

    def _of(self, producer: Producer) -> _Counts:
        return self._counts.setdefault(producer, _Counts())

    def _add_silence(self, heard: TraceHeard, trajectory: Trajectory) -> None:
        """Take a trace without calls: nothing was called, or nobody says what the model asked for."""
        for producer, model_calls in heard.model_calls.items():
            self._of(producer).add("calls", model_calls, 0 if heard.tells_content else model_calls)
            if not heard.tells_content:
                self._add_surroundings(producer, trajectory)

    def _add_calls(self, producer: Producer, calls: Sequence[ToolCall]) -> None:
        counts = self._of(producer)
        counts.calls += len(calls)
        executed = [call for call in calls if call.state == "executed" and call.error is None]
        self._add_fact(counts, "arguments", [_is_kept_back(call.arguments) for call in calls])
        self._add_fact(counts, "results", [_is_kept_back(call.result) for call in executed])
        self._add_fact(counts, "call_ids", [call.call_id is None for call in calls])

    def _add_fact(self, counts: _Counts, fact: Fact, lacks: Sequence[bool]) -> None:
        counts.add(fact, len(lacks), len(lacks) if all(lacks) else 0)

    def _add_surroundings(self, producer: Producer, trajectory: Trajectory) -> None:
        counts = self._of(producer)
        counts.with_content += any(not _is_kept_back(call.arguments) for call in trajectory.calls)
        asked = any(message.role == "user" and message.text != _WITHHELD for message in trajectory.messages)
        counts.add("tool_definitions", 1, trajectory.tools_offered is None)
        counts.add("conversation_id", 1, trajectory.conversation_id is None)
        counts.add("user_text", 1, not asked)

    def _missing(self, fact: Fact, producer: Producer, heard: Heard, counts: _Counts) -> Missing:
        return Missing(
            fact=fact,
            grade="problem" if fact in _PROBLEMS else "note",
            count=counts.missing[fact],
            of=counts.places[fact],
            unit=_unit(fact, heard, counts),
            remedy=_remedy(fact, producer, heard, counts),
            not_evaluated=self._needs.of(fact),
            shown_less=self._needs.shown_less(fact),
        )


def _remedy(fact: Fact, producer: Producer, heard: Heard, counts: _Counts) -> Remedy:
    # What tells of the calls tells of everything in them.
    asked: Fact = "calls" if fact in _OF_A_CALL and not counts.calls else fact
    found = remedy(asked, heard.dialects, producer.scope)
    if fact in _AROUND and counts.missing[fact] < counts.places[fact]:
        return RECORDED_ELSEWHERE
    is_on = fact in _AROUND and counts.with_content == counts.places[fact]
    if is_on and not found.never and found == remedy("arguments", heard.dialects, producer.scope):
        return CONTENT_IS_ON
    return found


def _producers(call: ToolCall, heard: TraceHeard) -> set[Producer]:
    found = (heard.producer(span) for span in (call.span, call.requested_by, call.executed_by))
    return {producer for producer in found if producer is not None}


def _is_kept_back(content: Content) -> bool:
    match content:
        case NotRecorded():
            return True
        case Unparsed(text=text):
            return text == _WITHHELD
        case Recorded(value=value):
            return value == _WITHHELD


def _completed(counts: _Counts, heard: Heard, *, shows_all_calls: bool) -> _Counts:
    """Add what follows for the whole recording from what was counted trace by trace."""
    whole = replace(counts, places=counts.places.copy(), missing=counts.missing.copy())
    if shows_all_calls:
        whole.missing["calls"] = 0
    if heard.nowhere:
        whole.add("calls", heard.nowhere, heard.nowhere)
    elif whole.missing["calls"] and not whole.calls:
        # Of calls that nobody tells of, nothing is known at all.
        for fact in _OF_A_CALL:
            whole.add(fact, whole.places["calls"], whole.missing["calls"])
    return whole


def _unit(fact: Fact, heard: Heard, counts: _Counts) -> str:
    match fact:
        case "calls":
            return "log records" if heard.nowhere else "model calls"
        case "arguments" | "results" | "call_ids":
            return "calls" if counts.calls else "model calls"
        case "tool_definitions" | "user_text" | "conversation_id":
            return "traces"
