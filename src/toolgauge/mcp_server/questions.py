"""What a client may ask, as its model writes it: the arguments of each tool, with their descriptions."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from toolgauge.offline.compare.versions import FILTERED
from toolgauge.report.filters import MAX_TEXT

_RECORDING = (
    "A recording as `list_recordings` names it: a file, or a directory. Default: all that the server was started with."
)
_Text = Annotated[str, Field(max_length=MAX_TEXT)]
_Path = Annotated[str, Field(max_length=4096)]


class _Question(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ListRecordings(_Question):
    """List the recordings that can be asked about."""


class _AboutRecording(_Question):
    recording: _Path = Field(default="", description=_RECORDING)


class ListTrajectories(_AboutRecording):
    """List the trajectories of a recording."""

    outcome: Literal["all", "failed", "error", "passed", "not_evaluated"] = Field(
        default="all", description="Only trajectories with this outcome; with `criterion` or `tool`, of their results."
    )
    service: _Text = Field(default="", description="Only of this service.")
    version: _Text = Field(default="", description="Only of this service version.")
    agent: _Text = Field(default="", description="Only those in which this agent took part.")
    tool: _Text = Field(default="", description="Only those that call this tool.")
    criterion: _Text = Field(default="", description="Only those with a result of this criterion.")
    id: _Text = Field(default="", description="Only those whose trace or conversation id begins so.")
    order: Literal["failed_first", "newest_first"] = "failed_first"
    limit: int = Field(default=20, ge=1, le=50)
    offset: int = Field(default=0, ge=0)


class ExplainFailure(_AboutRecording):
    """Explain one trajectory."""

    trajectory: _Text = Field(
        default="",
        description="A trace or conversation id, or the beginning of one. Default: the newest trajectory that failed.",
    )
    criterion: _Text = Field(default="", description="Under this criterion only.")
    call: int | None = Field(default=None, ge=0, description="Show the calls around the one with this number.")


class CompareRecordings(_Question):
    """Compare two recordings."""

    baseline: _Path = Field(min_length=1, description="The recording to compare with: a file or a directory.")
    candidate: _Path = Field(min_length=1, description="The recording in question: a file or a directory.")
    margin: float = Field(default=0.05, gt=0, lt=1, description="The drop of a mean score that is tolerated.")
    confidence: float = Field(default=0.95, ge=0.5, lt=1)
    only: dict[Literal["criterion", "service", "environment", "agent", "tool", "level"], str] = Field(
        default={}, description=f"Only streams with these values, by {', '.join(FILTERED)}."
    )


class SuggestCriteria(_AboutRecording):
    """Make criteria of recorded runs."""

    passed: Annotated[list[_Text], Field(max_length=50)] = Field(
        default=[],
        description="Trace ids of runs of one task that were good: their calls become the reference. Without any, criteria "
        "are learned from what was usual in the whole recording.",
    )
    labels: _Path = Field(
        default="",
        description="A CSV file with `trace_id` or `conversation_id`, and `verdict`: only runs that passed are learned from.",
    )
    min_runs: int = Field(default=20, ge=2, description="A learned rule needs evidence in at least so many runs.")


class DiagnoseRecording(_AboutRecording):
    """Find out what was not recorded."""
