"""Criteria that judge nothing are found after an hour with trajectories, once, and until they match."""

from tests.rows import each_row
from tests.score.support import tool_call, trajectory
from toolgauge.evaluators.expected_arguments import ToolCallArgs
from toolgauge.evaluators.order_rules import OrderRules
from toolgauge.evaluators.tool_checks import ToolSuccess
from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.json import JsonObject
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


def test_the_conditions_that_exclude_everything_are_named():
    one_wrong = When(service="shop-*", attributes={"stage": "prod"}, agent="cle*")
    criteria = [
        criterion("a", when=one_wrong),
        criterion("b", when=When(service="x", agent="y")),
        criterion("c", when=When(service="desk", agent="other")),
    ]
    watched = UnmatchedCriteria([register(one) for one in criteria])
    watched.see(trajectory(agents=("clerk",), attributes={"stage": "prod"}, service="desk"))
    watched.see(trajectory(agents=("other",), service="shop"))
    assert {one.criterion.name: one.keys for one in watched.so_far()} == {
        "a": "`when.service: shop-*`",
        "b": "`when.service: x` and `when.agent: y`",
        "c": "`when`, whose conditions hold for some each, but never together",
    }


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
    ("parameters", "places"),
    [
        ({"tools": ["charge_crd"]}, ["tools"]),
        ({"tools": ["charge_*"]}, []),
        ({"tools": "writes"}, []),
        ({"arguments": {"charge_card.amountt": "casefold", "chrge.amount": "casefold"}}, ["charge_card.amountt", "chrge.amount"]),
        ({"arguments": {"charge_card.amount": "casefold", "*": "casefold", "*.items[*].sku": "casefold"}}, []),
        ({"arguments": {"charge_card.trace": "ignore", "*.note": "lenient"}}, []),
        ({"arguments": {"charge_card.amout": "ignore", "*.items[*].skuu": "ignore"}}, ["charge_card.amout", "*.items[*].skuu"]),
    ],
)  # fmt: skip
def test_parts_of_a_criterion_that_no_expected_call_meets_are_found(parameters: JsonObject, places: list[str]):
    call = ExpectedCall(name="charge_card", args={"amount": None, "items": [{"sku": "A"}]})
    found = Criterion(
        name="a",
        evaluator_name="tool_call_args",
        evaluator=ToolCallArgs.model_validate(parameters),
        revision="r",
        reference=Inline(Expected(turns=((call,),))),
    )
    warnings = list(without_effect([found, criterion("b", tools=("refund",))]))
    assert len(warnings) == len(places)
    assert all(f"`{place}`" in warning for place, warning in zip(places, warnings, strict=True))
