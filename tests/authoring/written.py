"""References made of trajectories, written, and read again as a criteria file."""

from collections.abc import Sequence
from pathlib import Path

from tests.score.support import scored
from toolgauge.authoring.documents import Document, criteria_lines, document
from toolgauge.authoring.runs import Fault, RecordedRun, RunReader, Task
from toolgauge.config.model import Config
from toolgauge.model.outcomes import Scored
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.criterion import Criterion, Inline, ToolKinds, with_writing_tools
from toolgauge.service.criteria_factory import load_for_replay
from toolgauge.service.pipeline_factory import redactor

KEY = "eval.case.id"
KINDS = ToolKinds()


def reader(*, all_tools: bool = False) -> RunReader:
    """Make a reader of runs without configuration."""
    counts = bool if all_tools else KINDS.writes
    return RunReader(counts=counts, kinds=KINDS, redactor=redactor(Config()), case_key=KEY)


def run_of(trajectory: Trajectory, *faults: Fault, all_tools: bool = False) -> RecordedRun:
    """Read one run."""
    return reader(all_tools=all_tools).read(trajectory, [trajectory.trace_id], faults)


def document_of(*tasks: Sequence[RecordedRun], is_promoted: bool = False, is_one_criterion: bool = False) -> Document:
    """Make the references of some tasks."""
    return document(
        [Task(runs[0].case, list(runs)) for runs in tasks],
        tools="writes",
        case_key=KEY,
        is_promoted=is_promoted,
        is_one_criterion=is_one_criterion,
    )


def text_of(written: Document) -> str:
    """Write the criteria file."""
    return "".join(f"{line}\n" for line in criteria_lines(written, None))


def loaded(written: Document, folder: Path) -> list[Criterion]:
    """Write the criteria file and read it again."""
    file = folder / "criteria.yaml"
    file.write_text(text_of(written), encoding="utf-8")
    _, criteria = load_for_replay((), ("defaults.enabled=false",), [str(file)], {})
    return list(criteria)


def score(criterion: Criterion, trajectory: Trajectory) -> Scored:
    """Score a run against a criterion that holds what is expected."""
    assert isinstance(criterion.reference, Inline)
    expected = criterion.reference.expected
    names = tuple(call.name for call in expected.calls)
    judged = with_writing_tools(with_writing_tools(trajectory, (), KINDS), names, KINDS)
    return scored(criterion.evaluator, judged, expected)  # pyright: ignore[reportArgumentType]  # no judge is among them
