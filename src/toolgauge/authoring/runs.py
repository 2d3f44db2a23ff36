"""Chooses the runs of a recording that become references, reduced to the parts of a reference, and groups them by their task.

An attribute names the task of a run; without it, runs asked for by trace, and runs with the same input, are of one task.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal, TypeAlias

from msgspec import Struct

from toolgauge.authoring.freedoms import Freedom, Freedoms, Place, without_long_texts
from toolgauge.authoring.labels import LabelSet
from toolgauge.config.model import Config
from toolgauge.export.redact import Redactor
from toolgauge.model.errors import RecordingError
from toolgauge.model.json import JsonObject
from toolgauge.model.literals import clean
from toolgauge.model.outcomes import Reason, Result, Scorecard, Scored, unseen
from toolgauge.model.plain_words import error_words
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall, Trajectory, TrajectoryScope, recovered
from toolgauge.recordings.recorded_requests import RecordedRequest, scorecards
from toolgauge.report.terminal import shortened
from toolgauge.score.contracts import ToolKinds
from toolgauge.score.criterion import Criterion
from toolgauge.score.patterns import Globs
from toolgauge.score.selection import CUT_SHORT, readable_arguments, without_code
from toolgauge.service.pipeline_factory import offline_pipeline, redactor, tool_kinds

# Names a call in the trajectory of a trace and in that of its conversation alike.
CallKey: TypeAlias = tuple[SpanRef, str | None, str, int]
Case: TypeAlias = str | int | float | bool

_MAX_INPUTS, _MAX_INPUT = 20, 1000
_UNREAD: Mapping[Reason | None, str] = {
    "redacted": "were redacted",
    "arguments_not_recorded": "were not recorded",
    "truncated": "were cut off",
    "unparsable": "cannot be read",
}


class Fault(Struct, frozen=True, kw_only=True):
    """A failed result; `call` is `None` where it judges the whole run."""

    criterion: str
    explanation: str
    call: CallKey | None
    is_default: bool


class RecordedCall(Struct, frozen=True, kw_only=True):
    """One call of a run. `args` is `None` where `unread` names a reason; `free` are places that hold for this run only."""

    key: CallKey
    name: str
    args: JsonObject | None
    unread: str | None = None
    free: Mapping[Place, Freedom] = {}
    failure: str | None = None


class RecordedRun(Struct, frozen=True, kw_only=True):
    """One run. `case` is `None` where no attribute names its task; `traces` are the traces that it is made of."""

    trace_id: str
    conversation_id: str | None
    case: Case | None
    service: str | None
    version: str | None
    start_ns: int
    traces: tuple[str, ...]
    calls: tuple[RecordedCall, ...]
    faults: tuple[Fault, ...]
    # What the user wrote, secrets masked.
    inputs: tuple[str, ...]


def key_of(call: ToolCall) -> CallKey:
    """Name a call in any trajectory."""
    return call.span, call.call_id, call.name, call.position


def case_text(case: Case) -> str:
    """Write a case as references are looked up by it."""
    return case if isinstance(case, str) else json.dumps(case)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReader:
    """Makes recorded runs of trajectories. `counts` decides by its name whether a tool's calls are expected."""

    counts: Callable[[str], bool]
    kinds: ToolKinds
    redactor: Redactor
    case_key: str

    def case_of(self, trajectory: Trajectory) -> Case | None:
        """Return the task of a run; `None` where no attribute names it."""
        return trajectory.attributes.get(self.case_key)

    def read(self, trajectory: Trajectory, traces: Sequence[str], faults: Sequence[Fault]) -> RecordedRun:
        """Make a recorded run."""
        texts = [message.text for message in trajectory.messages if message.role == "user"]
        texts = texts or [run.prompt for run in trajectory.runs if run.prompt and run.above is None]
        # The root of a run repeats the last text: of equal texts the last one counts.
        inputs = list(dict.fromkeys(reversed(texts)))[::-1][:_MAX_INPUTS]
        masked, version = self.redactor.masked, trajectory.resource.get("service.version")
        return RecordedRun(
            trace_id=trajectory.trace_id,
            conversation_id=trajectory.conversation_id,
            case=self.case_of(trajectory),
            service=None if trajectory.service is None else masked(trajectory.service),
            version=None if version is None else masked(version),
            start_ns=trajectory.start_ns,
            traces=tuple(traces),
            calls=tuple(self._calls(trajectory)),
            faults=tuple(faults),
            inputs=tuple(masked(text)[:_MAX_INPUT] for text in inputs),
        )

    def faults(self, results: Sequence[Result]) -> Iterator[Fault]:
        """Yield the results of a trajectory that failed."""
        for result in results:
            if isinstance(result.outcome, Scored) and result.outcome.passed is False:
                yield Fault(
                    criterion=result.criterion,
                    explanation=self.redactor.explain(result.outcome),
                    call=None if result.call is None else key_of(result.call),
                    is_default=result.criterion.startswith("default."),
                )

    def gap(self, trajectory: Trajectory) -> str | None:
        """Return the reason why a run cannot stand for others; `None` where all of it was recorded and can be written."""
        if trajectory.incomplete is not None:
            return f"it is not whole: {trajectory.incomplete}"
        if trajectory.closed_because in CUT_SHORT:
            return f"it was cut short ({trajectory.closed_because})"
        if trajectory.hidden_turns:
            return f"{trajectory.hidden_turns} of its model calls asked for tools, and which ones was not recorded"
        case = self.case_of(trajectory)
        if case is not None and not self._is_plain(str(case)):
            return "its case looks like a secret or an address"
        names = {call.name for call in without_code(trajectory).calls if self.counts(call.name)}
        return None if all(map(self._is_plain, names)) else "it calls a tool whose name cannot be written"

    def _is_plain(self, name: str) -> bool:
        return bool(name) and clean(name) == self.redactor.masked(name) == name

    def _calls(self, trajectory: Trajectory) -> Iterator[RecordedCall]:
        freedoms = Freedoms(trajectory, self.redactor)
        for call in without_code(trajectory).calls:
            freedoms.before(call)
            if self.counts(call.name):
                failure = "it was rejected" if call.has_failed else None
                if call.has_failed and call.error is not None:
                    kind = error_words(call.error.kind)
                    failure = "it failed" if kind == "failed" else f"it failed with {self.redactor.masked(kind)}"
                args = readable_arguments(call)
                if args is None:
                    reason = unseen(call.arguments, "arguments_not_recorded")
                    unread = f"its arguments {_UNREAD.get(reason, 'are no object')}"
                else:
                    unread = freedoms.too_much(args)
                free: Mapping[Place, Freedom] = {}
                if args is not None and unread is None:
                    free = freedoms.of(call, args)
                    args = {name: without_long_texts(value) for name, value in args.items()}
                yield RecordedCall(
                    key=key_of(call),
                    name=call.name,
                    args=args if unread is None else None,
                    unread=unread,
                    free=free,
                    failure=failure,
                )
            if self.kinds.writes(call.name) and not call.has_failed:
                freedoms.note_made(call)


