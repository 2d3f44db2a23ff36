"""Criteria, inline and in files, and their references."""

from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from tests.config.files import criteria_in, load_criteria, loaded, write
from toolgauge.config.criteria import (
    CriterionConfig,
    parameter_problems,
)
from toolgauge.config.problems import config_error, suggestion
from toolgauge.model.errors import ConfigError
from toolgauge.model.expected import Expected, ExpectedCall, ExpectedOutput


def read(path: Path, text: str) -> CriterionConfig:
    """Read the only criterion of a criteria file."""
    (criterion,) = criteria_in(write(path / "criteria.yaml", text))
    return criterion


def refused(path: Path, text: str) -> ConfigError:
    """Read a criteria file that must be refused, and return why."""
    file = write(path / "criteria.yaml", text)
    with pytest.raises(ConfigError) as caught:
        criteria_in(file)
    return caught.value


def complaint(path: Path, text: str) -> str:
    """Return what is said about a criteria file, without its folder."""
    error = refused(path, text)
    return (error.message + (f" [{error.hint}]" if error.hint else "")).replace(f"{path}/", "")


def test_a_full_criterion_is_read(tmp_path: Path):
    criterion = read(
        tmp_path,
        """\

        - name: refund-arguments
          evaluator: tool_call_args
          when:
            service: "support-*"
            agent: refund-agent
            attributes: {deployment.environment.name: production, shard: 3, canary: false}
          scope: conversation
          tools: [issue_refund, "update_*"]
          subset: true
          expected: [{name: issue_refund, args: {order_id: "A-17", amount: 20}}]
          pass_at: 0.8
          sample: 0.5
          enforce: shadow
        """,
    )
    assert criterion.name == "refund-arguments"
    assert criterion.evaluator == "tool_call_args"
    assert criterion.when.service == "support-*"
    assert criterion.when.agent == "refund-agent"
    assert criterion.when.attributes == {"deployment.environment.name": "production", "shard": 3, "canary": False}
    assert criterion.scope == "conversation"
    assert criterion.parameters == {"tools": ["issue_refund", "update_*"], "subset": True}
    assert criterion.expected == Expected(
        turns=((ExpectedCall(name="issue_refund", args={"order_id": "A-17", "amount": 20}),),)
    )
    assert criterion.references is None
    assert (criterion.pass_at, criterion.sample, criterion.enforce) == (0.8, 0.5, "shadow")
    assert criterion.where == f"{tmp_path}/criteria.yaml:2"


def test_expected_items_keep_what_was_given_apart_from_what_was_not(tmp_path: Path):
    criterion = read(
        tmp_path,
        """\
        - name: a
          evaluator: e
          expected:
            - search
            - {name: b, id: call-1, args: {}, output: null, optional: true, repeat: 2}
            - {name: c, args: {x: null, day: 2024-05-01}, output: {ok: true}, repeat: [0, 3]}
        """,
    )
    assert criterion.expected is not None
    assert criterion.expected.per_turn is False
    assert criterion.expected.turns == (
        (
            ExpectedCall(name="search"),
            ExpectedCall(
                name="b", call_id="call-1", args={}, output=ExpectedOutput(value=None), optional=True, repeat=(2, 2)
            ),
            ExpectedCall(
                name="c",
                args={"x": None, "day": "2024-05-01"},
                output=ExpectedOutput(value={"ok": True}),
                repeat=(0, 3),
            ),
        ),
    )


