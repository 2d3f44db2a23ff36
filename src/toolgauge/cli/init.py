"""`toolgauge init`: a first configuration and criteria file that run as they are."""

import os
from pathlib import Path

import click

from toolgauge.authoring.evidence import Requirements
from toolgauge.authoring.learner import Learner, Options, Wanted
from toolgauge.authoring.starter import SeenTraffic, configuration, criteria_file, packs
from toolgauge.cli.learn import learned_from
from toolgauge.cli.main import EXIT_CODES, configuration_options
from toolgauge.model.errors import ConfigError, ToolgaugeError
from toolgauge.score.criterion import ToolKinds
from toolgauge.service.criteria_factory import load_for_replay
from toolgauge.service.pipeline_factory import tool_kinds

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
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
@configuration_options
def command(
    files: tuple[str, ...],
    names: tuple[str, ...],
    directory: Path,
    config_paths: tuple[str, ...],
    overrides: tuple[str, ...],
    *,
    force: bool,
) -> None:
    """Write a first configuration and criteria file, commented, that run as they are.

    From recorded traffic (FILE is as in `toolgauge inspect --help`): which tools change state, and criteria as `toolgauge
    learn` writes them. From ready-made packs: criteria that fit any agent of a kind. From both at once.

    Then: `toolgauge serve --config toolgauge.yaml`. `--config` and `--set` say how recordings are read, and are not written.
    """
    if not files and not names:
        raise click.UsageError(f"name recordings, or a pack: {', '.join(f'--pack {name}' for name in packs())}")
    places = {name: directory / name for name in (_CONFIG, _CRITERIA)}
    _check(list(places.values()), force=force)
    seen = _seen(files, config_paths, overrides) if files else None
    texts = {
        _CONFIG: configuration(seen, config=str(places[_CONFIG]), criteria=_CRITERIA),
        _CRITERIA: criteria_file(seen, tuple(dict.fromkeys(names))),
    }
    _write({places[name]: text for name, text in texts.items()})
    count = texts[_CRITERIA].count("\n  - name: ")
    click.echo(f"wrote {places[_CONFIG]} and {places[_CRITERIA]} ({count} criteria beside the default ones)", err=True)
    click.echo(f"next: toolgauge serve --config {places[_CONFIG]}", err=True)


def _check(places: list[Path], *, force: bool) -> None:
    there = [f"`{place}`" for place in places if place.exists()]
    if there and not force:
        raise ConfigError(
            f"{' and '.join(there)} would be overwritten", hint="`--force` overwrites, `--directory` goes elsewhere"
        )


def _seen(files: tuple[str, ...], config_paths: tuple[str, ...], overrides: tuple[str, ...]) -> SeenTraffic:
    config, _ = load_for_replay(config_paths, overrides, (), os.environ)
    learner = learned_from(files, Wanted(), config_paths, overrides)
    if not learner.calls:
        raise ToolgaugeError(
            f"there is no tool call in these recordings ({learner.runs} runs)",
            hint="`toolgauge doctor FILE...` looks for the reason; `--pack NAME` needs no traffic",
        )
    criteria, summaries = learner.result(_OPTIONS)
    if not any(summary.criteria for summary in summaries):
        most = max(summary.runs for summary in summaries)
        click.echo(
            f"too few runs to learn criteria from (at most {most} of one service): the default criteria are on, and "
            f"`toolgauge learn` writes some once there are {_OPTIONS.requirements.runs} or more",
            err=True,
        )
    return _traffic(learner, criteria, tool_kinds(config))


def _traffic(learner: Learner, criteria: str, kinds: ToolKinds) -> SeenTraffic:
    tools = learner.tool_names()
    return SeenTraffic(
        criteria=criteria,
        has_conversations=learner.has_conversations,
        writes=[name for name in tools if kinds.writes(name)],
        # Hand-offs and answers neither read nor write: they are left to their names.
        read_only=[name for name in tools if not kinds.writes(name) and not ToolKinds(neutral=()).writes(name)],
    )


def _write(texts: dict[Path, str]) -> None:
    for place, text in texts.items():
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ToolgaugeError(f"cannot write `{place}`: {error.strerror}") from error
