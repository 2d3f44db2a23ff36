"""Verdicts of people for `--labels`: from a CSV file, or read from a backend."""

import asyncio
import os
import re
import time
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import click

from toolgauge.authoring.labels import Labelled, LabelSet, read_labels
from toolgauge.backends.score_sender import PersonVerdict
from toolgauge.backends.settings import VENDORS
from toolgauge.cli.check import Asked
from toolgauge.cli.output import write_text
from toolgauge.config.load import load
from toolgauge.config.model import backends
from toolgauge.model.errors import ConfigError, RecordingError
from toolgauge.report.streams import echo
from toolgauge.report.terminal import printable
from toolgauge.service.pulled_verdicts import as_feedback, pull
from toolgauge.settings import duration_ns

_DAYS = re.compile("([0-9]{1,4})d")
_READABLE = [name for name in VENDORS if name != "datadog"]


def is_backend(labels: str) -> bool:
    """Return whether `--labels` names a backend, and no file."""
    return ":" in labels and not Path(labels).exists()


def labels_of(asked: Asked) -> LabelSet | None:
    """Return the labels that are asked for."""
    if asked.labels is None:
        return None
    return pulled(asked) if is_backend(asked.labels) else read_labels(Path(asked.labels), asked.label_pass_at)


def print_labels(asked: Asked) -> None:
    """Print the labels of a backend as CSV, unless they are written to a file."""
    if not is_backend(asked.labels or ""):
        raise click.UsageError("`--labels FILE.csv` takes recordings")
    labels = pulled(asked)
    if asked.labels_file is None:
        echo(labels.as_csv(), end="")


def pulled(asked: Asked) -> LabelSet:
    """Read labels from a backend, and write them to the file for them.

    Scores of models and code are left out, and so are runs with different verdicts.
    """
    backend, _, project = (asked.labels or "").partition(":")
    place = "experiments" if backend == "mlflow" else "project"
    overrides = (*asked.overrides, *([f"exporters.{backend}.{place}={project}"] if project else []))
    known = {**backends(load([*map(Path, asked.config_paths)], overrides, os.environ, sends=False).exporters)}
    settings = known.get(backend)
    if settings is None:
        names_known = ", ".join(f"`{name}`" for name in known) or "none"
        raise ConfigError(
            f"there is no backend `{printable(backend)}` in `exporters` of the configuration",
            hint=f"there is {names_known}; one of {', '.join(_READABLE)} is added with `--set exporters.{_READABLE[0]}.endpoint=URL`",
        )
    days = _DAYS.fullmatch(asked.since)
    try:
        since_ns = duration_ns(asked.since if days is None else f"{24 * int(days[1])}h")
    except ValueError as error:
        raise ConfigError(f"`--since` {error}, or in days, such as `7d`") from error
    verdicts = asyncio.run(pull(backend, settings, time.time_ns() - since_ns))
    labels = _labels(backend, verdicts, asked)
    if not labels.verdicts:
        text = f"there is no verdict of a person in `{backend}` since {asked.since}"
        raise RecordingError(text, hint=_counts(verdicts))
    if asked.labels_file is not None:
        write_text(Path(asked.labels_file), labels.as_csv())
    found = list(labels.verdicts.values())
    parts = [f"{found.count(True)} passed", f"{found.count(False)} failed"]
    if labels.contradicted:
        parts.append(f"{labels.contradicted} with different verdicts, left out")
    if labels.unread:
        parts.append(f"{labels.unread} values that are no verdicts, the first is `{printable(labels.first_unread)}`")
    echo(f"labels of `{labels.name}` ({_counts(verdicts)}): {', '.join(parts)}", err=True)
    return labels


def _labels(backend: str, verdicts: Sequence[PersonVerdict], asked: Asked) -> LabelSet:
    labels, names = LabelSet(backend), asked.label_names
    for verdict in verdicts:
        labelled = Labelled(
            is_conversation=verdict.trace_id is None, id=verdict.trace_id or verdict.conversation_id or ""
        )
        if not names or any(fnmatchcase(verdict.name, name) for name in names):
            passed = as_feedback(verdict).passed
            if verdict.value is not None and asked.label_pass_at is not None:
                passed = verdict.value >= asked.label_pass_at
            value = str(verdict.label if verdict.value is None else verdict.value)
            labels.add_value(labelled, value, passed=passed)
    return labels


def _counts(verdicts: Sequence[PersonVerdict]) -> str | None:
    """Count the verdicts by name: a hint where `--label-name` matched none."""
    counts = Counter(verdict.name for verdict in verdicts)
    return ", ".join(f"`{printable(name)}` {count}" for name, count in sorted(counts.items())) or None
