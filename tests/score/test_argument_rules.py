"""Which rule compares which argument, and what is wrong with rules that cannot be read."""

import pytest
from pydantic import ValidationError

from tests.rows import each_row
from toolgauge.score.rules import (
    ArgumentRules,
    Casefold,
    Contains,
    DateTime,
    Exact,
    Ignore,
    Numeric,
    OneOf,
    Regex,
    Rule,
    SetLike,
    Subset,
)


def rules(written: dict[str, object]) -> ArgumentRules:
    return ArgumentRules.model_validate(written)


def problem(written: object) -> str:
    with pytest.raises(ValidationError) as caught:
        ArgumentRules.model_validate(written)
    (error,) = caught.value.errors()
    return str(error["msg"])


RULES = rules(
    {
        "*": "casefold",
        "*.note": "ignore",
        "issue_refund.*": {"rule": "numeric", "absolute": 0.01},
        "issue_*.amount": "contains",
        "book.passengers": "set",
        "book.passengers[*].last_name": "similarity",
        "book.passengers[0].last_name": "exact",
        "book.passengers[*].*": "datetime",
        '["shop.refund"].order_id': "exact",
    }
)


@each_row(
    ("tool", "argument", "rule"),
    [
        ("search", "query", Casefold()),
        ("search", "note", Ignore()),
        ("issue_refund", "note", Ignore()),
        ("issue_refund", "reason", Numeric(absolute=0.01)),
        ("issue_refund", "amount", Contains()),
        ("book", "passengers", SetLike()),
        ("shop.refund", "order_id", Exact()),
        ("shop", "refund.order_id", Casefold()),
    ],
)
def test_the_most_specific_rule_counts(tool: str, argument: str, rule: Rule):
    assert RULES.of(tool, argument, Exact()).rule == rule


def test_of_two_rules_that_are_equally_specific_the_last_one_counts():
    assert rules({"a*.x": "exact", "*b.x": "casefold"}).of("ab", "x", Exact()).rule == Casefold()
    assert rules({"*b.x": "casefold", "a*.x": "exact"}).of("ab", "x", Casefold()).rule == Exact()


def test_rules_have_parameters():
    parsed = rules(
        {
            "a.n": {"rule": "numeric", "relative": 0.1},
            "a.t": {"rule": "datetime", "zone": "+02:00"},
            "a.s": {"rule": "subset", "by": "casefold"},
            "a.o": {"rule": "one_of", "values": [1, None], "marker": ""},
            "a.m": {"rule": "one_of", "omissible": True},
            "a.r": {"rule": "regex", "pattern": "A-[0-9]+"},
        }
    )
    assert parsed.of("a", "n", Exact()).rule == Numeric(relative=0.1)
    assert parsed.of("a", "t", Exact()).rule == DateTime(zone=7200)
    assert parsed.of("a", "s", Exact()).rule == Subset(Casefold())
    assert parsed.of("a", "o", Exact()).rule == OneOf(values=(1, None), marker="")
    assert parsed.of("a", "m", Exact()).rule == OneOf(omissible=True)
    regex = parsed.of("a", "r", Exact()).rule
    assert isinstance(regex, Regex)
    assert regex.pattern.matches("A-17")


@each_row(
    ("key", "words"),
    [
        ("amount", "has the key `amount`; a key is `*`, or a tool and an argument: `issue_refund.amount`"),
        ("a..x", "cannot be read from `..x` on"),
        ("a.x[", "cannot be read from `[` on"),
        ("a.x[-1]", "cannot be read from `[-1]` on"),
        ("a.x[0]y", "cannot be read from `y` on"),
        ('a["\\x"]', "is no JSON text"),
        ("a." + "x" * 600, "a tool and an argument"),
    ],
)
def test_a_key_that_cannot_be_read_is_one_clear_error(key: str, words: str):
    assert words in problem({key: "exact"})


@each_row(
    ("rule", "words"),
    [
        ("exakt", "is `exakt`; allowed: `exact`, `casefold`, `datetime`, `contains`, `similarity`, `ignore`"),
        (None, "is something else; allowed: "),
        ({"absolute": 1}, "names no `rule`"),
        ({"rule": "numeric", "absolute": -1}, "greater than or equal to 0"),
        ({"rule": "numeric", "absolute": float("nan")}, "finite"),
        ({"rule": "numeric", "tolerance": 1}, "Extra inputs"),
        ({"rule": "regex"}, "Field required"),
        ({"rule": "regex", "pattern": "("}, "is no regular expression (the syntax is RE2"),
        ({"rule": "datetime", "zone": "Berlin"}, "a zone is written `Z` or `+02:00`"),
        ({"rule": "subset", "by": "set"}, "'exact', 'casefold'"),
        ({"rule": "one_of", "values": "x"}, "tuple"),
        ({"rule": "one_of", "values": [object()]}, "must hold values that JSON knows"),
    ],
)
def test_a_rule_that_cannot_be_read_is_one_clear_error(rule: object, words: str):
    assert words in problem({"a.x": rule})
