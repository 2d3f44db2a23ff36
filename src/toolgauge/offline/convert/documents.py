"""Reads files of definitions: JSON, JSON Lines and YAML, told by their names."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import yaml

from toolgauge.config.parse import CORE_SCALARS
from toolgauge.model.errors import RecordingError
from toolgauge.model.json import Json
from toolgauge.offline.convert.draft import Document

_YAML = (".yaml", ".yml")
_LINES = (".jsonl", ".ndjson")


class _Loader(yaml.SafeLoader):
    """Reads scalars as YAML 1.2 does, and dates as texts."""

    yaml_implicit_resolvers = {None: list(CORE_SCALARS)}  # noqa: RUF012 (PyYAML wants a plain class attribute)


def read_documents(file: str) -> Iterator[Document]:
    """Yield the documents of a file; raise `RecordingError` for one that cannot be read."""
    path = Path(file)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise RecordingError(f"cannot read `{file}`: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RecordingError(f"cannot read `{file}`: not UTF-8") from error
    if path.suffix in _LINES:
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield _document(f"{file}:{number}", line, ".json")
        return
    yield _document(file, text, path.suffix)


def _document(name: str, text: str, suffix: str) -> Document:
    try:
        if suffix in _YAML:
            content: object = yaml.load(text, Loader=_Loader)  # noqa: S506 (derived from the safe loader)
            # Keys that are no texts become texts, as they are in JSON.
            content = json.loads(json.dumps(content))
        else:
            content = json.loads(text)
    except RecursionError as error:
        raise RecordingError(f"cannot read `{name}`: nested too deep") from error
    except (ValueError, TypeError, yaml.YAMLError) as error:
        raise RecordingError(f"cannot read `{name}`: {' '.join(str(error).split())}") from error
    # What `json.loads` returns is JSON.
    return Document(name=name, content=cast("Json", content))
