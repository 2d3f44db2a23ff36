"""Makes a document of tasks and writes it: a criteria file with comments, and the lines of a reference file.

An argument that no call expects gets the rule `ignore`, one that some leave free `volatile`. Faulted calls are left out.
The text is safe for any name and value of a span.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from textwrap import wrap

from msgspec.structs import replace as with_fields

from toolgauge.authoring.consensus import Agreement, ExpectedSlot, RuleWord, expected_slot, expected_slots, without
from toolgauge.authoring.convert.draft import criterion_name, unique
from toolgauge.authoring.criteria_yaml import yaml_key, yaml_line
from toolgauge.authoring.freedoms import Place
from toolgauge.authoring.runs import Case, RecordedRun, Task, case_text
from toolgauge.model.errors import RecordingError
from toolgauge.model.json import JsonObject
from toolgauge.model.trajectory import TrajectoryScope
from toolgauge.report.terminal import counted, shortened
from toolgauge.score.selection import first_names

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
# The longest key of a rule, and the characters that a name in `volatile` cannot have.
_MAX_KEY = 160
_WILD = frozenset("*?")
_REASONS: Mapping[str, str] = {
    "casefold": "the runs differ in upper and lower case",
    "datetime": "the runs write the same time in several ways",
    "lenient": "in any order",
    "one_of": "any of the values that the runs had",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftCase:
    """The calls of one case. `case` is `None` where nothing names it, so that every run is meant."""

    case: Case | None
    notes: tuple[str, ...]
    calls: tuple[ExpectedSlot, ...]

    @property
    def expected(self) -> tuple[ExpectedSlot, ...]:
        """The calls that are expected."""
        return tuple(call for call in self.calls if not call.doubts)


class DraftCriterion:
    """One criterion with its cases, several only where a reference file holds them. Rules are for the calls of all cases.

    `arguments` are the rules that all calls share, each with its reason; `volatile` are arguments that some calls leave free.
    """

    def __init__(self, name: str, cases: Sequence[DraftCase]) -> None:
        self.name = name
        self.arguments: dict[str, tuple[RuleWord | str, str]] = {}
        self.volatile: dict[str, str] = {}
        self._unspelled: set[str] = set()
        self._words: dict[tuple[str, str], RuleWord] = {}
        self._ignored: dict[tuple[str, str], set[Place]] = {}
        by_argument: dict[tuple[str, str], list[Agreement]] = {}
        for slot in chain.from_iterable(one.calls for one in cases):
            for name, found in (slot.arguments or {}).items():
                by_argument.setdefault((slot.name, name), []).append(found)
        for (tool, name), found in by_argument.items():
            self._decide(tool, name, found)
        self.cases = tuple([replace(one, calls=tuple(self._calls(one.calls))) for one in cases])

    def _calls(self, slots: Sequence[ExpectedSlot]) -> Iterator[ExpectedSlot]:
        """Yield the calls of one case."""
        for slot in slots:
            args: JsonObject | None = None
            why = slot.why
            if slot.arguments is not None and slot.name in self._unspelled:
                why = (*why, "any arguments: their names cannot be written in a rule")
            elif slot.arguments is not None:
                args = {}
                for name, found in slot.arguments.items():
                    ignored = self._ignored[slot.name, name]
                    if found.why_free is not None and (name,) not in ignored:
                        why = (*why, f"free: {name} ({found.why_free})")
                    elif (name,) not in ignored:
                        values = [without(value, (name,), ignored) for value in found.values]
                        args[name] = values if self._words[slot.name, name] == "one_of" else values[0]
            yield replace(slot, args=args, why=why)

    def _decide(self, tool: str, name: str, found: Sequence[Agreement]) -> None:
        """Find the rules for one argument of one tool, in all its calls."""
        whys = _joined([one.why_free for one in found])
        bound = [one for one in found if one.why_free is None]
        glob = f"{tool}.{name}"
        if bound and whys and not _WILD.isdisjoint(glob):
            # A glob cannot be written as a plain name: free in one call is then free in all.
            bound = []
        word = _common(bound)
        places = {place for one in bound for place in one.why}
        if word == "one_of" and places:
            # Accepted values are compared as a whole: a place within one of them cannot be left free.
            bound, whys = [], "differs from run to run"
        if not bound:
            self._rule(tool, (name,), "ignore", whys)
            self._ignored[tool, name] = {(name,)}
            return
        if whys:
            self.volatile[glob] = whys
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
        """Keep a rule under its key: a tool, an argument, and a path below it."""
        key = tool if _PLAIN.fullmatch(tool) else f"[{json.dumps(tool)}]"
        for step in place:
            if step is None:
                key += "[*]"
            else:
                key += f".{step}" if _PLAIN.fullmatch(step) else f"[{json.dumps(step)}]"
        if len(key) > _MAX_KEY:
            self._unspelled.add(tool)
        else:
            self.arguments[key] = (word, why)


def _joined(whys: Sequence[str | None]) -> str:
    return "; ".join(dict.fromkeys(why for why in whys if why is not None))


def _common(bound: Sequence[Agreement]) -> RuleWord:
    """Return the rule that holds for all calls; accepted values can stand for any other rule."""
    needed: set[RuleWord] = {one.rules[one.place] for one in bound if one.place in one.rules}
    if not needed:
        return "exact"
    word = needed.pop()
    holds_lists = all(isinstance(value, list) for one in bound for value in one.values)
    return "one_of" if needed or (word == "lenient" and not holds_lists) else word


# A call that no run makes: the case fails until somebody has put the right calls in its place.
PLACEHOLDER = "correct_this_case"
_CORRECTION = ExpectedSlot(
    name=PLACEHOLDER,
    arguments=None,
    why=("nobody calls this: put the calls here that would have been right",),
)
_MAX_TRACES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The content of the files. `tools` is what the criteria look at: `writes`, globs, or all for `None`."""

    criteria: tuple[DraftCriterion, ...]
    scope: TrajectoryScope
    tools: str | tuple[str, ...] | None
    case_key: str
    runs: int
    is_promoted: bool


