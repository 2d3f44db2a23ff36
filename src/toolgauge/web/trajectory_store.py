"""The latest trajectories with their results, in bounded memory, for pages.

Passes never push a failure out of the half that is reserved for failures. Without room left, a busy process keeps some of
each second: weighing all of them would cost a sixth of the CPU of scoring.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Literal

from cachetools import Cache
from msgspec.structs import replace

from toolgauge.assemble.memory import memory_of
from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import Result, Scorecard, Scored
from toolgauge.model.trajectory import Trajectory
from toolgauge.report.explanations import FAILED, live_outcome
from toolgauge.report.trajectory_rows import trajectory_id

# As CPython lays them out, beside the contents that senders wrote.
_TRAJECTORY_BYTES = 1500
_CALL_BYTES = 800
_MESSAGE_BYTES = 120
_RUN_BYTES = 350
_TOOL_BYTES = 150
_RESULT_BYTES = 150
_SCORE_BYTES = 250
_DIFFERENCE_BYTES = 350
# The most that failed, and the most others, for which older ones make room.
ADMITTED_PER_SECOND = 10
_SECOND_NS = 1_000_000_000


class KeptTrajectory(Scorecard, frozen=True, kw_only=True):
    """One trajectory with all its results, late results of judges at the end. `number` counts up."""

    number: int
    size_bytes: int = 0

    @property
    def id(self) -> str:
        """The id of its page."""
        return trajectory_id(self.trajectory)

    @property
    def is_failed(self) -> bool:
        """Whether a live criterion failed, or its evaluation did."""
        return live_outcome(self.results) in FAILED


class TrajectoryStore:
    """Keeps at most `max_trajectories`, of at most `max_bytes` (an estimate) together. Any thread may call."""

    def __init__(self, max_trajectories: int, max_bytes: int) -> None:
        self._max_trajectories = max_trajectories
        self._max_bytes = max_bytes
        # Every trajectory is in one of the two, the oldest first.
        self._failed, self._others = (
            Cache[str, KeptTrajectory](math.inf, getsizeof=lambda kept: kept.size_bytes) for _ in range(2)
        )
        self._schemas = _SharedSchemas()
        self._lock = Lock()
        self.added = 0
        self.evicted = 0
        # The current second, and how many trajectories of it passed and failed.
        self._second = 0
        self._admitted = [0, 0]
        # Counts trajectories and late results.
        self.changes = 0

    @property
    def size_bytes(self) -> int:
        """About how much memory the trajectories take."""
        return int(self._failed.currsize + self._others.currsize) + self._schemas.size_bytes

    def __len__(self) -> int:
        return len(self._failed) + len(self._others)

    def add(self, scorecard: Scorecard) -> None:
        """Keep a trajectory, or the late results of judges for one that is kept."""
        trajectory = scorecard.trajectory
        if not scorecard.results and not trajectory.calls:
            return
        key = trajectory_id(trajectory)
        with self._lock:
            # Always while there is room, else within the share of its second.
            if not scorecard.by_judges:
                second, kind = scorecard.scored_at_ns // _SECOND_NS, live_outcome(scorecard.results) in FAILED
                if second != self._second:
                    self._second, self._admitted = second, [0, 0]
                self._admitted[kind] += 1
                if self.evicted and self._admitted[kind] > ADMITTED_PER_SECOND:
                    self.evicted += 1
                    return
            before = self._take(key)
            if scorecard.by_judges:
                if before is not None:
                    self._put(
                        replace(
                            before,
                            results=(*before.results, *scorecard.results),
                            size_bytes=before.size_bytes + _results_bytes(scorecard.results),
                            awaits_judges=False,
                        )
                    )
                return
            self.added += 1
            size_bytes = _trajectory_bytes(trajectory) + _results_bytes(scorecard.results)
            self._put(
                KeptTrajectory(
                    trajectory=trajectory,
                    results=scorecard.results,
                    scored_at_ns=scorecard.scored_at_ns,
                    awaits_judges=scorecard.awaits_judges,
                    number=self.added,
                    size_bytes=size_bytes,
                )
            )

    def find(self, key: str) -> KeptTrajectory | None:
        """Find one by its id."""
        with self._lock:
            return self._failed.get(key) or self._others.get(key)

    def newest(self) -> list[KeptTrajectory]:
        """Return all that are kept, the newest first."""
        with self._lock:
            kept = [*self._failed.values(), *self._others.values()]
        return sorted(kept, key=lambda one: -one.number)

    def _take(self, key: str) -> KeptTrajectory | None:
        kept = self._failed.pop(key, None) or self._others.pop(key, None)
        if kept is not None:
            self._schemas.count(kept.trajectory, -1)
        return kept

    def _put(self, kept: KeptTrajectory) -> None:
        self.changes += 1
        if kept.size_bytes + self._schemas.count(kept.trajectory, 1) > self._max_bytes:
            self._schemas.count(kept.trajectory, -1)
            self.evicted += 1
            return
        (self._failed if kept.is_failed else self._others)[kept.id] = kept
        self._make_room(self._max_bytes)

    def shed(self) -> None:
        """Give back half of the memory."""
        with self._lock:
            self._make_room(self.size_bytes // 2)

    def _make_room(self, max_bytes: int) -> None:
        while self.size_bytes > max_bytes or len(self) > self._max_trajectories:
            # Half of the room is for failures: passes push none out.
            failed, others = self._failed, self._others
            by_number = len(self) > self._max_trajectories
            is_larger = len(failed) > len(others) if by_number else failed.currsize > others.currsize
            self._take(next(iter(failed if is_larger else others)))
            self.evicted += 1


@dataclass(slots=True)
class _SharedSchemas:
    """The schemas of tools on offer: trajectories mostly share the same objects, which count once."""

    # By their ids, which stay theirs as long as a trajectory refers to them: how many do, and the size.
    _known: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    size_bytes: int = 0

    def count(self, trajectory: Trajectory, step: Literal[1, -1]) -> int:
        """Count the schemas of a trajectory that comes or goes; return their size, that of shared ones too."""
        total = 0
        for number, schema in _schemas(trajectory).items():
            before, size = self._known.pop(number, None) or (0, memory_of([schema]))
            if after := before + step:
                self._known[number] = (after, size)
            self.size_bytes += size * ((after > 0) - (before > 0))
            total += size
        return total


def _schemas(trajectory: Trajectory) -> dict[int, JsonObject]:
    offers = {id(offer): offer for offer in (trajectory.tools_offered, *[run.tools_offered for run in trajectory.runs])}
    tools = [tool for offer in offers.values() if offer is not None for tool in offer]
    tools += [call.definition for call in trajectory.calls if call.definition is not None]
    return {id(tool.parameters): tool.parameters for tool in tools if tool.parameters is not None}


def _trajectory_bytes(trajectory: Trajectory) -> int:
    held: list[object] = list(trajectory.attributes.values())
    for call in trajectory.calls:
        held += (call.arguments, call.result, call.error)
    texts = {id(message.text): message.text for message in trajectory.messages}
    texts |= {id(text): text for run in trajectory.runs for text in (run.prompt, run.response) if text is not None}
    held += texts.values()
    structs = _CALL_BYTES * len(trajectory.calls) + _MESSAGE_BYTES * len(trajectory.messages)
    offered = _TOOL_BYTES * len(trajectory.tools_offered or ()) + _RUN_BYTES * len(trajectory.runs)
    return _TRAJECTORY_BYTES + structs + offered + len(trajectory.left_out.hashes) + memory_of(held)


def _results_bytes(results: Sequence[Result]) -> int:
    """Estimate results; the values in differences are shared with the calls and the reference."""
    size = _RESULT_BYTES * len(results)
    for result in results:
        outcome = result.outcome
        if isinstance(outcome, Scored):
            size += _SCORE_BYTES + len(outcome.explanation) + _DIFFERENCE_BYTES * len(outcome.differences)
    return size
