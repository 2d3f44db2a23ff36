"""YAML as it is read here: the 1.2 core scalars, places, and limits."""

from pathlib import Path

import pytest

from tests.rows import each_row
from toolgauge.config.parse import parse_yaml
from toolgauge.config.problems import plain
from toolgauge.model.errors import ConfigError
from toolgauge.model.json import Json


def read(text: str | bytes) -> Json:
    return plain(parse_yaml(text, "f.yaml", {}))


def complaint(text: str | bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, "f.yaml", {})
    return caught.value.message


@each_row(
    ("text", "value"),
    [
        ("off", "off"),
        ("yes", "yes"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("null", None),
        ("12", 12),
        ("-3", -3),
        ("0123", "0123"),
        ("0x1F", "0x1F"),
        ("12:30", "12:30"),
        ("2024-05-01", "2024-05-01"),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".nan", ".nan"),
        ("1_000", "1_000"),
        ("'12'", "12"),
        ("!!str 12", "12"),
        ("!!int '12'", 12),
    ],
)
def test_scalars_are_read_by_the_core_rules(text: str, value: Json):
    read_value = read(text)
    assert read_value == value
    assert type(read_value) is type(value)


def test_every_node_knows_its_line():
    node = parse_yaml("a:\n  b: 1\n  c:\n    - x\n    - y\n", "f.yaml", {})
    places: list[str] = []
    for path in (("a",), ("a", "b"), ("a", "c"), ("a", "c", 0), ("a", "c", 1)):
        at = node
        for step in path:
            found = at.child(step)
            assert found is not None
            at = found
        places.append(str(at.place))
    assert places == ["f.yaml:1", "f.yaml:2", "f.yaml:3", "f.yaml:4", "f.yaml:5"]


def test_a_key_given_twice_is_an_error_that_names_both_lines():
    assert complaint("a: 1\nb: 2\na: 3\n") == "f.yaml:3: key `a` is given twice, first at f.yaml:1"


def test_several_problems_of_one_text_are_reported_together():
    message = complaint("a: 1\na: 2\nb: ${env:NOPE}\n? [x]\n: 1\n")
    assert message.splitlines()[0] == "3 problems in the configuration"


def test_broken_yaml_is_reported_with_its_line():
    assert complaint("a: [1\nb: 2\n").startswith("f.yaml:2: not valid YAML: ")
    assert complaint("a: b: c\n").startswith("f.yaml:1: not valid YAML: ")
    assert complaint("a: 1\n---\nb: 1\n").startswith("f.yaml:2: not valid YAML: ")
    assert complaint("a: *x\n").startswith("f.yaml:1: not valid YAML: found undefined alias")
    assert complaint("a: 1\n\tb: 2\n").startswith("f.yaml:2: not valid YAML: ")


def test_bytes_that_are_not_text_are_reported_with_their_line():
    assert complaint(b"a: 1\nb: \xff\n") == "f.yaml:2: character or byte 0xff is not allowed in YAML"
    assert complaint("a: 1\n\nb: \x01\n") == "f.yaml:3: character or byte 0x01 is not allowed in YAML"


def test_aliases_and_merge_keys_work():
    text = "base: &b {x: 1, y: 2}\nover: {<<: *b, y: 3}\nsame: *b\nmany: {<<: [{x: 9}, *b]}\n"
    assert read(text) == {
        "base": {"x": 1, "y": 2},
        "over": {"y": 3, "x": 1},
        "same": {"x": 1, "y": 2},
        "many": {"x": 9, "y": 2},
    }


def test_aliases_that_multiply_are_refused_quickly():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    assert "aliases stand for more than 10000 values" in complaint("\n".join(lines))


def test_an_alias_that_contains_itself_is_refused():
    assert complaint("a: &a [*a]\n") == "f.yaml:1: an alias stands for something that contains it"


def test_nesting_without_end_is_refused():
    assert complaint("[" * 10_000) == "f.yaml: the values are nested too deeply"


@each_row("text", ["1" * 500, "1e999", "!!int x", "!!binary aGk=", "!mine x"])
def test_a_scalar_that_has_no_value_is_refused(text: str):
    assert complaint(text).startswith("f.yaml:1: ")


def test_keys_are_texts_whatever_they_look_like():
    assert read("404: a\ntrue: b\n") == {"404": "a", "true": "b"}


def test_the_directory_of_a_place_is_that_of_its_file():
    assert parse_yaml("a: 1", "/etc/toolgauge/c.yaml", {}).place.directory == Path("/etc/toolgauge")
    assert parse_yaml("a: 1", "--set a.b", {}, first_line=None).place.directory == Path()