MAX_RUNS = 50
MAX_TASKS = 10_000
_MAX_SHOWN, _MAX_TRACES, _SHOWN_LENGTH = 10, 200_000, 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The runs to take: good ones, or `only_failing` ones; labels decide that where there are any.

    `tools` are the calls that are expected: `writes`, names and globs, or all for `None`. `case_key` names the task of a run.
    """

    scope: TrajectoryScope
    tools: Literal["writes"] | tuple[str, ...] | None = "writes"
    case_key: str = "eval.case.id"
    traces: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    only_failing: bool = False
    labels: tuple[LabelSet, ...] = ()


@dataclass(slots=True)
class Task:
    """Runs that are to do the same. `case` is `None` where no attribute names it."""

    case: Case | None
    runs: list[RecordedRun] = field(default_factory=list[RecordedRun])
    # The number of further runs, which are not compared.
    more: int = 0


class Chooser:
    """Picks runs among the scorecards of a recording, which pass the `required` criteria.

    `left_out` names the runs that cannot stand for others, with the reasons.
    """

    def __init__(self, reader: RunReader, choice: Choice, required: frozenset[str]) -> None:
        self.left_out: list[str] = []
        self.count_left_out = 0
        self._reader = reader
        self._choice = choice
        self._required = required
        self._globs = Globs(choice.cases) if choice.cases else None
        # The wanted traces that were not seen yet.
        self.missing = set(choice.traces)
        # The traces and faults of conversations that have not closed.
        self._open: dict[str, tuple[list[str], list[Fault]]] = {}
        self._traces: dict[str, None] = {}
        self._cases: dict[Case, None] = {}
        self._tasks: dict[tuple[str, object], Task] = {}
        self._seen = 0

    def add(self, scorecard: Scorecard) -> None:
        """Take a scorecard; each trace comes before its conversation."""
        trajectory = scorecard.trajectory
        for labels in self._choice.labels:
            labels.add_attribute(trajectory)
        faults = list(self._reader.faults(scorecard.results))
        conversation = trajectory.conversation_id
        if trajectory.scope == "conversation":
            if self._choice.scope == "conversation" and conversation is not None:
                traces, earlier = self._open.pop(conversation, ((), ()))
                self._consider(trajectory, traces or [trajectory.trace_id], [*earlier, *faults])
            return
        if len(self._traces) < _MAX_TRACES:
            self._traces[trajectory.trace_id] = None
        if self._choice.scope == "conversation" and conversation is not None:
            traces, earlier = self._open.setdefault(conversation, ([], []))
            traces.append(trajectory.trace_id)
            earlier += faults
            return
        self._consider(trajectory, [trajectory.trace_id], faults)

    def tasks(self) -> list[Task]:
        """Return the tasks in the order in which they were first seen; raise `RecordingError` without any task."""
        if self.missing:
            trace = min(self.missing)
            near = get_close_matches(trace, self._traces, n=3)
            hint = "`toolgauge check --calls` lists the traces of a recording"
            if near:
                hint = f"there is {', '.join(f'`{one}`' for one in near[:3])}"
            raise RecordingError(f"no trace `{shortened(trace, _SHOWN_LENGTH)}` in the recording", hint=hint)
        for task in self._tasks.values():
            # Raise `RecordingError` where parts of one run would be taken for several runs of a task.
            seen: dict[str, str] = {}
            for run in task.runs:
                if run.conversation_id is None:
                    continue
                other = seen.setdefault(run.conversation_id, run.trace_id)
                if other != run.trace_id:
                    raise RecordingError(
                        f"traces `{other}` and `{run.trace_id}` are parts of one conversation, and no two runs of a task",
                        hint="`--scope conversation` takes the whole conversation as one run",
                    )
        unnamed = self._unnamed()
        named = [task for task in self._tasks.values() if task.case is not None]
        if named and not self._choice.traces:
            for task in unnamed:
                self._leave_out(task.runs[0].trace_id, "no attribute names its task, as for others")
            return named
        if len(unnamed) > 1:
            lines = ["the users of these runs wrote different texts, and no attribute names the tasks:"]
            for run in (task.runs[0] for task in unnamed[:_MAX_SHOWN]):
                words = (
                    f': "{shortened(run.inputs[0], _SHOWN_LENGTH)}"' if run.inputs else ", whose input was not recorded"
                )
                lines.append(f"trace {run.trace_id}{words}")
            raise RecordingError(
                "\n  ".join([*lines, "..."] if len(unnamed) > _MAX_SHOWN else lines),
                hint="name the runs of one task with `--trace ID --trace ID`, or the attribute that names tasks with `--key`",
            )
        if not self._tasks:
            raise self._nothing()
        return list(self._tasks.values())

    def _consider(self, trajectory: Trajectory, traces: Sequence[str], faults: Sequence[Fault]) -> None:
        self._seen += 1
        choice, case = self._choice, self._reader.case_of(trajectory)
        asked = {each for each in choice.traces if any(trace.startswith(each) for trace in traces)}
        if choice.traces and not asked:
            return
        self.missing -= asked
        if case is not None and len(self._cases) < MAX_TASKS:
            self._cases[case] = None
        if self._globs is not None and (case is None or not self._globs.match(case_text(case))):
            return
        why = self._why_not(trajectory, traces, faults, is_asked=bool(asked))
        if why is not None:
            self._leave_out(trajectory.trace_id, why)
            return
        if case is None and len(self._unnamed()) > _MAX_SHOWN:
            # A message names so many at most.
            return
        task = None if case is None else self._tasks.get(_key_of_case(case))
        if task is None or len(task.runs) < MAX_RUNS:
            run = self._reader.read(trajectory, traces, faults)
            if choice.only_failing:
                # A failing run says nothing about another one.
                key: tuple[str, object] = ("run", run.trace_id)
            elif run.case is not None:
                key = _key_of_case(run.case)
            else:
                key = ("asked", None) if choice.traces else ("input", run.inputs or run.trace_id)
            if key not in self._tasks and len(self._tasks) >= MAX_TASKS:
                raise RecordingError(
                    f"the recording holds runs of more than {MAX_TASKS} tasks",
                    hint="choose some with `--case` or `--trace`",
                )
            task = self._tasks.setdefault(key, Task(run.case))
            if len(task.runs) < MAX_RUNS:
                task.runs.append(run)
                return
        task.more += 1

    def _why_not(
        self, trajectory: Trajectory, traces: Sequence[str], faults: Sequence[Fault], *, is_asked: bool
    ) -> str | None:
        """Return why a run is left out; `None` for one that is kept."""
        if (gap := self._reader.gap(trajectory)) is not None:
            return gap
        if not trajectory.calls and not is_asked and self._reader.case_of(trajectory) is None:
            return "it has no tool call"
        if self._choice.labels:
            if (contrary := self._contrary_label(trajectory, traces)) is not None:
                return contrary
        elif self._choice.only_failing and not is_asked and not faults:
            return "no criterion fails on it"
        if self._choice.only_failing:
            return None
        # Failed calls do not count in a reference, and a run that made them good may be a good one.
        orders = recovered(trajectory)
        made_good = {key_of(call) for call in trajectory.calls if call.order in orders}
        counted = (one for one in faults if not (one.is_default and one.call in made_good))
        failed = next((fault.criterion for fault in counted if fault.criterion in self._required), None)
        return None if failed is None else f"it fails `{failed}`"

    def _contrary_label(self, trajectory: Trajectory, traces: Sequence[str]) -> str | None:
        """Return how the labels speak against a run; `None` where they are as it has to be."""
        conversation, comes_first = trajectory.conversation_id, trajectory.scope == "conversation"
        verdicts = {
            labels.verdicts.get(label) if label is not None else None
            for labels in self._choice.labels
            for label in (labels.label_of(trace, conversation, conversation_first=comes_first) for trace in traces)
        } - {None}
        if not verdicts:
            return "it has no label"
        if len(verdicts) > 1:
            return "its labels differ"
        has_failed = verdicts == {False}
        if has_failed is self._choice.only_failing:
            return None
        return f"its label is `{'failed' if has_failed else 'passed'}`"

    def _unnamed(self) -> list[Task]:
        if self._choice.only_failing or self._choice.traces:
            return []
        return [task for task in self._tasks.values() if task.case is None]

    def _leave_out(self, trace_id: str, why: str) -> None:
        self.count_left_out += 1
        if len(self.left_out) < _MAX_SHOWN:
            self.left_out.append(f"trace {trace_id}: {why}")

    def _nothing(self) -> RecordingError:
        if self.left_out:
            return RecordingError("\n  ".join(["no run of the recording can be a reference:", *self.left_out]))
        if not self._seen:
            hint = "`toolgauge doctor` shows what was read and what was not"
            return RecordingError("the recording holds no trajectory", hint=hint)
        known, asked = [case_text(case) for case in self._cases], self._choice.cases[0]
        near = get_close_matches(asked, known, n=3) or known[:3]
        hint = f"there is {', '.join(f'`{shortened(one, _SHOWN_LENGTH)}`' for one in near)}" if near else None
        return RecordingError(f"no run of a case `{shortened(asked, _SHOWN_LENGTH)}`", hint=hint)


def _key_of_case(case: Case) -> tuple[str, object]:
    return "case", (type(case).__name__, case)


def with_runs_put_together(scope: TrajectoryScope, overrides: Sequence[str]) -> tuple[str, ...]:
    """Return what to set so that runs arrive whole: conversations are put together where a criterion is for them."""
    return (f"defaults.scope={scope}", *overrides, "defaults.enabled=true", "defaults.tool_use=true")


def choose_runs(
    recording: Iterable[RecordedRequest], choice: Choice, config: Config, criteria: Sequence[Criterion]
) -> Chooser:
    """Take the runs of a recording that are asked for. They have to pass the criteria that people wrote, else the default ones."""
    required = frozenset(criterion.name for criterion in criteria if not criterion.is_default)
    if not required and not choice.labels:
        required = frozenset(criterion.name for criterion in criteria)
    kinds, tools = tool_kinds(config), choice.tools
    counts = bool if tools is None else Globs(tools).match if isinstance(tools, tuple) else kinds.writes
    reader = RunReader(counts=counts, kinds=kinds, redactor=redactor(config), case_key=choice.case_key)
    keys = (choice.case_key, *(labels.name for labels in choice.labels if labels.is_attribute))
    chooser = Chooser(reader, choice, required)
    for scorecard in scorecards(recording, offline_pipeline(config, criteria, attributes=keys)):
        chooser.add(scorecard)
        if choice.traces and not chooser.missing:
            # No later run can be asked for.
            break
    return chooser
