"""`tool_use` tells runs that called a tool from runs that called none, and is silent about what is no agent's run."""

from msgspec.structs import replace

from tests.rows import each_row
from tests.score.support import judge, not_evaluated, scored, tool_call, trajectory
from toolgauge.evaluators.run_checks import ToolUse
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import NotEvaluated
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ClosedBecause, Run, Trajectory
from toolgauge.score.contracts import Contract
from toolgauge.score.criterion import Criterion, ToolKinds
from toolgauge.score.scorer import Scorer

SPAN = SpanRef("0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7")
RUN = Run(span=SPAN, above=None, agent=None, prompt=None, response=None, tools_offered=None, start_ns=0, end_ns=9)
WHOLE = replace(RUN, is_agent=False)


def results(
    of: Trajectory, pass_at: float = 0.0, *, kinds: ToolKinds | None = None, tools: tuple[str, ...] | None = None
) -> list[tuple[float | None, bool | None]]:
    evaluator = ToolUse(tools=tools)
    criterion = Criterion(name="use", evaluator_name="tool_use", evaluator=evaluator, revision="r", pass_at=pass_at)
    outcomes = [result.outcome for result in Scorer((criterion,), kinds or ToolKinds()).score(of)]
    return [(getattr(outcome, "value", None), getattr(outcome, "passed", None)) for outcome in outcomes]


def test_a_run_with_a_call_scores_1():
    outcome = scored(ToolUse(), trajectory(tool_call("find")))
    assert (outcome.value, outcome.explanation) == (1.0, "the run called a tool")


def test_a_run_without_a_call_scores_0():
    outcome = scored(ToolUse(), replace(trajectory(), runs=(RUN,)))
    assert (outcome.value, outcome.explanation) == (0.0, "the run called no tool")


def test_what_became_of_the_call_does_not_matter():
    rejected = tool_call("pay", state="rejected", error=CallError(kind="ToolNotFound", message=""))
    assert scored(ToolUse(), trajectory(rejected)).value == 1.0
    assert scored(ToolUse(), trajectory(tool_call("pay", state="requested_only"))).value == 1.0


def test_only_the_tools_that_count_are_looked_for():
    run = trajectory(tool_call("find"))
    assert scored(ToolUse(tools=("pay*",)), run).value == 0.0
    assert scored(ToolUse(tools=("f*",)), run).value == 1.0


def test_calls_that_were_asked_for_and_not_recorded_are_calls():
    hidden = replace(trajectory(), hidden_turns=2)
    assert scored(ToolUse(), hidden).value == 1.0
    assert not_evaluated(ToolUse(tools=("pay",)), hidden) == "no_content"


@each_row("because", ["max_duration", "max_open", "max_open_bytes", "memory", "shutdown"])
def test_nothing_is_said_of_a_run_that_was_closed_before_it_called_a_tool(because: ClosedBecause):
    assert not_evaluated(ToolUse(), replace(trajectory(), closed_because=because)) == "incomplete"
    assert scored(ToolUse(), replace(trajectory(tool_call("find")), closed_because=because)).value == 1.0


@each_row("because", ["run_ended", "idle", "open_idle"])
def test_a_run_of_which_nothing_more_came_scores_0(because: ClosedBecause):
    assert scored(ToolUse(), replace(trajectory(), closed_because=because)).value == 0.0


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
    assert results(replace(trajectory(tool_call(name)), runs=(RUN,))) == [(0.0, True)]
    assert results(replace(trajectory(tool_call(name), tool_call("find")), runs=(RUN,))) == [(1.0, True)]


def test_the_configuration_decides_which_tools_are_neutral():
    run = replace(trajectory(tool_call("calculate"), tool_call("think")), runs=(RUN,))
    assert results(run) == [(0.0, True)]
    assert results(run, kinds=ToolKinds({"calc*": Contract(changes_state=True)})) == [(1.0, True)]
    assert results(run, kinds=ToolKinds({"calculate": Contract(changes_state=False)})) == [(1.0, True)]
    assert results(run, kinds=ToolKinds({"calc*": Contract(hands_over=True)})) == [(0.0, True)]


def test_a_neutral_tool_that_the_criterion_names_is_tool_use():
    run = replace(trajectory(tool_call("final_answer")), runs=(RUN,))
    assert results(run, tools=("final_answer",)) == [(1.0, True)]


def test_the_explanation_tells_neutral_tools_from_no_tools():
    run = replace(trajectory(tool_call("think")), neutral_tools=frozenset({"think"}))
    assert scored(ToolUse(), run).explanation == "the run called only tools that answer, think or hand over"
