"""Which rule compares which argument, and what is wrong with rules that cannot be read."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.rows import each_row
from tests.score.support import scored, tool_call, trajectory
from toolgauge.evaluators.expected_calls import ToolCallF1
from toolgauge.evaluators.tool_call_args import ToolCallArgs
from toolgauge.model.json import Json, JsonObject
from toolgauge.score.criterion import Criterion, Inline
from toolgauge.score.rules import (
    RULE_NAMES,
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
    Similarity,
    Subset,
)
from toolgauge.service.criteria_factory import load_for_replay

CRITERIA = (Path(__file__).parents[2] / "docs" / "criteria.md").read_text()
PAGE = CRITERIA.partition("\n## Rules for arguments\n")[2].partition("\n## ")[0]


def criterion_of_the_page(place: int, folder: Path) -> Criterion:
    blocks: list[str] = re.findall(r"^```yaml criteria\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (folder / "criteria.yaml").write_text(blocks[place])
    _, (*_, criterion) = load_for_replay((), (), (str(folder / "criteria.yaml"),), {})
    return criterion


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


def test_rules_reach_into_arguments_and_hold_for_all_that_is_beneath():
    scope = RULES.of("book", "passengers", Exact())
    assert scope.below(3).below("last_name").rule == Similarity()
    assert scope.below(0).below("last_name").rule == Exact()
    assert scope.below(1).below("birthday").rule == DateTime()
    assert scope.below(1).rule == SetLike()
    assert scope.below("last_name").rule == SetLike()
    assert scope.below(1).below("last_name").below("deeper").rule == Similarity()


def test_of_two_rules_that_are_equally_specific_the_last_one_counts():
    assert rules({"a*.x": "exact", "*b.x": "casefold"}).of("ab", "x", Exact()).rule == Casefold()
    assert rules({"*b.x": "casefold", "a*.x": "exact"}).of("ab", "x", Casefold()).rule == Exact()


def test_keys_of_any_kind_can_be_written():
    odd = rules({'a["*"]["in.side"][2]': "ignore"}).of("a", "*", Exact())
    assert odd.below("in.side").below(2).rule == Ignore()
    assert odd.below("in.side").below(1).rule == Exact()
    assert rules({'a["*"]': "ignore"}).of("a", "x", Exact()).rule == Exact()


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


def test_the_rules_of_the_page_do_what_it_says(tmp_path: Path):
    criterion = criterion_of_the_page(0, tmp_path)
    assert isinstance(criterion.reference, Inline)
    assert isinstance(criterion.evaluator, ToolCallArgs)
    args: JsonObject = {
        "order_id": "A-17", "amount": 20.01, "at": "2025-01-31T09:00Z", "people": [{"name": "ANN", "age": 40}], "request_id": 1
    }  # fmt: skip
    outcome = scored(criterion.evaluator, trajectory(tool_call("issue_refund", args)), criterion.reference.expected)
    assert outcome.value == 1.0
    assert all(f"| `{name}` |" in PAGE for name in RULE_NAMES)


def test_the_lenient_rule_of_the_page_does_what_it_says(tmp_path: Path):
    criterion = criterion_of_the_page(1, tmp_path)
    assert isinstance(criterion.reference, Inline)
    assert isinstance(criterion.evaluator, ToolCallF1)
    flights: list[Json] = [{"number": "HAT030", "date": "2024-05-13", "origin": "JFK"}]
    cases: list[tuple[JsonObject, float]] = [
        ({}, 1.0),
        ({"seats": ["12D"]}, 0.0),
        ({"flights": [{"number": "HAT030"}]}, 0.0),
    ]
    for changed, value in cases:
        made: JsonObject = {"reservation": "XEH4", "flights": flights, "seats": ["12D", "12C"], "note": "x"}
        given = {**made, **changed}
        run = trajectory(tool_call("update_flights", given), writing_tools=("update_flights",))
        assert scored(criterion.evaluator, run, criterion.reference.expected).value == value
