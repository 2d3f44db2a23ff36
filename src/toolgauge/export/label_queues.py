"""Draws runs for people to label, and marks each with the probability that a run like it is drawn.

A run is decided on once, when all of its results are in. Every process draws the same runs: by a hash of their ids.
"""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from hashlib import blake2b

from cachetools import LRUCache

from toolgauge.export.score_lines import Score
from toolgauge.export.settings import LabelQueue
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.records import VERSION
from toolgauge.otlp.encode import MAX_IDENTIFIER, fit_text

# The name of the mark; its value is the probability.
QUEUED = "toolgauge.queue"
_MOST = 4096


class LabelQueues:
    """Belongs to the worker thread. Runs that wait for judges, and kinds of runs, are remembered in a bounded number."""

    def __init__(self, queues: Sequence[LabelQueue]) -> None:
        self._queues = tuple(queues)
        # By run: outcomes of criteria without a judge, for each queue, and whether the run is the first of its kind.
        self._waiting: LRUCache[str, tuple[list[set[str]], bool]] = LRUCache(_MOST)
        self._kinds: LRUCache[tuple[str, ...], None] = LRUCache(_MOST)

    def marks(self, scorecard: Scorecard) -> Iterator[Score]:
        """Yield a mark for each backend into whose queue the run comes."""
        if not self._queues:
            return
        trajectory = scorecard.trajectory
        of_session = trajectory.scope == "conversation"
        run = (trajectory.conversation_id if of_session else None) or trajectory.trace_id
        found = [_outcomes(scorecard, queue.criteria) for queue in self._queues]
        by_judges = [set[str]()] * len(found)
        if scorecard.by_judges:
            if run not in self._waiting:
                return
            by_judges = found
            found, is_first = self._waiting.pop(run)
        else:
            # No run of this service and version has called these tools before.
            tools = sorted({fit_text(call.name, MAX_IDENTIFIER) for call in trajectory.calls})
            kind = (trajectory.service or "", trajectory.resource.get(VERSION, ""), *tools)
            is_first = kind not in self._kinds
            self._kinds[kind] = None
            if scorecard.awaits_judges:
                self._waiting[run] = found, is_first
                return
        done: set[str] = set()
        for queue, code, judges in zip(self._queues, found, by_judges, strict=True):
            if queue.to in done or not code | judges:
                continue
            differ = bool(code and judges) and ("fail" in code) != ("fail" in judges)
            takes = {"failed": "fail" in code | judges, "uncertain": is_first or differ, "all": True}
            if takes[queue.when]:
                # The first queue of a backend that takes the run decides: else it had several probabilities.
                done.add(queue.to)
                digest = blake2b(f"{queue.to}\0{run}".encode("utf-8", "surrogatepass"), digest_size=7).digest()
                if int.from_bytes(digest) < queue.share * (1 << 56):
                    yield _mark(scorecard, queue)


def _outcomes(scorecard: Scorecard, criteria: Sequence[str]) -> set[str]:
    """Return `pass` and `fail` where a criterion passed or failed."""
    words = {
        one.word
        for verdict in scorecard.verdicts
        for one in verdict.findings
        if one.enforce == "live" and one.can_fail
        if not criteria or any(fnmatchcase(one.criterion, glob) for glob in criteria)
    }
    return words & {"pass", "fail"}


def _mark(scorecard: Scorecard, queue: LabelQueue) -> Score:
    trajectory = scorecard.trajectory
    root, session_id = trajectory.root, trajectory.conversation_id
    return Score(
        name=QUEUED,
        word="pass",
        value=queue.share,
        explanation=f"drawn for people ({queue.when}, probability {queue.share:g}); trace {trajectory.trace_id}",
        revision="1",
        evaluator="queue",
        version="1",
        level="trajectory",
        scope=trajectory.scope,
        trace_id=trajectory.trace_id,
        span_id=None if root is None or root.trace_id != trajectory.trace_id else root.span_id,
        session_id=None if session_id is None else fit_text(session_id, MAX_IDENTIFIER),
        start_ns=trajectory.start_ns,
        scored_ns=scorecard.scored_at_ns,
        to=queue.to,
        queue=queue.queue or "",
    )
