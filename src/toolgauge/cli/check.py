"""`toolgauge check`: reads files, scores their runs or cases, shows the results, and fails if any failed."""

import math
import os
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from toolgauge.cases.case import holds_cases
from toolgauge.cli.main import configuration_options, criteria_option
from toolgauge.report.findings import FAIL_ON
from toolgauge.report.run_failures import Baseline
from toolgauge.report.streams import echo_fitted
from toolgauge.report.terminal import printable

# The word of `--fail-on` under which no result fails the command.
NOTHING = "nothing"


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the command line."""

    files: tuple[str, ...]
    config_paths: tuple[str, ...]
    overrides: tuple[str, ...]
    criteria_files: tuple[str, ...]
    view: str | None
    first: str | None
    cases: bool
    criterion: str | None
    trace_id: str | None
    failed: bool
    labels: str | None
    label_attribute: str | None
    label_pass_at: float | None
    label_names: tuple[str, ...]
    since: str
    labels_file: str | None
    cost: bool
    fail_on: tuple[str, ...]
    fail_under: dict[str, float]
    proved: bool
    baseline_file: str | None
    allow_nothing: bool
    as_json: bool
    junit_file: str | None
    markdown_file: str | None
    sarif_file: str | None
    html_file: str | None
    github: bool
    to: tuple[str, ...]


def _outcomes(_context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    words = [word.strip() for value in values for word in value.split(",")]
    unknown = [word for word in words if word not in (*FAIL_ON, NOTHING)]
    if unknown:
        known = ", ".join(f"`{word}`" for word in FAIL_ON)
        raise click.BadParameter(f"no outcome called `{printable(unknown[0][:80])}`; known: {known}")
    return tuple(word for word in FAIL_ON if word in words) or (NOTHING,) * bool(words)


def _means(_context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> dict[str, float]:
    means: dict[str, float] = {}
    for value in values:
        name, _, text = value.rpartition("=")
        try:
            least = float(text)
        except ValueError:
            least = math.nan
        if not name or not 0 <= least <= 1:
            raise click.BadParameter(f"`{printable(value[:80])}` is no NAME=SCORE with a score from 0 to 1")
        if name in means:
            raise click.BadParameter(f"criterion `{printable(name[:80])}` is given twice")
        means[name] = least
    return means


_FILE = click.Path(dir_okay=False)
_EXIT_CODES = (
    "Exit codes: 0 no run failed; 1 a run or a case failed, a condition does not hold, nothing could be judged, or a failure at "
    "run time; 2 misuse or bad configuration."
)


@click.command("check", epilog=_EXIT_CODES)
@click.argument("files", nargs=-1, metavar="FILE...")
@criteria_option("A criteria file, scored besides the default criteria; may be given several times.")
@click.option("--calls", "view", flag_value="calls", help="Print the runs with their tool calls, and score nothing.")
@click.option(
    "--criterion", metavar="NAME", help="Explain the verdicts of this criterion: what differed, and the calls."
)
@click.option("--trace", "trace_id", metavar="ID", help="Explain the runs whose trace or conversation id begins so.")
@click.option("--failed", is_flag=True, help="Explain only verdicts that are `fail` or `error`.")
@click.option("--firings", "view", flag_value="firings", help="Print on how many runs each criterion failed.")
@click.option(
    "--labels",
    metavar="FILE.csv|BACKEND:[PROJECT]",
    help="Set the criteria beside people's verdicts: of a CSV file with `trace_id` or `conversation_id`, and `verdict`, or of "
    "`phoenix`, `langfuse`, `mlflow`, `langsmith` or `opik`. Without FILE those of a backend are printed as CSV.",
)
@click.option(
    "--label-attribute", metavar="KEY", help="The verdict on a trace is in this attribute of its spans or resource."
)
@click.option(
    "--label-pass-at",
    type=float,
    metavar="NUMBER",
    help="Labels that are numbers pass from here on. Without it, 1 passes, 0 and -1 fail, and others are no verdicts.",
)
@click.option(
    "--label-name", "label_names", multiple=True, metavar="GLOB", help="Of a backend, labels of this name alone."
)
@click.option("--since", default="7d", show_default=True, metavar="DURATION", help="How far back a backend is read.")
@click.option("-o", "--output", "labels_file", type=_FILE, help="Write the labels of a backend to this CSV file.")
@click.option("--cost", is_flag=True, help="With --firings or labels: print how long scoring took, by criterion.")
@click.option(
    "--fail-on",
    multiple=True,
    metavar="OUTCOME",
    callback=_outcomes,
    help="In place of failing runs, fail where a result is `fail`, `error` or `not_evaluated`, or on `nothing`; a list with "
    "commas, or several times. `not_evaluated` looks at criteria other than the default ones, and is also one that matched nothing.",
)
@click.option(
    "--fail-under",
    multiple=True,
    metavar="NAME=SCORE",
    callback=_means,
    help="Fail when the mean of a criterion is under SCORE (0 to 1), or when it has no score. May be given several times.",
)
@click.option(
    "--proved",
    is_flag=True,
    help="Fail only on what the record proves: broken schemas, unknown tools, told errors, repeated effects, invented ids.",
)
@click.option(
    "--baseline",
    "baseline_file",
    metavar="FILE",
    type=_FILE,
    help="Let the failures in this file pass. It is written where it does not exist; what no longer fails is removed from it.",
)
@click.option("--allow-nothing", is_flag=True, help="Do not end with exit code 1 because nothing could be judged.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per result, run or case, each on one line."
)
@click.option(
    "--junit",
    "junit_file",
    metavar="FILE",
    type=_FILE,
    help="Also write JUnit XML: a test case for each criterion and what it judged; `not_evaluated` is skipped.",
)
@click.option(
    "--markdown",
    "markdown_file",
    metavar="FILE",
    type=_FILE,
    help="Also write a table and the failures as Markdown, at most 64 KiB; `$GITHUB_STEP_SUMMARY` is appended to.",
)
@click.option("--sarif", "sarif_file", metavar="FILE", type=_FILE, help="Also write SARIF 2.1.0, for code scanning.")
@click.option(
    "--html",
    "html_file",
    metavar="FILE",
    type=_FILE,
    help="Also write the runs as one HTML file that needs no network: verdicts, calls, expected beside actual, with filters, "
    "those that failed first. Values are in it with `--set redact.values=show` only.",
)
@click.option("--github", is_flag=True, help="Also print annotations for GitHub on standard error, as in its Actions.")
@click.option(
    "--to",
    multiple=True,
    metavar="BACKEND[=URL]",
    help="Also send the scores to a backend: `phoenix`, `langfuse`, `mlflow`, `langsmith`, `opik` or `datadog`, as "
    "`exporters` has it, or at this URL. What was sent before is overwritten where the backend can.",
)
@configuration_options
@click.option("--cases", is_flag=True, help="FILES are offline cases, also where their form does not show it.")
@click.option("--first", hidden=True, help="What the first of FILES is.")
def command(**options: object) -> int:
    """Score the tool calls in recorded traffic or offline cases, and fail if a run or a case failed.

    FILE is one request (`*.otlp.pb`, `*.logs.otlp.pb`), OTLP JSON (one request, or one a line), or a stream of
    length-delimited requests (`*.otlp`), each optionally `.gz` or `.xz`; `-` is standard input, a directory means
    all recordings in it. Files given together are one recording. A file with an object with `id`, `evaluator` and `actual` on each
    line has offline cases.

    Runs close as they would have closed live. No judge is asked: criteria that ask one are `not_evaluated` for the reason
    `judge_budget`. A run fails when a criterion that is not in the shadow fails or breaks on it. Drops of a mean score and changes of
    tools are named on standard error, as they would have been announced live.

    On a terminal, values are shown, unless the configuration has `redact.values`; in a pipe, in reports and with --json they are
    with `--set redact.values=show` only. `--calls` shows them, and has them with --json as they were recorded. What looks like a
    key, a token, an e-mail address or a card is masked elsewhere in any case.
    """
    asked = msgspec.convert(options, Asked)
    if asked.first is not None and asked.files:
        # An earlier command had it in place of the first of FILES.
        first, *files = asked.files
        of_labels = asked.first == "labels"
        changes = {"labels": f"{first}:", "files": ()} if of_labels else {"criterion": first, "files": tuple(files)}
        asked = msgspec.structs.replace(asked, **changes)
    if not asked.files and asked.labels is not None:
        from toolgauge.cli.firings import print_labels

        print_labels(asked)
        return 0
    if not asked.files:
        context = click.get_current_context()
        raise click.MissingParameter(ctx=context, param=context.command.params[0])
    if asked.view == "calls":
        from toolgauge.cli.recordings import print_calls

        if asked.junit_file or asked.markdown_file or asked.sarif_file or asked.html_file or asked.baseline_file:
            raise click.UsageError("`--calls` scores nothing: it writes no report")
        print_calls(asked)
        return 0
    if (asked.proved or asked.baseline_file) and (asked.fail_on or asked.fail_under):
        raise click.UsageError("`--proved` and `--baseline` go without `--fail-on` and `--fail-under`")
    cases = asked.files if asked.cases else tuple(filter(holds_cases, asked.files))
    if 0 < len(cases) < len(asked.files):
        raise click.UsageError(f"`{printable(cases[0])}` has offline cases: check them and recordings apart")
    from toolgauge.cli.cases import check_cases
    from toolgauge.cli.recordings import check_recordings
    from toolgauge.cli.report_files import Reports

    reports = Reports(asked, os.environ)
    baseline = None if asked.baseline_file is None else Baseline(Path(asked.baseline_file))
    report, closing = (check_cases if cases else check_recordings)(asked, reports, baseline)
    reports.write(report)
    for line in closing:
        echo_fitted(line, err=True)
    return int(report.is_failed)
