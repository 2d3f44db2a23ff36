"""Criteria that judge nothing are found after an hour with trajectories, once, and until they match."""

import pytest

from tests.rows import each_row
from tests.score.support import tool_call, trajectory
from toolgauge.evaluators.data_flow import DataFlow
from toolgauge.evaluators.order_rules import OrderRules
from toolgauge.evaluators.tool_call_args import ToolCallArgs
from toolgauge.evaluators.tool_checks import ToolSuccess
from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.ports import Evaluator
from toolgauge.score.criterion import Criterion, Inline, ToolKinds, When, register
from toolgauge.score.scorer import Scorer
from toolgauge.score.selection import Tools
from toolgauge.score.unmatched import UnmatchedCriteria, without_effect

HOUR = 3600 * 1_000_000_000
REFUND = trajectory(tool_call("find_order"), tool_call("refund", agent="clerk"))


def criterion(name: str, *, tools: Tools = None, when: When | None = None, is_default: bool = False) -> Criterion:
    return Criterion(
        name=name,
        evaluator_name="tool_success",
        evaluator=ToolSuccess(tools=tools),
        revision="r",
        when=when or When(),
        is_default=is_default,
    )


class Watched:
    """A scorer, and what it reports."""

    def __init__(self, *criteria: Criterion) -> None:
        self.reported: list[tuple[str, str]] = []
        self.scorer = Scorer(
            criteria,
            ToolKinds(),
            on_unmatched=lambda found: self.reported.append((found.criterion.name, found.description)),
        )
        self.at(0)

    def at(self, now_ns: int) -> None:
        self.scorer.unmatched.end_period_if_due(now_ns)

    @property
    def states(self) -> dict[str, float]:
        return {name: state for (name,), state in self.scorer.unmatched.states.items()}


def test_a_criterion_for_another_service_matched_no_trajectory():
    watched = Watched(criterion("a"), criterion("b", when=When(service="shop-*")))
    watched.scorer.score(REFUND)
    watched.at(HOUR - 1)
    assert (watched.reported, watched.states) == ([], {"a": 0.0, "b": 0.0})
    watched.at(HOUR)
    assert watched.reported == [("b", "matched no trajectory")]
    assert watched.states == {"a": 0.0, "b": 1.0}


def test_the_conditions_that_exclude_everything_are_named():
    one_wrong = When(service="shop-*", attributes={"stage": "prod"}, agent="cle*")
    run = trajectory(
        tool_call("refund", agent="clerk"), agents=("clerk",), attributes={"stage": "prod"}, service="desk"
    )
    watched = UnmatchedCriteria(
        [register(criterion("a", when=one_wrong)), register(criterion("b", when=When(service="x", agent="y")))]
    )
    watched.see(run)
    assert {one.criterion.name: one.keys for one in watched.so_far()} == {
        "a": "`when.service: shop-*`",
        "b": "`when.service: x` and `when.agent: y`",
    }


def test_conditions_that_hold_but_never_together_are_named_as_such():
    watched = UnmatchedCriteria([register(criterion("a", when=When(service="desk", agent="clerk")))])
    watched.see(trajectory(service="desk", agents=("other",)))
    watched.see(trajectory(service="shop", agents=("clerk",)))
    (found,) = watched.so_far()
    assert found.keys == "`when`, whose conditions hold for some each, but never together"


def test_a_criterion_whose_tools_are_never_called_found_no_call():
    watched = Watched(criterion("a", tools=("refund*",)), criterion("b", tools=("refnud*",)))
    watched.scorer.score(REFUND)
    watched.at(HOUR)
    assert watched.reported == [("b", "found no call of its `tools`")]


def test_tools_that_only_another_agent_calls_are_not_found():
    watched = Watched(criterion("a", tools=("refund",), when=When(agent="boss")))
    boss = trajectory(*REFUND.calls, agents=("boss", "clerk"))
    watched.scorer.score(boss)
    watched.at(HOUR)
    assert watched.reported == [("a", "found no call of its `tools`")]


def test_tools_that_write_are_known_by_the_time_they_are_looked_for():
    watched = Watched(criterion("a", tools="writes"))
    watched.scorer.score(REFUND)
    watched.at(HOUR)
    assert watched.reported == []


def test_it_is_reported_once_and_is_unmatched_until_it_matches():
    watched = Watched(criterion("a", tools=("refund",)))
    for hour in (1, 2):
        watched.scorer.score(trajectory(tool_call("find_order")))
        watched.at(hour * HOUR)
    assert watched.reported == [("a", "found no call of its `tools`")]
    watched.scorer.score(REFUND)
    assert watched.states == {"a": 0.0}
    watched.at(3 * HOUR)
    watched.scorer.score(trajectory())
    watched.at(4 * HOUR)
    assert (len(watched.reported), watched.states) == (1, {"a": 1.0})