def test_an_empty_list_expects_nothing_which_differs_from_no_reference(tmp_path: Path):
    assert read(tmp_path, "- {name: a, evaluator: e, expected: []}").expected == Expected(turns=((),))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- {evaluator: e}", "criteria.yaml:1: `name` in a criterion is missing"),
        ("- {name: a}", "criteria.yaml:1: `evaluator` in criterion `a` is missing"),
        (
            "- {name: a, evaluater: e}",
            "criteria.yaml:1: `evaluator` in criterion `a` is missing [is `evaluater` meant to be `evaluator`?]",
        ),
        (
            "- {name: a, evaluator: e, scope: null}",
            "`scope` in criterion `a` is empty; allowed: `trace`, `conversation`",
        ),
        ("- {name: A!, evaluator: e}", "`name` in criterion `A!` must match `^[a-z][a-z0-9_.-]{0,63}$`"),
        ("- {name: " + "a" * 65 + ", evaluator: e}", "must match"),
        ("- {name: 5, evaluator: e}", "`name` in a criterion must be text"),
        ("- {name: a, evaluator: e, pass_at: 1.1}", "`pass_at` in criterion `a` must be less than or equal to 1"),
        ("- {name: a, evaluator: e, pass_at: 80%}", "`pass_at` in criterion `a` must be a number from 0 to 1"),
        ("- {name: a, evaluator: e, sample: most}", "`sample` in criterion `a` must be a number"),
        ("- {name: a, evaluator: e, pass_at: true}", "`pass_at` in criterion `a` must be a number"),
        ("- {name: a, evaluator: e, sample: 0}", "`sample` in criterion `a` must be greater than 0"),
        ("- {name: a, evaluator: e, scope: run}", "is `run`; allowed: `trace`, `conversation`"),
        ("- {name: a, evaluator: e, enforce: maybe}", "is `maybe`; allowed: `live`, `shadow`"),
        (
            "- {name: a, evaluator: e, when: {servce: x}}",
            "unknown key `when.servce` in criterion `a` [did you mean `service`?]",
        ),
        ("- {name: a, evaluator: e, when: {attributes: {x: [1]}}}", "must be a text, a number or a truth value"),
        ("- {name: a, evaluator: e, when: {case: x}}", "criterion `a` has `when.case`, which needs a `reference`"),
        ("- {name: a, evaluator: e, expected: x}", "`expected` in criterion `a` must be a list"),
        ("- {name: a, evaluator: e, expected: [{args: {}}]}", "`expected[0].name` in criterion `a` is missing"),
        (
            "- {name: a, evaluator: e, expected: [x, {name: b, arguments: {}}]}",
            "unknown key `expected[1].arguments` in criterion `a` [did you mean `args`?]",
        ),
        ("- {name: a, evaluator: e, expected: [{name: b, repeat: 0}]}", "must be 1 to 1000000, or `[least, most]`"),
        ("- {name: a, evaluator: e, expected: [{name: b, repeat: [3, 1]}]}", "with least not above most"),
        ("- {name: a, evaluator: e, expected: [{name: b, repeat: [1]}]}", "must be a whole number or `[least, most]`"),
        ("- {name: a, evaluator: e, expected: [{name: b, repeat: true}]}", "must be a whole number or `[least, most]`"),
        ("- {name: a, evaluator: e, expected_turns: [x]}", "`expected_turns[0]` in criterion `a` must be a list"),
        (
            "- {name: a, evaluator: e, expected: [x], reference: {file: f, key: k}}",
            "criterion `a` has `expected` and `reference`, of which only one can hold",
        ),
        (
            "- {name: a, evaluator: e, expected: [x], expected_turns: [[x]]}",
            "criterion `a` has `expected` and `expected_turns`, of which only one can hold",
        ),
        ("- {name: a, evaluator: e, reference: {file: f}}", "`reference.key` in criterion `a` is missing"),
        ("- text", "criteria.yaml:1: a criterion must be a mapping of keys to values"),
        ("", "a criteria file must be `criteria: [...]` or a list of criteria"),
        ("criteria: {}", "a criteria file must be `criteria: [...]` or a list of criteria"),
        (
            "criterias: []",
            "unknown key `criterias` in a criteria file [its keys are `criteria` and `tools`; what has more is a configuration, for `--config`]",
        ),
    ],
)
def test_what_is_wrong_with_a_criterion_is_said_with_its_place(tmp_path: Path, text: str, said: str):
    message = complaint(tmp_path, text)
    assert message.startswith(("criteria.yaml:1: ", "criteria.yaml: "))
    assert said in message


