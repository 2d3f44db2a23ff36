"""The dashboards of toolgauge, written by code: `python -m deploy.dashboards.generate` writes the files of `deploy/`."""
