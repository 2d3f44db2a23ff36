"""Definitions as their tools write them come in; criteria that load, and notes about the rest, come out."""

import json
from pathlib import Path

import pytest

from tests.cli.command import run
from tests.rows import each_row
from toolgauge.authoring.convert.conversion import Converted, convert
from toolgauge.authoring.convert.draft import Document, read_documents
from toolgauge.config.load import as_yaml
from toolgauge.model.errors import RecordingError
from toolgauge.model.json import Json, JsonObject
from toolgauge.service.criteria_factory import load_for_replay

CASES = Path(__file__).parent / "cases"


def converted(folder: Path, *names: str) -> Converted:
    """Convert files of the cases, check that the criteria load, and shorten the names of files in the notes."""
    documents = [document for name in names for document in read_documents(str(CASES / name))]
    found = convert(documents, folder / "cases.jsonl", "eval.case.id")
    for path, lines in found.references.items():
        path.write_text("\n".join(lines))
    file = folder / "criteria.yaml"
    file.write_text(as_yaml({"criteria": found.criteria}))
    _, criteria = load_for_replay((), (), (str(file),), {})
    assert len([one for one in criteria if not one.name.startswith("default.")]) == len(found.criteria)
    return found


def notes(found: Converted) -> list[str]:
    return [line.removeprefix(f"{CASES}/") for line in found.notes]


def lines(folder: Path, name: str = "cases.jsonl") -> list[Json]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def test_uipath_evaluators_get_the_cases_of_an_evaluation_set(tmp_path: Path):
    found = converted(
        tmp_path,
        "uipath/tool-call-args.json",
        "uipath/tool-call-order.json",
        "uipath/json-similarity.json",
        "uipath/eval-set.json",
    )
    arguments, order, similarity = found.criteria
    assert arguments == {
        "name": "tool-call-args-evaluator",
        "evaluator": "uipath.tool_call_args",
        "strict": False,
        "subset": True,
        "reference": {"file": str(tmp_path / "cases.jsonl"), "key": "eval.case.id"},
    }
    assert lines(tmp_path) == [
        {"case": "weather-oslo", "expected": [{"name": "get_weather", "args": {"city": "Oslo"}}]},
        {
            "case": "weather-rome",
            "expected": [
                {"name": "get_weather", "id": "call_1", "args": {"city": "Rome"}},
                {"name": "send_email", "args": {}},
            ],
        },
    ]
    assert order == {
        "name": "tool-call-order-evaluator",
        "evaluator": "uipath.tool_call_order",
        "strict": True,
        "expected": ["get_weather", "send_email"],
    }
    assert similarity == {
        "name": "json-similarity-evaluator",
        "evaluator": "uipath.json_similarity",
        "target_output_key": "*",
        "expected_output": {"sent": True},
    }
    assert notes(found) == [
        "uipath/eval-set.json: evaluatorRefs: evaluator `ContainsEvaluator` is in none of the files",
        "uipath/eval-set.json: evaluations[1].evaluationCriterias.ToolCallOrderEvaluator:"
        " is not what this evaluator compares with",
        "uipath/json-similarity.json: evaluatorConfig.futureKey: is no parameter here",
    ]


def test_uipath_evaluators_stand_alone_with_their_default_criteria(tmp_path: Path):
    found = converted(tmp_path, "uipath/tool-call-output.json", "uipath/tool-call-count.json", "uipath/trajectory.json")
    assert found.criteria == [
        {
            "name": "tool-call-output-evaluator",
            "evaluator": "uipath.tool_call_output",
            "expected": [{"name": "get_weather", "output": "rain"}],
        },
        {
            "name": "tool-call-count-evaluator",
            "evaluator": "uipath.tool_call_count",
            "default_evaluation_criteria": {"tool_calls_count": {"get_weather": [">=", 1], "send_email": ["==", 1]}},
        },
    ]
    assert notes(found) == [
        "uipath/trajectory.json: evaluatorTypeId: no counterpart of `uipath-llm-judge-trajectory-similarity`"
    ]


def test_the_old_form_of_adk_is_read_too(tmp_path: Path):
    (criterion,) = converted(tmp_path, "adk/old.test.json").criteria
    assert criterion == {
        "name": "adk-tool-trajectory",
        "evaluator": "adk.tool_trajectory",
        "threshold": 1.0,
        "expected_turns": [[{"name": "roll_die", "args": {"sides": 6}}]],
        "pass_at": 1.0,
    }


