"""The worker's side of observations: scorecards pass through a sink, and messages about them leave for the front.

Messages are few: what was found within a tenth of a second goes in one. Everything belongs to the worker's thread, but for
`start` and `control`. What finds no room on the way to the front is counted; no score and no span waits for it.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence

from toolgauge.model.delivery import Outgoing
from toolgauge.model.outcomes import Scorecard, outcome_word
from toolgauge.pipeline.stages import ScorecardSink
from toolgauge.score.result_counts import ResultCounts
from toolgauge.service.process import TimeShare
from toolgauge.service.service import Service
from toolgauge.service.worker import Worker
from toolgauge.service.workers.observed_messages import (
    Observed,
    Wanted,
    WholeScorecard,
    read_wanted,
    trajectories_of,
    whole,
    write_observed,
)
from toolgauge.watch.tallies import trajectory_scores

_SECOND_NS = 1_000_000_000
_EVERY_S = 0.1
# A message that is larger goes at once.
_MOST_BYTES = 256 * 1024
_SCORES_BYTES = 2048
# Handing over what is learned from takes one part in so many of the time of a core, as learning itself.
_LEARNING_SHARE = 25


class WorkerObserver:
    """Hands over what passes through a sink. `send` never waits; False where there is no room.

    `observe` before the service is made, `start` after it. The clocks are in nanoseconds, one of the time that passes and one of
    the CPU time of the thread.
    """

    def __init__(
        self,
        send: Callable[[bytes], bool],
        *,
        clock: Callable[[], int] = time.monotonic_ns,
        cpu_time: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        self._send = send
        self._clock = clock
        self._cpu_time = cpu_time
        self._wanted = Wanted()
        self._learning_time = TimeShare(_LEARNING_SHARE, clock)
        self._flushing: asyncio.Task[None] | None = None
        # Trajectories of which the front knows less than it wants.
        self.dropped = 0
        self._begin()
        # How many were shown in all, and in this second of those that failed and of the others.
        self._shown = 0
        self._second = 0
        self._shown_now = [0, 0]

    def start(self, service: Service) -> None:
        """Begin to send what this service scores, on the running loop."""
        service.metrics.observations_dropped.observe = lambda: {(): self.dropped}
        self._flushing = asyncio.create_task(self._flush_regularly(service.worker))

    def _begin(self) -> None:
        self._found = Observed([], [], ResultCounts())
        self._found_bytes = 0

    def control(self, message: bytes) -> None:
        """Take what the front wants from here on. Any thread may call."""
        self._wanted = read_wanted(message)

    def observe(self, sink: ScorecardSink) -> ScorecardSink:
        """Wrap a sink: what passes through it is handed over."""
        return _ObservedSink(sink, self)

    def add(self, scorecard: Scorecard) -> None:
        """Take note of a scorecard; send when it is time."""
        scores = trajectory_scores(scorecard) if self._wanted.scores else None
        if scores is not None:
            self._found.scores.append(scores)
            self._found_bytes += _SCORES_BYTES
        self._hand_over(scorecard)
        if self._found_bytes >= _MOST_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send what was found since the last message."""
        found = self._found
        if not (found.scores or found.scorecards or found.counts.scorecards or found.not_learned):
            return
        self._begin()
        message = write_observed(found)
        if not self._send(message):
            self.dropped += trajectories_of(message)

    async def _flush_regularly(self, worker: Worker) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            worker.post(self.flush)

    def _hand_over(self, scorecard: Scorecard) -> None:
        wanted, found = self._wanted, self._found
        is_shown = self._is_shown(scorecard, wanted)
        is_learned = wanted.is_learning and not scorecard.by_judges and self._is_learned()
        if is_shown or is_learned:
            handed = self._whole(scorecard, is_shown=is_shown, is_learned=is_learned)
            if handed is not None:
                found.scorecards.append(handed)
                self._found_bytes += len(handed.pickled)
        if wanted.counts and not is_shown and _is_worth_showing(scorecard):
            found.counts.add(scorecard)

    def _whole(self, scorecard: Scorecard, *, is_shown: bool, is_learned: bool) -> WholeScorecard | None:
        begun_ns = self._cpu_time()
        try:
            return whole(scorecard, is_shown=is_shown, is_learned=is_learned)
        except RecursionError:
            # Values that are nested hundreds deep: somebody's arguments.
            self.dropped += 1
            return None
        finally:
            if is_learned:
                self._learning_time.spend(self._cpu_time() - begun_ns)

    def _is_learned(self) -> bool:
        has_time = self._learning_time.has_time
        self._found.not_learned += not has_time
        return has_time

    def _is_shown(self, scorecard: Scorecard, wanted: Wanted) -> bool:
        """Return whether a scorecard is to be shown: always at first, and within the share of its second later on."""
        if not wanted.shown or not _is_worth_showing(scorecard):
            return False
        # What judges add is little, and belongs to one that may be shown.
        if scorecard.by_judges:
            return True
        second = self._clock() // _SECOND_NS
        if second != self._second:
            self._second, self._shown_now = second, [0, 0]
        kind = _has_failed(scorecard)
        is_shown = self._shown < wanted.shown or self._shown_now[kind] < wanted.shown_per_second
        self._shown += is_shown
        self._shown_now[kind] += is_shown
        return is_shown


class _ObservedSink:
    """A sink of scorecards that are handed over, too."""

    def __init__(self, sink: ScorecardSink, observer: WorkerObserver) -> None:
        self._sink = sink
        self._observer = observer

    def record(self, scorecard: Scorecard) -> None:
        """Pass the scorecard on, and hand it over."""
        self._sink.record(scorecard)
        self._observer.add(scorecard)

    def requests(self, scorecards: Sequence[Scorecard]) -> Iterable[Outgoing]:
        """Pass the requests on."""
        return self._sink.requests(scorecards)


def _is_worth_showing(scorecard: Scorecard) -> bool:
    return bool(scorecard.results or scorecard.trajectory.calls)


def _has_failed(scorecard: Scorecard) -> bool:
    return any(
        result.enforce == "live" and outcome_word(result.outcome) in ("fail", "error") for result in scorecard.results
    )
