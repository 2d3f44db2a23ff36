"""Loads criteria for commands that score, with notes on standard error."""

import os
from collections.abc import Sequence

from toolgauge.config.model import Config
from toolgauge.report.streams import echo
from toolgauge.report.terminal import counted, printable
from toolgauge.score.criterion import Criterion
from toolgauge.score.unmatched import UnmatchedCriteria, without_effect
from toolgauge.service.criteria_factory import evaluator_files, load_for_replay


def load_to_score(
    config_paths: Sequence[str], overrides: Sequence[str], criteria_files: Sequence[str]
) -> tuple[Config, tuple[Criterion, ...]]:
    """Load configuration and criteria to score recordings with, and name the files of evaluators, as they are code that runs."""
    config, criteria = load_for_replay(config_paths, overrides, criteria_files, os.environ)
    print_notes(criteria)
    return config, criteria


def judged_nothing(judged: int, total: int, noun: str) -> list[str]:
    """Explain why the command fails where none of the runs or cases was judged."""
    return [] if judged or not total else [f"judged 0 of {counted(total, noun)}: exit code 1, unless `--allow-nothing`"]


def print_notes(criteria: Sequence[Criterion]) -> None:
    """Name the Python files whose code runs as evaluators, and parts of criteria without effect, on standard error."""
    for file in evaluator_files(criteria):
        echo(f"running the evaluators in `{printable(file)}`", err=True)
    for text in without_effect(criteria):
        echo(f"warning: {printable(text)}", err=True)


def warn_of_unmatched(unmatched: UnmatchedCriteria) -> None:
    """Name the criteria that matched nothing."""
    for one in unmatched.so_far():
        echo(f"warning: criterion `{one.criterion.name}` {one.description}: look at {one.keys}", err=True)
