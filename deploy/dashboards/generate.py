"""Write the dashboards: `python -m deploy.dashboards.generate`, from the project's root."""

from pathlib import Path

from deploy.dashboards.grafana import grafana_json
from deploy.dashboards.health import HEALTH
from deploy.dashboards.perses import perses_json
from deploy.dashboards.quality import QUALITY

DEPLOY = Path(__file__).parent.parent
DASHBOARDS = (QUALITY, HEALTH)


def files() -> dict[Path, str]:
    """Generate every file: its path and what it holds."""
    grafana, perses = DEPLOY / "grafana" / "dashboards", DEPLOY / "perses"
    written = {grafana / f"{described.uid}.json": grafana_json(described) for described in DASHBOARDS}
    return written | {perses / f"{described.uid}.json": perses_json(described) for described in DASHBOARDS}


if __name__ == "__main__":
    for path, content in files().items():
        path.write_text(content)