def test_adk_eval_sets_become_turns_judged_as_the_configuration_says(tmp_path: Path):
    found = converted(tmp_path, "adk/home.evalset.json", "adk/test_config.json")
    assert found.criteria == [
        {
            "name": "adk-tool-trajectory",
            "evaluator": "adk.tool_trajectory",
            "scope": "conversation",
            "threshold": 0.8,
            "match_type": "IN_ORDER",
            "reference": {"file": str(tmp_path / "cases.jsonl"), "key": "eval.case.id"},
            "pass_at": 0.8,
        }
    ]
    assert lines(tmp_path) == [
        {
            "case": "lights_off",
            "expected_turns": [
                [{"name": "set_device_info", "args": {"location": "Bedroom", "device_id": "device_2", "status": "OFF"}}]
            ],
        },
        {
            "case": "two_turns",
            "expected_turns": [[], [{"name": "get_temperature", "args": {"location": "Living Room"}}]],
        },
    ]
    assert notes(found) == [
        "adk/home.evalset.json: eval_cases[0].conversation[0].final_response: the expected answer is not compared",
        "adk/home.evalset.json: eval_cases[2]: a case without a conversation has nothing to compare with",
        "adk/test_config.json: criteria.response_match_score: no counterpart",
    ]


PARAMETER_MATCH: JsonObject = {
    "name": "adk-tool-parameter-match",
    "evaluator": "tool_parameter_match",
    "match_mode": "name_and_required_args",
    "strategy": "exact",
    "strategies": {"temperature": "numeric"},
    "tolerance": 0.5,
    "ordered": True,
    "pass_at": 0.8,
}


def adk_metrics(metrics: JsonObject, *others: Document) -> Converted:
    """Convert a configuration of ADK with these metrics."""
    documents = [Document(name="test_config.json", content={"criteria": metrics}), *others]
    return convert(documents, None, "eval.case.id")


def test_the_proposed_parameter_metric_of_adk_keeps_all_its_parameters():
    found = adk_metrics(
        {
            "tool_parameter_match": {
                "threshold": 0.8,
                "matchMode": "name_and_required_args",
                "defaultStrategy": "exact",
                "perArgStrategies": {"temperature": "numeric"},
                "numericTolerance": 0.5,
            }
        }
    )
    assert found.criteria == [PARAMETER_MATCH]
    assert found.notes == [
        "criterion `adk-tool-parameter-match`: no eval set is given: add `expected`, `expected_turns` or `reference`,"
        " or convert it with its eval sets"
    ]


@each_row(
    ("written", "problem"),
    [
        ({"matchMode": "fuzzy"}, r"`match_mode` .* is `fuzzy`; allowed: `name_only`, `name_and_args`"),
        ({"perArgStrategies": {"x": "regex"}}, r"`strategies.x` .* is `regex`; allowed: `exact`, `casefold_exact`"),
        ({"perArgStrategies": "exact"}, r"`strategies` of evaluator `tool_parameter_match` must be"),
        ({"threshold": "high"}, r"criteria.tool_parameter_match.threshold: must be a number from 0 to 1"),
        ({"threshold": 80}, r"`pass_at` of 80 is not from 0 to 1"),
        ({"matchMode": 7, "numericTolerance": "x"}, r"`match_mode` .*; `tolerance` .* must be"),
    ],
)
def test_an_invalid_parameter_of_a_metric_of_adk_is_named(written: JsonObject, problem: str):
    with pytest.raises(RecordingError, match=problem):
        adk_metrics({"tool_parameter_match": written})


def test_ragas_samples_are_judged_by_both_of_its_metrics(tmp_path: Path):
    found = converted(tmp_path, "ragas/samples.jsonl")
    reference: JsonObject = {"file": str(tmp_path / "cases.jsonl"), "key": "eval.case.id"}
    assert found.criteria == [
        {"name": "ragas-tool-call-accuracy", "evaluator": "ragas.tool_call_accuracy", "reference": reference},
        {"name": "ragas-tool-call-f1", "evaluator": "ragas.tool_call_f1", "reference": reference},
    ]
    assert lines(tmp_path) == [
        {"case": "case-1", "expected": [{"name": "weather_check", "args": {"location": "New York"}}]},
        {
            "case": "case-2",
            "expected": [
                {"name": "weather_check", "args": {"location": "Oslo"}},
                {"name": "translate", "args": {"to": "nb"}},
            ],
        },
    ]
    assert notes(found) == [
        "ragas/samples.jsonl:2: reference: is not compared",
        "ragas/samples.jsonl:3: reference_topics: is not compared",
        "ragas/samples.jsonl:3: reference_tool_calls: no list of calls: the sample is left out",
    ]


def test_calls_of_one_message_of_agentevals_are_a_group(tmp_path: Path):
    found = converted(tmp_path, "agentevals/trajectory.json")
    assert found.criteria == [
        {
            "name": "agentevals-trajectory-match",
            "evaluator": "agentevals.trajectory_match",
            "trajectory_match_mode": "strict",
            "tool_args_match_overrides": {"get_weather": ["city"]},
            "expected": [
                [{"name": "get_weather", "args": {"city": "San Francisco"}}, {"name": "get_time"}],
                {"name": "send_email", "args": {"to": "x@example.com"}},
            ],
        }
    ]
    assert notes(found) == [
        "agentevals/trajectory.json: reference_outputs[1].tool_calls: the arguments of `get_time` are unparsable and"
        " not compared"
    ]


