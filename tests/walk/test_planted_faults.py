"""Of the faults that the load generator plants, the default criteria find nearly all, and none where there is none."""

from collections import defaultdict
from itertools import zip_longest
from random import Random

import pytest

from tests.walk.planted_faults import FAULTS, Conversation, Layout, request
from tests.walk.support import SECOND, Walk, attributes

CONVERSATIONS = 6
CRITERIA = {
    "invented_tool": "default.known_tool",
    "bad_arguments": "default.arguments_schema",
    "failing_tool": "default.tool_success",
    "repeats": "default.repeated_calls",
    "ungrounded_id": "default.grounded_arguments",
}
forms = pytest.mark.parametrize(("dialect", "layout"), [("genai", "turn"), ("openinference", "conversation")])


RECOVERED = "default.error_handling"
# What is made good, and an act that is repeated, are found by another criterion.
BESIDE = {"failing_tool": [RECOVERED], "repeats": ["default.one_effect"]}


def is_found(criterion: object, result: dict[str, object]) -> bool:
    """A fail, arguments that break the schema although the tool accepted them, or a failure that a later call made good."""
    score = result.get("gen_ai.evaluation.score.value")
    if criterion == CRITERIA["bad_arguments"]:
        return isinstance(score, float) and score < 1
    return result["toolgauge.outcome"] == "fail" or (criterion == RECOVERED and score is not None)


def found(dialect: str, layout: Layout, fault: str | None) -> list[set[object]]:
    """Return the criteria that find something, for each conversation."""
    random = Random(7)  # noqa: S311 (repeatable)
    conversations = [Conversation(random, dialect, layout, fault).traces() for _ in range(CONVERSATIONS)]
    number_of = {spans[0].trace_id: number for number, traces in enumerate(conversations) for spans in traces}
    walk = Walk("events=all")
    walk.now_ns += 60 * SECOND
    for turn in zip_longest(*conversations):
        for spans in filter(None, turn):
            walk.send(request(spans, dialect, walk.now_ns))
        walk.wait(60)
    named: dict[int, set[object]] = defaultdict(set)
    for event in walk.events():
        result = attributes(event)
        criterion = result["gen_ai.evaluation.name"]
        if is_found(criterion, result):
            named[number_of[event.trace_id]].add(criterion)
    return [named[number] for number in range(CONVERSATIONS)]


@forms
@pytest.mark.parametrize("fault", CRITERIA)
def test_a_planted_fault_is_found(dialect: str, layout: Layout, fault: str):
    criteria = {CRITERIA[fault], *BESIDE.get(fault, ())}
    hits = sum(not criteria.isdisjoint(named) for named in found(dialect, layout, fault))
    assert hits == CONVERSATIONS


@forms
def test_nothing_is_found_where_no_fault_was_planted(dialect: str, layout: Layout):
    assert found(dialect, layout, None) == [set[object]()] * CONVERSATIONS


def test_each_kind_of_fault_is_looked_for():
    assert set(CRITERIA) == set(FAULTS)
