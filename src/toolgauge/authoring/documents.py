"""Makes a document of tasks: the expected calls of each case with notes, and the rules that all calls of a criterion share.

An argument that no call expects gets the rule `ignore`, one that some leave free `volatile`. Faulted calls are left out.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias

from msgspec.structs import replace

from toolgauge.authoring.consensus import Agreement, ExpectedSlot, RuleWord, expected_slots, slot_of, without
from toolgauge.authoring.convert.draft import criterion_name, unique
from toolgauge.authoring.freedoms import Place
from toolgauge.authoring.runs import Case, RecordedRun, case_text
from toolgauge.authoring.tasks import Task
from toolgauge.model.errors import RecordingError
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.trajectory import TrajectoryScope
from toolgauge.report.terminal import shortened

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
# The longest key of a rule, and the characters that are no names in `volatile`.
_MAX_KEY = 160
_WILD = frozenset("*?")
_Arguments: TypeAlias = Mapping[str, Agreement]


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftCall:
    """One expected call as it is written. `args` is `None` where any will do."""

    name: str
    args: JsonObject | None
    is_optional: bool
    why: tuple[str, ...]
    # Why a call of a failing run is not expected as it was made; empty for an expected call.
    doubts: tuple[str, ...] = ()

    def as_json(self) -> Json:
        """Return it as it stands in a reference."""
        written: JsonObject = {"name": self.name}
        if self.args is not None:
            written["args"] = self.args
        if self.is_optional:
            written["optional"] = True
        return written


@dataclass(slots=True)
class Rules:
    """The rules that all calls of a criterion share; each with its reason where a place is left free."""

    arguments: dict[str, tuple[RuleWord | str, str]] = field(default_factory=dict[str, tuple[RuleWord | str, str]])
    volatile: dict[str, str] = field(default_factory=dict[str, str])


class Drafter:
    """Writes the expected calls of all cases of one criterion. All slots are needed first: rules are for all of them."""

    def __init__(self, cases: Sequence[Sequence[ExpectedSlot]]) -> None:
        self.rules = Rules()
        self._unspelled: set[str] = set()
        self._words: dict[tuple[str, str], RuleWord] = {}
        self._ignored: dict[tuple[str, str], set[Place]] = {}
        by_argument: dict[tuple[str, str], list[Agreement]] = {}
        for slots in cases:
            for slot in slots:
                for name, found in (slot.arguments or {}).items():
                    by_argument.setdefault((slot.name, name), []).append(found)
        for (tool, name), found in by_argument.items():
            self._decide(tool, name, found)

    def calls(self, case: "_Slots") -> Iterator[DraftCall]:
        """Yield the calls of one case."""
        for slot, doubts in zip(case.slots, case.doubts, strict=True):
            args, why = None, slot.why
            if slot.arguments is not None and slot.name in self._unspelled:
                why = (*why, "any arguments: their names cannot be written in a rule")
            elif slot.arguments is not None:
                args, free = self._args(slot.name, slot.arguments)
                why = (*why, *free)
            yield DraftCall(name=slot.name, args=args, is_optional=slot.is_optional, why=why, doubts=doubts)

    def _decide(self, tool: str, name: str, found: Sequence[Agreement]) -> None:
        """Find the rules for one argument of one tool, in all calls of it."""
        whys = _joined([one.why_free for one in found])
        bound = [one for one in found if one.why_free is None]
        glob = f"{tool}.{name}"
        if bound and whys and not _WILD.isdisjoint(glob):
            # A glob cannot be written as a plain name: free in one call is then free in all.
            bound = []
        word = _common([one.rule for one in bound], bound)
        places = {place for one in bound for place in one.why}
        if word == "one_of" and places:
            # Accepted values are compared as a whole: what is free within one of them would not be.
            bound, whys = [], "differs from run to run"
        if not bound:
            self._rule(tool, (name,), "ignore", whys)
            self._ignored[tool, name] = {(name,)}
            return
        if whys:
            self.rules.volatile[glob] = whys
        for place in sorted(places, key=repr):
            self._rule(tool, place, "ignore", _joined([one.why.get(place) for one in bound]))
        self._ignored[tool, name] = places
        self._words[tool, name] = word
        if word != "exact":
            self._rule(tool, (name,), word, _REASONS[word])
        within = {place: rule for one in bound for place, rule in one.rules.items() if place != one.place}
        for place, rule in sorted(within.items(), key=repr):
            self._rule(tool, place, rule, _REASONS[rule])

    def _rule(self, tool: str, place: Place, word: str, why: str) -> None:
        key = spelled(tool, place)
        if len(key) > _MAX_KEY:
            self._unspelled.add(tool)
        else:
            self.rules.arguments[key] = (word, why)

    def _args(self, tool: str, arguments: _Arguments) -> tuple[JsonObject, list[str]]:
        args: JsonObject = {}
        free: list[str] = []
        for name, found in arguments.items():
            ignored = self._ignored[tool, name]
            if (name,) in ignored:
                continue
            if found.why_free is not None:
                free.append(f"free: {name} ({found.why_free})")
                continue
            values = [without(value, (name,), ignored) for value in found.values]
            args[name] = values if self._words[tool, name] == "one_of" else values[0]
        return args, free


_REASONS: Mapping[str, str] = {
    "casefold": "the runs differ in upper and lower case",
    "datetime": "the runs write the same time in several ways",
    "lenient": "in any order",
    "one_of": "any of the values that the runs had",
}


def _joined(whys: Sequence[str | None]) -> str:
    return "; ".join(dict.fromkeys(why for why in whys if why is not None))


def _common(words: Sequence[RuleWord], bound: Sequence[Agreement]) -> RuleWord:
    """Return the rule for calls that need these rules; accepted values can stand for any of them."""
    needed = set(words) - {"exact"}
    if not needed:
        return "exact"
    if len(needed) > 1:
        return "one_of"
    (word,) = needed
    holds_lists = all(isinstance(value, list) for one in bound for value in one.values)
    return word if word != "lenient" or holds_lists else "one_of"


def spelled(tool: str, place: Place) -> str:
    """Write the key of a rule: a tool, an argument, and a path below it."""
    key = tool if _PLAIN.fullmatch(tool) else f"[{json.dumps(tool)}]"
    for step in place:
        if step is None:
            key += "[*]"
        elif _PLAIN.fullmatch(step):
            key += f".{step}"
        else:
            key += f"[{json.dumps(step)}]"
    return key


# A call that no run makes: the case fails until somebody has put the right calls in its place.
PLACEHOLDER = "correct_this_case"


_MAX_TRACES = 5
_CORRECTION = DraftCall(
    name=PLACEHOLDER,
    args=None,
    is_optional=False,
    why=("nobody calls this: put the calls here that would have been right",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftCase:
    """What one case expects. `case` is `None` where nothing names it, so that every run is meant."""

    case: Case | None
    calls: tuple[DraftCall, ...]
    notes: tuple[str, ...]

    @property
    def expected(self) -> tuple[DraftCall, ...]:
        """The calls that are expected."""
        return tuple(call for call in self.calls if not call.doubts)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftCriterion:
    """One criterion; several cases only where they stand in a reference file."""

    name: str
    cases: tuple[DraftCase, ...]
    rules: Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """All that goes into the files. `tools` is what the criteria look at: `writes`, globs, or all for `None`."""

    criteria: tuple[DraftCriterion, ...]
    scope: TrajectoryScope
    tools: str | tuple[str, ...] | None
    case_key: str
    runs: int
    is_promoted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slots:
    """What one case expects before it is written, with doubts beside each call."""

    case: Case | None
    slots: tuple[ExpectedSlot, ...]
    doubts: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    needs_placeholder: bool = False


def document(
    tasks: Sequence[Task],
    *,
    tools: str | tuple[str, ...] | None,
    case_key: str,
    is_promoted: bool,
    is_one_criterion: bool,
) -> Document:
    """Put together the document: one criterion for all cases, or one a case."""
    found: list[_Slots] = []
    for task in tasks:
        if is_promoted:
            case = _promoted(task.runs[0])
        else:
            slots = expected_slots(task.runs)
            case = _Slots(case=task.case, slots=slots, doubts=((),) * len(slots), notes=tuple(_notes(task, slots)))
        found.append(case)
    if is_one_criterion:
        _check_cases(found)
    runs = [run for task in tasks for run in task.runs]
    groups = [found] if is_one_criterion else [[one] for one in found]
    taken: set[str] = set()
    names = [unique(_name(one, is_promoted=is_promoted), taken) for one in found]
    if is_one_criterion:
        names = ["expected-calls"]
    criteria: list[DraftCriterion] = []
    for name, group in zip(names, groups, strict=True):
        drafter = Drafter([one.slots for one in group])
        drafts: list[DraftCase] = []
        for one in group:
            calls = (*drafter.calls(one), *((_CORRECTION,) if one.needs_placeholder else ()))
            drafts.append(DraftCase(case=one.case, calls=calls, notes=one.notes))
        criteria.append(DraftCriterion(name=name, cases=tuple(drafts), rules=drafter.rules))
    needs_placeholder = any(one.needs_placeholder for one in found)
    return Document(
        criteria=tuple(criteria),
        scope="conversation" if any(len(run.traces) > 1 for run in runs) else "trace",
        tools=(*tools, PLACEHOLDER) if isinstance(tools, tuple) and needs_placeholder else tools,
        case_key=case_key,
        runs=len(runs),
        is_promoted=is_promoted,
    )


def _promoted(run: RecordedRun) -> _Slots:
    """Take the calls of a failing run, each with the reasons why it may be wrong."""
    words = {fault: f"{fault.criterion}: {fault.explanation}" for fault in run.faults}
    keys = {call.key for call in run.calls}
    whole = dict.fromkeys(text for fault, text in words.items() if fault.call is None or fault.call not in keys)
    slots: list[ExpectedSlot] = []
    doubts: list[tuple[str, ...]] = []
    for call in run.calls:
        failure = () if call.failure is None else (call.failure,)
        faults = dict.fromkeys(text for fault, text in words.items() if fault.call == call.key)
        doubts.append((*failure, *faults))
        # A call is shown as it was made, but for secrets: a value that came from nowhere may have to be corrected.
        certain = {place: freedom for place, freedom in call.free.items() if freedom.is_certain}
        slots.append(slot_of(replace(call, free=certain) if doubts[-1] else call))
    doubted = [call for call, why in zip(run.calls, doubts, strict=True) if why]
    return _Slots(
        case=run.case if run.case is not None else f"promoted-{run.trace_id[:16]}",
        slots=tuple(slots),
        doubts=tuple(doubts),
        notes=tuple(_promotion_notes(run, whole, is_faulted=bool(whole or doubted))),
        # Nothing would be expected, or just the calls of the run.
        needs_placeholder=len(doubted) == len(slots) or all(call.failure is not None for call in doubted),
    )


def _notes(task: Task, slots: Sequence[ExpectedSlot]) -> Iterator[str]:
    """Yield the traces of a task, and doubts about them."""
    runs = task.runs
    traces = [run.trace_id for run in runs[:_MAX_TRACES]]
    more = [f"and {len(runs) - _MAX_TRACES} more"] if len(runs) > _MAX_TRACES else []
    number = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    yield f"{'' if task.case is None else f'case {task.case}: '}{number}: trace {', '.join([*traces, *more])}"
    if task.more:
        yield f"{task.more} further runs were not compared"
    for word, values in (("versions", {run.version for run in runs}), ("services", {run.service for run in runs})):
        if len(values) > 1:
            yield f"the runs are of several {word}: {', '.join(sorted(value or 'unknown' for value in values))}"
    if not slots:
        yield "the runs call none of the tools that count: a run that calls one fails"
    for criterion in sorted({fault.criterion for run in runs for fault in run.faults}):
        failing = [run for run in runs if any(fault.criterion == criterion for fault in run.faults)]
        which = f"{len(failing)} of {len(runs)} runs" if len(runs) > 1 else "the run"
        yield f"`{criterion}` fails on {which} (trace {failing[0].trace_id}): was it a good one?"


def _promotion_notes(run: RecordedRun, whole: Iterable[str], *, is_faulted: bool) -> Iterator[str]:
    moment = datetime.fromtimestamp(run.start_ns / 1e9, UTC).isoformat(timespec="seconds")
    where = [f"service {run.service}"] if run.service else []
    version = [f"version {run.version}"] if run.version else []
    yield f"promoted from a failing run: {', '.join([f'trace {run.trace_id}', moment, *where, *version])}"
    if run.case is None:
        yield "the run names no case: give the runs that are to do better the attribute of `when`, with its value"
    for text in run.inputs:
        yield f"user: {text}"
    for text in whole:
        yield f"failed: {text}"
    if not is_faulted:
        yield "no criterion fails on the run: which call is wrong has to be found by hand"


def _check_cases(found: Sequence[_Slots]) -> None:
    """Raise `RecordingError` for what a reference file cannot hold: a case without a name, or one twice."""
    seen: set[str] = set()
    for one in found:
        if one.case is None:
            raise RecordingError(
                "the runs name no case, by which a reference file is looked up",
                hint="`--key` names the attribute that does; without `--references` they become a criterion of their own",
            )
        text = case_text(one.case)
        if text in seen:
            raise RecordingError(
                f"several references would be of case `{shortened(text, 80)}`",
                hint="choose one of their runs with `--trace`",
            )
        seen.add(text)


def _name(case: _Slots, *, is_promoted: bool) -> str:
    if case.case is None:
        return "expected-calls"
    is_named = is_promoted and str(case.case).startswith("promoted-")
    return criterion_name(str(case.case) if is_named else f"expect-{case.case}")