def test_criteria_files_are_globs_relative_to_the_file_that_names_them(tmp_path: Path):
    write(tmp_path / "etc" / "criteria" / "b.yaml", "- {name: b, evaluator: e}\n")
    write(tmp_path / "etc" / "criteria" / "a.yaml", "criteria: [{name: a, evaluator: e}]\n")
    write(tmp_path / "etc" / "criteria" / "deep" / "c.yaml", "- {name: c, evaluator: e}\n")
    flat = write(
        tmp_path / "etc" / "flat.yaml", "criteria: [{name: z, evaluator: e}]\ncriteria_files: ['criteria/*.yaml']\n"
    )
    deep = write(tmp_path / "etc" / "deep.yaml", "criteria_files: ['criteria/**/*.yaml', criteria/a.yaml]\n")
    assert [entry.name for entry in load_criteria(loaded(flat), {})] == ["z", "a", "b"]
    assert [entry.name for entry in load_criteria(loaded(deep), {})] == ["a", "b", "c"]


def test_references_are_read_relative_to_the_criteria_file(tmp_path: Path):
    write(
        tmp_path / "cases.jsonl",
        '{"case": "refund-17", "expected": [{"name": "refund", "args": {"a": 1}}]}\n'
        "\n"
        '{"case": 18, "expected_turns": [["a"], ["b", {"name": "c", "output": null}]]}\r\n'
        '{"case": "nothing", "expected": []}',
    )
    criterion = read(
        tmp_path, "- {name: a, evaluator: e, reference: {file: cases.jsonl, key: eval.case.id}, when: {case: 'r*'}}"
    )
    assert criterion.expected is None
    assert criterion.references is not None
    assert criterion.references.key == "eval.case.id"
    assert criterion.references.cases == {
        "refund-17": Expected(turns=((ExpectedCall(name="refund", args={"a": 1}),),)),
        "18": Expected(
            turns=(
                (ExpectedCall(name="a"),),
                (ExpectedCall(name="b"), ExpectedCall(name="c", output=ExpectedOutput(value=None))),
            ),
            per_turn=True,
        ),
        "nothing": Expected(turns=((),)),
    }


def test_every_broken_line_of_a_reference_file_is_named(tmp_path: Path):
    (tmp_path / "cases.jsonl").write_bytes(
        b'{"case": "1", "expected": ["a"]}\n'
        b'{"case": "1", "expected": ["b"]}\n'
        b"{broken\n"
        b'{"case": "2", "expected": [{"nam": "a"}]}\n'
        b'{"case": "3"}\n'
        b'{"case": "4", "expected": [], "expected_turns": []}\n'
        b"[1]\n"
        b'{"case": "\xff"}\n'
        b'{"expected": ["a"]}\n'
        b'{"case": true, "expected": ["a"]}\n' + b'{"case": "5", "expected": ' + b"[" * 5000 + b"\n"
    )
    lines = complaint(tmp_path, "- {name: a, evaluator: e, reference: {file: cases.jsonl, key: k}}\n").splitlines()
    assert lines[0] == "11 problems in the configuration"
    assert [line.split(": ", 1)[0] for line in lines[1:]] == [
        f"  cases.jsonl:{number}" for number in (2, 3, 4, 4, 5, 6, 7, 8, 9, 10, 11)
    ]
    assert lines[1] == "  cases.jsonl:2: case `1` is given twice, first at cases.jsonl:1"
    assert "not valid JSON" in lines[2]
    assert "(did you mean `name`?)" in "".join(lines[3:5])
    assert lines[5] == "  cases.jsonl:5: case `3` needs `expected`, `expected_turns` or `expected_output`"
    assert lines[7] == "  cases.jsonl:7: a reference must be a mapping of keys to values"


