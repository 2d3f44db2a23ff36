"""What each producer of a recording leaves out, what turns it on, and what cannot be evaluated meanwhile.

Judged by the calls as they were joined, not by single spans: a library that records no arguments is fine where the
same call is recorded with arguments by another span. A fact that only some calls of a trace lack is left alone: that is
what happens in a run, not how its producer is set up.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import JsonObject
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.offline.replay.remedies import CONTENT_IS_ON, OFFERED_ELSEWHERE, RECORDED_ELSEWHERE, Fact, Remedy, remedy
from toolgauge.offline.replay.requirements import Requirements
from toolgauge.offline.replay.stats import Producer, ProducerCounts, Tally, TraceCounts
from toolgauge.offline.terminal import PLAIN, Style, shortened

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
    "user_text": "judges do not know what was asked for, and values that only the user gave cannot be traced",
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
        """The missing fact and its count, for a person."""
        return f"no {_NAMES[self.fact]} in {self.count} of {self.of} {self.unit}"

    @property
    def cost(self) -> str:
        """The consequence for scores."""
        return _COSTS[self.fact]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One producer: what it sent and what it leaves out. `calls` counts those it recorded itself."""

    producer: Producer
    sent: ProducerCounts
    calls: int
    missing: tuple[Missing, ...]

    @property
    def has_problems(self) -> bool:
        """Return whether calls cannot be judged because of this producer."""
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
    """Takes the trajectories of a recording, and diagnoses its producers at the end."""

    def __init__(self, tally: Tally, requirements: Requirements) -> None:
        self._tally = tally
        self._requirements = requirements
        self._counts: dict[Producer, _Counts] = {}
        # Services with tool spans: where they show none, none was called.
        self._executing: set[str] = set()
        # Trajectories with calls, and those that show that spans of them went elsewhere.
        self.with_calls = 0
        self.split = 0

    def add(self, trajectory: Trajectory) -> None:
        """Take one trajectory, once the spans of its trace have been read."""
        trace = self._tally.take(trajectory.trace_id)
        is_split = trajectory.split_sign is not None
        self.split += is_split
        self.with_calls += is_split or bool(trajectory.calls)
        if not trajectory.calls:
            self._add_trace_without_calls(trace, trajectory)
            return
        by_producer: dict[Producer, list[ToolCall]] = {}
        for call in trajectory.calls:
            executed_by = trace.producer(call.executed_by)
            if executed_by is not None:
                self._executing.add(executed_by.service)
            for producer in _producers(call, trace):
                by_producer.setdefault(producer, []).append(call)
        for producer, calls in by_producer.items():
            self._add_calls(producer, calls)
        for producer in trace.runs or by_producer:
            self._add_surroundings(producer, trajectory)

    def diagnoses(self) -> Iterator[Diagnosis]:
        """Yield one diagnosis a producer, sorted."""
        for producer, sent in sorted(self._tally.producers.items(), key=lambda entry: entry[0]):
            shows_all = producer.service in self._executing
            counts = _completed(self._counts.get(producer, _Counts()), sent, shows_all_calls=shows_all)
            missing = tuple(
                self._missing(fact, producer, sent, counts) for fact in (*_PROBLEMS, *_NOTES) if counts.missing[fact]
            )
            yield Diagnosis(producer=producer, sent=sent, calls=counts.calls, missing=missing)

    def _of(self, producer: Producer) -> _Counts:
        return self._counts.setdefault(producer, _Counts())

    def _add_trace_without_calls(self, trace: TraceCounts, trajectory: Trajectory) -> None:
        """Take a trace without calls: nothing was called, or the calls that the model requested were not recorded."""
        for producer, model_calls in trace.model_calls.items():
            self._of(producer).add("calls", model_calls, 0 if trace.has_content else model_calls)
            if not trace.has_content:
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

    def _missing(self, fact: Fact, producer: Producer, sent: ProducerCounts, counts: _Counts) -> Missing:
        return Missing(
            fact=fact,
            grade="problem" if fact in _PROBLEMS else "note",
            count=counts.missing[fact],
            of=counts.places[fact],
            unit=_unit(fact, sent, counts),
            remedy=_remedy(fact, producer, sent, counts),
            not_evaluated=self._requirements.of(fact),
            shown_less=self._requirements.shown_less(fact),
        )


def _remedy(fact: Fact, producer: Producer, sent: ProducerCounts, counts: _Counts) -> Remedy:
    # The remedy that records the calls records everything in them.
    asked: Fact = "calls" if fact in _OF_A_CALL and not counts.calls else fact
    found = remedy(asked, sent.dialects, producer.scope)
    if fact in _AROUND and counts.missing[fact] < counts.places[fact]:
        return OFFERED_ELSEWHERE if fact == "tool_definitions" else RECORDED_ELSEWHERE
    is_on = fact in _AROUND and counts.with_content == counts.places[fact]
    if is_on and not found.never and found == remedy("arguments", sent.dialects, producer.scope):
        return CONTENT_IS_ON
    return found


