"""Results that are failures by the contract of their tool."""

from collections.abc import Mapping
from typing import Any

from tests.rows import each_row
from tests.score.support import tool_call, trajectory
from toolgauge.evaluators.tool_checks import ToolSuccess
from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import Json
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import Result, Scored
from toolgauge.model.ports import Evaluator
from toolgauge.model.trajectory import ToolCall
from toolgauge.score.contracts import Contract, ToolKinds
from toolgauge.score.criterion import Criterion
from toolgauge.score.error_texts import with_failures
from toolgauge.score.scorer import Scorer


def results(evaluator: Evaluator, failures: tuple[str, ...], *calls: ToolCall) -> list[Result]:
    criterion = Criterion(name="c", evaluator_name="e", evaluator=evaluator, revision="r")
    kinds = ToolKinds({"*": Contract(fails_when={"text": failures})})
    return [*Scorer([criterion], kinds).score(with_failures(trajectory(*calls), kinds))]


def score(result: Content, *failures: str, error: CallError | None = None) -> float:
    (found,) = results(ToolSuccess(), failures, tool_call("refund", result=result, error=error))
    assert isinstance(found.outcome, Scored)
    return found.outcome.value


@each_row(
    ("result", "value"),
    [
        (Recorded("Error: no such order"), 0.0),
        (Recorded("No Error: none"), 1.0),
        (Recorded({"error": True, "message": "no"}), 0.0),
        (Recorded({"error": False}), 1.0),
        (Recorded([{"type": "text", "text": "Error: no"}]), 1.0),
        (Unparsed("Error: cut off", "truncated"), 0.0),
        (NOT_RECORDED, 1.0),
        (Recorded(10**5000), 1.0),
        (Recorded("Error: \ud800"), 0.0),
    ],
)
def test_a_result_that_matches_is_a_failure(result: Content, value: float):
    assert score(result, "Error: *", '{"error":true*') == value


@each_row(
    ("fails_when", "result", "is_failure"),
    [
        ({"status": "declined"}, {"status": "declined"}, True),
        ({"status": ["declined", "failed"]}, {"status": "failed", "id": 1}, True),
        ({"status": "declined"}, {"status": "done"}, False),
        ({"order.paid": False}, {"order": {"paid": False}}, True),
        ({"items[*].state": "lost"}, {"items": [{"state": "sent"}, {"state": "lost"}]}, True),
        ({"code": 0}, {"code": False}, False),
        ({"status": "declined"}, '{"status": "declined"}', True),
        ({"status": "declined"}, [{"type": "text", "text": '{"status": "declined"}'}], True),
        ({"status": "declined"}, "declined", False),
        ({"status": "declined", "text": "sorry*"}, "sorry, no", True),
    ],
)
def test_values_at_paths_are_failures(fails_when: Mapping[str, Any], result: Json, *, is_failure: bool):
    call = tool_call("pay", result=Recorded(result))
    kinds = ToolKinds({"pay": Contract.model_validate({"fails_when": fails_when})})
    assert with_failures(trajectory(call), kinds).calls[0].has_failed is is_failure
