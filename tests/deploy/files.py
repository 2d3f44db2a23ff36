"""The files of `deploy/`, read as data."""

import re
from pathlib import Path
from typing import Any, cast

import yaml

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
CONFIGURATIONS = sorted(DEPLOY.rglob("toolgauge.yaml"))
COLLECTORS = sorted(DEPLOY.rglob("collector.yaml"))


def documents(file: Path) -> list[dict[str, Any]]:
    """Read all YAML documents of a file."""
    return list(yaml.safe_load_all(file.read_text()))


def document(file: Path) -> dict[str, Any]:
    """Read the one YAML document of a file."""
    (read,) = documents(file)
    return read


def ports(section: Any) -> set[int]:  # noqa: ANN401 (any YAML)
    """Collect the ports of all `endpoint`s in a section."""
    if not isinstance(section, dict):
        return set()
    keys = cast("dict[str, Any]", section)  # the keys of configurations are text
    own = {int(keys["endpoint"].rpartition(":")[2])} if "endpoint" in keys else set[int]()
    return own.union(*(ports(value) for value in keys.values()))


def variables(file: Path) -> dict[str, str]:
    """Read a systemd environment file without quotes."""
    return dict(re.findall(r"(?m)^(\w+)=(.*)$", file.read_text()))
