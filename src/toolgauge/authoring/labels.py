"""Labels: people's verdicts on runs, by trace and by conversation, and the CSV files with them."""

import csv
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from io import StringIO
from itertools import islice
from pathlib import Path

from toolgauge.config.parse import read_file
from toolgauge.model.errors import ConfigError
from toolgauge.model.feedback import PLAIN_VERDICTS, Feedback, FeedbackSink, verdict_of
from toolgauge.model.trajectory import Trajectory
from toolgauge.report.terminal import printable, shortened
from toolgauge.score.selection import first_notes

_TRACE, _CONVERSATION, _VERDICT = "trace_id", "conversation_id", "verdict"
_SHOWN_PROBLEMS, _SHOWN_LENGTH, _MOST_NAMES = 10, 80, 20
_OTHER = "_other"


@dataclass(frozen=True, slots=True)
class Labelled:
    """The trace or the conversation that a verdict is on."""

    is_conversation: bool
    id: str

    def __str__(self) -> str:
        kind = "conversation" if self.is_conversation else "trace"
        return f"{kind} `{shortened(self.id, _SHOWN_LENGTH)}`"


@dataclass(slots=True)
class LabelSet:
    """The verdicts of one source, by the name it has in reports; `None` where it gave different ones."""

    name: str
    verdicts: dict[Labelled, bool | None] = field(default_factory=dict[Labelled, bool | None])
    # The number of values that cannot be read as verdicts, and the first such value.
    unread: int = 0
    first_unread: str = ""
    # Whether the verdict on a trace is in the attribute that has this name; numbers pass from `pass_at` on.
    is_attribute: bool = False
    pass_at: float | None = None

    def add(self, labelled: Labelled, *, passed: bool) -> None:
        """Keep a verdict; one that differs from an earlier one leaves none."""
        self.verdicts[labelled] = passed if self.verdicts.get(labelled, passed) == passed else None

    def add_attribute(self, trajectory: Trajectory) -> None:
        """Take the verdict on a trace from its attribute, if this set reads labels from one."""
        value = trajectory.attributes.get(self.name, trajectory.resource.get(self.name))
        if value is None or trajectory.scope != "trace" or not self.is_attribute:
            return
        labelled = Labelled(is_conversation=False, id=trajectory.trace_id)
        self.add_value(labelled, str(value), passed=verdict_of(value, self.pass_at))

    def add_feedback(self, feedback: Feedback) -> None:
        """Take a verdict that somebody gave."""
        labelled = Labelled(feedback.trace_id is None, feedback.trace_id or feedback.conversation_id or "")
        passed, value = feedback.passed, feedback.label
        if feedback.value is not None:
            value = f"{feedback.value:g}"
            passed = passed if self.pass_at is None else feedback.value >= self.pass_at
        self.add_value(labelled, str(value or ""), passed=passed)

    def add_value(self, labelled: Labelled, value: str, *, passed: bool | None) -> None:
        """Keep the verdict of a value, or count a value that cannot be read as one."""
        if passed is None:
            self.first_unread = self.first_unread or shortened(value, _SHOWN_LENGTH)
            self.unread += 1
        else:
            self.add(labelled, passed=passed)

    def label_of(self, trace_id: str, conversation_id: str | None, *, conversation_first: bool) -> Labelled | None:
        """Find the label of a trajectory: that of its trace, else of its conversation, or the other way around."""
        found = [Labelled(is_conversation=False, id=trace_id)]
        if conversation_id is not None:
            found.insert(0 if conversation_first else 1, Labelled(is_conversation=True, id=conversation_id))
        return next((one for one in found if one in self.verdicts), None)

    @property
    def contradicted(self) -> int:
        """The number of traces and conversations with different verdicts."""
        return sum(verdict is None for verdict in self.verdicts.values())

    def as_csv(self) -> str:
        """Write the verdicts as `read_labels` reads them, without runs that have different ones."""
        out = StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow((_TRACE, _CONVERSATION, _VERDICT))
        for labelled in sorted(self.verdicts, key=lambda one: (one.is_conversation, one.id)):
            if (passed := self.verdicts[labelled]) is not None:
                ids = ("", labelled.id) if labelled.is_conversation else (labelled.id, "")
                writer.writerow((*ids, "passed" if passed else "failed"))
        return out.getvalue()

    def unmatched(self, seen: Collection[Labelled]) -> list[Labelled]:
        """Return the labels on nothing in a recording."""
        return [labelled for labelled in self.verdicts if labelled not in seen]


