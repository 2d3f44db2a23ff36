"""`toolgauge labels pull`: people's verdicts from a backend, as labels for `backtest` and `expect`."""

import asyncio
import os
import re
import time
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import click

from toolgauge.authoring.labels import Labelled, LabelSet
from toolgauge.backends.score_sender import PersonVerdict
from toolgauge.cli.command_parts import write_text
from toolgauge.cli.main import EXIT_CODES, configuration_options
from toolgauge.config.load import load
from toolgauge.config.model import backends
from toolgauge.export.label_queues import QUEUED
from toolgauge.model.errors import ConfigError, RecordingError
from toolgauge.report.streams import echo
from toolgauge.report.terminal import printable
from toolgauge.service.pulled_verdicts import as_feedback, pull
from toolgauge.settings import duration_ns

_DAYS = re.compile("([0-9]{1,4})d")
_READABLE = ("phoenix", "langfuse", "mlflow", "langsmith", "opik")


@click.group("labels", epilog=EXIT_CODES)
def command() -> None:
    """Read people's verdicts from a backend."""


@command.command("pull", epilog=EXIT_CODES)
@click.argument("backend")
@click.option("--since", default="7d", show_default=True, metavar="DURATION", help="How far back to read.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="The CSV file to write; standard output without it."
)
@click.option(
    "--name", "names", multiple=True, metavar="GLOB", help="Verdicts of this name alone; may be given several times."
)
@click.option(
    "--pass-at",
    type=float,
    metavar="NUMBER",
    help="Verdicts that are numbers pass from here on. Without it, 1 passes, 0 and -1 fail, and others are no verdicts.",
)
@configuration_options
def pull_command(
    backend: str,
    since: str,
    output: Path | None,
    names: tuple[str, ...],
    pass_at: float | None,
    config_paths: tuple[str, ...],
    overrides: tuple[str, ...],
) -> None:
    """Write verdicts of people as labels: a CSV file that `backtest --labels` and `expect --labels` read.

    BACKEND is `phoenix`, `langfuse`, `mlflow`, `langsmith` or `opik`, whose address and key are in the section
    `exporters` of the configuration, or the `name` of an entry there. Scores of models and code are left out. A run with
    different verdicts is left out: choose one with --name. Runs that `queues` drew have a weight.
    """
    known = {**backends(load([Path(path) for path in config_paths], overrides, os.environ, sends=False).exporters)}
    settings = known.get(backend)
    if settings is None:
        names_known = ", ".join(f"`{name}`" for name in known) or "none"
        raise ConfigError(
            f"there is no backend `{printable(backend)}` in `exporters` of the configuration",
            hint=f"there is {names_known}; one of {', '.join(_READABLE)} is added with `--set exporters.{_READABLE[0]}.endpoint=URL`",
        )
    days = _DAYS.fullmatch(since)
    try:
        since_ns = duration_ns(since if days is None else f"{24 * int(days[1])}h")
    except ValueError as error:
        raise ConfigError(f"`--since` {error}, or in days, such as `7d`") from error
    verdicts = asyncio.run(pull(backend, settings, time.time_ns() - since_ns))
    labels = _labels(backend, verdicts, names, pass_at)
    if not labels.verdicts:
        raise RecordingError(f"there is no verdict of a person in `{backend}` since {since}", hint=_counts(verdicts))
    if output is None:
        echo(labels.as_csv(), end="")
    else:
        write_text(output, labels.as_csv())
    found = list(labels.verdicts.values())
    parts = [f"{found.count(True)} passed", f"{found.count(False)} failed"]
    if labels.contradicted:
        parts.append(f"{labels.contradicted} with different verdicts, left out")
    if labels.unread:
        parts.append(f"{labels.unread} values that are no verdicts, the first is `{printable(labels.first_unread)}`")
    echo(f"labels of `{labels.name}` ({_counts(verdicts)}): {', '.join(parts)}", err=True)


def _labels(backend: str, verdicts: Sequence[PersonVerdict], names: Sequence[str], pass_at: float | None) -> LabelSet:
    labels = LabelSet(backend)
    for verdict in verdicts:
        labelled = Labelled(
            is_conversation=verdict.trace_id is None, id=verdict.trace_id or verdict.conversation_id or ""
        )
        if verdict.name == QUEUED:
            if verdict.value is not None and 0 < verdict.value <= 1:
                labels.weights[labelled] = 1 / verdict.value
        elif not names or any(fnmatchcase(verdict.name, name) for name in names):
            passed = as_feedback(verdict).passed
            if verdict.value is not None and pass_at is not None:
                passed = verdict.value >= pass_at
            value = str(verdict.label if verdict.value is None else verdict.value)
            labels.add_value(labelled, value, passed=passed)
    return labels


def _counts(verdicts: Sequence[PersonVerdict]) -> str | None:
    """Count the verdicts by name: a hint where `--name` matched none."""
    counts = Counter(verdict.name for verdict in verdicts if verdict.name != QUEUED)
    return ", ".join(f"`{printable(name)}` {count}" for name, count in sorted(counts.items())) or None
