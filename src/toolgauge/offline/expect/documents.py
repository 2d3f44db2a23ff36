"""Tasks -> a document: for each case the expected calls and notes for people, and the rules that criteria share."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from toolgauge.model.errors import RecordingError
from toolgauge.model.trajectory import TrajectoryScope
from toolgauge.offline.convert.draft import criterion_name
from toolgauge.offline.expect.consensus import ExpectedSlot, expected_slots, slot_of
from toolgauge.offline.expect.drafts import DraftCall, Drafter, Rules
from toolgauge.offline.expect.promotion import PLACEHOLDER, Judged, judged
from toolgauge.offline.expect.runs import Case, RecordedRun, case_text
from toolgauge.offline.expect.tasks import Task
from toolgauge.report.terminal import shortened

_MAX_TRACES = 5
_CORRECTION = DraftCall(
    name=PLACEHOLDER,
    args=None,
    is_optional=False,
    why=("nobody calls this: put the calls here that would have been right",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtfulCall:
    """A call of a failing run that is not expected as it was made, and why."""

    call: DraftCall
    doubts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftCase:
    """What one case expects. `case` is `None` where nothing names it, so that every run is meant."""

    case: Case | None
    calls: tuple[DraftCall | DoubtfulCall, ...]
    notes: tuple[str, ...]

    @property
    def expected(self) -> tuple[DraftCall, ...]:
        """The calls that are expected."""
        return tuple(call for call in self.calls if isinstance(call, DraftCall))

    @property
    def doubtful(self) -> tuple[DoubtfulCall, ...]:
        """The calls that a person has to correct."""
        return tuple(call for call in self.calls if isinstance(call, DoubtfulCall))


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
    found = [_promoted(task.runs[0]) if is_promoted else _agreed(task) for task in tasks]
    if is_one_criterion:
        _check_cases(found)
    runs = [run for task in tasks for run in task.runs]
    groups = [found] if is_one_criterion else [[one] for one in found]
    names = _unique("expected-calls" if is_one_criterion else _name(one, is_promoted=is_promoted) for one in found)
    if is_one_criterion:
        names = names[:1]
    needs_placeholder = any(one.needs_placeholder for one in found)
    return Document(
        criteria=tuple(_criterion(name, group) for name, group in zip(names, groups, strict=True)),
        scope="conversation" if any(len(run.traces) > 1 for run in runs) else "trace",
        tools=(*tools, PLACEHOLDER) if isinstance(tools, tuple) and needs_placeholder else tools,
        case_key=case_key,
        runs=len(runs),
        is_promoted=is_promoted,
    )


def _agreed(task: Task) -> _Slots:
    slots = expected_slots(task.runs)
    notes = (*_origin_notes(task), *_warnings(task, slots))
    return _Slots(case=task.case, slots=slots, doubts=((),) * len(slots), notes=notes)


def _promoted(run: RecordedRun) -> _Slots:
    found = judged(run)
    return _Slots(
        case=run.case if run.case is not None else f"promoted-{run.trace_id[:16]}",
        slots=tuple(slot_of(call) for call in found.calls),
        doubts=found.doubts,
        notes=tuple(_promotion_notes(run, found)),
        needs_placeholder=found.needs_placeholder,
    )


def _criterion(name: str, cases: Sequence[_Slots]) -> DraftCriterion:
    drafter = Drafter([case.slots for case in cases])
    drafts = tuple(_case(case, drafter) for case in cases)
    return DraftCriterion(name=name, cases=drafts, rules=drafter.rules)


def _case(case: _Slots, drafter: Drafter) -> DraftCase:
    calls: list[DraftCall | DoubtfulCall] = []
    for call, doubts in zip(drafter.calls(case.slots), case.doubts, strict=True):
        calls.append(DoubtfulCall(call=call, doubts=doubts) if doubts else call)
    if case.needs_placeholder:
        calls.append(_CORRECTION)
    return DraftCase(case=case.case, calls=tuple(calls), notes=case.notes)


def _origin_notes(task: Task) -> Iterator[str]:
    runs = task.runs
    traces = [run.trace_id for run in runs[:_MAX_TRACES]]
    more = [f"and {len(runs) - _MAX_TRACES} more"] if len(runs) > _MAX_TRACES else []
    number = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    yield f"{'' if task.case is None else f'case {task.case}: '}{number}: trace {', '.join([*traces, *more])}"
    if task.more:
        yield f"{task.more} further runs were not compared"


def _warnings(task: Task, slots: Sequence[ExpectedSlot]) -> Iterator[str]:
    runs = task.runs
    for word, values in (("versions", {run.version for run in runs}), ("services", {run.service for run in runs})):
        if len(values) > 1:
            yield f"the runs are of several {word}: {', '.join(sorted(value or 'unknown' for value in values))}"
    if not slots:
        yield "the runs call none of the tools that count: a run that calls one fails"
    for criterion in sorted({fault.criterion for run in runs for fault in run.faults}):
        failing = [run for run in runs if any(fault.criterion == criterion for fault in run.faults)]
        which = f"{len(failing)} of {len(runs)} runs" if len(runs) > 1 else "the run"
        yield f"`{criterion}` fails on {which} (trace {failing[0].trace_id}): was it a good one?"


def _promotion_notes(run: RecordedRun, found: Judged) -> Iterator[str]:
    moment = datetime.fromtimestamp(run.start_ns / 1e9, UTC).isoformat(timespec="seconds")
    where = [f"service {run.service}"] if run.service else []
    version = [f"version {run.version}"] if run.version else []
    yield f"promoted from a failing run: {', '.join([f'trace {run.trace_id}', moment, *where, *version])}"
    if run.case is None:
        yield "the run names no case: give the runs that are to do better the attribute of `when`, with its value"
    for text in run.inputs:
        yield f"user: {text}"
    for text in found.whole:
        yield f"failed: {text}"
    if not found.whole and not any(found.doubts):
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
    return criterion_name(
        str(case.case) if is_promoted and str(case.case).startswith("promoted-") else f"expect-{case.case}"
    )


def _unique(names: Iterator[str]) -> list[str]:
    found: dict[str, None] = {}
    for name in names:
        number, unique = 2, name
        while unique in found:
            number, unique = number + 1, f"{name}-{number}"
        found[unique] = None
    return list(found)
