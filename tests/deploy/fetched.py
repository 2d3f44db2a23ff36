"""Programs of others that tests build or fetch once, and keep in a cache."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

GO = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
_BUILD_TIMEOUT_S = 1500


def cache() -> Path:
    """Name the folder in which everything is kept."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "toolgauge-tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def alone(kept: Path) -> Generator[None]:
    """Have other processes of the tests wait while one builds or fetches."""
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def go(*words: str, cwd: Path | None = None, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run Go with these words, and settings of its environment."""
    assert GO is not None
    env = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", **settings}
    return subprocess.run(
        [GO, *words], cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=_BUILD_TIMEOUT_S
    )
