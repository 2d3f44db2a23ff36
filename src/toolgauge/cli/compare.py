"""`toolgauge compare`: is a release worse than the one before it? With `--agents`: the agents of recordings or of a running process."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar

import click
import msgspec
from msgspec import to_builtins

from toolgauge.cli.main import configuration_options, criteria_option
from toolgauge.cli.output import load_to_score, reading_progress, terminal_style
from toolgauge.config.problems import suggestion
from toolgauge.export.run_usage import RunUsageReader
from toolgauge.model.errors import ConfigError, ToolgaugeError
from toolgauge.model.records import ENVIRONMENT, VERSION
from toolgauge.model.trajectory import Trajectory
from toolgauge.net.admin_client import ask, check_url, not_toolgauge
from toolgauge.net.settings import read_token
from toolgauge.recordings.comparison import (
    BASE,
    NEW,
    Answer,
    Filters,
    Question,
    Versions,
    choose_versions,
    compare,
    set_beside,
)
from toolgauge.recordings.comparison_tables import (
    FailuresByVersion,
    RunUsages,
    comparison_object,
    conclusion,
    failure_lines,
    failure_markdown,
    markdown_lines,
    quoted,
    table_lines,
    usage_lines,
    usage_markdown,
)
from toolgauge.recordings.conversation_means import (
    SERVICE,
    LiveArms,
    Observations,
    Observed,
    group,
    grouping,
    observed_live,
)
from toolgauge.recordings.recorded_requests import scorecards
from toolgauge.report.catalogue import Catalogue, CatalogueContent, catalogue_lines, catalogue_markdown
from toolgauge.report.streams import echo
from toolgauge.report.terminal import printable
from toolgauge.service.pipeline_factory import offline_pipeline, redactor

_T = TypeVar("_T")
_MAX_ANSWER_BYTES = 64 << 20
_EXIT_CODES: dict[Answer, int] = {"no_worse": 0, "worse": 1, "not_enough_data": 3}
_EPILOG = (
    "Exit codes: 0 no worse: no stream fell by more than the margin; 1 worse: a stream is shown to have fallen, and not "
    "shown to be within the margin; 2 misuse, bad configuration, or nothing to read; 3 not enough data yet."
)


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the command line."""

    files: tuple[str, ...]
    by: str | None
    live: str | None
    base: str | None
    new: str | None
    margin: float
    confidence: float
    criteria_files: tuple[str, ...]
    only: tuple[str, ...]
    token_file: str | None
    config_paths: tuple[str, ...]
    overrides: tuple[str, ...]
    agents: bool
    as_json: bool
    as_markdown: bool


# Scores recordings into observations; returns how many trajectories have no version.
_Observe: TypeAlias = Callable[[Observations, Sequence[str], Callable[[Trajectory], str | None]], int]


