"""`toolgauge validate`: the same loading as a start, without opening a port."""

from collections.abc import Sequence

import click

from toolgauge.cli.main import EXIT_CODES
from toolgauge.cli.options import configuration_options


@click.command("validate", epilog=EXIT_CODES)
@configuration_options
def command(config_paths: Sequence[str], overrides: Sequence[str]) -> None:
    """Check the configuration, the criteria and their references, and open no port.

    Everything is read exactly as `toolgauge serve` reads it. All problems are reported at once, each with file and
    line.
    """
    from toolgauge.build.criteria import load_configuration

    _, criteria = load_configuration(config_paths, overrides)
    names = ", ".join(criterion.name for criterion in criteria)
    click.echo(f"the configuration is valid; {len(criteria)} criteria: {names or 'none'}")
