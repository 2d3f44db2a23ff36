"""What `keep` saves and costs on a stream of recorded runs of which a small share fails.

    python -m tools.bench.keep DIRECTORY [--runs 500] [--failing 0.04] [--passed 0.05] [--rounds 3] [--together 8]

The recordings in DIRECTORY are scored by the default criteria and repeated with ids of their own: first to a running
`toolgauge serve` without `keep`, then to one with it, round by round. Prints how many failing traces, and later ones of their runs,
were kept whole, spans and bytes of the kept traces beside all, the most bytes that waited, and CPU and memory of both. Everything stays on loopback.
"""

# pyright: reportUnknownVariableType=false

import argparse
import os
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from sys import maxsize
from typing import NamedTuple

import grpc

from tests.wire.destination import Destination, receiving, without_scores
from tests.wire.support import Toolgauge, serving, to_grpc
from toolgauge.config.load import load
from toolgauge.otlp.request import SERVICES, split_by_trace
from toolgauge.recordings.recorded_requests import RecordedRequest, find_files, read, scorecards
from toolgauge.service.criteria_factory import default_criteria
from toolgauge.service.pipeline_factory import offline_pipeline

_QUIET = ("events=failed", "web=null", "memory.limit=2GiB", "exporters.otlp.queue.max_bytes=256MiB")


class _Run(NamedTuple):
    """A recorded run: its requests in order, its ids, and the places of the traces that failed."""

    bodies: list[bytes]
    conversation: str
    traces: list[str]
    failing: list[int]

    @property
    def fails(self) -> bool:
        return bool(self.failing)


class _Measured(NamedTuple):
    cpu_s: float
    memory_mib: float
    waited_bytes: float
    traces: dict[str, tuple[int, int]]


def main() -> None:
    """Measure both, and print the difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--failing", type=float, default=0.04)
    parser.add_argument("--passed", type=float, default=0.05)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--together", type=int, default=8, help="runs that go on at the same time")
    arguments = parser.parse_args()
    known = _runs(arguments.directory)
    chosen = _chosen(known, arguments.runs, arguments.failing)
    bodies = [b"".join(each) for each in _interleaved([run.bodies for run in chosen], arguments.together)]
    keep = f"exporters.otlp.keep.passed={arguments.passed}"
    rounds = [(_measure(bodies), _measure(bodies, keep)) for _ in range(arguments.rounds)]
    _report(chosen, rounds)


def _runs(directory: str) -> list[_Run]:
    requests = list(read(find_files([directory]), lambda _size: None))
    config = load((), (), {})
    conversation_of: dict[str, str] = {}
    failing: set[str] = set()
    for card in scorecards(requests, offline_pipeline(config, default_criteria(config.defaults))):
        trace = card.trajectory.trace_id
        conversation_of[trace] = card.trajectory.conversation_id or trace
        words = {finding.word for verdict in card.verdicts for finding in verdict.findings}
        if words & {"fail", "error"} or any(run.error is not None for run in card.trajectory.runs):
            failing.add(trace)
    parts: defaultdict[str, list[bytes]] = defaultdict(list)
    traces: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for trace, body in _parts(requests):
        if trace in conversation_of:
            parts[conversation_of[trace]].append(body)
            traces[conversation_of[trace]][trace] = None
    places = {name: [place for place, one in enumerate(each) if one in failing] for name, each in traces.items()}
    return [_Run(bodies, name, list(traces[name]), places[name]) for name, bodies in parts.items()]


def _parts(requests: Sequence[RecordedRequest]) -> Iterator[tuple[str, bytes]]:
    for request in requests:
        for part in split_by_trace(request.signal, request.body, maxsize):
            if part.trace_id is not None:
                yield part.trace_id, part.body


def _chosen(known: Sequence[_Run], count: int, failing: float) -> list[_Run]:
    """Repeat recorded runs, each time with other ids, as many of them failing as wanted."""
    random = Random(7)  # noqa: S311 (no secret)
    fails, passes = [run for run in known if run.fails], [run for run in known if not run.fails]
    kinds = [True] * round(count * failing) + [False] * round(count * (1 - failing))
    random.shuffle(kinds)
    return [_renamed(random.choice(fails if kind else passes), random) for kind in kinds]


def _renamed(run: _Run, random: Random) -> _Run:
    bodies, traces = run.bodies, [random.randbytes(16).hex() for _ in run.traces]
    for before, after in zip(run.traces, traces, strict=True):
        bodies = [body.replace(bytes.fromhex(before), bytes.fromhex(after)) for body in bodies]
    conversation = random.randbytes(64).hex()[: len(run.conversation)]
    bodies = [body.replace(run.conversation.encode(), conversation.encode()) for body in bodies]
    return _Run(bodies, conversation, traces, run.failing)


def _interleaved(runs: Sequence[list[bytes]], together: int) -> Iterator[list[bytes]]:
    """Yield the next requests of all runs that are open at a time."""
    waiting = iter(runs)
    open_runs = [iter(run) for _, run in zip(range(together), waiting, strict=False)]
    while open_runs:
        step: list[bytes] = []
        for place, run in enumerate(open_runs):
            body = next(run, None)
            if body is None:
                open_runs[place] = iter(next(waiting, ()))
                body = next(open_runs[place], None)
            if body is not None:
                step.append(body)
        if not step:
            return
        yield step


def _measure(bodies: Sequence[bytes], *settings: str) -> _Measured:
    with tempfile.TemporaryDirectory() as folder, receiving() as destination:
        with serving(Path(folder), to_grpc(destination.grpc_port), *_QUIET, *settings) as toolgauge:
            waited = _send(toolgauge, bodies)
            toolgauge.settled(1)
            cpu_s, memory_mib = _cpu_s(toolgauge.pid), toolgauge.memory_mib()
        return _Measured(cpu_s, memory_mib, waited, _arrived(destination))


def _send(toolgauge: Toolgauge, bodies: Sequence[bytes]) -> float:
    """Send all requests over one connection; return the most bytes that waited for results."""
    most = 0.0
    with grpc.insecure_channel(f"127.0.0.1:{toolgauge.grpc_port}") as channel:
        export = channel.unary_unary(f"/{SERVICES['traces']}/Export")
        for number, body in enumerate(bodies):
            export(body)
            if number % 200 == 0:
                most = max(most, toolgauge.total("toolgauge_keep_bytes"))
    return most


def _cpu_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _arrived(destination: Destination) -> dict[str, tuple[int, int]]:
    """Return the spans and bytes that arrived of each trace, as they were sent."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for span in destination.spans():
        found[span.trace_id.hex()].append(len(without_scores(span)))
    return {trace: (len(sizes), sum(sizes)) for trace, sizes in found.items()}