@click.command("compare", epilog=_EPILOG)
@click.argument("files", nargs=-1, metavar="[BASE NEW | FILE...]")
@click.option(
    "--by",
    metavar="NAME",
    help="Split one recording by an attribute or a recorded property, as `service.version`, `model`, `prompt` or `tool:find_order`.",
)
@click.option("--live", metavar="URL", help="Ask a running `toolgauge serve`: the URL of its `admin.endpoint`.")
@click.option("--base", help="The version to compare with. Default: the one first seen before the new one.")
@click.option("--new", help="The version in question. Default: the one first seen last.")
@click.option(
    "--margin",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="The largest drop of a mean score to tolerate.",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0.5, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="Of the intervals, and of the answer.",
)
@criteria_option("A criteria file, scored besides the default criteria; may be given several times.")
@click.option(
    "--only",
    multiple=True,
    metavar="NAME=VALUE",
    help="Look at these streams only, as in `--only criterion=default.tool_success --only tool=find_order`. Streams are by "
    "`criterion`, `service`, `environment`, `agent`, `tool` and `level`. A tool that is named here decides, too.",
)
@click.option("--token-file", type=click.Path(), help="Holds the token for `--live`, as `admin.auth` wants it.")
@configuration_options
@click.option("--agents", is_flag=True, help="List the agents of recordings, or with --live of a running process.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown for a pull request.")
def command(**options: object) -> int:
    """Compare the scores of two releases: better, worse, no difference seen, or not enough data.

    BASE and NEW are recordings, each a file or a directory as in `toolgauge check --help`; they are scored as
    `toolgauge check` scores them. With `--by`, all FILEs are one recording that is split by an attribute of the resource or
    of the spans, or by a property of the runs. With `--live`, a running process is asked for what it has scored; that may be done again and again,
    the test is made for it.

    One conversation is one observation in each stream: the mean score of a criterion there, for one tool and for all
    tools of an agent. The streams of all tools, and those of whole trajectories, have to be shown to be no worse; a single
    tool can only be worse.

    With `--agents` nothing is compared: each agent of a service is listed with its models, versions, prompts, tools, criteria, runs,
    and what a run without a fault takes. The URL of --live is then that of the web view, and its token that of `web.auth`.
    """
    asked = msgspec.convert(options, _Asked)
    _check_usage(asked)
    if asked.agents:
        _print_agents(asked)
        return 0
    filters = Filters((name, value) for name, _, value in (each.partition("=") for each in asked.only))
    usages, failures = RunUsages(), FailuresByVersion()

    def score(observations: Observations, paths: Sequence[str], version_of: Callable[[Trajectory], str | None]) -> int:
        config, criteria = load_to_score(asked.config_paths, asked.overrides, asked.criteria_files)
        make = offline_pipeline(config, criteria, attributes=() if asked.by is None else (asked.by,))
        with reading_progress(paths) as recording:
            without, reader, redacting = 0, RunUsageReader(config.costs), redactor(config)
            for scorecard in scorecards(recording, make):
                if (version := version_of(scorecard.trajectory)) is not None:
                    observations.add(scorecard, version)
                    usages.add(scorecard, version, reader)
                    failures.add(scorecard, version, redacting)
                without += version is None
        return without

    observed, versions = _observed(score, asked)
    for name, value, known in filters.unmatched(observed):
        text, hint = f"nothing that was scored has the {name} {quoted(value)}", suggestion(value, map(printable, known))
        if asked.live is None:
            raise ConfigError(text, hint=hint)
        echo(f"{text}: {hint or 'nothing was scored yet'}", err=True)
    question = Question(margin=asked.margin, confidence=asked.confidence, looks_often=asked.live is not None)
    compared = compare(observed, versions, filters, question, () if asked.by is None else grouping(asked.by))
    # Print the comparison; return the exit code.
    runs = usages.beside(versions)
    changes = failures.beside(versions, filters)
    style = terminal_style()
    if asked.as_json:
        lines = [
            json.dumps({**comparison_object(compared), "runs": to_builtins(runs), "failures": to_builtins(changes)})
        ]
    elif asked.as_markdown:
        lines = [*markdown_lines(compared), *failure_markdown(changes), *usage_markdown(runs)]
    else:
        lines = [*table_lines(compared, style), *failure_lines(changes, style), *usage_lines(runs, style)]
    for line in lines:
        echo(line)
    echo("\n".join(conclusion(compared)), err=True)
    return _EXIT_CODES[compared.answer]


def _observed(score: _Observe, asked: _Asked) -> tuple[Observed, Sequence[Versions]]:
    try:
        if asked.live is not None:
            observed = observed_live(_fetched(asked.live, "/comparison", asked.token_file, LiveArms).arms)
            return observed, _chosen(observed, asked, VERSION)
        if asked.by is not None:
            return _split(score, asked, asked.by)
        observations = Observations()
        for path, version in zip(asked.files, (BASE, NEW), strict=True):
            score(observations, [path], lambda _trajectory, version=version: version)
        observed, versions, without = set_beside(observations)
    except ToolgaugeError as error:
        # 1 would say that the release is worse.
        raise ConfigError(error.message, hint=error.hint) from error
    for name in without:
        echo(f"no `{name}` is in both recordings: streams are compared without it", err=True)
    return observed, versions


