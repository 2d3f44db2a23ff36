"""Failures that are only the text of a result, by the globs of a criterion."""

import pytest

from tests.rows import each_row
from tests.score.support import tool_call, trajectory
from toolgauge.config.criteria import read_criterion
from toolgauge.config.problems import Place, written
from toolgauge.evaluators.error_handling import ErrorHandling
from toolgauge.evaluators.tool_checks import ToolSuccess
from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.errors import ConfigError
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import Result, Scored
from toolgauge.model.ports import Evaluator
from toolgauge.model.trajectory import ToolCall
from toolgauge.score.criterion import Criterion, ToolKinds
from toolgauge.score.scorer import Scorer
from toolgauge.service.criteria_factory import make_criterion

LATE = CallError(kind="Late", message="too late")


def results(evaluator: Evaluator, failures: tuple[str, ...], *calls: ToolCall) -> list[Result]:
    criterion = Criterion(name="c", evaluator_name="e", evaluator=evaluator, revision="r", failures=failures)
    return [*Scorer([criterion], ToolKinds()).score(trajectory(*calls))]


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


def test_the_text_is_the_message_of_the_failure_and_an_error_of_its_own_stays():
    for error, shown in ((None, CallError(kind="failed_result", message="Error: no")), (LATE, LATE)):
        (found,) = results(ToolSuccess(), ("Error: *",), tool_call("refund", result=Recorded("Error: no"), error=error))
        assert found.call is not None
        assert found.call.error == shown
        assert isinstance(found.outcome, Scored)
        assert "Error: no" not in found.outcome.explanation
    failed = tool_call("refund", {"id": 1}, result=Recorded("Error: no"))
    (found,) = results(ErrorHandling(), ("Error: *",), failed, tool_call("refund", {"id": 2}, result=Recorded("done")))
    assert getattr(found.outcome, "parts", {})["fixed"] == 1.0


def made(**more: object) -> Criterion:
    return make_criterion(read_criterion(written({"name": "c", "evaluator": "tool_success", **more}, Place("here"))))


def test_the_patterns_are_part_of_what_a_criterion_means():
    plain, matching = made(), made(failures={"match": ["Error: *"]})
    assert matching.failures == ("Error: *",)
    assert plain.revision != matching.revision
    assert made(failures={"match": ["Error: *"]}).revision == matching.revision


@each_row("failures", [{"match": []}, {"match": [""]}, {"match": "Error"}, {}, {"matches": ["a"]}])
def test_patterns_that_cannot_match_are_refused(failures: object):
    with pytest.raises(ConfigError, match="failures"):
        made(failures=failures)
