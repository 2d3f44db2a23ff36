"""The geometry of charts."""

from msgspec.structs import replace

from tests.export.test_regression_events import BEGAN, CAUSE
from toolgauge.model.regressions import Change, ScoreBucket, Stream, StreamHistory, StreamStatus
from toolgauge.web.chart import NARROW, SPARK_HEIGHT, SPARK_WIDTH, WIDE, binned, draw, sparkline

SECOND = 1_000_000_000
MIDNIGHT = 1_700_006_400 * SECOND
MODEL = Change(property="gen_ai.response.model", of=None, before="large-05", after="large-06")
STREAM = Stream(service="s", environment=None, agent=None, tool=None, criterion="c", revision="r", level="trajectory")


def bucket(start_s: int, observations: int, total: float) -> ScoreBucket:
    at_ns = MIDNIGHT + start_s * SECOND
    return ScoreBucket(start_ns=at_ns, end_ns=at_ns, observations=observations, sum=total)


def history(*buckets: ScoreBucket, baseline: float | None = 0.9) -> StreamHistory:
    status = StreamStatus(
        stream=STREAM,
        state="watching",
        observations=1,
        needed=200,
        baseline=baseline,
        current=0.9,
        evidence=0.0,
        since_ns=None,
    )
    return StreamHistory(status=status, missing=0, buckets=buckets, alarm=None, past=(), arms=())


def test_bins_keep_the_count_and_the_mean() -> None:
    buckets = [bucket(second, 2, 1.5) for second in range(600)]
    bins = binned(buckets, buckets[0].start_ns, buckets[-1].end_ns, 60)
    assert len(bins) == 60
    assert sum(each.observations for each in bins) == 1200
    assert {each.mean for each in bins} == {0.75}
    assert all(each.low < 0.75 < each.high for each in bins)


def test_few_observations_make_few_bins_and_times_outside_are_left_out() -> None:
    buckets = [bucket(second, 1, 1.0) for second in range(100)]
    bins = binned(buckets, MIDNIGHT + 40 * SECOND, MIDNIGHT + 99 * SECOND, 60)
    assert len(bins) == 12
    assert sum(each.observations for each in bins) == 60


def test_points_and_baseline_are_on_the_axis_of_scores() -> None:
    drawn = draw(history(bucket(0, 10, 10.0), bucket(60, 10, 5.0)), WIDE, MIDNIGHT, MIDNIGHT + 60 * SECOND)
    assert [tick.label for tick in drawn.score_ticks] == ["0.2", "0.4", "0.6", "0.8", "1.0"]
    assert [tick.at for tick in drawn.score_ticks] == [292.0, 229.0, 166.0, 103.0, 40.0]
    assert [(point.x, point.y) for point in drawn.points] == [(44.0, 40.0), (1188.0, 197.5)]
    assert drawn.baseline_y == 71.5
    assert drawn.lines == ("44.0,40.0", "1188.0,197.5")


def test_bands_that_are_wider_than_the_axis_end_at_its_edges() -> None:
    drawn = draw(history(bucket(0, 2, 2.0), bucket(60, 2, 1.9)), WIDE, MIDNIGHT, MIDNIGHT + 60 * SECOND)
    assert {point.low for point in drawn.points} == {292.0}
    assert {point.high for point in drawn.points} == {40.0}


def test_labels_of_times_are_round_and_name_the_day_at_midnight() -> None:
    def labels(begin_s: int, end_s: int) -> list[str]:
        drawn = draw(history(bucket(0, 1, 1.0)), NARROW, MIDNIGHT + begin_s * SECOND, MIDNIGHT + end_s * SECOND)
        return [tick.label for tick in drawn.time_ticks]

    assert labels(-7000, 7000) == ["23:00", "Nov 15", "01:00"]
    assert labels(1, 40) == ["00:00:10", "00:00:20", "00:00:30", "00:00:40"]
    assert labels(0, 20 * 86400) == ["Nov 16", "Nov 23", "Nov 30"]


def test_a_long_time_without_observations_breaks_the_line() -> None:
    buckets = [
        *(bucket(second, 5, 5.0) for second in range(30)),
        *(bucket(70 + second, 5, 5.0) for second in range(30)),
    ]
    drawn = draw(history(*buckets), WIDE, MIDNIGHT, MIDNIGHT + 100 * SECOND)
    assert len(drawn.lines) == len(drawn.bands) == 2


def test_one_observation_is_one_point() -> None:
    drawn = draw(history(bucket(0, 1, 0.0), baseline=None), NARROW, MIDNIGHT, MIDNIGHT)
    assert len(drawn.points) == 1
    assert drawn.baseline_y is None


def test_a_small_chart_stays_in_its_frame() -> None:
    assert sparkline(history()) is None
    spark = sparkline(history(*(bucket(second * 600, 3, 3.0 if second % 3 else 0.0) for second in range(120))))
    assert spark is not None
    for pair in spark.points.split():
        x, y = map(float, pair.split(","))
        assert 0 <= x <= SPARK_WIDTH
        assert 0 <= y <= SPARK_HEIGHT


def test_the_chart_marks_the_cause_of_the_alarm() -> None:
    since_ns = MIDNIGHT + 30 * SECOND
    alarm = replace(BEGAN, causes=(replace(CAUSE, since_ns=since_ns, changes=(MODEL, *CAUSE.changes)),))
    shown = replace(history(bucket(0, 10, 10.0), bucket(60, 10, 5.0)), alarm=alarm)
    drawn = draw(shown, WIDE, MIDNIGHT, MIDNIGHT + 60 * SECOND)
    # Versions of the service have marks of their own.
    assert [(mark.version, mark.seen_ns) for mark in drawn.versions] == [("large-06", since_ns)]
