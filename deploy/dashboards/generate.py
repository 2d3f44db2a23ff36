"""Write the dashboards: `python -m deploy.dashboards.generate`, from the project's root."""

from pathlib import Path

from deploy.dashboards.grafana import grafana_json
from deploy.dashboards.health import HEALTH
from deploy.dashboards.quality import QUALITY

DEPLOY = Path(__file__).parent.parent
DASHBOARDS = (QUALITY, HEALTH)


def files() -> dict[Path, str]:
    """Generate every file: its path and what it holds."""
    return {
        DEPLOY / "grafana" / "dashboards" / f"{described.uid}.json": grafana_json(described) for described in DASHBOARDS
    }


if __name__ == "__main__":
    for path, content in files().items():
        path.write_text(content)