def _report(runs: Sequence[_Run], rounds: Sequence[tuple[_Measured, _Measured]]) -> None:
    whole, kept = rounds[-1]
    failing = [run.traces[place] for run in runs for place in run.failing]
    later = [trace for run in runs if run.fails for trace in run.traces[run.failing[0] + 1 :]]
    complete, complete_later = (
        sum(kept.traces.get(trace, (0,))[0] == whole.traces[trace][0] for trace in each) for each in (failing, later)
    )
    of_failing = sum(whole.traces[trace][1] for run in runs if run.fails for trace in run.traces)
    (all_spans, all_bytes), (spans, size) = (
        map(sum, zip(*each.traces.values(), strict=True)) for each in (whole, kept)
    )
    print(f"runs {len(runs)}, failing {sum(run.fails for run in runs)}")
    print(
        f"traces that failed {len(failing)}, {complete} kept whole; later ones {len(later)}, {complete_later} kept whole"
    )
    print(f"spans {spans} of {all_spans}, bytes {size} of {all_bytes}: {size / all_bytes:.1%}")
    print(f"bytes of the failing runs alone: {of_failing / all_bytes:.1%}")
    cpu_s = [statistics.median(pair[place].cpu_s for pair in rounds) for place in (0, 1)]
    memory = [statistics.median(pair[place].memory_mib for pair in rounds) for place in (0, 1)]
    print(f"CPU seconds {cpu_s[0]:.2f} without, {cpu_s[1]:.2f} with: {cpu_s[1] / cpu_s[0] - 1:+.1%}")
    print(f"memory {memory[0]:.0f} MiB without, {memory[1]:.0f} MiB with")
    print(f"most bytes that waited: {max(pair[1].waited_bytes for pair in rounds):.0f}")


if __name__ == "__main__":
    main()
