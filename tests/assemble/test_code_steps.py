"""Steps in which a code agent ran code: which of them are calls, and with which code."""

from tests.assemble.support import agent, args, executed, joined, model, reading
from tests.rows import each_row
from toolgauge.model.observations import CallError, CodeExecuted, MessageSeen, Reading, SpanFailed
from toolgauge.model.trajectory import Trajectory

RUN = reading("run", agent("coder"), end=100)


def step(name: str, *, start: int, error: str = "", parent: str = "run") -> Reading:
    failure = CallError(kind="AgentExecutionError", message=error) if error else None
    seen = CodeExecuted(name="python_interpreter", error=failure)
    ended = (SpanFailed(error=failure),) if failure is not None else ()
    return reading(name, seen, *ended, parent=parent, start=start, end=start + 9)


def wrote(name: str, text: str, *, parent: str, start: int) -> Reading:
    return reading(name, model(), MessageSeen(role="assistant", text=text), parent=parent, start=start)


def shown(trajectory: Trajectory) -> list[tuple[str, str, str | None]]:
    return [(call.name, call.kind, call.error and call.error.message) for call in trajectory.calls]


def test_a_step_that_failed_is_a_call_of_kind_code_with_its_code():
    failed = step("1", start=1, error="Code execution failed")
    trajectory = joined(RUN, failed, wrote("ask", "I try.\n<code>\nprint(x)\n</code>", parent="1", start=2))
    assert shown(trajectory) == [("python_interpreter", "code", "Code execution failed")]
    (call,) = trajectory.calls
    assert (call.arguments, call.agent, call.state) == (args(code="print(x)"), "coder", "executed")


@each_row(
    ("text", "code"),
    [
        ("Thought: a\n<code>\nx = 1\n</code>", "x = 1"),
        ("Thought: a\n```py\nif x < 1: y = `z`\n```<end_code>", "if x < 1: y = `z`"),
        ("```python\nx = 1\n```\nand\n```\ny = 2\n```", "x = 1\n\ny = 2"),
        ("no code at all", None),
    ],
)
def test_code_stands_in_tags_or_fences(text: str, code: str | None):
    (one,) = joined(RUN, step("1", start=1), wrote("ask", text, parent="1", start=2)).code_steps
    assert one.code == code


def test_a_step_that_worked_is_known_and_no_call():
    trajectory = joined(RUN, step("1", start=1), step("2", start=20, error="Code execution failed"))
    assert [(one.name, one.agent, one.has_failed) for one in trajectory.code_steps] == [
        ("python_interpreter", "coder", False),
        ("python_interpreter", "coder", True),
    ]
    assert len(trajectory.calls) == 1


def test_a_step_that_ended_with_the_error_of_a_call_in_it_is_no_call_of_its_own():
    failed = step("1", start=1, error="Code execution failed at line 'pay()' due to: ValueError: card declined")
    tool = executed("pay", error=CallError(kind="ValueError", message="card declined"))
    inner = reading("tool", tool, parent="1", start=3)
    assert shown(joined(RUN, failed, inner)) == [("pay", "tool", "card declined")]


def test_calls_in_a_failed_step_follow_it():
    failed = step("1", start=1, error="Code execution failed")
    inner = reading("tool", executed("find"), parent="1", start=3)
    assert shown(joined(RUN, failed, inner)) == [
        ("python_interpreter", "code", "Code execution failed"),
        ("find", "tool", None),
    ]


def test_a_run_whose_last_step_failed_has_failed():
    failed = step("1", start=1, error="Code execution failed")
    trajectory = joined(RUN, failed, wrote("ask", "<code>x</code>", parent="1", start=2))
    assert [run.error is not None for run in trajectory.runs] == [True]