def test_the_canonical_form_depends_on_meaning_not_on_spelling(tmp_path: Path):
    short = read(tmp_path / "1", "- {name: a, evaluator: e, expected: [x]}")
    long = read(
        tmp_path / "2",
        "- {evaluator: e, enforce: shadow, sample: 0.1, pass_at: 1, scope: trace, when: {}, name: a,"
        " expected: [{name: x, repeat: 1, optional: false}]}",
    )
    assert short.canonical() == long.canonical()
    assert short.canonical() == {
        "name": "a",
        "evaluator": "e",
        "when": {"service": None, "agent": None, "attributes": {}, "case": None},
        "scope": "trace",
        "expected": {"per_turn": False, "turns": [[{"name": "x", "optional": False, "repeat": [1, 1]}]]},
        "reference": None,
        "pass_at": 1.0,
        "parameters": {},
    }


@pytest.mark.parametrize(
    "text",
    [
        "- {name: b, evaluator: e, expected: [x]}",
        "- {name: a, evaluator: f, expected: [x]}",
        "- {name: a, evaluator: e, expected: [y]}",
        "- {name: a, evaluator: e, expected: [{name: x, args: {}}]}",
        "- {name: a, evaluator: e, expected: [{name: x, output: null}]}",
        "- {name: a, evaluator: e, expected_turns: [[x]]}",
        "- {name: a, evaluator: e, expected: [x], pass_at: 0.9}",
        "- {name: a, evaluator: e, expected: [x], scope: conversation}",
        "- {name: a, evaluator: e, expected: [x], when: {agent: z}}",
        "- {name: a, evaluator: e, expected: [x], subset: true}",
    ],
)
def test_the_canonical_form_changes_with_what_decides_about_a_score(tmp_path: Path, text: str):
    before = read(tmp_path / "1", "- {name: a, evaluator: e, expected: [x]}")
    assert read(tmp_path / "2", text).canonical() != before.canonical()


class Strict(BaseModel):
    """An evaluator's parameters."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    version: ClassVar[str] = "1"
    strict: bool = False
    rules: dict[str, int] | None = None


def test_a_wrong_parameter_is_reported_in_the_same_way_as_a_wrong_key(tmp_path: Path):
    criterion = read(
        tmp_path, "- name: x\n  evaluator: tool_call_args\n  strickt: true\n  rules:\n    a: many\n  pass_att: 1\n"
    )
    with pytest.raises(ValidationError) as caught:
        Strict.model_validate(criterion.parameters)
    error = config_error(parameter_problems(criterion, Strict, caught.value))
    owner = "of evaluator `tool_call_args` in criterion `x`"
    where = f"{tmp_path}/criteria.yaml"
    assert error.message.splitlines() == [
        "3 problems in the configuration",
        f"  {where}:3: unknown parameter `strickt` {owner} (did you mean `strict`?)",
        f"  {where}:5: `rules.a` {owner} must be a whole number",
        f"  {where}:6: unknown parameter `pass_att` {owner} (did you mean `pass_at`?)",
    ]


@pytest.mark.parametrize(
    ("key", "ours"),
    [
        ("threshold", "pass_at"),
        ("passThreshold", "pass_at"),
        ("expected_tool_calls", "expected"),
        ("reference_answer", "expected_output"),
        ("sample_rate", "sample"),
        ("filter", "when"),
    ],
)
def test_a_key_of_another_package_is_answered_with_ours(tmp_path: Path, key: str, ours: str):
    criterion = read(tmp_path, f"- {{name: x, evaluator: e, {key}: 0.5}}")
    with pytest.raises(ValidationError) as caught:
        Strict.model_validate(criterion.parameters)
    assert config_error(parameter_problems(criterion, Strict, caught.value)).hint == f"did you mean `{ours}`?"


def test_a_near_match_wins_over_another_packages_word():
    assert suggestion("tool", ("name", "tools")) == "did you mean `tools`?"
