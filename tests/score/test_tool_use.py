"""`tool_use` tells runs that called a tool from runs that called none, and is silent about what is no agent's run."""

from msgspec.structs import replace

from tests.rows import each_row
from tests.score.support import agent_run, judge, not_evaluated, scored, tool_call, trajectory
from toolgauge.evaluators.run_checks import ToolUse
from toolgauge.model.outcomes import NotEvaluated
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.contracts import Contract
from toolgauge.score.criterion import Criterion, ToolKinds
from toolgauge.score.scorer import Scorer

SPAN = SpanRef("0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7")
RUN = agent_run(SPAN)
WHOLE = replace(RUN, is_agent=False)


def results(
    of: Trajectory, pass_at: float = 0.0, *, kinds: ToolKinds | None = None, tools: tuple[str, ...] | None = None
) -> list[tuple[float | None, bool | None]]:
    evaluator = ToolUse(tools=tools)
    criterion = Criterion(name="use", evaluator_name="tool_use", evaluator=evaluator, revision="r", pass_at=pass_at)
    outcomes = [result.outcome for result in Scorer((criterion,), kinds or ToolKinds()).score(of)]
    return [(getattr(outcome, "value", None), getattr(outcome, "passed", None)) for outcome in outcomes]


def test_calls_that_were_asked_for_and_not_recorded_are_calls():
    hidden = replace(trajectory(), hidden_turns=2)
    assert scored(ToolUse(), hidden).value == 1.0
    assert not_evaluated(ToolUse(tools=("pay",)), hidden) == "no_content"


def test_a_trace_without_an_agent_run_has_no_result_of_a_criterion():
    without = replace(trajectory(tool_call("find")), runs=(WHOLE,))
    assert results(without) == []
    assert results(replace(without, runs=(RUN,))) == [(1.0, True)]
    assert judge(ToolUse(), without) == [NotEvaluated(reason="incomplete", explanation="no run of an agent was seen")]


def test_a_run_without_a_call_passes_at_0_and_fails_at_1():
    run = replace(trajectory(), runs=(RUN,))
    assert results(run) == [(0.0, True)]
    assert results(run, pass_at=1.0) == [(0.0, False)]


@each_row("name", ["final_answer", "think", "submit", "transfer_to_billing", "agents/respond"])
def test_answers_thinking_and_hand_offs_are_no_tool_use(name: str):
    run = replace(trajectory(tool_call(name)), runs=(RUN,))
    assert results(run) == [(0.0, True)]
    assert results(run, tools=(name,)) == [(1.0, True)]
    assert results(replace(trajectory(tool_call(name), tool_call("find")), runs=(RUN,))) == [(1.0, True)]


def test_the_configuration_decides_which_tools_are_neutral():
    run = replace(trajectory(tool_call("calculate"), tool_call("think")), runs=(RUN,))
    assert results(run) == [(0.0, True)]
    assert results(run, kinds=ToolKinds({"calc*": Contract(changes_state=True)})) == [(1.0, True)]
    assert results(run, kinds=ToolKinds({"calculate": Contract(changes_state=False)})) == [(1.0, True)]
    assert results(run, kinds=ToolKinds({"calc*": Contract(hands_over=True)})) == [(0.0, True)]
