"""Tries written criteria on the recording that they were made of.

A criterion that accepts every run, bad ones among them, finds nothing in runs like these: people should know before they rely on it.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from toolgauge.authoring.documents import Document
from toolgauge.authoring.reference_text import criteria_lines, reference_lines
from toolgauge.config.criteria import load_criteria_files
from toolgauge.config.model import Config
from toolgauge.model.outcomes import OutcomeWord, outcome_word
from toolgauge.recordings.recorded_requests import RecordedRequest, scorecards
from toolgauge.score.criterion import Criterion
from toolgauge.service.criteria_factory import make_criteria
from toolgauge.service.pipeline_factory import offline_pipeline

_REFERENCES = "references.jsonl"
_MAX_SHOWN = 5


def acceptance_lines(
    recording: Iterable[RecordedRequest], written: Document, config: Config, *, has_references: bool
) -> Iterator[str]:
    """Name the criteria that accept every run that they judge in the recording."""
    criteria = _loaded(written, config, has_references=has_references)
    words: dict[str, Counter[OutcomeWord]] = {criterion.name: Counter() for criterion in criteria}
    for scorecard in scorecards(recording, offline_pipeline(config, criteria)):
        for result in scorecard.results:
            words[result.criterion][outcome_word(result.outcome)] += 1
    # That a criterion accepts the one run that it was made of shows nothing.
    accepting = {name: found["pass"] for name, found in words.items() if found["pass"] > 1 and _rejects_none(found)}
    for name, runs in [*accepting.items()][:_MAX_SHOWN]:
        yield f"`{name}` accepts every one of the {runs:,} runs: it will find nothing in runs like these"
    if len(accepting) > _MAX_SHOWN:
        yield f"{len(accepting) - _MAX_SHOWN} more criteria accept every run"


def _rejects_none(found: Counter[OutcomeWord]) -> bool:
    return not found["fail"] and not found["error"]


def _loaded(written: Document, config: Config, *, has_references: bool) -> Sequence[Criterion]:
    """Load the criteria as `replay --criteria` does, from files of their own: where they were written to is not known here."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "criteria.yaml")
        lines = criteria_lines(written, _REFERENCES if has_references else None)
        path.write_text("\n".join(lines), encoding="utf-8")
        Path(folder, _REFERENCES).write_text("\n".join(reference_lines(written)), encoding="utf-8")
        made = make_criteria(config, load_criteria_files([path], os.environ))
    return [criterion for criterion in made if not criterion.is_default]
