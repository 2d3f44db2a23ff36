"""References as text, safe for any name and value of a span: a criteria file with comments, and lines of a reference file."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import wrap

from toolgauge.authoring.criteria_yaml import yaml_key, yaml_line
from toolgauge.authoring.documents import Document, DraftCall, DraftCase, DraftCriterion
from toolgauge.authoring.runs import case_text
from toolgauge.config.criteria import load_criteria_files
from toolgauge.config.model import Config
from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import OutcomeWord, outcome_word
from toolgauge.recordings.recorded_requests import RecordedRequest, scorecards
from toolgauge.report.terminal import shortened
from toolgauge.service.criteria_factory import make_criteria
from toolgauge.service.pipeline_factory import offline_pipeline

_COMMENT_LENGTH, _WIDTH = 1000, 110
_STEP = "  "


def criteria_lines(document: Document, references: str | None) -> Iterator[str]:
    """Yield the lines of a criteria file; `references` is the path of the file that holds the expected calls."""
    runs = "1 run" if document.runs == 1 else f"{document.runs} runs"
    yield from _comments(
        f"Written by `toolgauge expect` from {runs}. It holds values of recorded runs: read it before you share it."
    )
    if document.is_promoted:
        yield from _comments(
            "A failing run is no reference: correct each call that is marked CORRECT. Until then the case fails."
        )
    yield "criteria:"
    for criterion in document.criteria:
        for case in criterion.cases if references is None else ():
            yield from _indented(chain.from_iterable(map(_comments, case.notes)), 1)
        yield f"{_STEP}- name: {criterion.name}"
        yield from _indented(_keys(document, criterion, references), 2)


def reference_lines(document: Document) -> Iterator[str]:
    """Yield the lines of a reference file."""
    for criterion in document.criteria:
        for case in criterion.cases:
            # Only cases with a name stand in a reference file.
            line: JsonObject = {
                "case": case_text("" if case.case is None else case.case),
                "expected": [call.as_json() for call in case.expected],
            }
            notes = "; ".join(_case_notes(case))
            if notes:
                line["note"] = notes
            yield json.dumps(line)


def _case_notes(case: DraftCase) -> Iterator[str]:
    """Yield what a person should know of a case where there are no comments."""
    yield from (shortened(note, _COMMENT_LENGTH) for note in case.notes)
    for call in case.calls:
        if call.doubts:
            made = json.dumps(call.as_json())
            yield shortened(f"CORRECT: {', '.join(call.doubts)}", _COMMENT_LENGTH) + f": {made}"
        elif call.why:
            yield shortened(f"{call.name}: {', '.join(call.why)}", _COMMENT_LENGTH)


def _keys(document: Document, criterion: DraftCriterion, references: str | None) -> Iterator[str]:
    yield "evaluator: tool_call_f1"
    if references is None:
        case = criterion.cases[0].case
        if case is None:
            yield _comment("every run is held against this: a `when` names those that are meant")
        else:
            yield f"when: {yaml_line({'attributes': {document.case_key: case}})}"
    if document.scope == "conversation":
        yield "scope: conversation"
    match document.tools:
        case None:
            yield "failed_calls: ignore"
        case str(word):
            yield f"tools: {word}"
        case names:
            yield f"tools: {yaml_line(list(names))}"
            yield "failed_calls: ignore"
    if references is None:
        case = criterion.cases[0]
        yield "expected:" if case.expected else "expected: []"
        for call in case.calls:
            yield from _indented(chain.from_iterable(_comments(f"CORRECT: {doubt}") for doubt in call.doubts), 1)
            mark = "# " if call.doubts else ""
            yield from _indented((f"{mark}{line}" for line in _call(call)), 1)
    else:
        yield f"reference: {yaml_line({'file': references, 'key': document.case_key})}"
    if criterion.rules.arguments:
        yield "arguments:"
        for place, (word, why) in sorted(criterion.rules.arguments.items()):
            yield f"{_STEP}{yaml_key(place)}: {word}  {_comment(why)}"
    if criterion.rules.volatile:
        yield "volatile:"
        for glob, why in sorted(criterion.rules.volatile.items()):
            yield f"{_STEP}- {yaml_line(glob)}  {_comment(f'where it is not expected: {why}')}"


def _call(call: DraftCall) -> Iterator[str]:
    yield from chain.from_iterable(map(_comments, call.why))
    yield f"- name: {yaml_line(call.name)}"
    if call.args is not None:
        yield f"{_STEP}args:" if call.args else f"{_STEP}args: {{}}"
        yield from (f"{_STEP * 2}{yaml_key(name)}: {yaml_line(value)}" for name, value in call.args.items())
    if call.is_optional:
        yield f"{_STEP}optional: true"


def _comment(text: str) -> str:
    """Write a comment behind something else."""
    return f"# {shortened(text, _WIDTH)}"


def _comments(text: str) -> Iterator[str]:
    """Yield the lines of a comment by itself."""
    lines = wrap(shortened(text, _COMMENT_LENGTH), _WIDTH, subsequent_indent=_STEP)
    return (f"# {line}" for line in lines)


def _indented(lines: Iterator[str], depth: int) -> Iterator[str]:
    return (f"{_STEP * depth}{line}" for line in lines)


_REFERENCES, _MAX_SHOWN = "references.jsonl", 5


def acceptance_lines(
    recording: Iterable[RecordedRequest], written: Document, config: Config, *, has_references: bool
) -> Iterator[str]:
    """Name the criteria that accept every run that they judge in the recording."""
    # As `check --criteria` loads them, from files of their own: the files that were written may not be known here.
    with TemporaryDirectory() as folder:
        path = Path(folder, "criteria.yaml")
        lines = criteria_lines(written, _REFERENCES if has_references else None)
        path.write_text("\n".join(lines), encoding="utf-8")
        Path(folder, _REFERENCES).write_text("\n".join(reference_lines(written)), encoding="utf-8")
        made = make_criteria(config, load_criteria_files([path], os.environ))
    criteria = [criterion for criterion in made if not criterion.is_default]
    words: dict[str, Counter[OutcomeWord]] = {criterion.name: Counter() for criterion in criteria}
    for scorecard in scorecards(recording, offline_pipeline(config, criteria)):
        for result in scorecard.results:
            words[result.criterion][outcome_word(result.outcome)] += 1
    # That a criterion accepts the one run that it was made of shows nothing.
    accepting = {
        name: found["pass"]
        for name, found in words.items()
        if found["pass"] > 1 and (not found["fail"] and not found["error"])
    }
    for name, runs in [*accepting.items()][:_MAX_SHOWN]:
        yield f"`{name}` accepts every one of the {runs:,} runs: it will find nothing in runs like these"
    if len(accepting) > _MAX_SHOWN:
        yield f"{len(accepting) - _MAX_SHOWN} more criteria accept every run"
