"""The geometry of charts."""

from msgspec.structs import replace

from tests.export.test_regression_events import BEGAN, CAUSE
from toolgauge.model.regressions import Change, ScoreBucket, Stream, StreamHistory, StreamStatus
from toolgauge.web.chart import WIDE, binned, draw

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


def test_the_chart_marks_the_cause_of_the_alarm() -> None:
    since_ns = MIDNIGHT + 30 * SECOND
    alarm = replace(BEGAN, causes=(replace(CAUSE, since_ns=since_ns, changes=(MODEL, *CAUSE.changes)),))
    shown = replace(history(bucket(0, 10, 10.0), bucket(60, 10, 5.0)), alarm=alarm)
    drawn = draw(shown, WIDE, MIDNIGHT, MIDNIGHT + 60 * SECOND)
    # Versions of the service have marks of their own.
    assert [(mark.version, mark.seen_ns) for mark in drawn.versions] == [("large-06", since_ns)]
