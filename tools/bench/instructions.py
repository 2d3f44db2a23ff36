"""Instructions a span of the pipeline without sockets, counted by callgrind: neighbours on the host do not change them.

    python -m tools.bench.instructions [--requests 6] [--genai-share 0.5] [--dialect genai] [--batch 512] [--chat-kb 0]
                                       [--span-bytes 1024] [--recordings FILE...] [--forward | --set KEY=VALUE...]

Needs valgrind. Feeds what the load generator sends, or recordings hold, twice to a pipeline in a leaf set-up, once without and once
with the measured requests, and prints the difference by span. Of recordings `--requests` are measured after as many that warm up.
`--forward` counts instead a decode with the stock classes, one more attribute on each span, and an encode: the floor that
`throughput.py` compares with. `--set` changes the configuration.
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
from itertools import islice
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.walk.support import Walk
from toolgauge.recordings.recorded_requests import find_files, read
from tools.bench.profile_pipeline import caught, feed

_WARM_UP_SPANS = 1536
# Options of the load generator.
_LOAD = {"genai-share": "0.5", "dialect": "genai", "batch": "512", "chat-kb": "0", "span-bytes": "1024"}
_COUNTED = re.compile(r"Collected : (\d+)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=6)
    for name, default in _LOAD.items():
        parser.add_argument(f"--{name}", default=default)
    parser.add_argument("--recordings", nargs="+", default=())
    parser.add_argument("--forward", action="store_true")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE")
    parser.add_argument("--feed", nargs=2, metavar=("FILE", "COUNT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.feed:
        bodies: list[bytes] = pickle.loads(Path(arguments.feed[0]).read_bytes())  # noqa: S301 (our own process wrote it)
        bodies = bodies[: int(arguments.feed[1])]
        print(forward(bodies) if arguments.forward else score(bodies, arguments.set))
        return
    if arguments.recordings:
        recorded = read(find_files(arguments.recordings), lambda _size: None)
        bodies = [one.body for one in islice(recorded, 2 * arguments.requests)]
        warm_up = len(bodies) // 2
    else:
        options = [f"--{name}={getattr(arguments, name.replace('-', '_'))}" for name in _LOAD]
        warm_up = _WARM_UP_SPANS // int(arguments.batch)
        bodies = caught(warm_up + arguments.requests, options)
    forwarded = ["--forward"] if arguments.forward else []
    configured = ["--set", *arguments.set] if arguments.set else []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requests"
        file.write_bytes(pickle.dumps(bodies))
        fed = [*forwarded, *configured, "--feed", str(file)]
        with ThreadPoolExecutor() as pool:
            before, after = pool.map(counted, ([*fed, str(warm_up)], [*fed, str(len(bodies))]))
    spans = after[1] - before[1]
    print(f"{(after[0] - before[0]) / spans:,.0f} instructions a span over {spans} spans")


def counted(options: list[str]) -> tuple[int, int]:
    """Return the instructions and the spans of a process that is fed requests."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, "-m", __spec__.name]
    ran = subprocess.run(
        [*command, *options],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = _COUNTED.search(ran.stderr)
    if ran.returncode or found is None:
        sys.exit(ran.stderr)
    return int(found[1]), int(ran.stdout)


def score(bodies: list[bytes], overrides: list[str]) -> int:
    """Feed a pipeline; return how many spans came."""
    walk = Walk(*overrides)
    # As seldom as the service.
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    feed(walk, bodies)
    return int(walk.metrics.spans.value(("received", "", "")))


def forward(bodies: list[bytes]) -> int:
    """Decode, append an attribute, and encode; return how many spans came."""
    spans = 0
    for body in bodies:
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                spans += len(scope.spans)
                for span in scope.spans:
                    span.attributes.add(key="touched").value.string_value = "1"
        request.SerializeToString()
    return spans


if __name__ == "__main__":
    main()
