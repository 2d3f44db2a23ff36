"""Options that several commands share."""

from collections.abc import Callable
from typing import TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., object])


def configuration_options(function: _F) -> _F:
    """Add `--config` and `--set`, which arrive as `config_paths` and `overrides`."""
    config = click.option(
        "--config",
        "config_paths",
        multiple=True,
        metavar="FILE",
        type=click.Path(),
        help="A YAML configuration file. Given several times, the files are merged from left to right: mappings key "
        "by key, everything else is replaced. Without one, the defaults hold; `toolgauge print-config` prints them.",
    )
    override = click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Set one key over what the files say, as in `--set hold.timeout=10s`. The value is read as YAML. May be "
        "given several times.",
    )
    return config(override(function))
