"""The latest trajectories with their results, in bounded memory.

The worker adds, pages read. A failed trajectory is what people look for: passes never push one out of the half that is
reserved for failures. What is kept is the scorecard itself; nothing is written or parsed before a page is opened.
"""

from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b
from threading import Lock

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.outcomes import OutcomeWord, Result, Scorecard, outcome_word
from toolgauge.model.trajectory import Trajectory

# About what a call takes with its results, beside the contents that senders wrote; and what Python makes of such contents.
_CALL_BYTES = 4096
_IN_PYTHON = 3
_WORST_FIRST: tuple[OutcomeWord, ...] = ("fail", "error", "pass")


class KeptTrajectory(Struct, frozen=True, kw_only=True):
    """One trajectory with all its results. `number` counts up; `id` is safe in a URL.

    `results` has those of judges, which come late, at its end.
    """

    id: str
    number: int
    trajectory: Trajectory
    results: tuple[Result, ...]
    scored_at_ns: int
    size_bytes: int

    @property
    def outcome(self) -> OutcomeWord:
        """The worst outcome of its live criteria; `not_evaluated` where there is no other."""
        words = {outcome_word(result.outcome) for result in self.results if result.enforce == "live"}
        for word in _WORST_FIRST:
            if word in words:
                return word
        return "not_evaluated"

    @property
    def is_failed(self) -> bool:
        """Whether a live criterion failed, or its evaluation did."""
        return self.outcome in ("fail", "error")


class TrajectoryStore:
    """Keeps at most `max_trajectories`, of at most `max_bytes` together. Any thread may call."""

    def __init__(self, max_trajectories: int, max_bytes: int) -> None:
        self._max_trajectories = max_trajectories
        self._max_bytes = max_bytes
        # The oldest first; every trajectory is in one of the two.
        self._failed: OrderedDict[str, KeptTrajectory] = OrderedDict()
        self._others: OrderedDict[str, KeptTrajectory] = OrderedDict()
        self._lock = Lock()
        self.size_bytes = 0
        self.added = 0
        # Counts trajectories and late results.
        self.changes = 0

    def add(self, scorecard: Scorecard) -> None:
        """Keep a trajectory, or the late results of judges for one that is kept."""
        trajectory = scorecard.trajectory
        if not scorecard.results and not trajectory.calls:
            return
        key = trajectory_id(trajectory)
        with self._lock:
            before = self._take(key)
            if scorecard.by_judges:
                if before is not None:
                    self._put(replace(before, results=(*before.results, *scorecard.results)))
                return
            self.added += 1
            self._put(
                KeptTrajectory(
                    id=key,
                    number=self.added,
                    trajectory=trajectory,
                    results=scorecard.results,
                    scored_at_ns=scorecard.scored_at_ns,
                    size_bytes=_size_bytes(trajectory),
                )
            )

    def find(self, key: str) -> KeptTrajectory | None:
        """Find one by its id."""
        return self._failed.get(key) or self._others.get(key)

    def newest(self) -> list[KeptTrajectory]:
        """Return all that are kept, the newest first."""
        with self._lock:
            kept = [*self._failed.values(), *self._others.values()]
        return sorted(kept, key=lambda one: -one.number)

    def _take(self, key: str) -> KeptTrajectory | None:
        kept = self._failed.pop(key, None) or self._others.pop(key, None)
        if kept is not None:
            self.size_bytes -= kept.size_bytes
        return kept

    def _put(self, kept: KeptTrajectory) -> None:
        self.changes += 1
        (self._failed if kept.is_failed else self._others)[kept.id] = kept
        self.size_bytes += kept.size_bytes
        for old in self._surplus():
            self._take(old)

    def _surplus(self) -> Iterator[str]:
        """Yield what has to go, one after the other, as long as there is too much."""
        while self.size_bytes > self._max_bytes or len(self._failed) + len(self._others) > self._max_trajectories:
            is_failed = len(self._failed) > len(self._others)
            yield next(iter(self._failed if is_failed else self._others))


def trajectory_id(trajectory: Trajectory) -> str:
    """Return an id that is safe in a URL: the trace's, or one made of the conversation's."""
    if trajectory.scope == "trace":
        return trajectory.trace_id
    conversation = (trajectory.conversation_id or "").encode(errors="replace")
    return f"conversation-{blake2b(conversation, digest_size=8).hexdigest()}"


def _size_bytes(trajectory: Trajectory) -> int:
    calls = trajectory.calls
    texts = sum([len(message.text) for message in trajectory.messages])
    contents = sum([_content_bytes(call.arguments) + _content_bytes(call.result) for call in calls])
    return _CALL_BYTES * (1 + len(calls)) + texts + _IN_PYTHON * contents


def _content_bytes(content: Content) -> int:
    match content:
        case Recorded(value=value):
            return len(msgspec.msgpack.encode(value))
        case Unparsed(text=text):
            return len(text)
        case NotRecorded():
            return 0
