"""Turns definitions of other tools into criteria: picks the format of each file and writes what its reader found."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from toolgauge.authoring.convert import from_adk, from_promptfoo, from_samples, from_uipath
from toolgauge.authoring.convert.draft import Document, Draft, Notes, unique
from toolgauge.config.references import read_references
from toolgauge.model.errors import ConfigError, RecordingError
from toolgauge.model.json import Json, JsonObject
from toolgauge.service.criteria_factory import make_evaluator

# A reader gets all documents of its format, as some refer to others.
_Reader: TypeAlias = Callable[[Sequence[Document], Notes], Iterator[Draft]]
# By format: whether a document is of it, and its reader.
FORMATS: Mapping[str, tuple[Callable[[Json], bool], _Reader]] = {
    "UiPath": (from_uipath.claims, from_uipath.drafts),
    "ADK": (from_adk.claims, from_adk.drafts),
    "Ragas": (partial(from_samples.claims, "reference_tool_calls", "samples"), from_samples.ragas_drafts),
    "agentevals": (partial(from_samples.claims, "reference_outputs", "examples"), from_samples.agentevals_drafts),
    "promptfoo": (from_promptfoo.claims, from_promptfoo.drafts),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """Criteria as written, the lines of reference files by path, the first case that runs name, and what was left behind."""

    criteria: list[Json]
    references: Mapping[Path, list[str]]
    case: str | None
    notes: Sequence[str]


def convert(documents: Sequence[Document], references: Path | None, key: str) -> Converted:
    """Convert all documents together; `key` is the attribute of a trace that holds its case.

    Raise `RecordingError` where nothing can be converted, `ConfigError` for several cases without a file for them.
    """
    notes = Notes()
    claimed: dict[str, list[Document]] = {name: [] for name in FORMATS}
    for document in documents:
        name = next((name for name, (claims, _) in FORMATS.items() if claims(document.content)), None)
        if name is None:
            notes.add(document, "document", f"none of the known formats ({', '.join(FORMATS)})")
        else:
            claimed[name].append(document)
    found = chain.from_iterable(FORMATS[name][1](of, notes) for name, of in claimed.items() if of)
    drafts = list(_loadable(found, notes))
    if not drafts:
        known = ", ".join(FORMATS)
        raise RecordingError("; ".join(["nothing could be carried over", *notes.lines]), hint=f"known formats: {known}")
    writer = _Writer(references, key)
    criteria = [writer.criterion(draft) for draft in drafts]
    return Converted(criteria=list(criteria), references=writer.lines_by_file, case=writer.case, notes=notes.lines)


def _loadable(drafts: Iterator[Draft], notes: Notes) -> Iterator[Draft]:
    """Yield the drafts that will load; definitions are written by hand, and an invalid one must not keep others back."""
    for draft in drafts:
        problem = _problem(draft)
        if problem is not None:
            notes.lines.append(f"criterion `{draft.name}`: left out: {problem}")
            continue
        if not draft.cases:
            yield draft
            continue
        cases: dict[str, JsonObject] = {}
        for case, expected in draft.cases.items():
            _, problems = read_references(_line(case, expected).encode(errors="surrogatepass"), "")
            if problems:
                notes.lines.append(f"criterion `{draft.name}`, case `{case}`: left out: {problems[0].message}")
            else:
                cases[case] = expected
        if cases:
            yield replace(draft, cases=cases)


def _problem(draft: Draft) -> str | None:
    """Return why a criterion would not load, apart from its expectations."""
    if draft.pass_at is not None and not 0 <= draft.pass_at <= 1:
        return f"`pass_at` of {draft.pass_at} is not from 0 to 1"
    try:
        make_evaluator(draft.evaluator, draft.parameters)
    except ConfigError as error:
        # Of several problems each has a line of its own, after one that counts them.
        lines = [line.strip().removeprefix("config: ") for line in error.message.splitlines()]
        return "; ".join(lines[1:] or lines)
    return None


def _line(case: str, expected: JsonObject) -> str:
    return json.dumps({"case": case or "default", **expected}, ensure_ascii=False)


class _Writer:
    """Writes criteria; equal cases share a file of references."""

    def __init__(self, file: Path | None, key: str) -> None:
        self.lines_by_file: dict[Path, list[str]] = {}
        self.case: str | None = None
        self._file = file
        self._key = key
        self._names: set[str] = set()

    def criterion(self, draft: Draft) -> JsonObject:
        name = unique(draft.name, self._names)
        written: JsonObject = {"name": name, "evaluator": draft.evaluator}
        if draft.only_case is not None:
            written["when"] = {"attributes": {self._key: draft.only_case}}
            self.case = self.case or draft.only_case
        if draft.scope is not None:
            written["scope"] = draft.scope
        written |= draft.parameters
        cases = draft.cases or {}
        if len(cases) == 1:
            written |= next(iter(cases.values()))
        elif cases:
            if self._file is None:
                raise ConfigError(
                    f"there are {len(cases)} cases for `{name}`, and no file for what is expected in each",
                    hint="name one with `--references cases.jsonl`",
                )
            lines = [_line(case, expected) for case, expected in cases.items()]
            file = self._file
            if self.lines_by_file.get(file, lines) != lines:
                file = file.with_name(f"{file.stem}.{name}{file.suffix}")
            self.lines_by_file[file] = lines
            written["reference"] = {"file": str(file), "key": self._key}
            self.case = self.case or next(iter(cases)) or "default"
        if draft.pass_at is not None:
            written["pass_at"] = draft.pass_at
        return written
