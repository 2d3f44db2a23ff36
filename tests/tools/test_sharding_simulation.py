"""The simulation of sharding keeps its books: what `docs/scaling.md` takes from it depends on that."""

from collections.abc import Sequence

import pytest

from tools.bench.sharding_simulation import WAYS, By, Outcome, Traffic, Way, simulate, traffic

SECONDS = 900.0
INSTANCES = 4
DRAWN: dict[By, Traffic] = {by: traffic(rate=20, seconds=SECONDS, by=by, seed=3) for by in ("trace", "conversation")}
ways = pytest.mark.parametrize("way", WAYS)
keys = pytest.mark.parametrize("by", DRAWN)


def outcome(
    way: Way,
    by: By,
    *,
    restarted: Sequence[int] = range(INSTANCES),
    adds: bool = True,
    max_uncommitted_s: float = SECONDS,
) -> Outcome:
    return simulate(
        DRAWN[by],
        way=way,
        by=by,
        instances=INSTANCES,
        partitions=32,
        seconds=SECONDS,
        span_bytes=1000,
        trajectory_bytes=100,
        restarted=restarted,
        adds=adds,
        max_uncommitted_s=max_uncommitted_s,
    )


@keys
@ways
def test_every_trajectory_is_scored_once_as_a_whole_or_seen_in_parts(way: Way, by: By):
    found = outcome(way, by)
    assert found.whole.keys() | found.parts.keys() == DRAWN[by].sizes.keys()
    assert found.whole.keys() & found.parts.keys() == set()
    assert set(found.whole.values()) == {1}


@keys
@ways
def test_nothing_is_repeated_or_parted_while_every_instance_stays(way: Way, by: By):
    found = outcome(way, by, restarted=(), adds=False)
    assert (found.repeated.total(), found.moved.total(), len(found.parts)) == (0, 0, 0)


@keys
def test_a_log_parts_nothing_and_repeats_only_what_moved(by: By):
    found = outcome("log", by)
    assert not found.parts
    assert found.repeated.total() > 0
    assert found.repeated.keys() <= found.moved.keys()
    of_one = outcome("log", by, restarted=(2,), adds=False)
    assert 0 < len(of_one.moved) < 32
    assert of_one.repeated.keys() <= of_one.moved.keys()


@keys
def test_a_journal_parts_only_what_an_added_instance_takes(by: By):
    assert not outcome("journal", by, adds=False).parts
    assert 0 < len(outcome("journal", by).parts) < len(outcome("memory", by).parts)
