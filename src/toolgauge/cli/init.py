"""`toolgauge init`: recorded traffic, packs or definitions of other tools in, a first configuration and criteria out."""

import contextlib
import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click

from toolgauge.authoring.convert.conversion import convert
from toolgauge.authoring.convert.draft import read_documents
from toolgauge.authoring.criteria_yaml import Commented, Written
from toolgauge.authoring.evidence import Requirements
from toolgauge.authoring.learner import Learner, Wanted
from toolgauge.authoring.starter import SeenTools, configuration, criteria_file, of_mcp, packs
from toolgauge.cli.learn import learned_from
from toolgauge.cli.main import EXIT_CODES, configuration_options
from toolgauge.cli.output import mcp_extra, write_text
from toolgauge.config.load import as_yaml
from toolgauge.config.problems import plain
from toolgauge.config.tool_definitions import parsed
from toolgauge.model.errors import ConfigError, ToolgaugeError
from toolgauge.report.streams import echo
from toolgauge.report.terminal import printable
from toolgauge.score.contracts import ToolKinds
from toolgauge.service.criteria_factory import load_for_replay
from toolgauge.service.pipeline_factory import tool_kinds

_REQUIREMENTS = Requirements()
_CONFIG, _CRITERIA = "toolgauge.yaml", "criteria.yaml"


@click.command("init", epilog=EXIT_CODES)
@click.argument("files", nargs=-1, metavar="[FILE...]")
@click.option(
    "--pack",
    "names",
    multiple=True,
    type=click.Choice(packs()),
    help="Ready-made criteria for this kind of agent; may be given several times.",
)
@click.option(
    "--from",
    "is_from",
    is_flag=True,
    help="FILES are definitions of other tools: evaluators and evaluation sets of UiPath, eval sets and `test_config.json` of "
    "Google ADK, samples of Ragas, trajectories of agentevals, configurations of promptfoo, as JSON, JSON Lines or YAML. Print "
    "them as criteria, and on standard error what could not be carried over.",
)
@click.option(
    "--references",
    type=click.Path(path_type=Path),
    help="With --from: where what is expected in several cases is written; its path in the criteria is relative to them.",
)
@click.option(
    "--key",
    default="eval.case.id",
    show_default=True,
    help="With --from: the attribute of a trace that holds its case.",
)
@click.option(
    "-d",
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help=f"Where `{_CONFIG}` and `{_CRITERIA}` are written. Default: the current directory.",
)
@click.option(
    "--mcp",
    "mcp_files",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="An MCP server's answer to `tools/list`, whose annotations and schemas go into the contracts; may be given several times.",
)
@click.option(
    "--mcp-command",
    "mcp_command",
    metavar="COMMAND",
    help="The command of an MCP server, which is started and asked for its tools. Needs the extra `mcp`.",
)
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
@configuration_options
def command(
    files: tuple[str, ...],
    names: tuple[str, ...],
    references: Path | None,
    key: str,
    directory: Path,
    mcp_files: tuple[Path, ...],
    mcp_command: str | None,
    config_paths: tuple[str, ...],
    overrides: tuple[str, ...],
    *,
    is_from: bool,
    force: bool,
) -> None:
    """Write a first configuration and criteria file, commented, that run as they are.

    From recorded traffic (FILE is as in `toolgauge check --help`): a contract for each tool, and criteria as `toolgauge learn`
    writes them. From MCP servers: what their tools say of themselves. From ready-made packs: criteria that fit any agent of a kind.
    From all of them at once. With --from, definitions of other tools become criteria on standard output; files that refer to
    each other are given together.

    Then: `toolgauge serve --config toolgauge.yaml`. `--config` and `--set` say how recordings are read, and are not written.
    """
    if is_from:
        _convert(files, references, key)
        return
    if not (files or names or mcp_files or mcp_command):
        raise click.UsageError(
            f"name recordings, `--mcp FILE`, or a pack: {', '.join(f'--pack {name}' for name in packs())}"
        )
    places = {name: directory / name for name in (_CONFIG, _CRITERIA)}
    existing = [f"`{place}`" for place in places.values() if place.exists()]
    if existing and not force:
        hint = "`--force` overwrites, `--directory` goes elsewhere"
        raise ConfigError(f"{' and '.join(existing)} would be overwritten", hint=hint)
    answers = [plain(parsed(file)) for file in mcp_files]
    if mcp_command is not None:
        with mcp_extra("--mcp-command"):
            from toolgauge.mcp_server.stdio_server import tools_of_server
        answers.append(tools_of_server(shlex.split(mcp_command)))
    offered = {name: one for answer in answers for name, one in of_mcp(answer).items()}
    seen = SeenTools(contracts=offered)
    if files:
        config, _ = load_for_replay(config_paths, overrides, (), os.environ)
        seen = _seen(learned_from(files, Wanted(), config), offered, tool_kinds(config))
    seen = replace(seen, definitions=[str(file.absolute()) for file in mcp_files])
    texts = {
        _CONFIG: configuration(seen, config=str(places[_CONFIG]), criteria=_CRITERIA),
        _CRITERIA: criteria_file(seen, tuple(dict.fromkeys(names))),
    }
    for name, text in texts.items():
        with contextlib.suppress(OSError):  # the file cannot be written either, and the error names it
            places[name].parent.mkdir(parents=True, exist_ok=True)
        write_text(places[name], text)
    count = texts[_CRITERIA].count("\n  - name: ")
    echo(f"wrote {places[_CONFIG]} and {places[_CRITERIA]} ({count} criteria beside the default ones)", err=True)
    echo(f"next: toolgauge serve --config {places[_CONFIG]}", err=True)