def document(
    tasks: Sequence[Task],
    *,
    tools: str | tuple[str, ...] | None,
    case_key: str,
    is_promoted: bool,
    is_one_criterion: bool,
) -> Document:
    """Put together the document: one criterion for all cases, or one a case."""
    cases: list[DraftCase] = []
    for task in tasks:
        if is_promoted:
            cases.append(_promoted(task.runs[0]))
        else:
            slots = expected_slots(task.runs)
            cases.append(DraftCase(case=task.case, notes=tuple(_notes(task, slots)), calls=slots))
    if is_one_criterion:
        _check_cases([one.case for one in cases])
        groups = [("expected-calls", cases)]
    else:
        taken: set[str] = set()
        groups = [(unique(_name(one.case, is_promoted=is_promoted), taken), [one]) for one in cases]
    runs = [run for task in tasks for run in task.runs]
    needs_placeholder = any(_CORRECTION in one.calls for one in cases)
    return Document(
        criteria=tuple([DraftCriterion(name, group) for name, group in groups]),
        scope="conversation" if any(len(run.traces) > 1 for run in runs) else "trace",
        tools=(*tools, PLACEHOLDER) if isinstance(tools, tuple) and needs_placeholder else tools,
        case_key=case_key,
        runs=len(runs),
        is_promoted=is_promoted,
    )


def _promoted(run: RecordedRun) -> DraftCase:
    """Take the calls of a failing run, each with the reasons why it may be wrong."""
    words = {fault: f"{fault.criterion}: {fault.explanation}" for fault in run.faults}
    keys = {call.key for call in run.calls}
    whole = dict.fromkeys(text for fault, text in words.items() if fault.call is None or fault.call not in keys)
    slots: list[ExpectedSlot] = []
    for call in run.calls:
        doubts = () if call.failure is None else (call.failure,)
        doubts = (*doubts, *dict.fromkeys(text for fault, text in words.items() if fault.call == call.key))
        # A call is shown as it was made, but for secrets: a value that came from nowhere may have to be corrected.
        certain = {place: freedom for place, freedom in call.free.items() if freedom.is_certain}
        made = expected_slot(call.name, [with_fields(call, free=certain) if doubts else call], 1)
        slots.append(replace(made, doubts=doubts))
    doubted = [call for call, slot in zip(run.calls, slots, strict=True) if slot.doubts]
    # Nothing would be expected, or just the calls of the run.
    if len(doubted) == len(slots) or all(call.failure is not None for call in doubted):
        slots.append(_CORRECTION)
    moment = datetime.fromtimestamp(run.start_ns / 1e9, UTC).isoformat(timespec="seconds")
    where = [f"{word} {name}" for word, name in (("service", run.service), ("version", run.version)) if name]
    notes = [f"promoted from a failing run: {', '.join([f'trace {run.trace_id}', moment, *where])}"]
    if run.case is None:
        notes.append(
            "the run names no case: give the runs that are to do better the attribute of `when`, with its value"
        )
    notes += [f"user: {text}" for text in run.inputs]
    notes += [f"failed: {text}" for text in whole]
    if not whole and not doubted:
        notes.append("no criterion fails on the run: which call is wrong has to be found by hand")
    case = run.case if run.case is not None else f"promoted-{run.trace_id[:16]}"
    return DraftCase(case=case, notes=tuple(notes), calls=tuple(slots))


def _notes(task: Task, slots: Sequence[ExpectedSlot]) -> Iterator[str]:
    """Yield the traces of a task, and doubts about them."""
    runs = task.runs
    traces = first_names([run.trace_id for run in runs], _MAX_TRACES)
    yield f"{'' if task.case is None else f'case {task.case}: '}{counted(len(runs), 'run')}: trace {traces}"
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


