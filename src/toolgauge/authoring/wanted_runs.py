"""Which runs of a recording are learned from: those with some attributes, and those that passed by some labels."""

from collections.abc import Iterable
from dataclasses import dataclass

from toolgauge.authoring.labels import LabelSet
from toolgauge.authoring.learner import Learner
from toolgauge.config.model import Config, Defaults
from toolgauge.model.trajectory import Trajectory
from toolgauge.recordings.conversation_means import attribute
from toolgauge.recordings.recorded_requests import RecordedRequest, scorecards
from toolgauge.score.criterion import with_writing_tools
from toolgauge.service.criteria_factory import default_criteria
from toolgauge.service.pipeline_factory import offline_pipeline, tool_kinds


@dataclass(slots=True)
class Wanted:
    """Which runs are learned from: those with some attributes, and those that passed by some labels."""

    attributes: tuple[tuple[str, str], ...] = ()
    labels: LabelSet | None = None
    seen: int = 0
    with_attributes: int = 0
    labelled: int = 0

    def takes(self, trajectory: Trajectory) -> bool:
        """Return whether to learn from a run, and count what keeps runs out."""
        self.seen += 1
        if not all(attribute(trajectory, key) == value for key, value in self.attributes):
            return False
        self.with_attributes += 1
        if self.labels is None:
            return True
        labelled = self.labels.label_of(trajectory.trace_id, trajectory.conversation_id, conversation_first=True)
        self.labelled += labelled is not None
        return labelled is not None and self.labels.verdicts[labelled] is True

    def why_none(self) -> str | None:
        """Name what left no run to learn from; `None` where it is the traffic itself."""
        if self.seen and not self.with_attributes:
            return "no run has " + " and ".join(f"`{key}={value}`" for key, value in self.attributes)
        if self.labels is None or not self.seen:
            return None
        if not self.labelled:
            return (
                f"none of the {len(self.labels.verdicts)} labels of `{self.labels.name}` is on a run of the recording"
            )
        return f"no run with tool calls passed by the labels of `{self.labels.name}` ({self.labelled} runs have one)"


def learn_recording(recording: Iterable[RecordedRequest], wanted: Wanted, config: Config) -> Learner:
    """Take the wanted runs of a recording."""
    # A criterion that looks at conversations is what puts them together; one is enough.
    criteria = [one for one in default_criteria(Defaults(scope="conversation")) if one.evaluator_name == "tool_use"]
    kinds = tool_kinds(config)
    make = offline_pipeline(config, criteria, attributes=[key for key, _ in wanted.attributes])
    learner = Learner()
    for scorecard in scorecards(recording, make):
        trajectory = scorecard.trajectory
        # A trace without the id of a conversation is judged as one of its own.
        is_whole = trajectory.scope == "conversation" or trajectory.conversation_id is None
        if is_whole and wanted.takes(trajectory):
            learner.add(with_writing_tools(trajectory, (), kinds))
    return learner
