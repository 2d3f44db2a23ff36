"""What each producer of a recording leaves out, what turns it on, and what cannot be evaluated meanwhile."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from toolgauge.model.json import Json, JsonObject
from toolgauge.model.trajectory import Trajectory
from toolgauge.offline.replay.requirements import Requirements
from toolgauge.offline.replay.stats import ProducerCounts, Tally
from toolgauge.recognize.producers import Producer
from toolgauge.recognize.remedies import Fact, Remedy
from toolgauge.recognize.shortfalls import COSTS, NAMES, PROBLEMS, Shortfall, Shortfalls
from toolgauge.report.terminal import PLAIN, Style, counted, shortened

Grade: TypeAlias = Literal["problem", "note"]


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
        return f"no {NAMES[self.fact]} in {self.count} of {self.of} {self.unit}"

    @property
    def cost(self) -> str:
        """The consequence for scores."""
        return COSTS[self.fact]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One producer: what it sent and what it leaves out. `calls` counts those it recorded itself.

    `code_steps` are the steps in which its agents ran code, `failed_code_steps` those that failed by their own code.
    """

    producer: Producer
    sent: ProducerCounts
    calls: int
    missing: tuple[Missing, ...]
    code_steps: int = 0
    failed_code_steps: int = 0

    @property
    def has_problems(self) -> bool:
        """Return whether calls cannot be judged because of this producer."""
        return any(missing.grade == "problem" for missing in self.missing)


class Doctor:
    """Takes the trajectories of a recording, and diagnoses its producers at the end."""

    def __init__(self, tally: Tally, requirements: Requirements) -> None:
        self._tally = tally
        self._requirements = requirements
        self._shortfalls = Shortfalls()
        # Trajectories with calls, and those that show that spans of them went elsewhere.
        self.with_calls = 0
        self.split = 0
        self._code_steps: Counter[Producer] = Counter()
        self._failed_code_steps: Counter[Producer] = Counter()

    def add(self, trajectory: Trajectory) -> None:
        """Take one trajectory, once the spans of its trace have been read."""
        is_split = trajectory.split_sign is not None
        self.split += is_split
        self.with_calls += is_split or bool(trajectory.calls)
        self._tally.unread_tools.add(trajectory)
        trace = self._tally.take(trajectory.trace_id)
        self._shortfalls.add(trajectory, trace)
        self._code_steps.update(filter(None, (trace.producer(step.span) for step in trajectory.code_steps)))
        failed = (call.span for call in trajectory.calls if call.kind == "code")
        self._failed_code_steps.update(filter(None, map(trace.producer, failed)))

    def diagnoses(self) -> Iterator[Diagnosis]:
        """Yield one diagnosis a producer, sorted."""
        for producer, sent in sorted(self._tally.producers.items(), key=lambda entry: entry[0]):
            calls = self._shortfalls.calls(producer)
            found = self._shortfalls.of(producer, sent.dialects, sent.without_trace)
            missing = tuple(self._missing(shortfall, sent, calls) for shortfall in found)
            yield Diagnosis(
                producer=producer,
                sent=sent,
                calls=calls,
                missing=missing,
                code_steps=self._code_steps[producer],
                failed_code_steps=self._failed_code_steps[producer],
            )

    def _missing(self, shortfall: Shortfall, sent: ProducerCounts, calls: int) -> Missing:
        fact = shortfall.fact
        return Missing(
            fact=fact,
            grade="problem" if fact in PROBLEMS else "note",
            count=shortfall.count,
            of=shortfall.of,
            unit=_unit(fact, sent, calls),
            remedy=shortfall.remedy,
            not_evaluated=self._requirements.of(fact),
            shown_less=self._requirements.shown_less(fact),
        )


def _unit(fact: Fact, sent: ProducerCounts, calls: int) -> str:
    match fact:
        case "calls":
            return "log records" if sent.without_trace else "model calls"
        case "arguments" | "results" | "failures" | "call_ids":
            return "calls" if calls else "model calls"
        case "tool_definitions" | "user_text" | "conversation_id":
            return "traces"


