"""Recorded traffic through the same pipeline as live traffic, with recorded time: what `replay` and `inspect` do.

The clock is stepped to each moment at which something is due, so trajectories close as they would have closed live.
After the last request time runs on until nothing is open.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from toolgauge.model.delivery import Accepted, Outgoing
from toolgauge.model.errors import RecordingError
from toolgauge.model.outcomes import Scorecard
from toolgauge.offline.replay.recordings import RecordedRequest
from toolgauge.pipeline.pipeline import Pipeline


class Collected:
    """A `pipeline.ScorecardSink` that keeps scorecards until they are asked for."""

    def __init__(self) -> None:
        self._scorecards: list[Scorecard] = []

    def record(self, scorecard: Scorecard) -> None:
        """Keep the scorecard."""
        self._scorecards.append(scorecard)

    def requests(self, scorecards: Sequence[Scorecard]) -> list[Outgoing]:
        """Send nothing on."""
        del scorecards
        return []

    def take(self) -> list[Scorecard]:
        """Hand over what was kept, in order of closing."""
        taken, self._scorecards = self._scorecards, []
        return taken


def scorecards(recording: Iterable[RecordedRequest], make: Callable[[Collected], Pipeline]) -> Iterator[Scorecard]:
    """Yield the scorecards of a recording in the order in which its trajectories close."""
    collected = Collected()
    pipeline = make(collected)
    now_ns = 0
    for request in recording:
        now_ns = max(now_ns, request.time_ns)
        yield from _until(pipeline, collected, now_ns)
        answer = pipeline.consume(request.signal, request.body, now_ns)
        if not isinstance(answer, Accepted):
            raise RecordingError(f"a recorded request was not accepted: {answer.message}")
    yield from _until(pipeline, collected, None)


def _until(pipeline: Pipeline, collected: Collected, now_ns: int | None) -> Iterator[Scorecard]:
    while (due := pipeline.next_due_ns) is not None and (now_ns is None or due <= now_ns):
        while pipeline.tick(due):
            pass
        pipeline.flush()
        yield from collected.take()
