"""Instructions a span of the pipeline without sockets, counted by callgrind: neighbours on the host do not change them.

    python -m tools.bench.instructions [--requests 6] [--genai-share 0.5] [--dialect genai] [--batch 512] [--chat-kb 0]

Needs valgrind. Feeds what the load generator sends twice to a pipeline in a leaf set-up, once without and once with the measured
requests, and prints the difference by span.
"""

import argparse
import gc
import os
import pickle
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.walk.support import Walk
from tools.bench.profile_pipeline import caught, feed

_WARM_UP = 3
_COUNTED = re.compile(r"Collected : (\d+)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=6)
    for name, default in (("genai-share", "0.5"), ("dialect", "genai"), ("batch", "512"), ("chat-kb", "0")):
        parser.add_argument(f"--{name}", default=default)
    parser.add_argument("--feed", nargs=2, metavar=("FILE", "COUNT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.feed:
        feed_counted(Path(arguments.feed[0]), int(arguments.feed[1]))
        return
    options = [
        f"--{name}={getattr(arguments, name.replace('-', '_'))}"
        for name in ("genai-share", "dialect", "batch", "chat-kb")
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requests"
        file.write_bytes(pickle.dumps(caught(_WARM_UP + arguments.requests, options)))
        with ThreadPoolExecutor() as pool:
            (before, spans_before), (after, spans) = pool.map(counted, (file, file), (0, arguments.requests))
    print(f"{(after - before) / (spans - spans_before):,.0f} instructions a span over {spans - spans_before} spans")


def counted(file: Path, requests: int) -> tuple[int, int]:
    """Return the instructions and the spans of a process that is fed the warm-up and so many requests."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, "-m", __spec__.name]
    ran = subprocess.run(
        [*command, "--feed", str(file), str(requests)],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = _COUNTED.search(ran.stderr)
    if ran.returncode or found is None:
        sys.exit(ran.stderr)
    return int(found[1]), int(ran.stdout)


def feed_counted(file: Path, requests: int) -> None:
    bodies: list[bytes] = pickle.loads(file.read_bytes())  # noqa: S301 (written by the process that started this one)
    walk = Walk()
    # As seldom as the service.
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    feed(walk, bodies[:_WARM_UP])
    feed(walk, bodies[_WARM_UP : _WARM_UP + requests])
    print(int(walk.metrics.spans.value(("received", "", ""))))


if __name__ == "__main__":
    main()
