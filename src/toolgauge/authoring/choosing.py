"""A recording -> the runs that become references: scored, so that a run which fails what it must pass is left out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from toolgauge.authoring.runs import RunReader
from toolgauge.authoring.tasks import Choice, Chooser
from toolgauge.config.model import Config
from toolgauge.model.trajectory import TrajectoryScope
from toolgauge.recordings.recorded_requests import RecordedRequest, scorecards
from toolgauge.score.criterion import Criterion
from toolgauge.score.patterns import Globs
from toolgauge.service.pipeline_factory import offline_pipeline, redactor, tool_kinds


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
    """Take the runs of a recording that are asked for. They have to pass the criteria that people wrote."""
    required = frozenset(criterion.name for criterion in criteria if not criterion.is_default)
    reader = RunReader(
        counts=counted.matcher(config),
        kinds=tool_kinds(config),
        redactor=redactor(config),
        case_key=counted.case_key,
    )
    labels = () if choice.label_attribute is None else (choice.label_attribute.name,)
    chooser = Chooser(reader, replace(choice, required=required))
    make = offline_pipeline(config, criteria, attributes=(counted.case_key, *labels))
    for scorecard in scorecards(recording, make):
        chooser.add(scorecard)
        if chooser.is_done:
            break
    return chooser