def _check_usage(asked: _Asked) -> None:
    live, by, files = asked.live is not None, asked.by, asked.files
    alone = not live and by is None
    wrong: list[tuple[object, str]] = [
        (asked.as_json and asked.as_markdown, "`--json` or `--markdown`, not both"),
        (not live and asked.token_file, "`--token-file` goes with `--live`"),
        (live and asked.criteria_files, "`--live` shows what the running process has scored: it takes no `--criteria`"),
    ]
    if asked.agents:
        wrong.append((bool(files) == live, "give recordings, or `--live`"))
    else:
        wrong += [
            (live and (files or by is not None), "`--live` takes neither files nor `--by`"),
            (by == "", "`--by` takes the name of an attribute"),
            (not live and by is not None and not files, "`--by` takes at least one file"),
            (alone and len(files) != len((BASE, NEW)), "give two recordings, or one with `--by`, or `--live`"),
            (
                alone and (asked.base or asked.new),
                "`--base` and `--new` name versions: they go with `--by` or `--live`",
            ),
            (not all("=" in each for each in asked.only), "`--only` takes NAME=VALUE, as in `--only tool=find_order`"),
        ]
    for is_wrong, text in wrong:
        if is_wrong:
            raise click.UsageError(text)


def _split(score: _Observe, asked: _Asked, by: str) -> tuple[Observed, Sequence[Versions]]:
    observations, names = Observations(), {SERVICE}
    without = score(observations, asked.files, lambda one: names.update(one.resource) or group(one, by))
    if without:
        echo(f"{without} trajectories without `{by}` were left out", err=True)
    observed = observations.observed(without={by} & {SERVICE, ENVIRONMENT})
    seen = sorted({version for versions in observed.first_seen_ns.values() for version in versions})
    if without and not seen:
        raise ConfigError(f"no trajectory has {quoted(by)}", hint=suggestion(by, map(printable, names)))
    for wanted in (asked.base, asked.new):
        if wanted is not None and wanted not in seen:
            known = ", ".join(quoted(version) for version in seen[:20]) or "none"
            raise ConfigError(f"no trajectory has {quoted(wanted)} as `{by}`", hint=f"there is {known}")
    return observed, _chosen(observed, asked, by)


def _chosen(observed: Observed, asked: _Asked, by: str) -> tuple[Versions, ...]:
    versions = tuple(choose_versions(observed, asked.base, asked.new))
    for chosen in versions:
        of = "" if chosen.service is None else f" of {quoted(chosen.service)}"
        echo(f"comparing {quoted(chosen.new)}{of} with {quoted(chosen.base)}", err=True)
    for wanted in (asked.base, asked.new):
        if wanted is not None and not any(wanted in seen for seen in observed.first_seen_ns.values()):
            echo(f"{quoted(wanted)} has not been seen as `{by}`", err=True)
    if not versions:
        value = "two values" if any(observed.first_seen_ns.values()) else "a value"
        echo(f"no service has {value} of `{by}`", err=True)
    return versions


def _print_agents(asked: _Asked) -> None:
    """List agents: of recordings, or of what a running process has seen since its start."""
    if asked.live is not None:
        content = _fetched(asked.live, "/agents.json", asked.token_file, CatalogueContent)
    else:
        config, criteria = load_to_score(asked.config_paths, asked.overrides, asked.criteria_files)
        agents = Catalogue(config.metrics, config.costs)
        make = offline_pipeline(config, criteria, on_tool_changes=lambda changes, _: agents.tools_changed(changes))
        with reading_progress(asked.files) as recording:
            for scorecard in scorecards(recording, make):
                agents.add(scorecard)
        content = agents.content()
    if asked.as_json:
        echo(msgspec.json.encode(content).decode())
        return
    for line in catalogue_markdown(content) if asked.as_markdown else catalogue_lines(content, terminal_style()):
        echo(line)


def _fetched(url: str, path: str, token_file: str | None, answer: type[_T]) -> _T:
    """Ask the running process at the URL of `--live`; raise `ToolgaugeError` when it does not answer."""
    check_url(url, "--live")
    at = url.rstrip("/").removesuffix(path)
    token = None if token_file is None else read_token(Path(token_file))
    body = ask(at, path, token=token, max_bytes=_MAX_ANSWER_BYTES)
    try:
        return msgspec.json.decode(body, type=answer)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise not_toolgauge(at) from error
