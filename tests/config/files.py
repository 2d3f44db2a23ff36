"""Real files for the tests of the configuration."""

from pathlib import Path
from textwrap import dedent

import pytest

from toolgauge.config.load import load
from toolgauge.config.model import Config
from toolgauge.model.errors import ConfigError


def write(path: Path, text: str) -> Path:
    """Write a file, indented as the test is, and make its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text), encoding="utf-8")
    return path


def loaded(*paths: Path, overrides: tuple[str, ...] = (), environment: dict[str, str] | None = None) -> Config:
    """Load a configuration."""
    return load(paths, overrides, environment or {})


def refused(*paths: Path, overrides: tuple[str, ...] = (), environment: dict[str, str] | None = None) -> ConfigError:
    """Load a configuration that must be refused, and return why."""
    with pytest.raises(ConfigError) as caught:
        load(paths, overrides, environment or {})
    return caught.value
