"""Criteria: their revision, globs, and which tools write."""

import re

from tests.rows import each_row
from toolgauge.model.json import JsonObject
from toolgauge.score.contracts import Contract
from toolgauge.score.criterion import ToolKinds, revision
from toolgauge.score.patterns import Globs


def test_the_revision_does_not_depend_on_the_order_of_keys():
    one: JsonObject = {"name": "a", "expected": [{"name": "x", "args": {"p": 1, "q": 2}}]}
    other: JsonObject = {"expected": [{"args": {"q": 2, "p": 1}, "name": "x"}], "name": "a"}
    assert revision(one, "1") == revision(other, "1")
    assert re.fullmatch("[0-9a-f]{12}", revision(one, "1"))


def test_the_revision_changes_with_the_criterion_and_with_the_evaluator():
    changed: list[JsonObject] = [{"a": 1}, {"a": 2}, {"a": True}, {"a": "1"}, {"b": 1}, {"a": [1]}]
    assert len({revision(canonical, "1") for canonical in changed}) == 6
    assert revision({"a": 1}, "1") != revision({"a": 1}, "2")


@each_row(
    ("globs", "name", "matches"),
    [
        (["search"], "search", True),
        (["search"], "search_web", False),
        (["get_*"], "forget_order", False),
        (["*"], "", True),
        (["a?c"], "abc", True),
        (["a.c"], "abc", False),
        (["(*"], "(x", True),
        (["[ab]*"], "a1", False),
        (["a*", "b*"], "bee", True),
        (["*"], "two\nlines", True),
        (["*"], "\ud800", True),
        ([], "a", False),
    ],
)
def test_a_glob_matches_the_whole_name(globs: list[str], name: str, matches: bool):  # noqa: FBT001 (a table)
    assert Globs(globs).match(name) is matches


@each_row("name", ["get_order", "getOrder", "list-files", "search", "crm__find_user", "ns.lookup", "Think"])
def test_reading_verbs_read(name: str):
    assert not ToolKinds().writes(name)


@each_row("name", ["issue_refund", "getaway", "listen", "update_order", "crm__delete_user", "x", "", "42"])
def test_everything_else_writes(name: str):
    assert ToolKinds().writes(name)


@each_row(
    "name",
    [
        "transfer_to_human_agents",
        "transferToAgent",
        "crm__transfer_to_billing",
        "transfer_back_to_supervisor",
        "transfer_to_research__agent",
        "handoff_to_refunds",
        "desk.handoffToAgent",
        "escalate",
        "Delegate work to coworker",
        "respond",
        "final_answer",
        "finish",
        "plan",
    ],
)
def test_hand_offs_answers_and_thinking_do_not_write(name: str):
    assert not ToolKinds().writes(name)
    assert ToolKinds({name: Contract(changes_state=True)}).writes(name)
