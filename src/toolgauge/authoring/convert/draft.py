"""Definitions of other tools as drafts of criteria, with notes on the parts that were not converted: shared by all readers."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from toolgauge import plugins
from toolgauge.config.parse import parse_yaml, read_file
from toolgauge.config.problems import plain
from toolgauge.model.errors import ConfigError, RecordingError
from toolgauge.model.json import Json, JsonObject
from toolgauge.recognize.values import as_object

_MAX_NAME = 60
# Parameters that other tools call otherwise.
_OTHER_NAMES = {"default_strategy": "strategy", "per_arg_strategies": "strategies", "numeric_tolerance": "tolerance"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One definition as it was written; `name` is its file, with the number of its line in JSON Lines."""

    name: str
    content: Json

    @property
    def entries(self) -> JsonObject:
        """The keys of a document that is an object."""
        return as_object(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One criterion. `cases` holds the keys `expected`, `expected_turns` and `expected_output` of each case."""

    name: str
    evaluator: str
    parameters: JsonObject = field(default_factory=dict[str, Json])
    pass_at: float | None = None
    scope: str | None = None
    # For one case only, by the attribute that holds the case.
    only_case: str | None = None
    cases: Mapping[str, JsonObject] | None = None


@dataclass(slots=True)
class Notes:
    """The parts that could not be carried over, in order."""

    lines: list[str] = field(default_factory=list[str])

    def add(self, document: Document, path: str, problem: str) -> None:
        """Note a part that was left behind, by file and path."""
        self.lines.append(f"{document.name}: {path}: {problem}")


def criterion_name(text: str) -> str:
    """Make a name that a criterion may have."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", text).lower()
    name = re.sub(r"[^a-z0-9_.-]+", "-", spaced).strip("-._")[:_MAX_NAME].rstrip("-._")
    return name if name[:1].isalpha() else f"criterion-{name}".rstrip("-")


def unique(name: str, taken: set[str]) -> str:
    """Return the name, with a number where it is taken already, and add it to those taken."""
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}-{number}"
    taken.add(found)
    return found


def parameter_of(evaluator: str, key: str) -> str | None:
    """Return the parameter of an evaluator that a key means, in snake case or camel case; `None` where it means none."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower()
    name = _OTHER_NAMES.get(name, name)
    return name if name in getattr(plugins.evaluator(evaluator), "model_fields", {}) else None


def either(entries: JsonObject, *keys: str) -> Json:
    """Return the value under the first of several spellings of a key that is not null."""
    return next((entries[key] for key in keys if entries.get(key) is not None), None)


def call_item(name: Json, args: Json, call_id: Json = None) -> JsonObject:
    """Write one expected call."""
    item: JsonObject = {"name": name}
    if isinstance(call_id, str) and call_id:
        item["id"] = call_id
    if isinstance(args, dict):
        item["args"] = args
    return item


def unique_case(cases: Mapping[str, JsonObject], name: Json, number: int) -> str:
    """Name a case; by its number where it has no name of its own or shares it."""
    text = name if isinstance(name, str) and name else f"case-{number}"
    return text if text not in cases else f"{text}-{number}"


_YAML = (".yaml", ".yml")
_LINES = (".jsonl", ".ndjson")


def read_documents(file: str) -> Iterator[Document]:
    """Yield the documents of a file; raise `RecordingError` for one that cannot be read."""
    path, name = Path(file), file
    try:
        text = read_file(path).decode("utf-8-sig")
        for number, part in enumerate(text.splitlines() if path.suffix in _LINES else [text], 1):
            if path.suffix in _YAML:
                yield Document(name=file, content=plain(parse_yaml(part, file, None)))
            elif part.strip() or path.suffix not in _LINES:
                name = f"{file}:{number}" if path.suffix in _LINES else file
                # What `json.loads` returns is JSON.
                yield Document(name=name, content=cast("Json", json.loads(part)))
    except ConfigError as error:
        raise RecordingError(f"cannot read {error.message.removeprefix('cannot read ')}", hint=error.hint) from error
    except RecursionError as error:
        raise RecordingError(f"cannot read `{name}`: nested too deep") from error
    except ValueError as error:
        raise RecordingError(f"cannot read `{name}`: {' '.join(str(error).split())}") from error