_NAME_LENGTH = 200
_MAX_UNREAD_LINES = 10


def diagnosis_object(diagnosis: Diagnosis) -> JsonObject:
    """Describe one producer for `doctor --json`."""
    return {
        "service": diagnosis.producer.service or None,
        "scope": diagnosis.producer.scope,
        "version": diagnosis.producer.version or None,
        "language": diagnosis.producer.language or None,
        "dialects": [dialect for dialect, _ in diagnosis.sent.dialects.most_common()],
        "spans": diagnosis.sent.spans,
        "log_records": diagnosis.sent.log_records,
        "calls": diagnosis.calls,
        "ok": not diagnosis.has_problems,
        "missing": [_missing_object(missing) for missing in diagnosis.missing],
        **_unread_object(diagnosis),
        **_code_object(diagnosis),
    }


def _unread_object(diagnosis: Diagnosis) -> JsonObject:
    found: list[Json] = [
        {"name": name, "operation": operation or None, "spans": count}
        for (name, operation), count in diagnosis.sent.unread.most_common(_MAX_UNREAD_LINES)
    ]
    return {"unread": found} if found and not diagnosis.calls else {}


def _code_object(diagnosis: Diagnosis) -> JsonObject:
    if not diagnosis.code_steps:
        return {}
    return {"code_steps": diagnosis.code_steps, "failed_code_steps": diagnosis.failed_code_steps}


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
    language = f"{producer.language}; " if producer.language else ""
    yield f"  {language}dialect {dialects}: {sent.spans} spans{records}; tells of {counted(diagnosis.calls, 'call')}"
    if diagnosis.code_steps:
        yield from _code_lines(diagnosis, style)
    # One switch mostly governs several facts: they are listed together.
    alike: dict[tuple[str, Remedy], list[Missing]] = {}
    for missing in diagnosis.missing:
        alike.setdefault((missing.grade, missing.remedy), []).append(missing)
    for (grade, shared), group in alike.items():
        yield from _missing_lines(grade, shared, group, style)
    if sent.unread and not diagnosis.calls:
        yield from _unread_lines(diagnosis, style)
    elif not diagnosis.missing:
        yield f"  {style.good('nothing is missing')}" if diagnosis.calls else "  no tool call: nothing to judge"


def _code_lines(diagnosis: Diagnosis, style: Style) -> Iterator[str]:
    steps, failed = counted(diagnosis.code_steps, "step"), diagnosis.failed_code_steps
    yield f"  {style.doubtful('note')}: a code agent: {steps} wrote code, {failed} of them failed by their own code"
    yield "    calls inside the code show only where their tools have spans; all other calls are unknown"
    yield "    judged: each failed step, as a call of kind `code`, by `tool_success`; each call with a span, by every evaluator"


def _unread_lines(diagnosis: Diagnosis, style: Style) -> Iterator[str]:
    """Name the spans on which nothing was found: without any call, the calls may be on these."""
    unread = diagnosis.sent.unread
    scope = shortened(diagnosis.producer.scope or "(no scope)", _NAME_LENGTH)
    yield f"  {style.doubtful('note')}: no tool call; nothing was read from {counted(unread.total(), 'span')} of scope `{scope}`:"
    for (name, operation), count in unread.most_common(_MAX_UNREAD_LINES):
        named = f"operation `{shortened(operation, _NAME_LENGTH)}`" if operation else "no `gen_ai.operation.name`"
        yield f"    {count} `{shortened(name, _NAME_LENGTH)}`, {named}"
    if len(unread) > _MAX_UNREAD_LINES:
        yield f"    and {len(unread) - _MAX_UNREAD_LINES} more names"
    yield "    do: if calls are on these spans, map their attributes in the section `dialects` of the configuration"


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