def _check_cases(cases: Sequence[Case | None]) -> None:
    """Raise `RecordingError` for a case without a name, or a name twice: a reference file cannot hold either."""
    seen: set[str] = set()
    for case in cases:
        if case is None:
            raise RecordingError(
                "the runs name no case, by which a reference file is looked up",
                hint="`--key` names the attribute that does; without `--references` they become a criterion of their own",
            )
        text = case_text(case)
        if text in seen:
            raise RecordingError(
                f"several references would be of case `{shortened(text, 80)}`",
                hint="choose one of their runs with `--trace`",
            )
        seen.add(text)


def _name(case: Case | None, *, is_promoted: bool) -> str:
    if case is None:
        return "expected-calls"
    is_named = is_promoted and str(case).startswith("promoted-")
    return criterion_name(str(case) if is_named else f"expect-{case}")


_COMMENT_LENGTH, _WIDTH = 1000, 110
_STEP = "  "


def criteria_lines(document: Document, references: str | None) -> Iterator[str]:
    """Yield the lines of a criteria file; `references` is the path of the file that holds the expected calls."""
    yield from _comments(
        f"Written by `toolgauge expect` from {counted(document.runs, 'run')}. It holds values of recorded runs: read it before you share it."
    )
    if document.is_promoted:
        yield from _comments(
            "A failing run is no reference: correct each call that is marked CORRECT. Until then the case fails."
        )
    yield "criteria:"
    for criterion in document.criteria:
        for case in criterion.cases if references is None else ():
            yield from _indented(chain.from_iterable(map(_comments, case.notes)), 1)
        yield f"{_STEP}- name: {criterion.name}"
        yield from _indented(_keys(document, criterion, references), 2)


def reference_lines(document: Document) -> Iterator[str]:
    """Yield the lines of a reference file."""
    for case in chain.from_iterable(criterion.cases for criterion in document.criteria):
        # Only cases with a name are in a reference file.
        name = case_text("" if case.case is None else case.case)
        line: JsonObject = {"case": name, "expected": [call.as_json() for call in case.expected]}
        # The notes that a criteria file has as comments.
        notes = [shortened(note, _COMMENT_LENGTH) for note in case.notes]
        for call in case.calls:
            if call.doubts:
                doubts = shortened(f"CORRECT: {', '.join(call.doubts)}", _COMMENT_LENGTH)
                notes.append(f"{doubts}: {json.dumps(call.as_json())}")
            elif call.why:
                notes.append(shortened(f"{call.name}: {', '.join(call.why)}", _COMMENT_LENGTH))
        if notes:
            line["note"] = "; ".join(notes)
        yield json.dumps(line)


def _keys(document: Document, criterion: DraftCriterion, references: str | None) -> Iterator[str]:
    yield "evaluator: tool_call_f1"
    case = criterion.cases[0]
    if references is None and case.case is None:
        yield _comment("every run is held against this: a `when` names those that are meant")
    elif references is None:
        yield f"when: {yaml_line({'attributes': {document.case_key: case.case}})}"
    if document.scope == "conversation":
        yield "scope: conversation"
    if document.tools is not None:
        tools = document.tools if isinstance(document.tools, str) else yaml_line(document.tools)
        yield f"tools: {tools}"
    if not isinstance(document.tools, str):
        yield "failed_calls: ignore"
    if references is None:
        yield "expected:" if case.expected else "expected: []"
        for call in case.calls:
            yield from _indented(chain.from_iterable(_comments(f"CORRECT: {doubt}") for doubt in call.doubts), 1)
            mark = "# " if call.doubts else ""
            yield from _indented((f"{mark}{line}" for line in _call(call)), 1)
    else:
        yield f"reference: {yaml_line({'file': references, 'key': document.case_key})}"
    if criterion.arguments:
        yield "arguments:"
        for place, (word, why) in sorted(criterion.arguments.items()):
            yield f"{_STEP}{yaml_key(place)}: {word}  {_comment(why)}"
    if criterion.volatile:
        yield "volatile:"
        for glob, why in sorted(criterion.volatile.items()):
            yield f"{_STEP}- {yaml_line(glob)}  {_comment(f'where it is not expected: {why}')}"


def _call(call: ExpectedSlot) -> Iterator[str]:
    yield from chain.from_iterable(map(_comments, call.why))
    yield f"- name: {yaml_line(call.name)}"
    if call.args is not None:
        yield f"{_STEP}args:" if call.args else f"{_STEP}args: {{}}"
        yield from (f"{_STEP * 2}{yaml_key(name)}: {yaml_line(value)}" for name, value in call.args.items())
    if call.is_optional:
        yield f"{_STEP}optional: true"


def _comment(text: str) -> str:
    """Write a comment behind something else."""
    return f"# {shortened(text, _WIDTH)}"


def _comments(text: str) -> Iterator[str]:
    """Yield the lines of a comment by itself."""
    lines = wrap(shortened(text, _COMMENT_LENGTH), _WIDTH, subsequent_indent=_STEP)
    return (f"# {line}" for line in lines)


def _indented(lines: Iterator[str], depth: int) -> Iterator[str]:
    return (f"{_STEP * depth}{line}" for line in lines)
