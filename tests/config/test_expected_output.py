"""The expected final answer: beside the expected calls or alone, in criteria and in reference lines."""

from pathlib import Path

import pytest

from tests.config.files import criteria_in
from toolgauge.config.criteria import CriterionConfig
from toolgauge.config.references import expected_json
from toolgauge.model.errors import ConfigError
from toolgauge.model.expected import Expected, ExpectedCall, ExpectedOutput
from toolgauge.service.criteria_factory import load_for_replay


def read(folder: Path, text: str) -> CriterionConfig:
    file = folder / "criteria.yaml"
    file.write_text(text)
    (criterion,) = criteria_in(file)
    return criterion


def test_an_answer_alone_is_expected_without_calls(tmp_path: Path):
    expected = read(tmp_path, "- {name: a, evaluator: e, expected_output: {city: Paris}}").expected
    assert expected == Expected(turns=(), answer=ExpectedOutput(value={"city": "Paris"}))
    assert expected is not None
    assert not expected.names_calls


def test_an_expected_null_differs_from_no_answer(tmp_path: Path):
    null = read(tmp_path, "- {name: a, evaluator: e, expected: [], expected_output: null}").expected
    assert null == Expected(turns=((),), answer=ExpectedOutput(value=None))
    assert null is not None
    assert null.names_calls
    assert read(tmp_path, "- {name: a, evaluator: e, expected: []}").expected == Expected(turns=((),))


def test_reference_lines_hold_answers(tmp_path: Path):
    (tmp_path / "cases.jsonl").write_text(
        '{"case": "1", "expected": ["x"], "expected_output": {"n": 1}}\n{"case": "2", "expected_output": "hi"}\n'
    )
    references = read(tmp_path, "- {name: a, evaluator: e, reference: {file: cases.jsonl, key: k}}").references
    assert references is not None
    assert references.cases == {
        "1": Expected(turns=((ExpectedCall(name="x"),),), answer=ExpectedOutput(value={"n": 1})),
        "2": Expected(turns=(), answer=ExpectedOutput(value="hi")),
    }


def test_the_revision_holds_the_answer_only_where_one_is_given():
    call = ExpectedCall(name="x")
    assert expected_json(Expected(turns=((call,),))) == {
        "per_turn": False,
        "turns": [[{"name": "x", "optional": False, "repeat": [1, 1]}]],
    }
    assert expected_json(Expected(turns=(), answer=ExpectedOutput(value=None))) == {
        "per_turn": False, "turns": [], "answer": None
    }  # fmt: skip


def test_an_evaluator_of_answers_needs_one(tmp_path: Path):
    (tmp_path / "criteria.yaml").write_text("- {name: a, evaluator: json_similarity, expected: [x]}")
    with pytest.raises(ConfigError) as caught:
        load_for_replay((), (), (str(tmp_path / "criteria.yaml"),), {})
    assert "criterion `a` has nothing that evaluator `json_similarity` could compare with" in caught.value.message
    assert caught.value.hint == "give `expected_output` or `reference`"
