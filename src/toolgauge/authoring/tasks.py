"""Chooses the runs of a recording that become references, and groups them by their task.

An attribute names the task of a run; without it, runs asked for by trace, and runs with the same input, are of one task.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from toolgauge.authoring.labels import LabelSet
from toolgauge.authoring.runs import Case, Fault, RecordedRun, RunReader, case_text, key_of, not_whole
from toolgauge.config.model import Config
from toolgauge.model.errors import RecordingError
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.trajectory import Trajectory, TrajectoryScope, recovered
from toolgauge.recordings.recorded_requests import RecordedRequest, scorecards
from toolgauge.report.terminal import shortened
from toolgauge.score.criterion import Criterion
from toolgauge.score.patterns import Globs
from toolgauge.service.pipeline_factory import offline_pipeline, redactor, tool_kinds

MAX_RUNS = 50
MAX_TASKS = 10_000
_MAX_SHOWN, _MAX_TRACES, _SHOWN_LENGTH = 10, 200_000, 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The runs to take: those that pass `required`, or `only_failing` ones; labels decide that where there are any."""

    scope: TrajectoryScope
    traces: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    required: frozenset[str] = frozenset()
    only_failing: bool = False
    labels: LabelSet | None = None
    # Those of an attribute; they come with the traces.
    label_attribute: LabelSet | None = None
    label_pass_at: float | None = None

    @property
    def label_sets(self) -> tuple[LabelSet, ...]:
        """All labels."""
        return tuple(labels for labels in (self.labels, self.label_attribute) if labels is not None)


@dataclass(slots=True)
class Task:
    """Runs that are to do the same. `case` is `None` where no attribute names it."""

    case: Case | None
    runs: list[RecordedRun] = field(default_factory=list[RecordedRun])
    # Runs beyond those that are compared.
    more: int = 0


class Chooser:
    """Picks runs among the scorecards of a recording. `left_out` names those that cannot stand for others, and why."""

    def __init__(self, reader: RunReader, choice: Choice) -> None:
        self.left_out: list[str] = []
        self.count_left_out = 0
        self._reader = reader
        self._choice = choice
        self._globs = Globs(choice.cases) if choice.cases else None
        self._missing = set(choice.traces)
        # The traces and faults of conversations that have not closed.
        self._open: dict[str, tuple[list[str], list[Fault]]] = {}
        self._traces: dict[str, None] = {}
        self._cases: dict[Case, None] = {}
        self._tasks: dict[tuple[str, object], Task] = {}
        self._seen = 0

    @property
    def is_done(self) -> bool:
        """Whether nothing that may come could be asked for."""
        return bool(self._choice.traces) and not self._missing

    def add(self, scorecard: Scorecard) -> None:
        """Take a scorecard; each trace comes before its conversation."""
        trajectory = scorecard.trajectory
        if self._choice.label_attribute is not None:
            self._choice.label_attribute.add_attribute(trajectory, self._choice.label_pass_at)
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
        """Return the tasks in the order in which they were first seen; raise `RecordingError` where there is none."""
        if self._missing:
            trace = min(self._missing)
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
        self._missing -= asked
        if case is not None and len(self._cases) < MAX_TASKS:
            self._cases[case] = None
        if self._globs is not None and (case is None or not self._globs.match(case_text(case))):
            return
        why = self._why_not(trajectory, traces, faults, is_asked=bool(asked))
        if why is not None:
            self._leave_out(trajectory.trace_id, why)
            return
        if case is None and len(self._unnamed()) > _MAX_SHOWN:
            # They are named in a message at most.
            return
        task = None if case is None else self._tasks.get(_key_of_case(case))
        if task is None or len(task.runs) < MAX_RUNS:
            run = self._reader.read(trajectory, traces, faults)
            key: tuple[str, object] = ("input", run.inputs or run.trace_id)
            if self._choice.only_failing:
                # A failing run says nothing about another one.
                key = ("run", run.trace_id)
            elif run.case is not None:
                key = _key_of_case(run.case)
            elif self._choice.traces:
                key = ("asked", None)
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
        if (gap := not_whole(trajectory) or self._reader.unwritable(trajectory)) is not None:
            return gap
        if not trajectory.calls and not is_asked and self._reader.case_of(trajectory) is None:
            return "it has no tool call"
        if self._choice.label_sets:
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
        failed = next((fault.criterion for fault in counted if fault.criterion in self._choice.required), None)
        return None if failed is None else f"it fails `{failed}`"

    def _contrary_label(self, trajectory: Trajectory, traces: Sequence[str]) -> str | None:
        """Return how the labels speak against a run; `None` where they are as it has to be."""
        verdicts, comes_first = set[bool](), trajectory.scope == "conversation"
        for labels in self._choice.label_sets:
            for trace in traces:
                label = labels.label_of(trace, trajectory.conversation_id, conversation_first=comes_first)
                verdict = None if label is None else labels.verdicts[label]
                verdicts |= set() if verdict is None else {verdict}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Which calls are expected: `tools` is `writes`, names and globs, or `None` for all. `case_key` names the task of a run."""

    tools: str | tuple[str, ...] | None = "writes"
    case_key: str = "eval.case.id"

    def matcher(self, config: Config) -> Callable[[str], bool]:
        """Return what decides by its name whether a tool's calls are expected."""
        if self.tools is None:
            return bool
        return Globs(self.tools).match if isinstance(self.tools, tuple) else tool_kinds(config).writes


def with_runs_put_together(scope: TrajectoryScope, overrides: Sequence[str]) -> tuple[str, ...]:
    """Return what to set so that runs arrive whole: conversations are put together where a criterion is for them."""
    return (f"defaults.scope={scope}", *overrides, "defaults.enabled=true", "defaults.tool_use=true")


def choose_runs(
    recording: Iterable[RecordedRequest],
    choice: Choice,
    counted: Counted,
    config: Config,
    criteria: Sequence[Criterion],
) -> Chooser:
    """Take the runs of a recording that are asked for. They have to pass the criteria that people wrote, else the default ones."""
    required = frozenset(criterion.name for criterion in criteria if not criterion.is_default)
    if not required and not choice.label_sets:
        required = frozenset(criterion.name for criterion in criteria)
    counts, masks = counted.matcher(config), redactor(config)
    reader = RunReader(counts=counts, kinds=tool_kinds(config), redactor=masks, case_key=counted.case_key)
    labels = () if choice.label_attribute is None else (choice.label_attribute.name,)
    chooser = Chooser(reader, replace(choice, required=required))
    make = offline_pipeline(config, criteria, attributes=(counted.case_key, *labels))
    for scorecard in scorecards(recording, make):
        chooser.add(scorecard)
        if chooser.is_done:
            break
    return chooser
