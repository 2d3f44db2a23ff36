"""Finds runs that have ended below a span that failed and does not end: each is a trajectory of its own.

Some producers never end the span of a run that raised, and all later runs of the process hang below it. An agent that waits for
others looks the same but for the failure: the last of its own spans worked.
"""

from collections.abc import Collection, Mapping, Sequence

from toolgauge.model.observations import CallExecuted, Reading, SpanFailed


def finished_runs(
    readings: Sequence[Reading], parents: Mapping[str, str | None], runs: Mapping[str, int], until_ns: int
) -> dict[str, list[Reading]]:
    """Return the readings of each such run by its span; `runs` holds the time at which each run's own span arrived."""
    known: dict[str, tuple[str | None, str | None]] = {}
    last: dict[str, Reading] = {}
    found: dict[str, list[Reading]] = {}
    began_ns: dict[str, int] = {}
    for reading in readings:
        missing, run = place(reading.ref.span_id, parents, runs, known)
        if missing is None:
            continue
        if run is not None:
            found.setdefault(run, []).append(reading)
            if reading.ref.span_id == run and not reading.is_log:
                began_ns[run] = reading.start_ns
        elif missing not in last or (reading.end_ns, _failed(reading)) > (last[missing].end_ns, _failed(last[missing])):
            last[missing] = reading
    finished: dict[str, list[Reading]] = {}
    for run, together in found.items():
        own = last.get(known[run][0] or "")
        is_later = own is not None and _failed(own) and own.end_ns <= began_ns.get(run, 0)
        if is_later and runs[run] <= until_ns:
            finished[run] = together
    return finished


def place(
    span_id: str,
    parents: Mapping[str, str | None],
    runs: Collection[str],
    known: dict[str, tuple[str | None, str | None]],
) -> tuple[str | None, str | None]:
    """Return the missing span at the end of the chain of parents, and the outermost of `runs` on it. `known` remembers places."""
    path: list[str] = []
    at: str | None = span_id
    while at is not None and at not in known and at in parents:
        path.append(at)
        # Circles lead nowhere.
        known[at] = (None, None)
        at = parents[at]
    missing, run = (None, None) if at is None else known.get(at, (at, None))
    for passed in reversed(path):
        run = passed if run is None and passed in runs else run
        known[passed] = (missing, run)
    return missing, run


def _failed(reading: Reading) -> bool:
    return reading.status == "error" or any(
        type(seen) is SpanFailed or (type(seen) is CallExecuted and seen.error is not None)
        for seen in reading.observations
    )
