"""Installs an example's package as an installer would, but for the build: no network, no build backend.

The modules under `src` and the metadata that `pyproject.toml` promises are put in a folder, which then goes on
`PYTHONPATH`. What is under test is the entry point and the code, not hatchling.
"""

import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.wire.support import environment

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Installed:
    """A folder with installed packages."""

    folder: Path

    def run(self, *command: str, exit_code: int = 0) -> str:
        """Run a Python module with the packages installed and return what it printed, its errors when it is to fail."""
        done = subprocess.run(
            [sys.executable, "-m", *command],
            capture_output=True,
            text=True,
            timeout=300,
            env=environment(PYTHONPATH=str(self.folder), PYTHONDONTWRITEBYTECODE="1"),
            check=False,
        )
        assert done.returncode == exit_code, done.stdout + done.stderr
        return done.stdout if exit_code == 0 else done.stderr


def install(example: str, folder: Path) -> Installed:
    """Install `examples/<example>` into the folder."""
    source = EXAMPLES / example
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    shutil.copytree(source / "src", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    metadata = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    (metadata / "entry_points.txt").write_text(
        "\n".join(
            line
            for group, points in project["entry-points"].items()
            for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
        )
    )
    return Installed(folder)
