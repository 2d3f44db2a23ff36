"""`toolgauge print-config`: what the configuration comes to."""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from toolgauge.cli.main import EXIT_CODES, configuration_options


@click.command("print-config", epilog=EXIT_CODES)
@configuration_options
def command(config_paths: Sequence[str], overrides: Sequence[str]) -> None:
    """Print the configuration as YAML with every default written out.

    It is what `toolgauge serve` would run with: all files merged, `--set` and environment variables applied.
    Headers and other secrets are shown as `<redacted>`. Criteria are printed as they were written; those in files
    are named, not printed.
    """
    from toolgauge.config.load import load, shown

    config = load([Path(path) for path in config_paths], overrides, os.environ)
    click.echo(shown(config), nl=False)
