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
    """Check the configuration, the criteria and their references, and open no port.

    Everything is read exactly as `toolgauge serve` reads it. Problems are reported together, each with file and line:
    keys and values that are wrong, and once there are none, evaluators and references that are. Certificates, keys and
    tokens may be on another machine: where they cannot be used, that is a warning.
    """
    from toolgauge.service.criteria_factory import load_configuration, unusable_files

    config, criteria = load_configuration(config_paths, overrides)
    unusable = tuple(unusable_files(config))
    for error in unusable:
        click.echo(f"warning: {error.message}", err=True)
        if error.hint is not None:
            click.echo(f"hint: {error.hint}", err=True)
    names = ", ".join(criterion.name for criterion in criteria)
    click.echo(f"the configuration is valid; {len(criteria)} criteria: {names or 'none'}")
    if strict and unusable:
        sys.exit(1)
