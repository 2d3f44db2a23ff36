"""Real files for the tests of the configuration."""

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from toolgauge.config.criteria import CriterionConfig, read_criteria
from toolgauge.config.load import load
from toolgauge.config.model import Config
from toolgauge.config.problems import Problem, config_error
from toolgauge.model.errors import ConfigError


def write(path: Path, text: str) -> Path:
    """Write a file, indented as the test is, and make its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text), encoding="utf-8")
    return path


def mount(volume: Path, version: str, files: dict[str, str]) -> None:
    """Exchange the content of a volume as the kubelet does: a new folder, and one link renamed over the old one."""
    folder = volume / f"..{version}"
    for name, text in files.items():
        write(folder / name, text)
        if not (volume / name).is_symlink():
            (volume / name).symlink_to(Path("..data") / name)
    (volume / "..data_tmp").symlink_to(folder.name)
    (volume / "..data_tmp").rename(volume / "..data")


def loaded(*paths: Path, overrides: tuple[str, ...] = (), environment: dict[str, str] | None = None) -> Config:
    """Load a configuration."""
    return load(paths, overrides, environment or {})


def refused(*paths: Path, overrides: tuple[str, ...] = (), environment: dict[str, str] | None = None) -> ConfigError:
    """Load a configuration that must be refused, and return why."""
    with pytest.raises(ConfigError) as caught:
        load(paths, overrides, environment or {})
    return caught.value


def load_criteria(config: Config, environment: Mapping[str, str]) -> tuple[CriterionConfig, ...]:
    """Read the criteria of a configuration. Raises ConfigError with every problem found."""
    problems: list[Problem] = []
    criteria = read_criteria(config, environment, problems)
    if problems:
        raise config_error(problems)
    return criteria


def criteria_in(file: Path) -> tuple[CriterionConfig, ...]:
    """Read the criteria of one file. Raises ConfigError with every problem found."""
    return load_criteria(Config(criteria_files=(str(file),)), {})
