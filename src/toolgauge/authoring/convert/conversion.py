"""Turns definitions of other tools into criteria: picks the format of each file and writes what its reader found."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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


@dataclass(slots=True, kw_only=True)
class Converted:
    """Criteria as written, the lines of reference files by path, the first case that runs name, and the parts left behind."""

    criteria: list[Json] = field(default_factory=list[Json])
    references: dict[Path, list[str]] = field(default_factory=dict[Path, list[str]])
    case: str | None = None
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
    converted = Converted(notes=notes.lines)
    names: set[str] = set()
    for draft in found:
        if (draft := _loadable(draft, notes)) is not None:
            _write(draft, unique(draft.name, names), references, key, converted)
    if not converted.criteria:
        known = ", ".join(FORMATS)
        raise RecordingError("; ".join(["nothing could be carried over", *notes.lines]), hint=f"known formats: {known}")
    return converted


def _loadable(draft: Draft, notes: Notes) -> Draft | None:
    """Return a draft with the cases that will load; definitions are written by hand, and an invalid one must not keep others back."""
    problem = None
    if draft.pass_at is not None and not 0 <= draft.pass_at <= 1:
        problem = f"`pass_at` of {draft.pass_at} is not from 0 to 1"
    else:
        try:
            make_evaluator(draft.evaluator, draft.parameters)
        except ConfigError as error:
            # Of several problems each has a line of its own, after one that counts them.
            lines = [line.strip().removeprefix("config: ") for line in error.message.splitlines()]
            problem = "; ".join(lines[1:] or lines)
    if problem is not None:
        notes.lines.append(f"criterion `{draft.name}`: left out: {problem}")
        return None
    cases: dict[str, JsonObject] = {}
    for case, expected in (draft.cases or {}).items():
        _, problems = read_references(_line(case, expected).encode(errors="surrogatepass"), "")
        if problems:
            notes.lines.append(f"criterion `{draft.name}`, case `{case}`: left out: {problems[0].message}")
        else:
            cases[case] = expected
    return replace(draft, cases=cases) if cases or not draft.cases else None


def _line(case: str, expected: JsonObject) -> str:
    return json.dumps({"case": case or "default", **expected}, ensure_ascii=False)


def _write(draft: Draft, name: str, file: Path | None, key: str, converted: Converted) -> None:
    """Write a criterion; equal cases share a file of references."""
    written: JsonObject = {"name": name, "evaluator": draft.evaluator}
    if draft.only_case is not None:
        written["when"] = {"attributes": {key: draft.only_case}}
        converted.case = converted.case or draft.only_case
    if draft.scope is not None:
        written["scope"] = draft.scope
    written |= draft.parameters
    cases = draft.cases or {}
    if len(cases) == 1:
        written |= next(iter(cases.values()))
    elif cases:
        if file is None:
            raise ConfigError(
                f"there are {len(cases)} cases for `{name}`, and no file for what is expected in each",
                hint="name one with `--references cases.jsonl`",
            )
        lines = [_line(case, expected) for case, expected in cases.items()]
        if converted.references.get(file, lines) != lines:
            file = file.with_name(f"{file.stem}.{name}{file.suffix}")
        converted.references[file] = lines
        written["reference"] = {"file": str(file), "key": key}
        converted.case = converted.case or next(iter(cases)) or "default"
    if draft.pass_at is not None:
        written["pass_at"] = draft.pass_at
    converted.criteria.append(written)
