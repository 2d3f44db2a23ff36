"""Files, `--set` and environment variables -> one `Config`, or one `ConfigError` that lists what is wrong."""

import glob
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from toolgauge.config.checks import problems_in
from toolgauge.config.environment import filled_in
from toolgauge.config.extensions import config_model
from toolgauge.config.model import Config
from toolgauge.config.nodes import Node, Place, merged, plain
from toolgauge.config.parse import parse_yaml, read_file
from toolgauge.config.problems import Problem, config_error, problems_of
from toolgauge.model.errors import ConfigError
from toolgauge.settings import AS_WRITTEN


def load(paths: Sequence[Path], overrides: Sequence[str], environment: Mapping[str, str]) -> Config:
    """Merge the files from left to right, then the overrides (`a.b=c`), then what the environment fills in.

    Raises ConfigError with every problem found.
    """
    root = Node({}, Place("configuration"))
    for path in paths:
        root = merged(root, _file(path, environment))
    for override in overrides:
        root = merged(root, _override(override, root, environment))
    root = filled_in(root, environment)
    model = config_model(root)
    try:
        config = model.model_validate(_prepared(root), context=AS_WRITTEN)
    except ValidationError as error:
        raise config_error(problems_of(error, root, model)) from error
    problems = tuple(problems_in(config, root))
    if problems:
        raise config_error(problems)
    return config


def _file(path: Path, environment: Mapping[str, str]) -> Node:
    node = parse_yaml(read_file(path), str(path), environment)
    if node.value is None:
        return Node({}, Place(str(path)))
    if not isinstance(node.value, dict):
        raise config_error([Problem(node.place, "a configuration must be a mapping of keys to values")])
    return node


def _override(override: str, root: Node, environment: Mapping[str, str]) -> Node:
    path, equals, text = override.partition("=")
    steps = path.strip().split(".")
    source = f"--set {path}"
    if not equals or not all(steps):
        raise ConfigError(f"`--set {path[:60]}` is not of the form `a.b=value`")
    at: Node | None = root
    for step in steps[:-1]:
        at = at.child(step) if at is not None else None
        if at is not None and isinstance(at.value, list):
            raise ConfigError(f"`{source}`: `{step}` is a list, of which single entries cannot be set")
    node = parse_yaml(text, source, environment, first_line=None)
    for step in reversed(steps):
        node = Node({step: node}, Place(source))
    return node


def _prepared(root: Node) -> object:
    """Strip the places, except from criteria: they are read later, together with those from files."""
    values = plain(root)
    if not isinstance(values, dict):
        return values
    prepared: dict[str, object] = dict(values)
    criteria = root.child("criteria")
    if criteria is not None:
        prepared["criteria"] = () if criteria.value is None else criteria.value
    files = root.child("criteria_files")
    if files is not None and isinstance(files.value, list):
        prepared["criteria_files"] = tuple(_absolute(node) for node in files.value)
    return prepared


def _absolute(node: Node) -> object:
    """Make a glob independent of the file it stands in; the directory's own name is not a pattern."""
    if not isinstance(node.value, str) or not node.value:
        return node.value
    if Path(node.value).is_absolute():
        return node.value
    directory = glob.escape(str(node.place.directory.absolute()))
    return str(Path(directory) / node.value)
