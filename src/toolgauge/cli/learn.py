"""`toolgauge learn`, `init` and `convert`: recorded traffic or definitions of other tools in, files to review out."""

import contextlib
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from toolgauge import plugins
from toolgauge.authoring.convert.conversion import convert as converted_from
from toolgauge.authoring.convert.draft import read_documents
from toolgauge.authoring.criteria_yaml import Commented, Written
from toolgauge.authoring.evidence import Requirements
from toolgauge.authoring.labels import read_labels
from toolgauge.authoring.learner import Learner, Options, Wanted, learn_recording
from toolgauge.authoring.starter import SeenTools, configuration, criteria_file, of_mcp, packs
from toolgauge.cli.main import EXIT_CODES, configuration_options
from toolgauge.cli.output import reading_progress, write_text
from toolgauge.config.load import as_yaml
from toolgauge.config.problems import plain
from toolgauge.config.tool_definitions import parsed
from toolgauge.model.errors import ConfigError, RecordingError, ToolgaugeError
from toolgauge.model.json import Json
from toolgauge.report.streams import echo
from toolgauge.report.terminal import printable, shortened
from toolgauge.service.criteria_factory import load_for_replay
from toolgauge.service.pipeline_factory import tool_kinds

_EPILOG = (
    "Exit codes: 0 criteria were written; 1 there is no tool call, or the recordings cannot be read; "
    "2 misuse or bad configuration; 3 not enough data: too few runs for any rule."
)
_NAME_LENGTH = 80


@click.command("learn", epilog=_EPILOG)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
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
    output: Path | None,
    min_runs: int,
    tolerance: float,
    false_alarms: float,
    only: tuple[str, ...],
    label_file: Path | None,
    config_paths: tuple[str, ...],
    overrides: tuple[str, ...],
) -> int:
    """Write contracts of tools and criteria that hold what was usual in traffic, each line with its evidence.

    FILE is as in `toolgauge inspect --help`. For each tool: which call has to work before it, for the same values, its arguments,
    and the keys of its results; for each service a budget, and what answers say after a tool worked. Learn from traffic that you are content with, read the file,
    and run it: `toolgauge replay --criteria envelope.yaml FILE`, then as one of `criteria_files` of `toolgauge serve`.

    Values stay out of it, but for truth values, rounded figures, and labels such as `economy` that the tool's definition
    spells or that at least five conversations share. The same recordings give the same bytes.
    """
    options = Options(requirements=Requirements(runs=min_runs, tolerance=tolerance), most_alarms=false_alarms)
    for each in only:
        if not each.partition("=")[0] or "=" not in each:
            raise click.UsageError(f"--only takes ATTRIBUTE=VALUE, not `{each}`")
    pairs = tuple((key, value) for key, _, value in (each.partition("=") for each in only))
    wanted = Wanted(pairs, None if label_file is None else read_labels(label_file))
    learner = learned_from(files, wanted, config_paths, overrides)
    if not learner.calls:
        raise RecordingError(
            wanted.why_none() or f"there is no tool call in these recordings ({learner.runs} runs)",
            hint="`toolgauge doctor FILE...` shows the reason",
        )
    learned = learner.result(options)
    echo(f"{learned.runs} runs: contracts of {len(learned.contracts)} tools", err=True)
    if learned.needed > min_runs:
        echo(f"a contract needs {learned.needed} runs, as with {min_runs} too many would break one", err=True)
    for summary in learned.services:
        name = "(no service name)" if summary.service is None else shortened(summary.service, _NAME_LENGTH)
        line = f"{name}: {summary.runs} runs, {summary.calls} calls, {summary.criteria} criteria"
        if summary.needed > min_runs:
            line += f"; a limit needs {summary.needed} runs, as with {min_runs} too many runs would fail"
        if len(summary.versions) > 1:
            line += f"; {len(summary.versions)} versions are mixed: `--only service.version=...` learns from one"
        echo(line, err=True)
    if learner.cut_short:
        echo(f"left out: {learner.cut_short} runs that were not seen to their end", err=True)
    if not learned.count:
        text = "no rule has enough evidence; record more, or lower --min-runs and allow more --false-alarms"
        echo(text, err=True)
        return 3
    if output is None:
        echo(learned.text, end="")
        return 0
    write_text(output, learned.text)
    text = f"wrote contracts of {len(learned.contracts)} tools and {len(learned.criteria)} criteria to {output}; try them: toolgauge replay --criteria {output} FILE..."
    echo(text, err=True)
    return 0


