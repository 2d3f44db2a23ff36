"""Each rule, where it decides, and that no value can stop it."""

import math
import time

import pytest

from tests.score.support import finished, sides
from toolgauge.model.errors import ConfigError
from toolgauge.model.json import Json
from toolgauge.score.compare import Comparison, compare, describe
from toolgauge.score.identities import canonical
from toolgauge.score.patterns import Pattern
from toolgauge.score.pauses import Pacer
from toolgauge.score.rules import Casefold, Contains, Exact, Ignore, Numeric, Regex, Rule, SetLike, Similarity


def compared(rule: Rule, expected: Json, actual: Json, where: str = "x") -> Comparison:
    return finished(compare(rule, expected, actual, where=where, pacer=Pacer()))


@pytest.mark.parametrize(
    ("rule", "expected", "actual", "value"),
    [
        (Exact(), 1, 1.0, 1),
        (Exact(), 1, True, 0),
        (Exact(), 0, False, 0),
        (Exact(), 1, "1", 0),
        (Exact(), None, "None", 0),
        (Exact(), True, "true", 0),
        (Exact(), [1, 2], [2, 1], 0),
        (Exact(), [1, 2], [1, 2.0], 1),
        (Exact(), {"p": 1, "q": 2}, {"q": 2, "p": 1}, 1),
        (Exact(), {"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, 0),
        (Exact(), {"a": None}, {}, 0),
        (Exact(), [], {}, 0),
        (Exact(), [], [], 1),
        (Exact(), "Paris", "paris", 0),
        (Exact(), math.nan, math.nan, 1),
        (Exact(), math.nan, 1, 0),
        (Exact(), math.inf, math.inf, 1),
        (Exact(), 10**400, 10**400, 1),
        (Exact(), 2**53 + 1, float(2**53), 0),
        (Exact(), 0.1 + 0.2, 0.3, 0),
        (Casefold(), "Straße", "STRASSE", 1),
        (Casefold(), "e\u0301", "É", 1),
        (Casefold(), {"city": ["Paris"]}, {"city": ["PARIS"]}, 1),
        (Casefold(), "a", "b", 0),
        (Casefold(), 1, True, 0),
        (Numeric(absolute=0.01), 1, 1.005, 1),
        (Numeric(absolute=0.01), 1, 1.02, 0),
        (Numeric(relative=0.1), 100, 109, 1),
        (Numeric(relative=0.1), 100, 111, 0),
        (Numeric(absolute=1), 1, True, 0),
        (Numeric(absolute=1), 1, "1", 0),
        (Numeric(absolute=1), math.nan, math.nan, 1),
        (Numeric(absolute=1), math.nan, 1, 0),
        (Numeric(absolute=1), math.inf, 1, 0),
        (Numeric(absolute=1), 10**400, 10**400 + 1, 0),
        (Numeric(absolute=1), "same", "same", 1),
        (Numeric(absolute=1), [1, {"a": 2}], [1.5, {"a": 2.5}], 1),
        (Contains(), "par", "in paris", 1),
        (Contains(), "Par", "in paris", 0),
        (Contains(), [1, 2], [3, 2, 1], 1),
        (Contains(), [1, 4], [3, 2, 1], 0),
        (Contains(), 1, 11, 0),
        (Regex(Pattern("A-[0-9]+")), None, "A-17", 1),
        (Regex(Pattern("A-[0-9]+")), None, "xA-17", 0),
        (Regex(Pattern("17")), None, 17, 0),
        (Regex(Pattern(".*")), None, "two\nlines \ud800", 1),
        (Ignore(), 1, {"anything": 2}, 1),
        (SetLike(), [1, 2], [2.0, 1, 1], 1),
        (SetLike(), [1, 2], [2, 3], 1 / 3),
        (SetLike(), [], [], 1),
        (SetLike(), [1], [True], 0),
        (SetLike(), "a", "a", 1),
        (Similarity(), "Anne", "Anna", 0.75),
        (Similarity(), 100, 90, 0.9),
        (Similarity(), 90, 100, 0.9),
        (Similarity(), -10, 10, 0),
        (Similarity(), 0, 0.0, 1),
        (Similarity(), 1, True, 0),
        (Similarity(), 1, "1", 0),
        (Similarity(), 0.1 + 0.2, 0.3, pytest.approx(1)),
        (Similarity(), {"a": 1, "b": "x"}, {"a": 1, "b": "y"}, 0.5),
        (Similarity(), {"a": 1}, {"a": 1, "b": 1}, 0.5),
        (Similarity(), {"a": {"b": 1, "c": 2}}, {}, 0),
        (Similarity(), [1, 2], [1], 0.5),
        (Similarity(), [], {}, 0),
        (Similarity(), [], [], 1),
        (Similarity(), [], [1, 2], 0),
        (Similarity(), math.nan, math.nan, 1),
        (Similarity(), 10**400, 1.5, 0),
        (Similarity(), "", "abc", 0),
    ],
)
def test_values_agree_as_the_rule_says(rule: Rule, expected: Json, actual: Json, value: float):
    assert compared(rule, expected, actual).value == value


def test_a_tiny_difference_is_not_rounded_away():
    comparison = compared(Similarity(), 1.0, math.nextafter(1.0, 0))
    assert comparison.value < 1
    assert len(comparison.differences) == 1


def test_a_difference_names_the_path_the_rule_and_both_values():
    expected: Json = {"passengers": [{"last_name": "A"}, {"last_name": "B"}], "odd name": 1}
    actual: Json = {"passengers": [{"last_name": "A"}, {"last_name": "C"}], "odd name": 2}
    comparison = compared(Exact(), expected, actual, "")
    assert [(difference.where, difference.rule, sides(difference)) for difference in comparison.differences] == [
        ("passengers[1].last_name", "exact", ("B", "C")),
        ('["odd name"]', "exact", (1, 2)),
    ]


def test_what_one_side_lacks_is_one_difference_however_much_it_holds():
    comparison = compared(Exact(), {"a": {"b": [1, 2, 3]}, "n": None}, {"c": [1, 2]}, "args")
    assert [(difference.where, sides(difference)) for difference in comparison.differences] == [
        ("args.a", ({"b": [1, 2, 3]}, "<absent>")),
        ("args.n", (None, "<absent>")),
        ("args.c", ("<absent>", [1, 2])),
    ]


@pytest.mark.parametrize(
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


def test_differences_are_bounded():
    zeros: list[Json] = [0] * 1000
    ones: list[Json] = [1] * 1000
    comparison = compared(Exact(), zeros, ones)
    assert len(comparison.differences) == 20


def test_an_unusable_pattern_is_a_configuration_error():
    with pytest.raises(ConfigError, match="not a regular expression"):
        Pattern("(")


def nested(depth: int, leaf: Json) -> Json:
    value = leaf
    for level in range(depth):
        value = in_list(value) if level % 2 else in_object(value)
    return value


def in_list(value: Json) -> Json:
    return [value]


def in_object(value: Json) -> Json:
    return {"k": value}


@pytest.mark.parametrize("rule", [Exact(), Casefold(), Similarity(), SetLike(), Numeric(absolute=1), Contains()])
def test_depth_does_not_stop_a_comparison(rule: Rule):
    comparison = compared(rule, nested(5000, "a"), nested(5000, "b"))
    assert comparison.value == 0
    assert finished(canonical(nested(5000, 1), Pacer())) == finished(canonical(nested(5000, 1.0), Pacer()))


def test_long_texts_are_compared_by_how_they_begin_and_end():
    text = "word " * 200_000
    started = time.perf_counter()
    comparison = compared(Similarity(), text, text[:600_000] + "X" + text[600_001:])
    assert comparison.value == pytest.approx(1, abs=1e-5)
    assert comparison.value < 1
    assert compared(Similarity(), "a" * 1_000_000, "b" * 1_000_000).value == 0
    assert time.perf_counter() - started < 2


def test_wide_values_are_compared_with_pauses():
    expected: list[Json] = list(range(50_000))
    work = compare(Similarity(), expected, [*expected[:-1], "x"], where="x", pacer=Pacer())
    pauses = sum(1 for _ in work)
    assert pauses >= 20


def test_a_path_stays_short_for_a_long_key():
    (difference,) = compared(Exact(), {"k" * 100_000: 1}, {}).differences
    assert len(difference.where) < 200