class RecordedFeedback(FeedbackSink):
    """Keeps the verdicts in a recording, by the name of their evaluation: labels are good for the whole recording."""

    def __init__(self, pass_at: float | None = None) -> None:
        """Verdicts that have a number pass from `pass_at` on, where it is given."""
        self._pass_at = pass_at
        self.by_name: dict[str, LabelSet] = {}

    @property
    def next_due_ns(self) -> None:
        """Nothing waits."""

    def add(self, feedback: Feedback, now_ns: int) -> None:
        """Keep one verdict; names beyond a few are one source."""
        del now_ns
        name = feedback.name if feedback.name in self.by_name or len(self.by_name) < _MOST_NAMES else _OTHER
        self.by_name.setdefault(name, LabelSet(name, pass_at=self._pass_at)).add_feedback(feedback)


def read_labels(path: Path, pass_at: float | None = None) -> LabelSet:
    """Read a CSV file; raise `ConfigError` that names each problem with its line."""
    labels = LabelSet(path.name)
    lines: dict[Labelled, int] = {}
    problems: list[str] = []
    for number, row in _rows(path):
        # The trace where both are filled in, as it is the narrower one.
        labelled = None
        if trace_id := row.get(_TRACE):
            labelled = Labelled(is_conversation=False, id=trace_id.lower())
        elif conversation_id := row.get(_CONVERSATION):
            labelled = Labelled(is_conversation=True, id=conversation_id)
        passed = verdict_of(row[_VERDICT], pass_at)
        if labelled is None:
            problems.append(f"line {number}: neither `{_TRACE}` nor `{_CONVERSATION}` is filled in")
        elif passed is None:
            problems.append(f"line {number}: `{shortened(row[_VERDICT], _SHOWN_LENGTH)}` is no verdict")
        elif labels.verdicts.setdefault(labelled, passed) != passed:
            words = [("passed" if verdict else "failed") for verdict in (passed, not passed)]
            problems.append(f"line {number}: {labelled} {words[0]}, and in line {lines[labelled]} it {words[1]}")
        else:
            lines.setdefault(labelled, number)
    if problems:
        hint = f"a verdict is {PLAIN_VERDICTS}" if any("is no verdict" in problem for problem in problems) else None
        if len(problems) == 1:
            raise ConfigError(f"`{path}`, {problems[0]}", hint=hint)
        shown = first_notes(problems, _SHOWN_PROBLEMS)
        raise ConfigError("\n  ".join([f"{len(problems)} problems in `{path}`", *shown]), hint=hint)
    if not labels.verdicts:
        raise ConfigError(f"`{path}` has no labels", hint=f"a header `{_TRACE},{_VERDICT}`, then one line for each")
    return labels


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield the rows with their lines; spreadsheets write a mark at the beginning, and semicolons or tabs."""
    try:
        text = read_file(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read `{path}`: {error}") from error
    head = text.partition("\n")[0]
    reader = csv.reader(StringIO(text, newline=""), delimiter=max(",;\t", key=head.count), strict=True)
    try:
        columns = [name.strip().lower() for names in islice(reader, 1) for name in names]
        ids = f"`{_TRACE}` or `{_CONVERSATION}`"
        missing = [] if _VERDICT in columns else [f"`{_VERDICT}`"]
        if _TRACE not in columns and _CONVERSATION not in columns:
            missing.append(f"none {ids}" if missing else ids)
        if missing:
            known = ", ".join(f"`{shortened(name, _SHOWN_LENGTH)}`" for name in columns[:20]) or "none"
            hint = f"the first line names the columns: {ids}, and `{_VERDICT}`; there is {known}"
            raise ConfigError(f"`{path}`, line 1: no column {', and '.join(missing)}", hint=printable(hint))
        for cells in reader:
            if any(cell.strip() for cell in cells):
                row = dict(zip(columns, (cell.strip() for cell in cells), strict=False))
                yield reader.line_num, {_VERDICT: "", **row}
    except csv.Error as error:
        raise ConfigError(f"`{path}`, line {reader.line_num}: not CSV ({error})") from error