def test_an_hour_without_trajectories_says_nothing():
    watched = Watched(criterion("a", when=When(service="other")))
    watched.at(HOUR)
    watched.at(2 * HOUR)
    assert (watched.reported, watched.states) == ([], {"a": 0.0})


def test_the_default_criteria_may_find_nothing():
    watched = Watched(criterion("default.tool_success", when=When(service="other"), is_default=True))
    watched.scorer.score(REFUND)
    watched.at(HOUR)
    assert (watched.reported, watched.states) == ([], {})


def test_without_a_report_the_period_never_ends():
    scorer = Scorer((criterion("a"), criterion("b", when=When(service="x"))), ToolKinds())
    scorer.score(REFUND)
    scorer.unmatched.end_period_if_due(HOUR)
    scorer.unmatched.end_period_if_due(9 * HOUR)
    assert [found.criterion.name for found in scorer.unmatched.so_far()] == ["b"]


def judged_by(evaluator: Evaluator) -> Criterion:
    return Criterion(name="a", evaluator_name="e", evaluator=evaluator, revision="r")


@each_row(
    "rule",
    [
        {"before": "cancel*", "call": "find_*"},
        {"after": "cancel*", "call": "send_*"},
        {"never_before": "cancel*", "call": "find_*"},
        {"requires_confirmation": ["cancel*", "delete*"]},
    ],
)
def test_rules_about_tools_that_are_never_called_found_no_call(rule: JsonObject):
    watched = UnmatchedCriteria([register(judged_by(OrderRules.model_validate({"rules": [rule]})))])
    watched.see(REFUND)
    (found,) = watched.so_far()
    assert (found.description, found.keys) == ("found no call of its `rules`", "`rules`")


@each_row(
    "rules",
    [
        [{"never": "cancel*"}],
        [{"at_most": 1, "call": "cancel*"}],
        [{"before": "cancel*", "call": "find_*"}, {"before": "refund", "call": "cancel*"}],
        # A tool that was called, though never with such arguments.
        [{"requires_confirmation": {"tool": "refund", "arguments": {"amount": {"above": 500}}}}],
    ],
)
def test_rules_that_hold_without_a_call_or_name_one_match(rules: list[Json]):
    watched = UnmatchedCriteria([register(judged_by(OrderRules.model_validate({"rules": rules})))])
    watched.see(REFUND)
    assert watched.so_far() == ()


@pytest.mark.parametrize(("place", "names"), [("cancel.id", ["a"]), ("refund.id", [])])
def test_places_in_tools_that_are_never_called_found_no_call(place: str, names: list[str]):
    flow = DataFlow.model_validate({"rules": {place: {"from": {"tool": "find_order"}}}})
    watched = UnmatchedCriteria([register(judged_by(flow))])
    watched.see(REFUND)
    assert [one.criterion.name for one in watched.so_far()] == names


@each_row(
    ("parameters", "warnings"),
    [
        ({"tools": ["charge_crd"]}, ["criterion `a` expects nothing: its `tools` match none of its expected calls"]),
        ({"tools": ["charge_*"]}, []),
        ({"tools": "writes"}, []),
        (
            {"arguments": {"charge_card.amountt": "casefold", "chrge.amount": "casefold", "*.items[1]": "casefold"}},
            [
                "criterion `a` has a rule for `charge_card.amountt`, which no expected call of it has",
                "criterion `a` has a rule for `chrge.amount`, which no expected call of it has",
                "criterion `a` has a rule for `*.items[1]`, which no expected call of it has",
            ],
        ),
        ({"arguments": {"charge_card.amount": "casefold", "*": "casefold", "*.items[*].sku": "casefold"}}, []),
        ({"arguments": {"charge_card.trace": "ignore", "*.note": "lenient"}}, []),
        (
            {"arguments": {"charge_card.amout": "ignore", "chrge.note": "lenient", "*.items[*].skuu": "ignore"}},
            [
                "criterion `a` has a rule for `charge_card.amout`, which no expected call of it has",
                "criterion `a` has a rule for `chrge.note`, which no expected call of it has",
                "criterion `a` has a rule for `*.items[*].skuu`, which no expected call of it has",
            ],
        ),
    ],
)
def test_parts_of_a_criterion_that_no_expected_call_meets_are_found(parameters: JsonObject, warnings: list[str]):
    call = ExpectedCall(name="charge_card", args={"amount": None, "items": [{"sku": "A"}]})
    found = Criterion(
        name="a",
        evaluator_name="tool_call_args",
        evaluator=ToolCallArgs.model_validate(parameters),
        revision="r",
        reference=Inline(Expected(turns=((call,),))),
    )
    assert list(without_effect([found, criterion("b", tools=("refund",))])) == warnings
