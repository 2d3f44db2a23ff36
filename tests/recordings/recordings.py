"""Recordings of releases: the packaged runs of real frameworks, drawn with replacement."""

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

from toolgauge.demo.sample_sender import Release, drawn, recordings

START_NS = 1_800_000_000_000_000_000
_APART_NS = 60_000_000_000
# Beside the releases of the demo, one that is as good as the healthy one.
GOOD = Release(version="1.0", failures=0.01)
AS_GOOD = Release(version="1.1", failures=0.01)
WORSE = Release(version="1.1", failures=0.3)
# Runs of one framework: one service, one agent.
SEQUENCE = [
    found for found in recordings() if (found.framework, found.scenario) == ("openinference-langgraph", "sequence")
]


def written(path: Path, release: Release, conversations: int, *, seed: int, start_ns: int = START_NS) -> Path:
    """Write conversations of a release as a stream of length-delimited requests."""
    times = count(start_ns, _APART_NS)
    with path.open("ab") as file:
        for body in islice(drawn(SEQUENCE, release, seed=seed, clock=lambda: next(times)), conversations):
            file.write(framed(body))
    return path


def framed(body: bytes) -> bytes:
    """Write a request as a stream has it: its length, then itself."""
    return b"".join(_length(len(body))) + body


def _length(size: int) -> Iterator[bytes]:
    while size > 0x7F:
        yield bytes([size & 0x7F | 0x80])
        size >>= 7
    yield bytes([size])
