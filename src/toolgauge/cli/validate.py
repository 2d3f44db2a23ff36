"""`toolgauge validate`: the same loading as a start, without opening a port."""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from toolgauge.cli.main import EXIT_CODES
from toolgauge.cli.options import configuration_options
from toolgauge.config.criteria import load_criteria
from toolgauge.config.load import load


@click.command("validate", epilog=EXIT_CODES)
@configuration_options
def command(config_paths: Sequence[str], overrides: Sequence[str]) -> None:
    """Check the configuration, the criteria and their references, and open no port.

    Everything is read exactly as `toolgauge serve` reads it. All problems are reported at once, each with file and
    line.
    """
    config = load([Path(path) for path in config_paths], overrides, os.environ)
    criteria = load_criteria(config, os.environ)
    click.echo(f"the configuration is valid; {len(criteria)} criteria are configured")
