"""What is called worse, what lets a release pass, and how much more it takes."""

import pytest

from tests.recordings.support import OFTEN, ONE_LOOK, counts, judged, pairing
from tests.rows import each_row
from toolgauge.recordings.comparison import Question, Verdict, answer_of, judge_streams
from toolgauge.recordings.conversation_means import StreamCounts

SAME = (counts(1000, 950), counts(1000, 951))
FELL = (counts(200, 190), counts(200, 150))
OPEN = (counts(30, 29), counts(30, 28))


@each_row(
    ("base", "new", "verdict", "within"),
    [
        (counts(200, 190), counts(200, 150), "worse", False),
        (counts(200, 150), counts(200, 190), "better", True),
        (counts(1000, 950), counts(1000, 951), "no_difference_seen", True),
        (counts(30, 29), counts(30, 28), "not_enough_data", False),
        # Real, and shown to be smaller than the margin.
        (counts(40_000, 38_000), counts(40_000, 37_400), "worse", True),
        # Real, and not shown to be smaller: the interval is [-0.053, -0.003].
        (counts(700, 665), counts(700, 645), "worse", False),
        (counts(0, 0), counts(30, 28), "not_enough_data", False),
        (counts(30, 28), counts(0, 0), "not_enough_data", False),
    ],
)
def test_the_verdict_of_one_stream(base: StreamCounts, new: StreamCounts, verdict: Verdict, *, within: bool):
    one = judged(base, new)
    assert (one.verdict, one.within_margin) == (verdict, within)


@each_row(
    ("streams", "answer"),
    [
        ([SAME, SAME], "no_worse"),
        ([SAME, OPEN], "not_enough_data"),
        ([SAME, OPEN, FELL], "worse"),
        ([(counts(40_000, 38_000), counts(40_000, 37_400))], "no_worse"),
        ([], "not_enough_data"),
    ],
)
def test_the_answer_for_all_streams(streams: list[tuple[StreamCounts, StreamCounts]], answer: str):
    pairings = [pairing(base, new, criterion=f"c{number}") for number, (base, new) in enumerate(streams)]
    assert answer_of(judge_streams(pairings, ONE_LOOK)) == answer


def test_what_the_new_version_has_not_shown_yet_holds_the_answer_up():
    unseen = pairing(counts(50, 20), counts(0, 0))
    assert answer_of(judge_streams([pairing(*SAME), unseen], ONE_LOOK)) == "not_enough_data"


def test_the_more_streams_there_are_the_more_one_has_to_show():
    doubtful = (counts(100, 95), counts(100, 86))
    (alone,) = judge_streams([pairing(*doubtful)], ONE_LOOK)
    assert (alone.verdict, alone.p_value) == ("worse", pytest.approx(0.031, abs=0.002))
    among = judge_streams([pairing(*doubtful), pairing(*SAME, "a"), pairing(*SAME, "b")], ONE_LOOK)
    assert among[0].verdict == "not_enough_data"
    # The interval is the stream's own.
    assert among[0].interval == alone.interval


@pytest.mark.parametrize("question", [ONE_LOOK, OFTEN])
@pytest.mark.parametrize(
    ("base", "new"),
    [
        (counts(30, 29), counts(30, 29)),
        (counts(10, 10), counts(10, 10)),
        (counts(100, 95), counts(20, 17)),
        (counts(60, 50), counts(60, 51)),
    ],
)
def test_what_is_missing_would_do(question: Question, base: StreamCounts, new: StreamCounts):
    missing = judged(base, new, question).missing
    assert missing is not None
    grown, less = (
        [
            side.sample.repeated(1 + share * more / side.sample.count)
            for side, more in ((base, missing.base), (new, missing.new))
        ]
        for share in (1.02, 0.9)
    )
    assert judged(StreamCounts(grown[0]), StreamCounts(grown[1]), question).missing is None
    assert judged(StreamCounts(less[0]), StreamCounts(less[1]), question).missing is not None