def learned_from(
    files: Sequence[str], wanted: Wanted, config_paths: Sequence[str], overrides: Sequence[str]
) -> Learner:
    """Read recordings as one, with progress, and take the wanted runs."""
    config, _ = load_for_replay(config_paths, overrides, (), os.environ)
    with reading_progress(files) as reading:
        return learn_recording(reading, wanted, config)


# As `toolgauge learn` has them by default.
_OPTIONS = Options(requirements=Requirements(runs=20, tolerance=0.01), most_alarms=0.05)
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
def init(
    files: tuple[str, ...],
    names: tuple[str, ...],
    directory: Path,
    mcp_files: tuple[Path, ...],
    mcp_command: str | None,
    config_paths: tuple[str, ...],
    overrides: tuple[str, ...],
    *,
    force: bool,
) -> None:
    """Write a first configuration and criteria file, commented, that run as they are.

    From recorded traffic (FILE is as in `toolgauge inspect --help`): a contract for each tool, and criteria as `toolgauge
    learn` writes them. From MCP servers: what their tools say of themselves. From ready-made packs: criteria that fit any agent
    of a kind. From all of them at once.

    Then: `toolgauge serve --config toolgauge.yaml`. `--config` and `--set` say how recordings are read, and are not written.
    """
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
        answers.append(_asked(shlex.split(mcp_command)))
    offered = {name: one for answer in answers for name, one in of_mcp(answer).items()}
    seen = _seen(files, offered, config_paths, overrides) if files else SeenTools(contracts=offered)
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


def _asked(command: list[str]) -> Json:
    try:
        from toolgauge.mcp_server.tools_of_server import tools_of_server
    except ModuleNotFoundError as error:
        if (error.name or "toolgauge").partition(".")[0] == "toolgauge":
            raise
        message = "`--mcp-command` needs the extra `toolgauge[mcp]`, which is not installed"
        raise ConfigError(message, hint=plugins.install_hint("mcp")) from error
    return tools_of_server(command)


def _seen(
    files: tuple[str, ...],
    offered: Mapping[str, Mapping[str, Written]],
    config_paths: tuple[str, ...],
    overrides: tuple[str, ...],
) -> SeenTools:
    config, _ = load_for_replay(config_paths, overrides, (), os.environ)
    learner = learned_from(files, Wanted(), config_paths, overrides)
    if not learner.calls:
        raise ToolgaugeError(
            f"there is no tool call in these recordings ({learner.runs} runs)",
            hint="`toolgauge doctor FILE...` shows the reason; `--pack NAME` needs no traffic",
        )
    learned, kinds = learner.result(_OPTIONS), tool_kinds(config)
    if not learned.count:
        most = max(summary.runs for summary in learned.services)
        echo(
            f"too few runs to learn criteria from (at most {most} of one service): the default criteria are on, and "
            f"`toolgauge learn` writes some once there are {_OPTIONS.requirements.runs} or more",
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
    return SeenTools(criteria=learned.criteria_text, has_conversations=learner.has_conversations, contracts=contracts)


@click.command("convert", epilog=EXIT_CODES)
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@click.option(
    "--references", type=click.Path(path_type=Path), help="Where what is expected in several cases is written."
)
@click.option("--key", default="eval.case.id", show_default=True, help="The attribute of a trace that holds its case.")
def convert(files: tuple[str, ...], *, references: Path | None, key: str) -> None:
    """Write definitions of other tools as criteria.

    FILES are evaluators and evaluation sets of UiPath, eval sets and `test_config.json` of Google ADK, samples of Ragas,
    trajectories of agentevals and configurations of promptfoo, as JSON, JSON Lines or YAML. Files that refer to each
    other are given together. The criteria go to standard output, what could not be carried over to standard error.

    Where a criterion has more than one case, what is expected in each goes to the file of `--references`; its path in the
    criteria is relative to them.
    """
    documents = [document for file in files for document in read_documents(file)]
    converted = converted_from(documents, references, key)
    for path, lines in converted.references.items():
        write_text(path, "".join(f"{line}\n" for line in lines))
    echo(as_yaml({"criteria": converted.criteria}), end="")
    if references is not None and not converted.references:
        echo(f"`{references}` was not written: the criteria hold what is expected in their cases", err=True)
    if converted.case is not None:
        echo(printable(f"each run needs the attribute `{key}` with its case, as `{converted.case}`"), err=True)
    for note in converted.notes:
        echo(f"not carried over: {printable(note)}", err=True)
