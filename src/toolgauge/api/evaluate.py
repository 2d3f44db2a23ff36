"""`toolgauge.evaluate`: recorded or captured traffic, scored as `toolgauge replay` scores it, in a program's own process.

Nothing runs in the background and no event loop is needed, so that it works in a notebook and in a coroutine.
"""

import os
from collections.abc import Iterable, Sequence
from typing import cast

from toolgauge.api.evaluation import CriterionResult, EvaluatedTrajectory, Evaluation
from toolgauge.api.notebook import NotebookWriter
from toolgauge.api.source_requests import Path, Source, is_path, requests
from toolgauge.api.written_criterion import Criterion
from toolgauge.offline.replay.recordings import scorecards
from toolgauge.report.explanations import VerdictWriter
from toolgauge.report.trajectory_view import TrajectoryWriter
from toolgauge.service.criteria_factory import load_for_replay
from toolgauge.service.pipeline_factory import offline_pipeline, redactor


def evaluate(
    source: Source,
    criteria: Path | Criterion | Iterable[Path | Criterion] = (),
    *,
    config: Path | Sequence[Path] = (),
    overrides: Sequence[str] = (),
    defaults: bool = True,
) -> Evaluation:
    """Score the tool calls of a source.

    `source` is a recording's path, a directory, several of these, spans of the OpenTelemetry SDK, or OTLP messages.
    `criteria` are paths of criteria files and `Criterion` objects; they count besides the default criteria, unless
    `defaults` is False. `config` and `overrides` are what `toolgauge replay` takes as `--config` and `--set`.

    Values are shown unless the configuration has `redact.values`; secrets stay masked. Raises `ConfigError` for wrong
    criteria or configuration, `RecordingError` for what cannot be read, `TypeError` for what is no source.
    """
    files, written = _by_kind(criteria)
    loaded, made = load_for_replay(
        _paths(config), overrides, files, os.environ, written=[one.written for one in written], defaults=defaults
    )
    shows = loaded.redact.values == "show" or "values" not in loaded.redact.model_fields_set
    redacting, pass_at = redactor(loaded, show_values=shows), {one.revision: one.pass_at for one in made}
    writer, notebook = VerdictWriter(redacting, pass_at), NotebookWriter(TrajectoryWriter(redacting, pass_at))
    default = {one.name for one in made if one.is_default}
    trajectories = tuple(
        EvaluatedTrajectory(
            trajectory=scorecard.trajectory,
            writer=notebook,
            results=tuple(
                CriterionResult(writer.verdict(result), result.criterion in default) for result in scorecard.results
            ),
        )
        for scorecard in scorecards(requests(source), offline_pipeline(loaded, made))
    )
    return Evaluation(trajectories=trajectories, criteria=tuple(one.name for one in made), writer=notebook)


def _by_kind(criteria: object) -> tuple[list[str], list[Criterion]]:
    """Separate files from objects; not every caller has a type checker."""
    is_one = is_path(criteria) or isinstance(criteria, Criterion)
    given = (criteria,) if is_one else tuple(cast("Iterable[object]", criteria))
    files: list[str] = []
    written: list[Criterion] = []
    for one in given:
        if isinstance(one, Criterion):
            written.append(one)
        elif is_path(one):
            files.append(os.fsdecode(one))
        else:
            raise TypeError(
                f"a `{type(one).__name__}` is no criterion: give `toolgauge.Criterion` objects, and paths of criteria files"
            )
    return files, written


def _paths(paths: Path | Iterable[Path]) -> tuple[str, ...]:
    return tuple(map(os.fsdecode, (paths,) if isinstance(paths, str | os.PathLike) else paths))
