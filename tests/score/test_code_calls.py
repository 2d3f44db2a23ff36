"""Failed steps of code agents: who judges them, and when they are made good."""

from msgspec.structs import replace

from tests.score.support import expect, expected, tool_call, trajectory
from toolgauge.evaluators.expected_calls import ToolCallF1
from toolgauge.evaluators.run_checks import Budget, ToolUse
from toolgauge.evaluators.tool_checks import KnownTool, ToolSuccess
from toolgauge.model.content import Recorded
from toolgauge.model.expected import Expected
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import Result, Scored
from toolgauge.model.ports import Evaluator
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import CodeStep, ToolCall, Trajectory
from toolgauge.score.criterion import Criterion, Inline, NoReference, ToolKinds
from toolgauge.score.scorer import Scorer

NAME = "python_interpreter"
CELL = "import json\n# read it\ntext = read('a')\nrows = json.loads(text)"
FIXED = "import json\n# read it again\ntext = read('b')\nrows = json.loads(text)"


def failed(code: str | None = CELL, *, agent: str | None = None) -> ToolCall:
    error = CallError(kind="AgentExecutionError", message="Code execution failed")
    arguments = None if code is None else Recorded({"code": code})
    return replace(tool_call(NAME, arguments=arguments, error=error, agent=agent), kind="code")


def step(code: str | None, *, start: int, has_failed: bool = False, agent: str | None = None) -> CodeStep:
    span = SpanRef("0af7651916cd43dd8448eb211c80319c", "00000000000000aa")
    return CodeStep(span=span, name=NAME, agent=agent, code=code, has_failed=has_failed, start_ns=start)


def coded(*calls: ToolCall, later: str | None = None, agent: str | None = None) -> Trajectory:
    steps = [step(CELL, start=0, has_failed=True)]
    if later is not None:
        steps.append(step(later, start=10, agent=agent))
    return replace(trajectory(*calls, offered=("find",)), code_steps=tuple(steps))


def results(evaluator: Evaluator, judged: Trajectory, reference: Expected | None = None) -> list[Result]:
    held = NoReference() if reference is None else Inline(reference)
    criterion = Criterion(name="c", evaluator_name="e", evaluator=evaluator, revision="r", reference=held)
    return list(Scorer([criterion], ToolKinds()).score(judged))


def values(found: list[Result]) -> list[float | str]:
    return [one.outcome.value if isinstance(one.outcome, Scored) else str(one.outcome) for one in found]


def test_a_failed_step_fails_tool_success():
    assert values(results(ToolSuccess(), coded(failed()))) == [0.0]


def test_other_evaluators_see_no_steps():
    judged = coded(tool_call("find"), failed())
    assert values(results(KnownTool(), judged)) == [1.0]
    assert values(results(Budget(calls=1), judged)) == [1.0]
    assert values(results(ToolCallF1(), judged, expected(expect("find")))) == [1.0]
    assert values(results(ToolUse(), coded(failed()))) == [0.0]


def test_a_later_step_with_the_same_cell_makes_good_a_failed_one():
    ignore = ToolSuccess(retries="ignore")
    assert values(results(ignore, coded(tool_call("find"), failed(), later=FIXED))) == [1.0]
    assert values(results(ignore, coded(failed(), later="print('another cell')"))) == [0.0]
