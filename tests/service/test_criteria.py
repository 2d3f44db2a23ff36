"""Criteria as written become criteria that can score, or one error that says what is wrong and where."""

import re
from pathlib import Path

import pytest

from toolgauge.evaluators.expected_arguments import ToolCallArgs
from toolgauge.evaluators.tool_checks import ToolSuccess
from toolgauge.model.errors import ConfigError
from toolgauge.score.criterion import Criterion, Inline
from toolgauge.service.criteria_factory import load_for_replay
from toolgauge.service.pipeline_factory import watched_streams


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
    assert names == [
        "default.run_completed",
        "default.tool_success",
        "default.known_tool",
        "default.arguments_schema",
        "default.grounded_arguments",
        "default.one_effect",
        "default.grounded_answer",
        "default.repeated_calls",
        "default.error_handling",
        "default.honest_answer",
        "default.tool_use",
        "default.coverage",
        "a",
    ]
    assert [criterion.pass_at for criterion in found] == [*[1.0] * 5, 0.5, 1.0, 0.5, 0.5, 1.0, 0.0, 0.0, 0.5]
    assert found[1].evaluator == ToolSuccess(retries="ignore")
    assert found[-1].evaluator == ToolCallArgs(strict=True)
    assert isinstance(found[-1].reference, Inline)


def test_a_criterion_that_could_never_score_is_an_error(tmp_path: Path):
    problem = error(tmp_path, "- {name: a, evaluator: tool_call_f1}\n")
    assert "criterion `a` has nothing that evaluator `tool_call_f1` could compare with" in problem.message
    assert "criteria.yaml:1" in problem.message
    assert problem.hint == "give `expected`, `expected_turns` or `reference`"


@pytest.mark.parametrize(
    ("evaluator", "key", "compares"),
    [
        ("tool_success", "expected: [cancel_everything]", "`tool_call_args`"),
        ("known_tool", "expected_turns: [[find]]", "`tool_call_args`"),
        ("repeated_calls", "expected: []", "`tool_call_args`"),
        ("run_completed", "expected_output: x", "`json_similarity`"),
        ("strands.faithfulness", "expected_output: x", "`json_similarity`"),
    ],
)
def test_an_expectation_that_the_evaluator_ignores_is_an_error(tmp_path: Path, evaluator: str, key: str, compares: str):
    problem = error(tmp_path, f"- {{name: a, evaluator: {evaluator}, {key}}}\n")
    assert f"criterion `a` has `{key.partition(':')[0]}`, which evaluator `{evaluator}`" in problem.message
    assert problem.hint is not None
    assert problem.hint.startswith(compares)


def test_cases_may_select_runs_for_an_evaluator_without_reference(tmp_path: Path):
    (tmp_path / "cases.jsonl").write_text('{"case": "a", "expected": []}\n')
    text = "[{name: a, evaluator: tool_success, when: {case: a}, reference: {file: cases.jsonl, key: id}}]"
    assert criteria(tmp_path, text, "defaults.enabled=false")


@pytest.mark.parametrize(
    ("rule", "hint"),
    [
        ("numeric, absolut: 1", "did you mean `absolute`?"),
        ("numeric, marker: x", "known: `absolute`, `relative`, `rule`"),
        ("one_of, value: [1]", "did you mean `values`?"),
    ],
)
def test_an_unknown_key_of_an_argument_rule_gets_a_hint_from_the_keys_of_that_rule(
    tmp_path: Path, rule: str, hint: str
):
    rules = f"{{refund_order.amount: {{rule: {rule}}}}}"
    problem = error(tmp_path, f"- {{name: a, evaluator: tool_call_args, expected: [refund_order], arguments: {rules}}}")
    assert "unknown parameter `arguments.refund_order.amount." in problem.message
    assert problem.hint == hint


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
    (one,) = criteria(tmp_path, "[{name: a, evaluator: tool_call_f1, expected: [x]}]")[-1:]
    (same,) = criteria(tmp_path, "[{expected: [x], evaluator: tool_call_f1, name: a, enforce: shadow}]")[-1:]
    (other,) = criteria(tmp_path, "[{name: a, evaluator: tool_call_f1, expected: [y]}]")[-1:]
    assert one.revision == same.revision
    assert one.revision != other.revision


