"""Offline cases can expect what criteria can: groups, optional calls, repeats."""

import pytest

from tests.rows import each_row
from toolgauge.cases.case import CaseError
from toolgauge.cases.expectations import expected_of
from toolgauge.model.expected import ExpectedCall
from toolgauge.model.json import Json


def calls(*written: Json) -> tuple[ExpectedCall, ...]:
    expected = expected_of({"calls": list(written)})
    assert expected is not None
    return expected.calls


def test_a_list_among_the_calls_is_a_group():
    assert calls({"name": "a"}, [{"name": "b"}, {"name": "c"}], {"name": "d"}) == (
        ExpectedCall(name="a"),
        ExpectedCall(name="b", group=1),
        ExpectedCall(name="c", group=1),
        ExpectedCall(name="d"),
    )


def test_calls_may_be_optional_and_repeat():
    assert calls({"name": "a", "optional": True}, {"name": "b", "repeat": [0, 3]}, {"name": "c", "repeat": 2}) == (
        ExpectedCall(name="a", optional=True),
        ExpectedCall(name="b", repeat=(0, 3)),
        ExpectedCall(name="c", repeat=(2, 2)),
    )


@each_row("repeat", [0, [2, 1], [1], "2", None, [0, 0], 1.5, True])
def test_a_range_that_cannot_be_is_an_error_of_the_case(repeat: Json):
    with pytest.raises(CaseError, match="`repeat` must be 1 to 1000000"):
        calls({"name": "a", "repeat": repeat})
