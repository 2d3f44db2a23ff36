"""What the default criteria cost: CPU a tool call, by size of results and length of the conversation, and memory."""

import json
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from msgspec.structs import replace

from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.trajectory import Message, ToolCall, Trajectory
from toolgauge.pipeline.stages import ObservedSink
from toolgauge.recordings.recorded_requests import find_files, read
from toolgauge.score.criterion import Criterion, ToolKinds
from toolgauge.score.scorer import Scorer
from toolgauge.service.criteria_factory import load_for_replay
from toolgauge.service.pipeline_factory import offline_pipeline
from tools.bench.recorded_runs import ScoredRun

_ROUNDS = 5


def microseconds_a_call(criteria: Sequence[Criterion], trajectories: Sequence[Trajectory]) -> float:
    """Score all trajectories several times and return the CPU of a call in the fastest round: neighbours only add to it."""
    rounds: list[float] = []
    for _ in range(_ROUNDS):
        scorer = Scorer(criteria, ToolKinds())
        started = time.process_time()
        for trajectory in trajectories:
            scorer.score(trajectory)
        rounds.append(time.process_time() - started)
    return min(rounds) * 1e6 / sum(len(trajectory.calls) for trajectory in trajectories)


def result_bytes(trajectories: Sequence[Trajectory]) -> list[int]:
    """Return the size of every recorded result as JSON."""
    contents = [call.result for trajectory in trajectories for call in trajectory.calls]
    return [len(json.dumps(content.value)) for content in contents if isinstance(content, Recorded)]


def with_large_results(trajectory: Trajectory, size: int, random: Random) -> Trajectory:
    """Give each call a result of about so many bytes: its own, among records with ids, names, numbers and dates."""
    calls: list[ToolCall] = []
    for call in trajectory.calls:
        found = call.result.value if isinstance(call.result, Recorded) else None
        calls.append(replace(call, result=Recorded({"found": found, "others": [*_records(random, size)]})))
    return replace(trajectory, calls=tuple(calls))


def _records(random: Random, size: int) -> Iterator[Json]:
    left = size
    while left > 0:
        number = random.randrange(10**9)
        record: JsonObject = {
            "id": f"ORD-{number:09d}",
            "name": f"customer {number % 9973}",
            "note": "left at the front door of the neighbour, who signed for it",
            "amount": number % 100_000 / 100,
            "date": f"2025-{number % 12 + 1:02d}-{number % 28 + 1:02d}",
        }
        left -= len(json.dumps(record)) + 2
        yield record


def long_conversation(trajectories: Sequence[Trajectory], calls: int) -> Trajectory:
    """Put recorded conversations one after the other until there are so many calls."""
    first = trajectories[0]
    made: list[ToolCall] = []
    messages: list[Message] = []
    turn = 0
    for trajectory in trajectories:
        messages += [replace(message, turn=message.turn + turn) for message in trajectory.messages]
        for call in trajectory.calls:
            known = None if call.result_turn is None else call.result_turn + turn
            made.append(replace(call, order=len(made), turn=call.turn + turn, result_turn=known))
        turn = max([call.turn for call in made], default=0) + 1
        if len(made) >= calls:
            break
    return replace(
        first, calls=tuple(made[:calls]), messages=tuple(messages), runs=(), end_ns=max(call.end_ns for call in made)
    )


def bytes_an_open_conversation(folder: Path, runs: Sequence[ScoredRun]) -> float:
    """Return what a pipeline with all defaults keeps for each conversation of a recording, none of them closed."""
    config, criteria = load_for_replay((), ("defaults.scope=conversation",), (), {})
    requests = list(read(find_files([str(folder)]), lambda _size: None))
    tracemalloc.start()
    pipeline = offline_pipeline(config, criteria)(ObservedSink(None))
    before = tracemalloc.get_traced_memory()[0]
    for request in requests:
        pipeline.consume(request.signal, request.body, requests[0].time_ns)
    pipeline.flush()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return grown / len(runs)
