"""`toolgauge validate`: the same loading as a start, without opening a port."""

import sys
from collections.abc import Sequence

import click

from toolgauge.cli.main import EXIT_CODES, configuration_options


@click.command("validate", epilog=EXIT_CODES)
@configuration_options
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with 1 where a certificate, key, authority or token file cannot be used on this machine.",
)
def command(config_paths: Sequence[str], overrides: Sequence[str], *, strict: bool) -> None:
    """Check the configuration, the criteria, their references and the registered tools, and open no port.

    Everything is read exactly as `toolgauge serve` reads it. Problems are reported together, each with file and line:
    wrong keys, values, names and references of configuration and criteria, and, once the configuration itself is right,
    evaluators and parameters of the criteria that are right so far; registered tools come last. Certificates, keys and
    tokens may be on another machine: where they cannot be used, that is a warning.
    """
    from toolgauge.cli.loaded_criteria import print_evaluator_files
    from toolgauge.config.tool_definitions import load_tool_definitions
    from toolgauge.service.criteria_factory import load_configuration, unusable_files

    config, criteria = load_configuration(config_paths, overrides)
    print_evaluator_files(criteria)
    tools = load_tool_definitions(config)
    unusable = tuple(unusable_files(config))
    for error in unusable:
        click.echo(f"warning: {error.message}", err=True)
        if error.hint is not None:
            click.echo(f"hint: {error.hint}", err=True)
    names = ", ".join(criterion.name for criterion in criteria)
    registered = f"; {len(tools)} registered tools" if tools else ""
    click.echo(f"the configuration is valid; {len(criteria)} criteria: {names or 'none'}{registered}")
    if strict and unusable:
        sys.exit(1)