def _seen(learner: Learner, offered: Mapping[str, Mapping[str, Written]], kinds: ToolKinds) -> SeenTools:
    if not learner.calls:
        raise ToolgaugeError(
            f"there is no tool call in these recordings ({learner.runs} runs)",
            hint="`toolgauge doctor FILE...` shows the reason; `--pack NAME` needs no traffic",
        )
    learned = learner.result(_REQUIREMENTS)
    if not learned.count:
        most = max(summary.runs for summary in learned.services)
        echo(
            f"too few runs to learn criteria from (at most {most} of one service): the default criteria are on, and "
            f"`toolgauge learn` writes some once there are {_REQUIREMENTS.runs} or more",
            err=True,
        )
    contracts: dict[str, Written] = {**offered}
    for name, note in learned.tools.items():
        # Answers and thinking neither read nor write: they are left to their names.
        key: dict[str, Written] = {} if kinds.is_neutral(name) else {"changes_state": kinds.writes(name)}
        by_name = {"hands_over": True} if kinds.hands_over(name) else key
        contract = {**by_name, **offered.get(name, {}), **learned.contracts.get(name, {})}
        if contract:
            contracts[name] = Commented(contract, note)
    return SeenTools(criteria=learned.criteria_text, has_conversations=learned.has_conversations, contracts=contracts)


def _convert(files: tuple[str, ...], references: Path | None, key: str) -> None:
    """Print definitions of other tools as criteria."""
    if not files:
        context = click.get_current_context()
        raise click.MissingParameter(ctx=context, param=context.command.params[0])
    documents = [document for file in files for document in read_documents(file)]
    converted = convert(documents, references, key)
    for path, lines in converted.references.items():
        write_text(path, "".join(f"{line}\n" for line in lines))
    echo(as_yaml({"criteria": converted.criteria}), end="")
    if references is not None and not converted.references:
        echo(f"`{references}` was not written: the criteria hold what is expected in their cases", err=True)
    if converted.case is not None:
        echo(printable(f"each run needs the attribute `{key}` with its case, as `{converted.case}`"), err=True)
    for note in converted.notes:
        echo(f"not carried over: {printable(note)}", err=True)
