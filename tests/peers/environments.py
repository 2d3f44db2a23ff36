"""Environments with the packages of backends: one a peer, installed from PyPI when a test with `--long` first needs it.

Their dependencies are too many and too old for the environment of the tests, and only the packages named here are pinned.
"""

import fcntl
import functools
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2] / ".venv-peers"
_PACKAGES = {
    "phoenix": ("arize-phoenix==20.26.1",),
    "mlflow": ("mlflow==3.17.2",),
    # The clients that the vendors publish: `vendor.py` reads requests with their models.
    "vendors": ("langfuse==5.0.4", "langsmith==0.15.1", "opik==2.2.122", "ddtrace==4.16.0"),
}
_INSTALL_TIMEOUT_S = 1800


def binaries(peer: str) -> Path:
    """Find the `bin` of a peer's environment, or make it; skip the test with the reason where that cannot be done."""
    found = _attempt(peer)
    if isinstance(found, str):
        pytest.skip(f"no real peer `{peer}`: {found}")
    return found


@functools.cache
def _attempt(peer: str) -> Path | str:
    folder, wanted = _ROOT / peer, " ".join(_PACKAGES[peer])
    stamp = folder / "installed"
    _ROOT.mkdir(exist_ok=True)
    # Tests run in several processes: one of them installs, the others wait for it.
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            venv.create(folder, clear=True, with_pip=False, symlinks=True)
            # The environment of the tests has no pip; the Python that made it has.
            python = shutil.which("python3", path=f"{sys.base_prefix}/bin") or "python3"
            pip = [python, "-m", "pip", "--disable-pip-version-check", "--python", str(folder), "install", "-q"]
            done = subprocess.run(
                [*pip, *_PACKAGES[peer]], capture_output=True, text=True, check=False, timeout=_INSTALL_TIMEOUT_S
            )
            if done.returncode:
                return f"its packages cannot be installed: {done.stderr.strip()[-300:]}"
            stamp.write_text(wanted)
    return folder / "bin"
