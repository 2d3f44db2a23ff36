"""`tool_call_order`: the longest common subsequence, where parallel calls have no order."""

from msgspec.structs import replace

from tests.score.support import expect, expected, expected_turns, not_evaluated, scored, tool_call, trajectory, user
from toolgauge.evaluators.expected_calls import ToolCallOrder
from toolgauge.model.content import NotRecorded
from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.trajectory import Trajectory

STRICT = ToolCallOrder(strict=True)


def made(*turns: str) -> Trajectory:
    """Build one turn of each text, a call of each letter."""
    return trajectory(*[tool_call(name, turn=turn) for turn, names in enumerate(turns) for name in names])


def wanted(names: str) -> Expected:
    return expected(*[expect(name) for name in names])


def grouped(*groups: str) -> Expected:
    return expected(*[ExpectedCall(name=name, group=group) for group, names in enumerate(groups) for name in names])


def test_the_score_is_the_common_subsequence_by_the_expected_calls():
    outcome = scored(ToolCallOrder(), made("A", "X", "B", "D"), wanted("ABCD"))
    assert outcome.value == 0.75
    assert "missing: `C`; unexpected: `X`" in outcome.explanation
    parts = [
        outcome.parts[name] for name in ("recall", "precision", "matched", "missing", "unexpected", "out_of_order")
    ]
    assert parts == [0.75, 0.75, 3, 1, 1, 0]
    assert scored(ToolCallOrder(), made("A", "X", "X", "B"), wanted("AB")).value == 1.0


def test_expected_calls_of_one_group_and_calls_of_one_turn_have_no_order():
    assert scored(STRICT, made("A", "CB", "D"), grouped("A", "BC", "D")).value == 1.0
    assert scored(STRICT, made("B", "A", "C"), wanted("ABC")).value == 0.0


def test_calls_that_may_be_missing_or_repeated():
    reference = expected(expect("A"), expect("B", optional=True), expect("C", repeat=(1, 3)))
    assert scored(STRICT, made("A", "C"), reference).value == 1.0
    assert scored(STRICT, made("A", "B", "C", "C", "C"), reference).value == 1.0
    assert scored(STRICT, made("A", "C", "B"), reference).value == 0.0
    assert scored(STRICT, made("A", "C", "C", "C", "C"), reference).value == 0.0


def test_the_empty_cases():
    for evaluator in (ToolCallOrder(), STRICT):
        assert scored(evaluator, trajectory(), wanted("")).value == 1.0
    assert scored(ToolCallOrder(), made("A"), wanted("")).value == 0.0
    assert scored(ToolCallOrder(), trajectory(), wanted("A")).value == 0.0
    optional = expected(expect("A", optional=True))
    assert scored(ToolCallOrder(), trajectory(), optional).value == 1.0
    assert not_evaluated(ToolCallOrder(), made("X"), optional) == "nothing_expected"
    assert scored(STRICT, made("X"), optional).value == 0.0


def test_arguments_are_not_looked_at():
    called = trajectory(tool_call("A", arguments=NotRecorded()), tool_call("B", {"x": 1}))
    assert scored(STRICT, called, expected(expect("A", {"x": 1}), expect("B", {"x": 2}))).value == 1.0


def test_each_user_turn_has_its_own_order():
    messages = (user("first", 0), user("second", 2))
    called = replace(made("A", "B", "D", "C"), messages=messages)
    reference = expected_turns((expect("A"), expect("B")), (expect("C"), expect("D")))
    outcome = scored(ToolCallOrder(), called, reference)
    assert (outcome.value, outcome.parts["recall"], outcome.parts["turns_scored"]) == (0.75, 0.75, 2)
