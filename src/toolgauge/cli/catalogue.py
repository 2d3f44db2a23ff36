"""`toolgauge catalogue`: the agents of recordings or of a running process, with their models, prompts, tools and costs."""

from pathlib import Path

import click
import msgspec

from toolgauge.cli.command_parts import fetched, load_to_score, reading_progress, terminal_style
from toolgauge.cli.main import EXIT_CODES, configuration_options, criteria_option
from toolgauge.recordings.recorded_requests import scorecards
from toolgauge.report.catalogue import Catalogue, CatalogueContent, catalogue_lines, catalogue_markdown
from toolgauge.report.streams import echo
from toolgauge.service.pipeline_factory import offline_pipeline


@click.command("catalogue", epilog=EXIT_CODES)
@click.argument("files", nargs=-1, metavar="[FILE...]")
@click.option("--live", metavar="URL", help="Ask a running `toolgauge serve`: the URL of its web view.")
@click.option(
    "--token-file", type=click.Path(path_type=Path), help="Holds the token for `--live`, as `web.auth` wants it."
)
@criteria_option("A criteria file, scored besides the default criteria; may be given several times.")
@configuration_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown.")
def command(
    files: tuple[str, ...],
    live: str | None,
    token_file: Path | None,
    criteria_files: tuple[str, ...],
    config_paths: tuple[str, ...],
    overrides: tuple[str, ...],
    *,
    as_json: bool,
    as_markdown: bool,
) -> None:
    """List the agents, with models, versions, prompts, tools, and what a run without a fault takes.

    FILE is as in `toolgauge inspect --help`; recordings are scored as `toolgauge replay` scores them. With `--live`, a
    running process is asked for what it has seen since its start.

    For each agent of a service: runs without a fault seen, and runs that failed; tokens, time and cost of the former, failed runs
    included; each value of a model, version, prompt or setting since when; each tool with calls, failures, times, the last
    change of its definition, and the criteria that judge it. `costs` in the configuration has prices, and names the
    criteria of success, by which runs are then said to have succeeded. Of prompts only hashes are shown.
    """
    if bool(files) == (live is not None):
        raise click.UsageError("give recordings, or `--live`")
    if as_json and as_markdown:
        raise click.UsageError("`--json` or `--markdown`, not both")
    if live is None and token_file is not None:
        raise click.UsageError("`--token-file` goes with `--live`")
    if live is not None and criteria_files:
        raise click.UsageError("`--live` shows what the running process has scored: it takes no `--criteria`")
    if live is not None:
        content = fetched(live, "/agents.json", token_file, CatalogueContent)
    else:
        config, criteria = load_to_score(config_paths, overrides, criteria_files)
        catalogue = Catalogue(config.metrics, config.costs)
        make = offline_pipeline(config, criteria, on_tool_changes=lambda changes, _: catalogue.tools_changed(changes))
        with reading_progress(files) as recording:
            for scorecard in scorecards(recording, make):
                catalogue.add(scorecard)
        content = catalogue.content()
    if as_json:
        echo(msgspec.json.encode(content).decode())
        return
    for line in catalogue_markdown(content) if as_markdown else catalogue_lines(content, terminal_style()):
        echo(line)
