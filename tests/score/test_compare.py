"""Each rule, where it decides, and that no value can stop it."""

import math

import pytest

from tests.rows import each_row
from tests.score.support import sides
from toolgauge.model.errors import ConfigError
from toolgauge.model.json import Json
from toolgauge.score.compare import Comparison, compare, describe
from toolgauge.score.patterns import Pattern, Step
from toolgauge.score.rules import (
    Casefold,
    Contains,
    DateTime,
    Deeper,
    Exact,
    Ignore,
    Lenient,
    Numeric,
    OneOf,
    Present,
    Regex,
    Rule,
    Scope,
    SetLike,
    Similarity,
    Subset,
)


def compared(rule: Rule, expected: Json, actual: Json, where: str = "x") -> Comparison:
    return compare(rule, expected, actual, where=where)


@each_row(
    ("rule", "expected", "actual", "value"),
    [
        (Exact(), 1, 1.0, 1),
        (Exact(), 1, True, 0),
        (Exact(), 1, "1", 0),
        (Exact(), [1, 2], [2, 1], 0),
        (Exact(), [1, 2], [1, 2.0], 1),
        (Exact(), {"p": 1, "q": 2}, {"q": 2, "p": 1}, 1),
        (Exact(), {"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, 0),
        (Exact(), {"a": None}, {}, 0),
        (Exact(), [], {}, 0),
        (Exact(), "Paris", "paris", 0),
        (Exact(), math.nan, math.nan, 1),
        (Exact(), math.inf, math.inf, 1),
        (Exact(), 10**400, 10**400, 1),
        (Exact(), 2**53 + 1, float(2**53), 0),
        (Casefold(), "Straße", "STRASSE", 1),
        (Casefold(), "e\u0301", "É", 1),
        (Casefold(), {"city": ["Paris"]}, {"city": ["PARIS"]}, 1),
        (Casefold(), 1, True, 0),
        (Numeric(absolute=0.01), 1, 1.005, 1),
        (Numeric(absolute=0.01), 1, 1.02, 0),
        (Numeric(relative=0.1), 100, 109, 1),
        (Numeric(relative=0.1), 100, 111, 0),
        (Numeric(absolute=1), 1, True, 0),
        (Numeric(absolute=1), 1, "1", 0),
        (Numeric(absolute=1), math.nan, math.nan, 1),
        (Numeric(absolute=1), math.inf, 1, 0),
        (Numeric(absolute=1), 10**400, 10**400 + 1, 0),
        (Numeric(absolute=1), [1, {"a": 2}], [1.5, {"a": 2.5}], 1),
        (Contains(), "par", "in paris", 1),
        (Contains(), [1, 2], [3, 2, 1], 1),
        (Contains(), [1, 4], [3, 2, 1], 0),
        (Contains(), 1, 11, 0),
        (Regex(Pattern("A-[0-9]+")), None, "A-17", 1),
        (Regex(Pattern("A-[0-9]+")), None, "xA-17", 0),
        (Regex(Pattern(".*")), None, "two\nlines \ud800", 1),
        (Ignore(), 1, {"anything": 2}, 1),
        (SetLike(), [1, 2], [2.0, 1, 1], 1),
        (SetLike(), [1, 2], [2, 3], 1 / 3),
        (SetLike(), [1], [True], 0),
        (SetLike(), "a", "a", 1),
        (DateTime(), "2025-01-31T09:00Z", "2025-01-31 10:00:00+01:00", 1),
        (DateTime(), "2025-01-31T09:00", "2025-01-31T09:00Z", 0),
        (DateTime(zone=0), "2025-01-31T09:00", "2025-01-31T09:00Z", 1),
        (DateTime(), {"day": ["2025-01-31"]}, {"day": ["20250131"]}, 1),
        (DateTime(), "2025-01-31", 20250131, 0),
        (DateTime(), "tomorrow", "tomorrow", 1),
        (Contains(), {"x": {"y": [1]}}, {"x": {"y": [2, 1]}}, 1),
        (Present(), 1, None, 1),
        (Subset(), {"a": 1}, {"a": 1, "b": 2}, 1),
        (Subset(), {"a": {"b": [{"c": 1}]}}, {"a": {"b": [{"c": 1, "d": 2}], "e": 3}}, 1),
        (Subset(), {"a": 1, "b": 2}, {"a": 1}, 0),
        (Subset(), {}, {"a": 1}, 1),
        (Subset(Casefold()), {"a": "X"}, {"a": "x", "b": 1}, 1),
        (Subset(Similarity()), {"a": 100, "b": "x"}, {"a": 90, "b": "x", "c": 1}, 0.95),
        (Lenient(), {"a": {"b": [{"c": 1}]}}, {"a": {"b": [{"c": 1, "d": 2}], "e": 3}}, 1),
        (Lenient(), {"a": 1, "b": 2}, {"a": 1}, 0),
        (Lenient(), [1, 2, "x"], ["x", 2.0, 1], 1),
        (Lenient(), [1, 1, 2], [1, 2, 2], 0),
        (Lenient(), [1], [True], 0),
        (Lenient(), [{"a": 1}, {"a": 2}], [{"a": 1, "b": 0}, {"a": 2}], 1),
        (Lenient(), [{"a": 1}, {"a": 2}], [{"a": 2}, {"a": 1}], 0),
        (Lenient(), [[1, 2], [3]], [[2, 1], [3]], 1),
        (Lenient(), [1, {"a": 1}], [{"a": 1}, 1], 0),
        (Lenient(), [], [1], 0),
        (OneOf(values=(1, "a")), None, 1.0, 1),
        (OneOf(values=(1, "a")), "b", "b", 0),
        (OneOf(values=(1, "a")), "b", True, 0),
        (OneOf(values=("Rome", "Roma"), by=Casefold()), "", "ROMA", 1),
        (OneOf(values=({"a": 1},)), None, {"a": 1.0}, 1),
        (OneOf(), [1, 2], 2, 1),
        (OneOf(), [1, 2], [1, 2], 0),
        (OneOf(marker=""), ["km", ""], "", 0),
        (Similarity(), "Anne", "Anna", 0.75),
        (Similarity(), 100, 90, 0.9),
        (Similarity(), -10, 10, 0),
        (Similarity(), 1, True, 0),
        (Similarity(), 0.1 + 0.2, 0.3, pytest.approx(1)),
        (Similarity(), {"a": 1, "b": "x"}, {"a": 1, "b": "y"}, 0.5),
        (Similarity(), {"a": 1}, {"a": 1, "b": 1}, 0.5),
        (Similarity(), {"a": {"b": 1, "c": 2}}, {}, 0),
        (Similarity(), [1, 2], [1], 0.5),
        (Similarity(), [], {}, 0),
        (Similarity(), math.nan, math.nan, 1),
        (Similarity(), 10**400, 1.5, 0),
    ],
)
def test_values_agree_as_the_rule_says(rule: Rule, expected: Json, actual: Json, value: float):
    assert compared(rule, expected, actual).value == value


def test_a_difference_names_the_path_the_rule_and_both_values():
    expected: Json = {"passengers": [{"last_name": "A"}, {"last_name": "B"}], "odd name": 1}
    actual: Json = {"passengers": [{"last_name": "A"}, {"last_name": "C"}], "odd name": 2}
    comparison = compared(Exact(), expected, actual, "")
    assert [(difference.where, difference.rule, sides(difference)) for difference in comparison.differences] == [
        ("passengers[1].last_name", "exact", ("B", "C")),
        ('["odd name"]', "exact", (1, 2)),
    ]


@each_row(
    ("expected", "actual", "words"),
    [
        ({"a": 1}, {"a": "secret"}, "x.a is text instead of number"),
        ({"a": "secret"}, {"a": "other"}, "x.a differs (text, exact)"),
        ({"a": "secret"}, {}, "x.a is missing"),
        ({}, {"a": "secret"}, "x.a is not expected"),
        ({"a": True}, {"a": 1}, "x.a is number instead of boolean"),
        ({"a": [1]}, {"a": {"b": 1}}, "x.a is object instead of list"),
    ],
)
def test_a_difference_is_described_without_its_values(expected: Json, actual: Json, words: str):
    (difference,) = compared(Exact(), expected, actual).differences
    assert describe(difference) == words


def test_an_unusable_pattern_is_a_configuration_error():
    with pytest.raises(ConfigError, match="not a regular expression"):
        Pattern("(")


@each_row("rule", [Exact(), Casefold(), Similarity(), SetLike(), Numeric(absolute=1), Contains(), Lenient()])
def test_depth_does_not_stop_a_comparison(rule: Rule):
    assert compared(rule, nested(2500, "a"), nested(2500, "b")).value == 0


def scope(rule: Rule, *deeper: tuple[tuple[Step, ...], Rule]) -> Scope:
    places = (Deeper(steps, beneath, rank) for rank, (steps, beneath) in enumerate(deeper))
    return Scope(rule, tuple(places))


def compared_by(rules: Scope, expected: Json, actual: Json) -> Comparison:
    return compare(rules, expected, actual, where="x")


NAME = (Step(key="people"), Step(), Step(key="name"))


def test_places_within_a_value_have_rules_of_their_own():
    rules = scope(Exact(), (NAME, Casefold()), ((Step(key="note"),), Ignore()))
    wanted: Json = {"people": [{"name": "Ann", "age": 3}, {"name": "Bob", "age": 4}], "note": 1}
    assert compared_by(rules, wanted, {"people": [{"name": "ANN", "age": 3}, {"name": "bob", "age": 4}]}).value == 1
    worse = compared_by(rules, wanted, {"people": [{"name": "ANN", "age": 5}, {"name": "Eve", "age": 4}], "note": 2})
    assert [(found.where, found.rule) for found in worse.differences] == [
        ("x.people[0].age", "exact"),
        ("x.people[1].name", "casefold"),
    ]
    assert worse.value == 0


def nested(depth: int, leaf: Json) -> Json:
    value = leaf
    for _ in range(depth):
        inner: list[Json] = [value]
        outer: dict[str, Json] = {"k": inner}
        value = outer
    return value
