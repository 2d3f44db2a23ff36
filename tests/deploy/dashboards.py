"""The committed dashboards, read as data, and their queries with variables filled in."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.deploy.files import DEPLOY

FILES = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
# What Grafana puts in by itself; its intervals follow from how often Prometheus scrapes.
BUILT_IN = {"__rate_interval": "1m", "__interval": "1s", "__range": "10m"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One query of a dashboard: of a panel, or of an annotation."""

    dashboard: str
    panel: str
    ref: str
    expr: str
    shows_exemplars: bool = False


def read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text())


def panels(dashboard: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All panels that are pictures: neither rows nor text."""
    return [panel for panel in dashboard["panels"] if panel["type"] not in ("row", "text")]


def queries() -> Iterator[Asked]:
    """Every query of every dashboard."""
    for file in FILES:
        dashboard = read(file)
        for panel in panels(dashboard):
            for target in panel["targets"]:
                yield Asked(
                    dashboard=file.stem,
                    panel=panel["title"],
                    ref=target["refId"],
                    expr=target["expr"],
                    shows_exemplars=target.get("exemplar", False),
                )
        for annotation in dashboard["annotations"]["list"]:
            yield Asked(dashboard=file.stem, panel=annotation["name"], ref="annotation", expr=annotation["expr"])


def filled(text: str, values: Mapping[str, str]) -> str:
    """Put values in place of variables, all of which must be known."""
    known = {**BUILT_IN, **values}
    return re.sub(r"\$\{?(\w+)\}?", lambda found: known[found[1]], text)


def variables(dashboard: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The variables of a dashboard that are values of labels, by name."""
    return {entry["name"]: entry for entry in dashboard["templating"]["list"] if entry["type"] == "query"}


def everything(dashboard: Mapping[str, Any]) -> dict[str, str]:
    """What variables are when nothing has been chosen."""
    return {name: entry.get("allValue") or entry["current"]["value"] for name, entry in variables(dashboard).items()}
