"""The options that make a command end with exit code 1: `--fail-on` and `--fail-under`."""

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import click

from toolgauge.cli.main import drop_output
from toolgauge.report.findings import FAIL_ON, Check, CriterionCounts, FailOn, Gate
from toolgauge.report.terminal import printable
from toolgauge.score.criterion import Criterion

_F = TypeVar("_F", bound=Callable[..., object])


def gate_options(function: _F) -> _F:
    """Add `--fail-on` and `--fail-under`, which arrive as `fail_on` and `fail_under`."""
    fail_on = click.option(
        "--fail-on",
        multiple=True,
        metavar="OUTCOME",
        callback=_outcomes,
        help="End with exit code 1 when a result is `fail`, `error` or `not_evaluated`; a list with commas, or several "
        "times. `not_evaluated` looks at criteria other than the default ones, and is also one that matched nothing.",
    )
    fail_under = click.option(
        "--fail-under",
        multiple=True,
        metavar="NAME=SCORE",
        callback=_means,
        help="End with exit code 1 when the mean of a criterion is under SCORE (0 to 1), or when it has no score. May be "
        "given several times.",
    )
    return fail_on(fail_under(function))


def _outcomes(_context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> tuple[FailOn, ...]:
    words = [word.strip() for value in values for word in value.split(",")]
    unknown = [word for word in words if word not in FAIL_ON]
    if unknown:
        known = ", ".join(f"`{word}`" for word in FAIL_ON)
        raise click.BadParameter(f"no outcome called `{printable(unknown[0][:80])}`; known: {known}")
    return tuple(word for word in FAIL_ON if word in words)


def _means(_context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> dict[str, float]:
    means: dict[str, float] = {}
    for value in values:
        name, _, text = value.rpartition("=")
        least = _number(text)
        if not name or not 0 <= least <= 1:
            raise click.BadParameter(f"`{printable(value[:80])}` is no NAME=SCORE with a score from 0 to 1")
        if name in means:
            raise click.BadParameter(f"criterion `{printable(name[:80])}` is given twice")
        means[name] = least
    return means


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def make_gate(fail_on: Sequence[FailOn], fail_under: dict[str, float], criteria: Sequence[Criterion]) -> Gate:
    """Make the gate; an unknown criterion is misuse."""
    known = {criterion.name: criterion.enforce for criterion in criteria}
    for name in fail_under:
        if name not in known:
            names = ", ".join(f"`{one}`" for one in known) or "none"
            raise click.UsageError(f"`--fail-under`: no criterion called `{printable(name[:80])}`; known: {names}")
        if known[name] == "shadow":
            click.echo(
                f"warning: `--fail-under {name}` is left out: the criterion has `enforce: shadow`, which fails nothing",
                err=True,
            )
    return Gate(fail_on=fail_on, fail_under=fail_under)


@contextmanager
def keep_on(gate: Gate) -> Generator[None]:
    """Print; where there is a gate, go on without a reader: `toolgauge replay --fail-on fail F | head` ends as it would alone."""
    try:
        yield
    except BrokenPipeError:
        if not gate.is_set:
            raise
        drop_output()


def print_checks(checks: Sequence[Check]) -> None:
    """Print what came of the conditions to standard error, those that failed last."""
    for check in sorted(checks, key=lambda check: not check.passed):
        word = "passed" if check.passed else "failed"
        click.echo(printable(f"gate {word}: `{check.condition}`: {check.sentence}"), err=True)


def print_gate_hint(counts: Sequence[CriterionCounts]) -> None:
    """Name the options that would make failures the exit code, where there are any."""
    failed = sum(one.words["fail"] + one.words["error"] for one in counts if not one.is_shadow)
    if failed:
        text = "; `--fail-on fail,error` or `--fail-under NAME=0.9` end with 1"
        click.echo(
            f"exit code 0, although {failed} result{' is' if failed == 1 else 's are'} `fail` or `error`{text}",
            err=True,
        )
