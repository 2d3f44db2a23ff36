"""Every original runs on every documented shape of a case, alike on both sides or not, and says what it refuses."""

from tests.rows import each_row
from toolgauge import plugins
from toolgauge.cases.case import Case
from toolgauge.cases.scoring import Cases
from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import Errored, Outcome

ARGS: JsonObject = {"q": "a"}
CALL: JsonObject = {"name": "s", "args": ARGS}
ASKED: JsonObject = {"role": "assistant", "content": "", "tool_calls": [CALL]}
EXPECTED: dict[str, JsonObject] = {
    "tool_calls": {"tool_calls": [CALL]},
    "calls": {"calls": [CALL]},
    "tool_outputs": {"tool_outputs": [{**CALL, "output": "done"}]},
    "tool_calls_order": {"tool_calls_order": ["s"]},
    "tool_calls_count": {"tool_calls_count": {"s": ["==", 1]}},
    "trajectory": {"trajectory": ["s"]},
    "messages": {"messages": [{"role": "user", "content": "?"}, ASKED]},
    "invocations": {"invocations": [{"calls": [CALL]}]},
    "answer": {"expected_output": "x", "tool_calls": [CALL]},
}
TOOL: JsonObject = {"tool.name": "s", "input.value": '{"q": "a"}', "output.value": '{"content": "done"}'}
RUN: JsonObject = {"id": "r", "type": "agent", "name": "a", "start": 0, "end": 3}
RAN: JsonObject = {
    "id": "t",
    "parent": "r",
    "type": "tool",
    "name": "s",
    "args": ARGS,
    "output": "done",
    "start": 1,
    "end": 2,
}
ACTUAL: dict[str, JsonObject] = {
    "calls": {"calls": [{**CALL, "output": "done"}], "output": "x"},
    "messages": {"messages": [{"role": "user", "content": "?"}, ASKED, {"role": "assistant", "content": "x"}]},
    "invocations": {"invocations": [{"calls": [CALL]}], "output": "x"},
    "trajectory": {"trajectory": ["s"], "output": "x"},
    "spans": {"spans": [{"name": "s", "attributes": TOOL}], "output": "x"},
    "traces": {"traces": [{"spans": [RUN, RAN]}]},
    "output": {"output": "x"},
}
CONFIGS: dict[str, JsonObject] = {"strands.tool_called": {"tool_name": "s"}}
# A judge needs verdicts, which a shape cannot give.
ORIGINALS = [
    name
    for name in plugins.names(plugins.EVALUATORS)
    if "." in name and not hasattr(plugins.evaluator(name), "questions")
]


def outcome_of(evaluator: str, expected: JsonObject, actual: JsonObject) -> Outcome:
    case = Case(
        place="c:1",
        name="c",
        evaluator=evaluator,
        config=CONFIGS.get(evaluator, {}),
        expected=expected,
        actual=actual,
        pass_at=1.0,
        verdicts=(),
    )
    return Cases().score(case).outcome


@each_row("evaluator", ORIGINALS)
def test_an_original_runs_on_every_pair_of_shapes(evaluator: str):
    refused = [
        (wanted, made)
        for wanted, expected in EXPECTED.items()
        for made, actual in ACTUAL.items()
        if isinstance(outcome_of(evaluator, expected, actual), Errored)
    ]
    assert refused == []


# Evaluator, what is expected, the shape of the calls made, and words of the message.
REFUSED: list[tuple[str, JsonObject, str, tuple[str, ...]]] = [
    ("uipath.tool_call_output", {"tool_outputs": [{"name": "s", "output": {"x": 1}}]}, "spans", ("output", "text")),
    ("uipath.tool_call_output", {"tool_outputs": [{"name": "s", "output": {"x": 1}}]}, "calls", ("object", "text")),
    ("uipath.tool_call_args", {"tool_calls": "s"}, "spans", ("tool_calls", "a list")),
    ("uipath.tool_call_count", {"tool_calls_count": {"s": ["~", 1]}}, "spans", ("comparator", "`>=`")),
    ("uipath.json_similarity", {"expected_output": [1]}, "output", ("expected_output", "text")),
    ("adk.tool_parameter_match", {"invocations": []}, "invocations", ("0", "1", "equal numbers")),
    ("ragas.tool_call_f1", {"calls": [{**CALL, "repeat": 2}]}, "calls", ("`repeat`", "as often as it is expected")),
    ("strands.exact_match_scorer", {"trajectory": []}, "trajectory", ("no step", "at least one")),
    ("agentevals.trajectory_match", {"messages": [5]}, "messages", ("`messages`", "a list of objects")),
    ("bfcl.ast", {"allowed": [{"args": {}}]}, "functions", ("allowed", "name")),
]


@each_row(("evaluator", "expected", "actual", "words"), REFUSED)
def test_an_error_says_what_is_refused_and_what_is_accepted(
    evaluator: str, expected: JsonObject, actual: str, words: tuple[str, ...]
):
    shapes: dict[str, JsonObject] = {**ACTUAL, "functions": {"functions": [], "calls": [CALL]}}
    outcome = outcome_of(evaluator, expected, shapes[actual])
    assert isinstance(outcome, Errored)
    assert [word for word in words if word not in outcome.message] == []
