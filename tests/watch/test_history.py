"""The scores of a stream over time, and its alarms."""
# pyright: reportPrivateUsage=false

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.watch.support import HOUR, MINUTE, SECOND, START, Traffic, watcher
from toolgauge.model.regressions import AlarmPeriod, StreamHistory
from toolgauge.watch.stream import MAX_BUCKETS, ScoreHistory
from toolgauge.watch.watcher import Watcher


def history_of(watching: Watcher, tool: str | None = "find_order") -> StreamHistory:
    streams = [status.stream for status in watching.statuses() if status.stream.tool == tool]
    (found,) = watching.histories(streams)
    return found


def test_a_month_of_observations_stays_fine_where_it_is_new() -> None:
    history = ScoreHistory()
    ticks = 30 * 24 * 6
    for tick in range(ticks):
        history.add(1.0, START + tick * 10 * MINUTE)
    buckets = history.buckets()
    assert (len(buckets), sum(each.observations for each in buckets)) == (MAX_BUCKETS, ticks)
    now_ns = buckets[-1].end_ns
    for hours, longest in ((1, 10 * MINUTE), (24, 3 * HOUR), (24 * 30, 84 * HOUR)):
        recent = (each for each in buckets if now_ns - each.end_ns <= hours * HOUR)
        assert max(each.end_ns - each.start_ns for each in recent) <= longest


times = st.integers(min_value=-(10**9), max_value=2**34)


@given(st.lists(st.tuples(st.sampled_from((0.0, 0.25, 0.5, 1.0)), times), max_size=400))
def test_merging_keeps_the_count_the_sum_and_the_order(observations: list[tuple[float, int]]) -> None:
    history = ScoreHistory()
    for score, time_s in observations:
        history.add(score, time_s * SECOND)
    buckets = history.buckets()
    assert len(buckets) <= MAX_BUCKETS
    assert sum(each.observations for each in buckets) == len(observations)
    assert sum(each.sum for each in buckets) == sum(score for score, _ in observations)
    assert all(each.start_ns <= each.end_ns for each in buckets)
    assert all(one.end_ns < other.start_ns for one, other in pairwise(buckets))
    assert ScoreHistory.load(history.dump()).buckets() == buckets


def test_the_alarm_that_is_on_and_those_that_ended_are_told_apart() -> None:
    traffic = Traffic(watcher())
    traffic.send(30, every=20)
    assert history_of(traffic.watcher).missing == 20
    traffic.send(270, every=20)
    traffic.send(60, every=2)
    began = next(each for each in traffic.regressions if each.stream.tool == "find_order")
    during = history_of(traffic.watcher)
    assert (during.alarm, during.past, during.missing) == (began, (), 0)
    traffic.send(200, every=20)
    ended = next(each for each in traffic.regressions if each.phase == "ended" and each.stream.tool == "find_order")
    after = history_of(traffic.watcher)
    assert after.alarm is None
    assert after.past == (
        AlarmPeriod(
            onset_ns=began.onset_ns,
            raised_ns=began.at_ns,
            ended_ns=ended.at_ns,
            baseline=began.baseline,
            current=began.current,
            acknowledged=False,
        ),
    )
    assert sum(each.observations for each in after.buckets) == 560


def test_a_restart_keeps_the_history() -> None:
    before = Traffic(watcher())
    before.send(300, every=20)
    before.send(60, every=2, version="1.1")
    rows, _ = before.watcher.changes()
    after = watcher()
    assert after.restore(rows) == 0
    for tool in ("find_order", None):
        assert history_of(after, tool) == history_of(before.watcher, tool)