def test_each_default_criterion_has_a_switch_of_its_own(tmp_path: Path):
    usual = [criterion.name for criterion in criteria(tmp_path, "[]")]
    found = [criterion.name for criterion in criteria(tmp_path, "[]", "defaults.known_tool=false")]
    assert [name for name in usual if name not in found] == ["default.known_tool"]
    assert [name for name in usual if name in found] == found


def test_a_default_criterion_takes_parameters_and_keys_of_a_criterion(tmp_path: Path):
    setting = "defaults.tool_success={failed_calls: ignore, pass_at: 0.5, enforce: shadow}"
    found = criteria(tmp_path, "[]", setting)[1]
    assert (found.pass_at, found.enforce) == (0.5, "shadow")
    assert found.evaluator == ToolSuccess(failed_calls="ignore", retries="ignore")
    assert found.is_default
    assert found.revision != criteria(tmp_path, "[]")[1].revision


@pytest.mark.parametrize(
    ("was", "written"),
    [
        ("{name: a, evaluator: tool_success}", "{name: a, evaluator: tool_success, pass_at: 0.5}"),
        (
            "{name: a, evaluator: order_rules, rules: [{never: {tool: x}}]}",
            "{name: a, evaluator: order_rules, rules: [{never: {tool: x}, name: no x}]}",
        ),
        (
            "{name: a, evaluator: policy, forbid: [{tool: x, name: y}]}",
            "{name: a, evaluator: policy, forbid: [{tool: x, name: z}]}",
        ),
    ],
)
def test_thresholds_and_titles_of_rules_make_another_revision_of_the_same_measure(
    tmp_path: Path, was: str, written: str
):
    one, other = criteria(tmp_path, f"[{was}]")[-1], criteria(tmp_path, f"[{written}]")[-1]
    assert one.revision != other.revision
    assert one.measure == other.measure


@pytest.mark.parametrize(
    "written",
    [
        "{name: a, evaluator: policy, forbid: [{tool: y, name: y}]}",
        "{name: a, evaluator: policy, forbid: [{tool: x, arguments: {name: 1}}]}",
        "{name: a, evaluator: policy, forbid: [{tool: x}], when: {service: s}}",
        "{name: b, evaluator: policy, forbid: [{tool: x}]}",
    ],
)
def test_what_decides_about_values_makes_another_measure(tmp_path: Path, written: str):
    before = criteria(tmp_path, "[{name: a, evaluator: policy, forbid: [{tool: x, name: y}]}]")[-1]
    assert before.measure != criteria(tmp_path, f"[{written}]")[-1].measure


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("defaults.tool_succes=false", "`defaults.tool_succes`"),
        ("defaults.tool_success={retry: 1}", "unknown parameter `retry` of evaluator `tool_success`"),
        ("defaults.tool_success={name: other}", "`defaults.tool_success` cannot set `name`"),
        ("defaults.tool_success=1", "must be true, false, or a mapping"),
        ("defaults.tool_success={pass_at: 2}", "`pass_at` in criterion `default.tool_success`"),
    ],
)
def test_what_a_default_criterion_cannot_be_is_named(tmp_path: Path, setting: str, complaint: str):
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        criteria(tmp_path, "[]", setting)


def test_a_criterion_that_never_fails_is_watched_as_a_figure_of_runs_alone(tmp_path: Path):
    never = "[{name: a, evaluator: tool_success, pass_at: 0}, {name: b, evaluator: tool_use, pass_at: 0}]"
    watched = {name for name, _ in watched_streams(criteria(tmp_path, never))}
    assert {"default.tool_use", "b", "default.tool_success"} <= watched
    assert watched.isdisjoint({"default.coverage", "a"})