def _producers(call: ToolCall, trace: TraceCounts) -> set[Producer]:
    found = (trace.producer(span) for span in (call.span, call.requested_by, call.executed_by))
    return {producer for producer in found if producer is not None}


def _is_kept_back(content: Content) -> bool:
    match content:
        case NotRecorded():
            return True
        case Unparsed(text=text):
            return text == _WITHHELD
        case Recorded(value=value):
            return value == _WITHHELD


def _completed(counts: _Counts, sent: ProducerCounts, *, shows_all_calls: bool) -> _Counts:
    """Add what follows for the whole recording from what was counted trace by trace."""
    whole = replace(counts, places=counts.places.copy(), missing=counts.missing.copy())
    if shows_all_calls:
        whole.missing["calls"] = 0
    if sent.without_trace:
        whole.add("calls", sent.without_trace, sent.without_trace)
    elif whole.missing["calls"] and not whole.calls:
        # Of calls that are not recorded, nothing is known at all.
        for fact in _OF_A_CALL:
            whole.add(fact, whole.places["calls"], whole.missing["calls"])
    return whole


def _unit(fact: Fact, sent: ProducerCounts, counts: _Counts) -> str:
    match fact:
        case "calls":
            return "log records" if sent.without_trace else "model calls"
        case "arguments" | "results" | "call_ids":
            return "calls" if counts.calls else "model calls"
        case "tool_definitions" | "user_text" | "conversation_id":
            return "traces"


_NAME_LENGTH = 200


def diagnosis_object(diagnosis: Diagnosis) -> JsonObject:
    """Describe one producer for `doctor --json`."""
    return {
        "service": diagnosis.producer.service or None,
        "scope": diagnosis.producer.scope,
        "version": diagnosis.producer.version or None,
        "dialects": [dialect for dialect, _ in diagnosis.sent.dialects.most_common()],
        "spans": diagnosis.sent.spans,
        "log_records": diagnosis.sent.log_records,
        "calls": diagnosis.calls,
        "ok": not diagnosis.has_problems,
        "missing": [_missing_object(missing) for missing in diagnosis.missing],
    }


def _missing_object(missing: Missing) -> JsonObject:
    return {
        "what": missing.fact,
        "grade": missing.grade,
        "count": missing.count,
        "of": missing.of,
        "unit": missing.unit,
        "never_recorded": missing.remedy.never,
        "switches": list(missing.remedy.switches),
        "advice": missing.remedy.how,
        "not_evaluated": list(missing.not_evaluated),
        "shown_less": list(missing.shown_less),
        "cost": missing.cost,
    }


def diagnosis_lines(diagnosis: Diagnosis, style: Style = PLAIN) -> Iterator[str]:
    """Describe one producer for a person: its name, its dialects, then the missing facts."""
    producer, sent = diagnosis.producer, diagnosis.sent
    scope = shortened(" ".join((producer.scope or "(no scope)", producer.version)).strip(), _NAME_LENGTH)
    yield style.head(f"{shortened(producer.service or 'unknown service', _NAME_LENGTH)}: {scope}")
    dialects = ", ".join(dialect for dialect, _ in sent.dialects.most_common())
    records = f", {sent.log_records} log records" if sent.log_records else ""
    yield f"  dialect {dialects}: {sent.spans} spans{records}; tells of {_counted(diagnosis.calls, 'call')}"
    # One switch mostly governs several facts: they are listed together.
    alike: dict[tuple[str, Remedy], list[Missing]] = {}
    for missing in diagnosis.missing:
        alike.setdefault((missing.grade, missing.remedy), []).append(missing)
    for (grade, shared), group in alike.items():
        yield from _missing_lines(grade, shared, group, style)
    if not diagnosis.missing:
        yield f"  {style.good('nothing is missing')}"


def _missing_lines(grade: str, remedy: Remedy, group: Sequence[Missing], style: Style) -> Iterator[str]:
    word = style.bad("problem") if grade == "problem" else style.doubtful("note")
    never = "; never recorded by this producer" if remedy.never else ""
    yield f"  {word}: {', '.join(missing.what for missing in group)}{never}"
    # Where no call is seen, what is missing of it is not listed.
    for missing in group[:1] if group[0].fact == "calls" else group:
        lost = f"; not evaluated: {_named(missing.not_evaluated)}" if missing.not_evaluated else ""
        less = f"; the judge is shown less: {_named(missing.shown_less)}" if missing.shown_less else ""
        yield f"    {missing.cost}{lost}{less}"
    yield f"    {'instead' if remedy.never else 'do'}: {remedy.how}"


def _named(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
