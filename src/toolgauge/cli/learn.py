"""`toolgauge learn`: recorded or live traffic in, a criteria file to review out."""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from toolgauge.cli.main import configuration_options
from toolgauge.cli.output import reading_progress
from toolgauge.model.errors import RecordingError, ToolgaugeError
from toolgauge.model.learning import LONGEST_NS, SHORTEST_NS, ServiceSummary
from toolgauge.net.admin_client import check_url, read_token
from toolgauge.offline.backtest.labels import read_labels
from toolgauge.offline.learn.evidence import Requirements
from toolgauge.offline.learn.learner import Learner, Options
from toolgauge.offline.learn.live_client import LiveClient
from toolgauge.offline.learn.wanted_runs import Wanted, learn_recording
from toolgauge.report.terminal import shortened
from toolgauge.service.criteria_factory import load_for_replay
from toolgauge.settings import SECOND, duration_ns

_EPILOG = (
    "Exit codes: 0 criteria were written; 1 there is no tool call, the recordings cannot be read, or the process not be "
    "asked; 2 misuse or bad configuration; 3 not enough data: too few runs for any rule."
)
_NAME_LENGTH = 80
_LOOK_S = 2.0
_ADMIN = "http://localhost:13133"


@click.command("learn", epilog=_EPILOG)
@click.argument("files", nargs=-1, metavar="[FILE...]")
@click.option(
    "--live",
    metavar="DURATION",
    help="Learn for so long, as in `--live 1h`, from what a running `toolgauge serve` scores, instead of recordings.",
)
@click.option(
    "--admin",
    metavar="URL",
    help="The admin endpoint of that process.  [default: http://localhost:13133]",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file whose first line is the token that `admin.auth` asks for.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="The file to write. Default: stdout."
)
@click.option(
    "--min-runs",
    type=click.IntRange(min=2),
    default=20,
    show_default=True,
    help="A rule is written when it had something to judge in at least so many runs.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0, 0.5),
    default=0.01,
    show_default=True,
    help="The share of these runs that may break a rule which is written.",
)
@click.option(
    "--false-alarms",
    type=click.FloatRange(0, 1),
    default=0.05,
    show_default=True,
    help="How many runs may fail criteria learned from the other runs; above that, rules need more runs.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="ATTRIBUTE=VALUE",
    help="Learn from runs with this attribute only, of the resource or of a span, as in `--only service.version=1.4` or "
    "`--only ticket.outcome=solved`. May be given several times.",
)
@click.option(
    "--labels",
    "label_file",
    metavar="FILE.csv",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Learn from the runs alone that passed by this CSV file: `trace_id` or `conversation_id`, and `verdict`.",
)
@configuration_options
def command(
    files: tuple[str, ...],
    live: str | None,
    admin: str | None,
    token_file: Path | None,
    output: Path | None,
    min_runs: int,
    tolerance: float,
    false_alarms: float,
    only: tuple[str, ...],
    label_file: Path | None,
    config_paths: tuple[str, ...],
    overrides: tuple[str, ...],
) -> int:
    """Write a criteria file that holds what was usual in traffic, each line with its evidence.

    FILE is as in `toolgauge inspect --help`. For each service: which tools are called, in which order, how often, with which
    arguments, where ids come from, and how long it all takes. Learn from traffic that you are content with, read the file,
    and run it: `toolgauge replay --criteria envelope.yaml FILE`, then as one of `criteria_files` of `toolgauge serve`.

    Values stay out of it, but for truth values, rounded figures, and labels such as `economy` that the tool's definition
    spells or that at least five conversations share. The same recordings give the same bytes.

    With `--live` a running process learns from what it scores, within 4 % of the time of a core; Ctrl-C ends that sooner
    and writes what was learned so far.
    """
    options = Options(requirements=Requirements(runs=min_runs, tolerance=tolerance), most_alarms=false_alarms)
    if live is not None:
        if files or only or label_file is not None or config_paths or overrides:
            raise click.UsageError("`--live` takes no FILE, `--only`, `--labels`, `--config` or `--set`")
        found = _learned_live(live, admin or _ADMIN, token_file, options)
        return _written(found, min_runs, output)
    if not files:
        raise click.UsageError("recordings, or `--live` with a duration")
    if admin is not None or token_file is not None:
        raise click.UsageError("`--admin` and `--token-file` go with `--live`")
    wanted = Wanted(tuple(map(_attribute, only)), None if label_file is None else read_labels(label_file))
    learner = learned_from(files, wanted, config_paths, overrides)
    if not learner.calls:
        raise RecordingError(
            wanted.why_none() or f"there is no tool call in these recordings ({learner.runs} runs)",
            hint="`toolgauge doctor FILE...` looks for the reason",
        )
    text, summaries = learner.result(options)
    return _written(_Found(text=text, services=summaries, cut_short=learner.cut_short), min_runs, output)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The text of a criteria file, and what it is made of."""

    text: str
    services: Sequence[ServiceSummary]
    cut_short: int


def _written(found: _Found, min_runs: int, output: Path | None) -> int:
    """Sum up what was learned, and write it where it is wanted; return the exit code."""
    written = sum(summary.criteria for summary in found.services)
    for summary in found.services:
        click.echo(_line(summary, min_runs), err=True)
    if found.cut_short:
        click.echo(f"left out: {found.cut_short} runs that were not seen to their end", err=True)
    if not written:
        click.echo(
            "no rule has enough evidence; record more, or lower --min-runs and allow more --false-alarms", err=True
        )
        return 3
    if output is None:
        click.echo(found.text, nl=False)
        return 0
    _write(output, found.text)
    click.echo(
        f"wrote {written} criteria to {output}; try them: toolgauge replay --criteria {output} FILE...", err=True
    )
    return 0


def _learned_live(live: str, admin: str, token_file: Path | None, options: Options) -> _Found:
    """Have a running process learn, wait for it with progress, and get what it learned."""
    try:
        wanted_ns = duration_ns(live)
    except ValueError as error:
        raise click.UsageError(f"`--live` {error}") from error
    if not SHORTEST_NS <= wanted_ns <= LONGEST_NS:
        raise click.UsageError("`--live` takes a duration from `1s` to `24h`")
    check_url(admin, "--admin")
    client = LiveClient(admin, None if token_file is None else read_token(token_file))
    client.begin(wanted_ns)
    click.echo(f"learning for {live} from what {admin} scores; Ctrl-C ends it and writes what was learned", err=True)
    try:
        _wait(client)
    except KeyboardInterrupt:
        click.echo("\nending", err=True)
    learned = client.end(options)
    if learned.skipped:
        click.echo(
            f"left out: {learned.skipped} of {learned.runs + learned.skipped} runs, to keep learning cheap", err=True
        )
    if not learned.calls:
        raise ToolgaugeError(
            f"there was no tool call in this time ({learned.runs} runs)",
            hint="runs are learned from when they have ended; `toolgauge record` shows whether spans arrive",
        )
    return _Found(text=learned.text, services=learned.services, cut_short=learned.cut_short)


def _wait(client: LiveClient) -> None:
    """Wait for the end of learning; a terminal shows how far it is."""
    shown = ""
    while True:
        state = client.state()
        if sys.stderr.isatty():
            left_s = state.left_ns // SECOND
            click.echo(f"\r{' ' * len(shown)}\r", nl=False, err=True)
            shown = f"{left_s // 60}:{left_s % 60:02d} left, {state.runs} runs, {state.calls} calls"
            click.echo(shown, nl=False, err=True)
        if not state.left_ns:
            break
        time.sleep(min(_LOOK_S, state.left_ns / SECOND))
    if shown:
        click.echo(err=True)


def _attribute(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise click.UsageError(f"--only takes ATTRIBUTE=VALUE, not `{text}`")
    return key, value


def learned_from(
    files: Sequence[str],
    wanted: Wanted,
    config_paths: Sequence[str],
    overrides: Sequence[str],
) -> Learner:
    """Read recordings as one, with progress, and take the wanted runs."""
    config, _ = load_for_replay(config_paths, overrides, (), os.environ)
    with reading_progress(files) as reading:
        return learn_recording(reading, wanted, config)


def _line(summary: ServiceSummary, min_runs: int) -> str:
    name = "(no service name)" if summary.service is None else shortened(summary.service, _NAME_LENGTH)
    text = f"{name}: {summary.runs} runs, {summary.calls} calls, {summary.criteria} criteria"
    if summary.needed > min_runs:
        text += f"; a rule needs {summary.needed} runs, as with {min_runs} too many runs would fail"
    if len(summary.versions) > 1:
        text += f"; {len(summary.versions)} versions are mixed: `--only service.version=...` learns from one"
    return text


def _write(output: Path, text: str) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ToolgaugeError(f"cannot write `{output}`: {error.strerror}") from error
