"""One incident is one line: when it begins, when streams join it, and when all of it is over."""

from msgspec.structs import replace

from tests.export.test_regression_events import BEGAN, STREAM
from toolgauge.export.regression_events import IncidentLines, sentence
from toolgauge.model.regressions import Regression
from toolgauge.settings import HOUR

REFUND = replace(BEGAN, stream=replace(STREAM, tool="refund"), current=0.3, causes=())
SEARCH = replace(REFUND, stream=replace(STREAM, tool="search"), current=0.5)


def over(regression: Regression) -> Regression:
    return replace(regression, phase="ended", at_ns=regression.at_ns + HOUR, current=regression.baseline)


def texts(lines: IncidentLines, *regressions: Regression) -> list[tuple[bool, str]]:
    return [(is_new, text) for _, is_new, text in lines.add(regressions)]


def test_streams_that_fall_together_are_one_line_with_the_largest_drop_first():
    ((is_new, text),) = texts(IncidentLines(), SEARCH, BEGAN, REFUND)
    assert is_new
    others = "`default.tool_success` of `search` and `default.tool_success` of `find_order`"
    assert text.startswith(f"{sentence(REFUND)}, and with it {others}; ")


def test_a_stream_that_joins_begins_no_incident_and_the_end_of_one_of_two_is_no_news():
    lines = IncidentLines()
    assert [is_new for is_new, _ in texts(lines, BEGAN)] == [True]
    ((is_new, text),) = texts(lines, REFUND)
    assert (is_new, text.partition(";")[0]) == (False, f"in the same incident, {sentence(REFUND)}")
    assert texts(lines, over(REFUND)) == []
    ((is_new, text),) = texts(lines, over(BEGAN))
    assert not is_new
    assert "is back at" in text
    assert "and with it `default.tool_success` of `refund`" in text
    assert [is_new for is_new, _ in texts(lines, BEGAN)] == [True]


def test_a_stream_that_somebody_accepts_is_a_line_while_others_last():
    lines = IncidentLines()
    texts(lines, BEGAN, REFUND)
    ((is_new, text),) = texts(lines, replace(over(REFUND), acknowledged=True))
    assert (is_new, "no longer compared with" in text, "fell from" in text) == (False, True, False)


def test_incidents_of_an_earlier_process_are_not_begun_once_more():
    lines = IncidentLines([BEGAN])
    assert [is_new for is_new, _ in texts(lines, REFUND, replace(SEARCH, incident="i-2"))] == [False, True]
    assert texts(lines, over(REFUND)) == []
