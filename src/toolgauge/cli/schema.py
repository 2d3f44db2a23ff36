"""`toolgauge schema`: what editors need to check and complete configuration and criteria."""

import json
from typing import Literal

import click

from toolgauge.cli.main import EXIT_CODES


@click.command("schema", epilog=EXIT_CODES)
@click.option(
    "--of",
    type=click.Choice(["config", "criteria", "cases"]),
    default="config",
    show_default=True,
    help="The configuration of `serve` with its criteria; a criteria file; or one line of a reference file.",
)
def command(of: Literal["config", "criteria", "cases"]) -> None:
    """Print the JSON Schema (2020-12) of the configuration, for editors.

    It has every key with its default, and the parameters of every evaluator that is installed, those of other packages among
    them. An editor with the YAML language server checks a file that begins with `# yaml-language-server: $schema=FILE`.
    What no schema can know (files, names given twice, patterns) is for `toolgauge validate`.
    """
    from toolgauge.config.editor_schema import config_schema, criteria_schema, reference_schema

    make = {"config": config_schema, "criteria": criteria_schema, "cases": reference_schema}
    click.echo(json.dumps(make[of](), indent=1, ensure_ascii=False))
