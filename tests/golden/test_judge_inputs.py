"""What a judge is shown is what the original shows it: the turns, the executions, the tools on offer, the target."""

import json
from pathlib import Path

from tests.golden.goldens import Golden, read_file, read_goldens
from toolgauge.cases.actual import trajectory_of
from toolgauge.cases.expectations import expected_of
from toolgauge.model.content import Content, Recorded
from toolgauge.model.json import Json
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.originals.strands import Faithfulness, TrajectoryJudge, YesOrNo
from toolgauge.score.judged import Writer
from toolgauge.score.prompts import Entry, Spoken, view_of_last_run
from toolgauge.service.criteria_factory import make_evaluator


def test_the_judge_is_shown_what_the_original_shows(golden_file: Path):
    wrong: dict[str, list[dict[str, Json]]] = {}
    for golden in read_file(golden_file):
        shown = golden.said.get("judge_inputs")
        if shown is not None and (inputs := _inputs(golden)) != [
            {**one, "history": one.get("history", [])} for one in _objects(shown)
        ]:
            wrong[golden.case.name] = inputs
    assert wrong == {}


def test_files_hold_inputs_of_judges():
    goldens = read_goldens(Path(__file__).parent)
    assert sum(golden.said.get("judge_inputs") is not None for golden in goldens) == 121


def _inputs(golden: Golden) -> list[dict[str, Json]]:
    evaluator = _evaluator(golden)
    trajectory = trajectory_of(golden.case.actual)
    match evaluator:
        case YesOrNo():
            return [
                {
                    "available_tools": [tool.name for tool in view.tools],
                    "history": _entries(view.history),
                    "target": {"name": call.name, "args": _value(call.arguments)},
                }
                for call, view in evaluator.views(trajectory)
            ]
        case Faithfulness():
            return _last_response(trajectory)
        case TrajectoryJudge():
            sections = [*evaluator.sections(trajectory, expected_of(golden.case.expected), Writer(60_000)), "Rubric"]
            return [{"sections": list[Json](sections), "history": []}]
        case _:
            raise AssertionError(f"nobody knows how to compare what {golden.case.evaluator} shows")


def _evaluator(golden: Golden) -> object:
    return make_evaluator(golden.case.evaluator, golden.case.config)


def _last_response(trajectory: Trajectory) -> list[dict[str, Json]]:
    seen = view_of_last_run(trajectory)
    assert seen is not None
    view, response = seen
    return [{"history": _entries(view.history), "target_response": response}]


def _entries(history: tuple[Entry, ...]) -> list[Json]:
    return [
        {"role": entry.role, "text": entry.text}
        if isinstance(entry, Spoken)
        else {"tools": [_done(call) for call in entry]}
        for entry in history
    ]


def _done(call: ToolCall) -> Json:
    result = _value(call.result)
    return {
        "name": call.name,
        "args": _value(call.arguments),
        "result": result if isinstance(result, str) else json.dumps(result),
    }


def _value(content: Content) -> Json:
    assert isinstance(content, Recorded)
    return content.value


def _objects(written: Json) -> list[dict[str, Json]]:
    assert isinstance(written, list)
    return [one for one in written if isinstance(one, dict)]
