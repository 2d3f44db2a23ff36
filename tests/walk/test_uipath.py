"""UiPath's spans through a whole pipeline: `uipath.*` score live what they score offline."""

import json
from pathlib import Path

import pytest

from tests.walk.shapes import request, span
from tests.walk.support import Walk, attributes
from toolgauge.cases.case import Case, Line, parse
from toolgauge.cases.scoring import Cases
from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import Scored
from toolgauge.service.criteria_factory import load_for_replay

# The restaurant of UiPath's documents: arguments as Python literals, outputs in an envelope.
CALLED = (
    ("search restaurants", "{'city': 'Paris', 'open': True}", '{"content": "Chez Zoë"}'),
    ("book_table", '{"place": "Chez Zoë", "guests": 2}', '{"content": "booked"}'),
    ("book_table", '{"place": "Chez Zoë", "guests": 4}', '{"content": "full"}'),
)


def sent(**more: str) -> bytes:
    """One agent run with its tool spans, which may carry more attributes."""
    scope = "uipath.core.tracing.decorators"
    spans = [span("run", {"span_type": "agent"}, id="run", parent=None, seconds=9, scope=scope)]
    for number, (name, given, output) in enumerate(CALLED, 1):
        told: JsonObject = {"tool.name": name, "input.value": given, "output.value": output, **more}
        spans.append(span("tool", told, id=str(number), at=number, scope=scope))
    return request(*spans).SerializeToString()


def live(folder: Path, evaluator: str, config: str, expected: str, **more: str) -> dict[str, object]:
    """Send the spans through a pipeline with one criterion and return what its event says."""
    file = folder / "criteria.yaml"
    file.write_text(f"- {{name: original, evaluator: {evaluator}, {config} {expected}}}\n")
    _, criteria = load_for_replay((), (), (str(file),), {})
    walk = Walk("events=all", criteria=criteria)
    walk.send(sent(**more))
    walk.wait(400)
    (event,) = [told for told in map(attributes, walk.events()) if told["gen_ai.evaluation.name"] == "original"]
    return event


def offline(evaluator: str, config: dict[str, object], expected: dict[str, object]) -> float:
    spans = [
        {"name": name, "attributes": {"tool.name": name, "input.value": given, "output.value": output}}
        for name, given, output in CALLED
    ]
    written = {"id": "c", "evaluator": evaluator, "config": config, "expected": expected, "actual": {"spans": spans}}
    case = parse(Line(place="here", content=json.dumps(written).encode()))
    assert isinstance(case, Case)
    outcome = Cases().score(case).outcome
    assert isinstance(outcome, Scored)
    return outcome.value


@pytest.mark.parametrize(
    ("evaluator", "config", "expected", "written", "value"),
    [
        (
            "uipath.tool_call_args",
            {},
            "expected: [{name: search_restaurants, args: {city: Paris}}, {name: book_table, args: {guests: 4}},"
            " {name: book_table, args: {guests: 3}}]",
            {
                "tool_calls": [
                    {"name": "search_restaurants", "args": {"city": "Paris"}},
                    {"name": "book_table", "args": {"guests": 4}},
                    {"name": "book_table", "args": {"guests": 3}},
                ]
            },
            2 / 3,
        ),
        (
            "uipath.tool_call_count",
            {},
            "default_evaluation_criteria: {tool_calls_count: {book_table: ['>=', 2], pay: ['=', 1]}}",
            {"tool_calls_count": {"book_table": [">=", 2], "pay": ["=", 1]}},
            0.5,
        ),
    ],
)
def test_live_scores_are_those_of_the_case(
    tmp_path: Path,
    evaluator: str,
    config: dict[str, object],
    expected: str,
    written: dict[str, object],
    value: float,
):
    said = live(tmp_path, evaluator, "strict: true," if config else "", expected)
    assert said["gen_ai.evaluation.score.value"] == pytest.approx(value)
    assert offline(evaluator, config, written) == pytest.approx(value)


@pytest.mark.parametrize("kind", [{}, {"openinference.span.kind": "TOOL"}])
def test_the_id_of_a_tool_is_shared_by_its_calls_and_alone_decides(tmp_path: Path, kind: dict[str, str]):
    by_id = "expected: [{name: anything, id: res-1, repeat: 3}]"
    said = live(tmp_path, "uipath.tool_call_count", "", by_id, **{"tool.id": "res-1"}, **kind)
    assert said["gen_ai.evaluation.score.value"] == 1.0
    said = live(tmp_path, "uipath.tool_call_order", "", "expected: [book_table]", **{"tool.id": "res-1"}, **kind)
    assert said["gen_ai.evaluation.score.value"] == 0.0
