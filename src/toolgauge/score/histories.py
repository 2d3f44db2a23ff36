"""The agent runs of a trajectory that share a history: what one of them did, the next one can know."""

from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall, Trajectory


class Histories:
    """Rule: each outermost run of a trace is a run of its own, unless it continues the history of the one before."""

    def __init__(self, trajectory: Trajectory) -> None:
        # The first of the runs that share a history with it, by run; `None` for the first outermost one of a trace, which
        # may continue an earlier trace of its conversation.
        self._first: dict[SpanRef, SpanRef | None] = {}
        self._above: dict[SpanRef, SpanRef] = {}
        newest: dict[str, SpanRef | None] = {}
        for run in trajectory.runs:
            if run.above is not None:
                self._above[run.span] = run.above
                self._first[run.span] = run.span
                continue
            trace = run.span.trace_id
            first = newest.get(trace) if run.has_history or trace not in newest else run.span
            self._first[run.span] = newest[trace] = first

    def of(self, call: ToolCall) -> SpanRef | None:
        """Return the first run that shares a history with that of the call; an inner run has one of its own."""
        return None if call.run is None else self._first.get(call.run)

    def outermost(self, call: ToolCall) -> SpanRef | None:
        """Return the first run that shares a history with the outermost run around the call."""
        run = call.run
        for _ in self._above:
            run = self._above.get(run, run) if run is not None else None
        return None if run is None else self._first.get(run)
