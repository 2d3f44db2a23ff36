"""Half a run is not a run: what judges it as a whole does not, and what looks at a call alone judges calls seen whole."""

from tests.rows import each_row
from tests.score.support import expect, expected, tool_call, trajectory
from tests.score.test_scorer import criterion
from toolgauge import plugins
from toolgauge.evaluators.arguments_schema import ArgumentsSchema
from toolgauge.evaluators.expected_calls import ToolCallF1
from toolgauge.evaluators.llm_judges import ToolSelectionAccuracy
from toolgauge.evaluators.policy import Policy
from toolgauge.evaluators.repeated_calls import RepeatedCalls
from toolgauge.evaluators.tool_checks import KnownTool, ToolSuccess
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import NotEvaluated, Result, outcome_word
from toolgauge.model.ports import needs_of
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.criterion import Criterion, Inline, ToolKinds
from toolgauge.score.scorer import Scorer

WHY = "it began before this process"
HALF = NotEvaluated(reason="incomplete", explanation=WHY)
SEEN = tool_call("look", is_joined_by_id=True)
FAILED = tool_call("look", is_joined_by_id=True, error=CallError(kind="E", message="m"))
UNSEEN = tool_call("look", state="rejected")
# Whose results for a call need nothing but the call and the tools on offer.


def results(judged: Trajectory, *rules: Criterion) -> list[Result]:
    return [*Scorer(rules, ToolKinds()).score(judged)]


@each_row(
    "rule",
    [
        criterion(ToolCallF1(), reference=Inline(expected(expect("look")))),
        criterion(RepeatedCalls()),
        criterion(KnownTool()),
        criterion(ToolSuccess(retries="ignore")),
        criterion(Policy.model_validate({"forbid": [{"tool": "x", "agent": "clerk"}]})),
    ],
    ids=lambda rule: rule.evaluator.__class__.__name__,
)
def test_a_criterion_that_judges_the_whole_gives_one_result_without_a_score(rule: Criterion):
    (result,) = results(trajectory(SEEN, SEEN, offered=["look"], incomplete=WHY), rule)
    assert (result.call, result.outcome) == (None, HALF)


def test_calls_that_were_seen_whole_are_scored_and_no_others():
    judged = trajectory(SEEN, UNSEEN, FAILED, offered=["look"], incomplete=WHY)
    assert [(one.call, outcome_word(one.outcome)) for one in results(judged, criterion(ToolSuccess()))] == [
        (judged.calls[0], "pass"),
        (judged.calls[2], "fail"),
    ]
    rule = criterion(Policy.model_validate({"forbid": ["look"]}))
    assert [outcome_word(one.outcome) for one in results(judged, rule)] == ["fail", "fail"]


def test_a_judge_is_not_asked():
    rule = Criterion(name="c", evaluator_name="j", evaluator=ToolSelectionAccuracy(), revision="1")
    scorer = Scorer([rule], ToolKinds())
    (inquiry,) = scorer.inquiries(trajectory(SEEN, incomplete=WHY))
    assert inquiry.settled == HALF
    (inquiry,) = scorer.inquiries(trajectory(SEEN))
    assert inquiry.settled is None


def test_only_evaluators_that_look_at_a_call_alone_say_so():
    made = [needs_of(ArgumentsSchema()), needs_of(ToolSuccess()), needs_of(Policy.model_validate({"forbid": ["look"]}))]
    assert [needs.whole for needs in made] == [False] * 3
    classes = {name: plugins.evaluator(name) for name in plugins.names(plugins.EVALUATORS)}
    declared = {name for name, one in classes.items() if not needs_of(one).whole}
    assert declared == {"arguments_schema"}
