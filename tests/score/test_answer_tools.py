"""Calls by which a model gives its structured answer: neither missing nor extra, unless something names their tool."""

import json

import pytest
from msgspec.structs import replace

from tests.rows import each_row
from tests.score.support import agent_run, expect, expected, tool_call, trajectory
from toolgauge.evaluators.expected_calls import ToolCallF1
from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Scored
from toolgauge.model.ports import Evaluator
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.criterion import Criterion, Inline, NoReference, ToolKinds
from toolgauge.score.scorer import Scorer

LOOKUP = tool_call("lookup", {"k": "k7"})
ANSWER: JsonObject = {"city": "Ulm"}
RUN = agent_run(SpanRef("1" * 32, "1" * 16), response=json.dumps(ANSWER))


def values(
    evaluator: Evaluator, run: Trajectory, *names: str, kinds: ToolKinds | None = None
) -> list[tuple[str | None, float | None]]:
    """Return tool and value of the results of an evaluator; `names` are the tools of the calls that are expected."""
    reference = Inline(expected(*map(expect, names))) if names else NoReference()
    criterion = Criterion(name="c", evaluator_name="c", evaluator=evaluator, revision="0" * 12, reference=reference)
    results = Scorer([criterion], kinds or ToolKinds()).score(run)
    return [
        (one.call.name if one.call else None, one.outcome.value if isinstance(one.outcome, Scored) else None)
        for one in results
    ]


def f1(answer: ToolCall | Trajectory, *names: str, kinds: ToolKinds | None = None) -> float | None:
    run = answer if isinstance(answer, Trajectory) else trajectory(LOOKUP, answer)
    ((_, value),) = values(ToolCallF1(match="name"), run, *names, kinds=kinds)
    return value


@each_row(
    "name",
    ["final_result", "final_result_Weather", "finalResult", "set_model_response", "StructuredOutput", "final_answer"],
)
def test_the_tool_of_the_answer_is_no_extra_call(name: str):
    answer = tool_call(name, ANSWER, state="requested_only")
    assert f1(answer, "lookup") == 1.0
    assert f1(answer, "lookup", name) == 1.0
    assert f1(trajectory(LOOKUP), "lookup", name) == pytest.approx(2 / 3)


def test_a_tool_whose_last_call_is_the_answer_of_the_run_carries_it():
    answered = replace(trajectory(LOOKUP, tool_call("Weather", ANSWER, state="requested_only")), runs=(RUN,))
    assert f1(answered, "lookup") == 1.0
    other = replace(answered, runs=(replace(RUN, response='{"city": "Bonn"}'),))
    ran = replace(
        answered, calls=tuple(replace(call, executed_by=SpanRef("1" * 32, "2" * 16)) for call in answered.calls)
    )
    assert f1(other, "lookup") == f1(ran, "lookup") == pytest.approx(2 / 3)


def test_a_tool_whose_framework_says_that_it_took_the_answer_carries_it():
    blocks: Json = [{"text": "Successfully validated Weather structured output"}]
    for told, value in (("Returning structured response: city='Ulm'", 1.0), (blocks, 1.0), ("sunny", 2 / 3)):
        assert f1(tool_call("Weather", ANSWER, result=Recorded(told)), "lookup") == pytest.approx(value)
