"""A list inside the list of expected calls is a group without order."""

from pathlib import Path

import pytest

from tests.config.files import criteria_in
from toolgauge.config.criteria import CriterionConfig
from toolgauge.config.references import expected_json
from toolgauge.model.errors import ConfigError
from toolgauge.model.expected import ExpectedCall


def read(folder: Path, text: str) -> CriterionConfig:
    file = folder / "criteria.yaml"
    file.write_text(text)
    (criterion,) = criteria_in(file)
    return criterion


def turns(folder: Path, text: str) -> tuple[tuple[ExpectedCall, ...], ...]:
    expected = read(folder, text).expected
    assert expected is not None
    return expected.turns


def test_calls_of_a_nested_list_share_a_group(tmp_path: Path):
    (calls,) = turns(tmp_path, "- {name: a, evaluator: e, expected: [s, [b, {name: c, optional: true}], [d, e], z]}")
    assert calls == (
        ExpectedCall(name="s"),
        ExpectedCall(name="b", group=0),
        ExpectedCall(name="c", group=0, optional=True),
        ExpectedCall(name="d", group=1),
        ExpectedCall(name="e", group=1),
        ExpectedCall(name="z"),
    )


def test_the_revision_knows_a_group_only_where_one_was_written(tmp_path: Path):
    expected = read(tmp_path, "- {name: a, evaluator: e, expected: [s, [b]]}").expected
    assert expected is not None
    assert expected_json(expected) == {
        "per_turn": False,
        "turns": [
            [
                {"name": "s", "optional": False, "repeat": [1, 1]},
                {"name": "b", "optional": False, "repeat": [1, 1], "group": 0},
            ]
        ],
    }


@pytest.mark.parametrize(
    ("expected", "complaint"),
    [
        ("[s, []]", "criteria.yaml:2: `expected[1]` in criterion `a` is an empty group"),
        ("[s, [b, [c]]]", "criteria.yaml:2: `expected[1]` in criterion `a` holds a list: it is a group itself"),
        ("[s, [b, {name: c, arg: {}}]]", "unknown key `expected[1][1].arg` in criterion `a`"),
        ("[s, [b, {args: {}}]]", "criteria.yaml:2: `expected[1][1].name` in criterion `a` is missing"),
        ("[s, [b, 3]]", "`expected[1][1]` in criterion `a` must be a mapping"),
        ("[s, {name: b, repeat: 0}]", "`expected[1].repeat` in criterion `a` must be 1 to 1000000"),
    ],
)
def test_a_group_that_cannot_be_is_refused_where_it_stands(tmp_path: Path, expected: str, complaint: str):
    with pytest.raises(ConfigError) as error:
        read(tmp_path, f"- {{name: a, evaluator: e,\n   expected: {expected}}}")
    assert complaint in error.value.message
