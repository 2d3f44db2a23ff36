"""`run_completed` fails runs that ended with an error, and no others."""

from pathlib import Path

from msgspec.structs import replace

from tests.rows import each_row
from tests.score.support import agent_run, not_evaluated, scored, tool_call, trajectory, user
from toolgauge import evaluate
from toolgauge.evaluators.run_checks import RunCompleted
from toolgauge.model.observations import CallError, Ending
from toolgauge.model.outcomes import Side
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import Message, SpanSource, ToolCall, Trajectory

TRACE = "0af7651916cd43dd8448eb211c80319c"
RUN = agent_run(SpanRef(TRACE, "00f067aa0ba902b7"), agent="shop", prompt="Where is A-17?")
CRASHED = replace(RUN, error=CallError(kind="RateLimitError", message="slow down, sk-1"))
AGAIN = replace(RUN, span=SpanRef(TRACE, "00f067aa0ba902b8"), start_ns=10, end_ns=20)


def test_a_run_that_ended_well_passes():
    assert scored(RunCompleted(), replace(trajectory(), runs=(RUN,))).value == 1.0
    assert scored(RunCompleted(), trajectory(tool_call("find"))).value == 1.0


def test_a_run_that_ended_with_an_error_fails_with_its_message_as_a_value():
    outcome = scored(RunCompleted(), replace(trajectory(tool_call("find")), runs=(CRASHED,)))
    assert (outcome.value, outcome.explanation) == (0.0, "the run of `shop` ended with an error: `RateLimitError`")
    assert [difference.actual for difference in outcome.differences] == [Side(value="slow down, sk-1")]


def test_a_run_that_was_done_again_with_success_is_made_good():
    assert scored(RunCompleted(), replace(trajectory(), runs=(CRASHED, AGAIN))).value == 1.0
    unknown = replace(CRASHED, prompt=None), replace(AGAIN, prompt=None)
    assert scored(RunCompleted(), replace(trajectory(), runs=unknown)).value == 0.0
    other = replace(AGAIN, prompt="Cancel A-17")
    assert scored(RunCompleted(), replace(trajectory(), runs=(CRASHED, other))).value == 0.0


def ended(ending: Ending | None, *calls: ToolCall, agents: tuple[str, ...] = ("shop",), texts: int = 1) -> Trajectory:
    messages = (user("Where is A-17?", 0), Message(role="assistant", text="I will look.", turn=0))[:texts]
    run = replace(RUN, ending=ending, end_ns=100)
    return replace(trajectory(*calls, messages=messages), runs=(run,), agents=agents)


@each_row(
    ("ending", "noun"), [("empty", "empty"), ("length", "tokens"), ("content_filter", "filter"), ("refusal", "refused")]
)
def test_a_run_without_a_whole_answer_fails_with_the_reason(ending: Ending, noun: str):
    outcome = scored(RunCompleted(), ended(ending))
    assert (outcome.value, noun in outcome.explanation) == (0.0, True)
    assert scored(RunCompleted(), replace(ended(ending), closed_because="shutdown")).value == 1.0


@each_row("tool", ["send_certificate", "find_order", "transfer_to_human_agents", "think"])
def test_other_tools_give_no_answer(tool: str):
    assert scored(RunCompleted(), ended("empty", tool_call(tool), texts=2)).value == 0.0


def test_a_run_whose_end_was_not_seen_is_not_evaluated():
    models = SpanSource(service=None, scope="s", dialect="d", spans=(), model_calls=1, has_runs=True)
    whole = replace(RUN, is_agent=False)
    cut = replace(trajectory(), runs=(whole,), sources=(models,), closed_because="max_duration")
    assert not_evaluated(RunCompleted(), cut) == "incomplete"
    assert scored(RunCompleted(), replace(cut, runs=(replace(whole, error=CRASHED.error),))).value == 0.0


def test_tool_spans_alone_show_no_run():
    alone = replace(trajectory(tool_call("find")), runs=(replace(RUN, is_agent=False),))
    assert not_evaluated(RunCompleted(), alone) == "no_content"


# Recorded runs that raised out of their framework, of producers that record it on different spans.
CRASHES = {
    "genkit-go/tool_error",
    "genkit-js/bad_args",
    "google-adk/tool_error_legacy",
    "google-adk-java/unknown_tool",
    "openai-agents-js/unknown_tool",
    "openinference-openai-agents/unknown_tool",
    "pydantic-ai/tool_error",
    "spring-ai-2/bad_json",
    "strands-ts/bad_json",
}
# With errors on spans that the run got over, cancellations and hand-offs among them.
GOT_OVER = {
    "openinference-autogen/bad_json",
    "openinference-langgraph/handoff.04",
    "openinference-smolagents/retry",
    "openinference-smolagents-code/error",
    "openinference-vercel/mixed_error",
    "openinference-vercel/tool_error",
    "openlit-langgraph/handoff.02",
    "traceloop-openai/error",
    "voltagent/tool_error",
}


@each_row("recording", sorted(CRASHES | GOT_OVER))
def test_recorded_crashes_fail_and_recorded_recoveries_pass(recording: str):
    path = Path(__file__).parents[1] / "corpus" / f"{recording}.otlp.pb"
    results = evaluate(str(path)).results
    found = {result.outcome for result in results if result.criterion == "default.run_completed"}
    assert found == {"fail" if recording in CRASHES else "pass"}
