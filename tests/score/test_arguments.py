"""How well one call meets an expected one: what each argument comes to, and what nobody has to answer for."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from tests.rows import each_row
from tests.score.support import expect, sides, tool_call, trajectory
from toolgauge.evaluators.tool_call_args import ToolCallArgs
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.outcomes import Difference
from toolgauge.score.arguments import ArgumentComparer
from toolgauge.score.selection import make_sides

SCHEMA: JsonObject = {
    "properties": {"limit": {"type": "integer", "default": 10}, "sort": {"default": None}, "q": {"type": "string"}},
    "required": ["q"],
}


class Agreement(NamedTuple):
    value: float | None
    words: Mapping[str, str]
    differences: list[Difference]


def agreement(
    wanted: JsonObject | None, given: Json, *, schema: JsonObject | None = None, subset: bool = False, **rules: object
) -> Agreement:
    """Compare one call of `search` with an expected one."""
    evaluator = ToolCallArgs.model_validate(rules)
    judged = trajectory(tool_call("search", given))
    if schema is not None:
        judged = replace(judged, tools_offered=(ToolDefinition(name="search", parameters=schema),))
    terms = evaluator.terms(judged, subset=subset)
    made = make_sides([expect("search", wanted)], judged.calls, names_only=False, equals_meet=terms.equals_meet)
    comparer = ArgumentComparer(made, terms)
    verdicts, differences = comparer.compare(0, 0)
    return Agreement(comparer.weigh(0, 0), {verdict.name: verdict.word for verdict in verdicts}, differences)


def test_every_argument_has_a_verdict_and_each_difference_its_rule():
    found = agreement(
        {"q": "Rome", "limit": 5, "day": "2025-01-31", "lang": "it", "note": 1},
        {"q": "ROME", "limit": 7, "day": "20250131", "note": 2, "page": 1},
        arguments={"*.q": "casefold", "search.day": "datetime", "*.note": "ignore"},
    )
    assert found.words == {
        "q": "met", "limit": "differs", "day": "met", "lang": "missing", "note": "ignored", "page": "invented"
    }  # fmt: skip
    assert found.value == 2 / 5
    assert [(difference.where, difference.rule, sides(difference)) for difference in found.differences] == [
        ("search: limit", "exact", (5, 7)),
        ("search: lang", "exact", ("it", "<absent>")),
        ("search: page", "invented", ("<absent>", 1)),
    ]


@each_row(
    ("given", "word", "value"),
    [
        ({"q": 1, "limit": 10}, "default", 1.0),
        ({"q": 1, "limit": 11}, "invented", 0.5),
        ({"q": 1, "sort": None}, "default", 1.0),
        ({"q": 1, "request_id": 11}, "volatile", 1.0),
        ({"q": 1, "trace": 11}, "volatile", 1.0),
        ({"q": 1, "secret": 11}, "ignored", 1.0),
        ({"q": 1, "other": 11}, "invented", 0.5),
    ],
)
def test_unexpected_arguments_are_defaults_volatile_or_invented(given: JsonObject, word: str, value: float):
    found = agreement(
        {"q": 1}, given, schema=SCHEMA, volatile=["*_id", "search.trace"], arguments={"*.secret": "ignore"}
    )
    (name,) = given.keys() - {"q"}
    assert found.words[name] == word
    assert found.value == value
    assert bool(found.differences) == (word == "invented")


@each_row("schema", [{}, {"properties": []}, {"properties": {"limit": 10}}, {"properties": None}])
def test_a_schema_of_any_form_is_no_error(schema: JsonObject):
    assert agreement({"q": 1}, {"q": 1, "limit": 10}, schema=schema).words["limit"] == "invented"


def test_with_subset_invented_arguments_cost_nothing_and_keep_their_verdict():
    found = agreement({"q": 1}, {"q": 1, "x": 2}, subset=True)
    assert (found.value, found.words, found.differences) == (1.0, {"q": "met", "x": "invented"}, [])


def test_what_may_be_missing_is_omitted_and_does_not_count():
    rules = {"search.unit": {"rule": "one_of", "values": ["km"], "omissible": True}}
    found = agreement({"q": 1, "unit": "km"}, {"q": 1}, arguments=rules)
    assert (found.value, found.words) == (1.0, {"q": "met", "unit": "omitted"})
    assert agreement({"q": 1, "unit": "km"}, {"q": 1, "unit": "mile"}, arguments=rules).value == 0.5


def test_partly_alike_arguments_count_by_their_share():
    found = agreement({"q": "Anne", "x": 1}, {"q": "Anna", "x": 1}, arguments={"*.q": "similarity"})
    assert (found.value, found.words) == (0.875, {"q": "partly", "x": "met"})
