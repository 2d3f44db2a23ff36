"""Criteria as written become criteria that can score, or one error that says what is wrong and where."""

from pathlib import Path

import pytest

from toolgauge.evaluators.tool_call_args import ToolCallArgs
from toolgauge.model.errors import ConfigError
from toolgauge.score.criterion import Criterion, Inline
from toolgauge.service.criteria_factory import load_for_replay


def criteria(folder: Path, text: str, *overrides: str) -> tuple[Criterion, ...]:
    file = folder / "criteria.yaml"
    file.write_text(text)
    return load_for_replay((), overrides, (str(file),), {})[1]


def error(folder: Path, text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        criteria(folder, text)
    return caught.value


def test_a_written_criterion_comes_behind_the_default_ones(tmp_path: Path):
    found = criteria(tmp_path, "[{name: a, evaluator: tool_call_args, strict: true, expected: [book], pass_at: 0.5}]")
    names = [criterion.name for criterion in found]
    assert names == ["default.tool_success", "default.known_tool", "default.tool_use", "a"]
    assert [criterion.pass_at for criterion in found] == [1.0, 1.0, 0.0, 0.5]
    assert found[3].evaluator == ToolCallArgs(strict=True)
    assert isinstance(found[3].reference, Inline)


def test_defaults_can_be_switched_off(tmp_path: Path):
    found = criteria(tmp_path, "[{name: a, evaluator: tool_success}]", "defaults.enabled=false")
    assert [criterion.name for criterion in found] == ["a"]


def test_a_criterion_that_could_never_score_is_an_error(tmp_path: Path):
    problem = error(tmp_path, "- {name: a, evaluator: tool_call_f1}\n")
    assert "criterion `a` has nothing that evaluator `tool_call_f1` could compare with" in problem.message
    assert "criteria.yaml:1" in problem.message
    assert problem.hint == "give `expected`, `expected_turns` or `reference`"


def test_an_unknown_evaluator_and_an_unknown_parameter_are_reported_together(tmp_path: Path):
    problem = error(
        tmp_path,
        "- {name: a, evaluator: tool_sucess}\n- {name: b, evaluator: tool_call_args, strickt: true, expected: [x]}\n",
    )
    assert "criteria.yaml:1" in problem.message
    assert "no evaluator called `tool_sucess`" in problem.message
    assert "did you mean `tool_success`" in problem.message
    assert "criteria.yaml:2" in problem.message
    assert "`strickt`" in problem.message


def test_the_name_of_a_default_criterion_is_taken(tmp_path: Path):
    problem = error(tmp_path, "- {name: default.tool_success, evaluator: tool_success}\n")
    assert "`default.tool_success` is the name of a default criterion" in problem.message


def test_the_revision_follows_what_is_expected_and_not_the_order_of_keys(tmp_path: Path):
    (one,) = criteria(tmp_path, "[{name: a, evaluator: tool_call_f1, expected: [x]}]")[3:]
    (same,) = criteria(tmp_path, "[{expected: [x], evaluator: tool_call_f1, name: a, enforce: shadow}]")[3:]
    (other,) = criteria(tmp_path, "[{name: a, evaluator: tool_call_f1, expected: [y]}]")[3:]
    assert one.revision == same.revision
    assert one.revision != other.revision
