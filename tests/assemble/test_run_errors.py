"""Which errors end a run, and which are a tool's, a turn's that the run got over, or a framework's way to steer."""

from tests.assemble.support import agent, args, executed, joined, model, reading, requested
from tests.rows import each_row
from toolgauge.model.observations import CallError, MessageSeen, ModelCall, Reading, SpanFailed
from toolgauge.model.trajectory import Trajectory


def failed(message: str = "rate limit reached", kind: str = "RateLimitError") -> SpanFailed:
    return SpanFailed(error=CallError(kind=kind, message=message))


def said(text: str) -> MessageSeen:
    return MessageSeen(role="assistant", text=text)


def ended(*readings: Reading) -> list[str | None]:
    """Return the messages of the errors that the outermost runs ended with."""
    return messages(joined(*readings))


def messages(trajectory: Trajectory) -> list[str | None]:
    return [None if run.error is None else run.error.message for run in trajectory.runs if run.above is None]


def test_the_words_of_the_runs_own_span_come_before_those_of_its_model():
    run = reading("run", agent("shop"), failed("gave up after 429"), end=20)
    assert ended(run, reading("ask", model(), failed(), parent="run", start=1)) == ["gave up after 429"]


def test_a_run_ends_with_the_error_of_its_last_model_call():
    run = reading("run", agent("shop"), end=20)
    first = reading("ask", model(), parent="run", start=1)
    assert ended(run, first, reading("again", model(), failed(), parent="run", start=5)) == ["rate limit reached"]


def test_a_model_call_that_was_tried_again_with_success_ends_no_run():
    run = reading("run", agent("shop"), end=20)
    first = reading("ask", model(), failed(), parent="run", start=1)
    assert ended(run, first, reading("again", model(), parent="run", start=5)) == [None]


def test_a_run_ends_with_the_error_of_the_turn_around_its_last_model_call():
    run = reading("run", agent("shop"), end=20)
    turn = reading("turn", failed("Tool not found: {'tool_name': 'pay'}", "_OTHER"), parent="run", start=1, end=19)
    assert ended(run, turn, reading("ask", model(), parent="turn", start=2)) == ["Tool not found: {'tool_name': 'pay'}"]


def test_what_failed_beside_the_last_model_call_ends_no_run():
    run = reading("run", agent("shop"), end=20)
    beside = reading("memory", failed(), parent="run", start=9, end=12)
    assert ended(run, reading("ask", model(), parent="run", start=1), beside) == [None]


def test_a_workflow_that_failed_fails_the_last_run_in_it():
    workflow = reading("flow", failed("no summary"), end=30)
    first = reading("a", agent("reader"), parent="flow", start=1, end=9)
    second = reading("b", agent("writer"), parent="flow", start=10, end=19)
    assert ended(workflow, first, second) == [None, "no summary"]


def test_a_sub_agent_that_failed_ends_no_run_that_went_on():
    run = reading("run", agent("boss"), end=30)
    sub = reading("sub", agent("finder"), failed(), parent="run", start=2, end=9)
    asked = reading("ask", model(), parent="sub", start=3)
    assert ended(run, sub, asked, reading("end", model(), parent="run", start=12)) == [None]


@each_row(
    ("kind", "message"),
    [
        ("asyncio.exceptions.CancelledError", ""),
        ("langgraph.errors.ParentCommand", "Command(graph='triage:1', update={})"),
        ("_OTHER", "Command(graph='triage:1', update={})"),
        ("langgraph.errors.GraphInterrupt", "(Interrupt(value='ok?'),)"),
        ("_OTHER", "GraphInterrupt((Interrupt(value='ok?'),))"),
        ("*errors.errorString", "context canceled"),
        ("AbortError", "This operation was aborted"),
        ("System.Threading.Tasks.TaskCanceledException", "A task was canceled."),
        ("_OTHER", "Guardrail tripwire triggered: {'guardrail': 'no_pii', 'type': 'input'}"),
        ("agents.exceptions.OutputGuardrailTripwireTriggered", "Guardrail NoPii triggered tripwire"),
    ],
)
def test_what_steers_a_run_is_no_error(kind: str, message: str):
    run = reading("run", agent("shop"), failed(message, kind), end=20)
    assert ended(run, reading("ask", model(), parent="run", start=1)) == [None]


def test_the_error_of_a_tool_that_is_copied_upward_is_no_error_of_a_run_that_went_on():
    broke = CallError(kind="TimeoutError", message="no answer")
    spans = [
        reading("run", agent("shop"), failed("no answer"), end=20),
        reading("ask", model(), requested("find", id="1"), failed("no answer"), parent="run", start=1, end=4),
        reading("tool", executed("find", args(), id="1", error=broke), parent="run", start=2, end=3),
    ]
    assert ended(*spans) == ["no answer"]
    assert ended(*spans, reading("end", model(), said("Sorry."), failed("no answer"), parent="run", start=5)) == [None]


def test_the_error_of_a_turn_rejects_the_call_that_it_names():
    trajectory = joined(
        reading("run", agent("shop"), end=20),
        reading("turn", failed("Tool not found: {'tool_name': 'pay'}", "_OTHER"), parent="run", start=1, end=19),
        reading("ask", ModelCall(), requested("find"), requested("pay", position=1), parent="turn", start=2),
    )
    assert [(call.name, call.state) for call in trajectory.calls] == [("find", "requested_only"), ("pay", "rejected")]
    assert [call.error.kind for call in trajectory.calls if call.error is not None] == ["unknown_tool"]
