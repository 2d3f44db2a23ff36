"""`adk.*`: what Google ADK 2.13.0 scores, and the unreleased parameter match; turn by turn."""

import pytest
from pydantic import ValidationError

from tests.originals.support import result, score
from tests.rows import each_row
from tests.score.support import (
    expect,
    expected,
    expected_turns,
    judge,
    not_evaluated,
    scored,
    tool_call,
    trajectory,
    user,
)
from toolgauge.model.content import NotRecorded
from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import Errored, NotEvaluated
from toolgauge.originals.adk import ToolParameterMatch, ToolTrajectory

IN_ORDER = ToolTrajectory(match_type="IN_ORDER")
ANY_ORDER = ToolTrajectory(match_type="ANY_ORDER")
PARAMETERS = ToolParameterMatch()


def test_arguments_are_ignored_where_asked():
    called = trajectory(tool_call("a", arguments=NotRecorded()))
    reference = expected(expect("a", {"x": 1}))
    assert scored(ToolTrajectory(ignore_args=True), called, reference).value == 1.0
    assert not_evaluated(ToolTrajectory(), called, reference) == "arguments_not_recorded"


@each_row(
    ("written", "read"),
    [("in order", "IN_ORDER"), (" Any-Order ", "ANY_ORDER"), ("exact", "EXACT"), (1, "IN_ORDER"), (0, "EXACT")],
)
def test_the_match_type_is_read_as_the_original_reads_it(written: object, read: str):
    assert ToolTrajectory.model_validate({"match_type": written}).match_type == read


@each_row("written", ["BOGUS", "", 3, -1, None])
def test_other_match_types_are_refused(written: object):
    with pytest.raises(ValidationError):
        ToolTrajectory.model_validate({"match_type": written})


def test_turns_are_scored_one_by_one():
    called = trajectory(tool_call("a", turn=0), tool_call("b", turn=1), messages=(user("one", 0), user("two", 1)))
    outcome = scored(ToolTrajectory(threshold=0.5), called, expected_turns((expect("a", {}),), (expect("c", {}),)))
    assert outcome.value == 0.5
    assert outcome.parts == {"invocations": 2, "invocations_scored": 2, "passed": 1.0}
    assert outcome.explanation == "mean over 2 of 2 invocations, of which 1 are below 1"


def invocations(count: int) -> JsonObject:
    return {"invocations": [{"calls": []} for _ in range(count)]}


def test_other_numbers_of_turns_cannot_be_paired():
    called = trajectory(tool_call("a"), messages=(user("one", 0),))
    three = expected_turns((expect("a", {}),), (), ())
    (outcome,) = judge(ToolTrajectory(), called, three)
    assert isinstance(outcome, Errored)
    assert outcome.error_type == "ValueError"
    assert not_evaluated(ToolTrajectory(), trajectory(tool_call("a")), three) == "incomplete"
    none, one, two = (invocations(count) for count in range(3))
    assert [score(PARAMETERS, *sides) for sides in ((one, two), (two, one), (none, one))] == ["ValueError"] * 3


def test_null_in_place_of_invocations_is_an_error_and_none_expected_is_no_score():
    assert score(ToolTrajectory(), {"invocations": None}, {"invocations": []}) == "invalid_case"
    found = result(ToolTrajectory(), {"invocations": []}, {"invocations": []})
    assert isinstance(found.outcome, NotEvaluated)
    assert found.original == {"status": "NOT_EVALUATED", "details": {"per_invocation": []}}


def test_arguments_that_a_case_leaves_out_are_null_and_not_an_empty_object():
    wanted: JsonObject = {"invocations": [{"calls": [{"name": "a"}]}]}
    assert score(ToolTrajectory(), wanted, wanted) == 1.0
    assert score(ToolTrajectory(), wanted, {"invocations": [{"calls": [{"name": "a", "args": {}}]}]}) == 0.0