def test_assertions_of_promptfoo_are_for_the_case_of_their_test(tmp_path: Path):
    found = converted(tmp_path, "promptfoo/promptfooconfig.yaml")
    refund: JsonObject = {"attributes": {"eval.case.id": "refund an order"}}
    find: JsonObject = {"attributes": {"eval.case.id": "find an order"}}
    assert found.criteria == [
        {
            "name": "not-tool-used-default-test-1",
            "evaluator": "tool_call_count",
            "counts": {"delete_*": 0, "drop_table": 0},
            "strict": True,
        },
        {
            "name": "tool-used-refund-an-order-1",
            "evaluator": "tool_call_count",
            "when": refund,
            "counts": {"search_orders": ">= 1", "issue_refund": ">= 1"},
            "strict": True,
        },
        {
            "name": "tool-used-refund-an-order-2",
            "evaluator": "tool_call_count",
            "when": refund,
            "counts": {"search_*": {"min": 1, "max": 3}},
            "strict": True,
        },
        {
            "name": "tool-args-match-refund-an-order-3",
            "evaluator": "tool_call_args",
            "when": refund,
            "strict": True,
            "subset": True,
            "arguments": {"*.request_id": "ignore"},
            "expected": [{"name": "issue_refund", "args": {"order_id": "0123", "amount": 20}}],
        },
        {
            "name": "tool-sequence-find-an-order-1",
            "evaluator": "tool_trajectory",
            "when": find,
            "mode": "exact",
            "match": "name",
            "strict": True,
            "expected": ["search_orders", "compose_reply"],
        },
        {
            "name": "tool-call-f1-find-an-order-3",
            "evaluator": "tool_call_f1",
            "when": find,
            "match": "name",
            "expected": ["search_orders", "compose_reply"],
            "pass_at": 0.5,
        },
    ]
    file = "promptfoo/promptfooconfig.yaml"
    assert notes(found) == [
        f"{file}: tests[0].assert[3]: variables and files in `value` are not resolved",
        f"{file}: tests[0].assert[4]: no counterpart of `trajectory:goal-success`",
        f"{file}: tests[1].assert[1]: an expected call has a name, and no pattern",
        f"{file}: tests[1].assert[2]: repeated calls count here",
        f"{file}: tests[1].assert[3]: no counterpart of `contains`",
        f"{file}: tests[2]: tests outside of this file are not read",
        f"{file}: tests: the case of letters in names of tools matters here, as it does not there",
    ]


# Six lines that stand for a hundred thousand values.
ALIASES_THAT_MULTIPLY = "\n".join(
    ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 6))]
)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.json", "{", "cannot read"),
        ("a.yaml", "a: [", "cannot read"),
        ("a.json", "[" * 10_000, "nested too deep"),
        ("a.yaml", ALIASES_THAT_MULTIPLY, "aliases stand for more than 10000 values"),
        ("a.json", '{"hello": 1}', "none of the known formats"),
        ("a.json", "[]", "none of the known formats"),
        (
            "a.json",
            '{"eval_cases": "none", "criteria": {"tool_trajectory_avg_score": 1}}',
            "no case with expected calls",
        ),
        ("a.json", '{"criteria": {"response_match_score": 1}}', "is not among them"),
        ("a.json", '{"tests": 5}', "tests outside of this file"),
        ("a.json", '{"reference_outputs": 5}', "no list of messages"),
    ],
)
def test_what_holds_nothing_ends_with_an_error(tmp_path: Path, name: str, text: str, problem: str):
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(RecordingError, match=problem):
        convert(list(read_documents(str(file))), None, "eval.case.id")


def ragas_samples(*names: Json) -> list[Document]:
    """Write samples with one expected call each, of the given name."""
    samples: list[Json] = [
        {"id": f"s{number}", "reference_tool_calls": [{"name": name}]} for number, name in enumerate(names)
    ]
    return [Document(name="samples.json", content=samples)]


def test_a_case_that_no_criterion_could_hold_is_left_out_and_named(tmp_path: Path):
    found = convert(ragas_samples("a", 5, "b"), tmp_path / "cases.jsonl", "eval.case.id")
    written = [json.loads(line)["case"] for line in found.references[tmp_path / "cases.jsonl"]]
    assert written == ["s0", "s2"]
    assert found.notes[0] == (
        "criterion `ragas-tool-call-accuracy`, case `s1`: left out: `expected[0].name` of a reference must be text"
    )


def test_the_command_writes_criteria_that_validate(tmp_path: Path):
    ended = run("init", "--from", str(CASES / "ragas/samples.jsonl"), "--references", "cases.jsonl", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert "not carried over: " in ended.err
    (tmp_path / "criteria.yaml").write_text(ended.out)
    checked = run("validate", "--set", "criteria_files=[criteria.yaml]", cwd=tmp_path)
    assert "ragas-tool-call-accuracy, ragas-tool-call-f1" in checked.out, checked.err
    refused = run("init", "--from", str(CASES / "ragas/samples.jsonl"), cwd=tmp_path)
    assert refused.code == 2
    assert "hint: name one with `--references cases.jsonl`" in refused.err
    assert "each run needs the attribute `eval.case.id` with its case, as `case-1`\n" in ended.err
