"""An earlier offer stands in where a trajectory has none, and nothing that is kept for it grows without bound."""

from collections.abc import Iterator
from typing import ClassVar

import pytest
from msgspec.structs import replace

from tests.rows import each_row
from tests.score.support import TRACE, tool_call, trajectory
from toolgauge.evaluators.tool_checks import KnownTool
from toolgauge.model.expected import Expected
from toolgauge.model.json import JsonObject
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.outcomes import Level, Result, Scored
from toolgauge.model.ports import Evaluation, Evaluator
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import Run, Trajectory
from toolgauge.score.criterion import Criterion, ToolKinds
from toolgauge.score.scorer import Scorer
from toolgauge.score.tool_offers import RecentOffers

MINUTE_NS = 60 * 10**9


def run(
    *offered: str,
    tool: str = "refund",
    conversation: str | None = "c",
    service: str | None = "shop",
    agents: tuple[str, ...] = ("clerk",),
    version: str | None = None,
    minute: int = 0,
) -> Trajectory:
    """A run of one call; without `offered` none was recorded."""
    made = trajectory(
        tool_call(tool, state="requested_only"),
        offered=offered or None,
        conversation_id=conversation,
        service=service,
        agents=agents,
    )
    resource = {} if version is None else {"service.version": version}
    return replace(made, resource=resource, start_ns=minute * MINUTE_NS, end_ns=minute * MINUTE_NS + 1)


def names(completed: Trajectory) -> list[str] | None:
    return None if completed.tools_offered is None else [tool.name for tool in completed.tools_offered]


def after(*before: Trajectory, asking: Trajectory) -> Trajectory:
    offers = RecentOffers()
    for one in before:
        offers.completed(one)
    return offers.completed(asking)


def test_the_last_offer_of_the_conversation_stands_in_at_any_distance():
    completed = after(run("old"), run("refund", minute=1), run("x", conversation="d"), asking=run(minute=600))
    assert (names(completed), completed.offer_from) == (["refund"], "conversation")


def test_else_that_of_the_service_within_an_hour():
    offers = RecentOffers()
    offers.completed(run("refund", conversation="other", minute=100))
    for minute, expected in ((40, ["refund"]), (160, ["refund"]), (39, None), (161, None)):
        completed = offers.completed(run(minute=minute))
        assert (names(completed), completed.offer_from) == (expected, "service" if expected else "trace")


@each_row(
    "asking",
    [
        run(service="other"),
        run(version="2"),
        run(agents=("auditor",)),
        run(agents=("clerk", "auditor")),
        run(service="other", conversation=None),
        run(version="2", conversation=None),
        run(agents=("auditor",), conversation=None),
    ],
)
def test_what_others_had_on_offer_stands_in_for_nothing(asking: Trajectory):
    assert names(after(run("refund", version="1"), run("refund"), asking=asking)) is None


def test_without_a_service_only_the_conversation_counts():
    assert names(after(run("refund", service=None), asking=run(service=None, conversation="d"))) is None
    assert names(after(run("refund", service=None), asking=run(service=None))) == ["refund"]


def test_agents_of_a_conversation_each_have_their_own_offer():
    before = run("a", agents=("triage",)), run("b", agents=("clerk",), minute=1)
    assert names(after(*before, asking=run(agents=("triage",), minute=2))) == ["a"]
    assert names(after(*before, asking=run(agents=("clerk",), minute=2))) == ["b"]
    both = run("a", "b", agents=("triage", "clerk"))
    assert names(after(both, asking=run(agents=("clerk",)))) == ["a", "b"]


def test_an_own_offer_stays_even_an_empty_one_and_an_empty_one_stands_in_for_nothing():
    empty = replace(run(), tools_offered=())
    completed = after(run("refund"), asking=empty)
    assert (completed.tools_offered, completed.offer_from) == ((), "trace")
    assert names(after(run("refund"), empty, asking=run(minute=1))) == ["refund"]


def test_an_older_trajectory_that_closes_late_replaces_nothing():
    assert names(after(run("new", minute=9), run("old"), asking=run(minute=10))) == ["new"]
    late = after(run("new", minute=9), run("old"), asking=run(minute=10, conversation="d"))
    assert names(late) == ["new"]


def test_runs_keep_what_was_recorded_of_them():
    asking = run()
    assert after(run("refund"), asking=asking).runs == asking.runs


BOSS, WORKER, OTHER = (SpanRef(TRACE, f"{number:016x}") for number in (101, 102, 103))


def agent_run(span: SpanRef, agent: str | None, *tools: str, above: SpanRef | None = None) -> Run:
    offered = tuple(ToolDefinition(name=name) for name in tools) or None
    return Run(
        span=span, above=above, agent=agent, prompt=None, response=None, tools_offered=offered, start_ns=0, end_ns=9
    )


def team(*runs: Run, conversation: str | None = "c") -> Trajectory:
    offered = [tool.name for one in runs for tool in one.tools_offered or ()]
    return replace(run(*offered, conversation=conversation, agents=("boss", "worker")), runs=runs)


def of_runs(completed: Trajectory) -> list[tuple[list[str] | None, str]]:
    offers = [(one.tools_offered, one.offer_from) for one in completed.runs]
    return [(None if tools is None else [tool.name for tool in tools], source) for tools, source in offers]


@pytest.mark.parametrize(("conversation", "source"), [("c", "conversation"), (None, "service")])
@pytest.mark.parametrize("names", [("boss", "worker"), ("same", "same"), (None, None)])
def test_each_run_gets_the_offer_of_the_same_agent(
    names: tuple[str | None, str | None], conversation: str, source: str
):
    boss, worker = names
    before = team(
        agent_run(BOSS, boss, "delegate"), agent_run(WORKER, worker, "search", above=BOSS), conversation=conversation
    )
    asking = team(agent_run(BOSS, boss), agent_run(WORKER, worker, above=BOSS), conversation=conversation)
    assert of_runs(after(before, asking=asking)) == [(["delegate"], source), (["search"], source)]


def test_a_run_with_an_offer_keeps_it_and_the_other_is_completed():
    before = team(agent_run(BOSS, "boss", "delegate"), agent_run(WORKER, "worker", "search", above=BOSS))
    asking = team(agent_run(BOSS, "boss", "new"), agent_run(WORKER, "worker", above=BOSS))
    assert of_runs(after(before, asking=asking)) == [(["new"], "trace"), (["search"], "conversation")]


def test_a_manager_never_gets_the_offer_of_its_worker():
    silent = team(agent_run(BOSS, "boss"), agent_run(WORKER, "worker", "search", above=BOSS))
    assert of_runs(after(silent, silent, asking=silent))[0] == (None, "trace")
    alone = replace(run(agents=("boss",)), runs=(agent_run(BOSS, "boss"),))
    assert of_runs(after(silent, asking=alone)) == [(None, "trace")]
    assert names(after(silent, asking=alone)) is None


def test_an_agent_alone_gets_the_offer_it_had_in_a_team_and_the_other_way_round():
    both = team(agent_run(BOSS, "boss", "delegate"), agent_run(WORKER, "worker", "search", above=BOSS))
    alone = replace(run(agents=("boss",)), runs=(agent_run(BOSS, "boss"),))
    assert of_runs(after(both, asking=alone)) == [(["delegate"], "conversation")]
    before = replace(run("delegate", agents=("boss",)), runs=(agent_run(BOSS, "boss", "delegate"),))
    asking = team(agent_run(BOSS, "boss"), agent_run(WORKER, "worker", above=BOSS))
    assert of_runs(after(before, asking=asking)) == [(["delegate"], "conversation"), (None, "trace")]


def test_of_two_agents_with_one_name_and_different_offers_none_stands_in():
    twins = (agent_run(WORKER, "worker", "search", above=BOSS), agent_run(OTHER, "worker", "write", above=BOSS))
    asking = team(agent_run(BOSS, "boss", "x"), agent_run(WORKER, "worker", above=BOSS))
    assert of_runs(after(team(agent_run(BOSS, "boss", "x"), *twins), asking=asking))[1] == (None, "trace")


def test_what_is_kept_is_bounded():
    offers = RecentOffers()
    large = ToolDefinition(name="large", parameters={"x" * 5_000_000: 1})
    for number in range(5):
        offers.completed(
            replace(run(conversation=str(number), service=None, version=str(number)), tools_offered=(large,))
        )
    kept = [names(offers.completed(run(conversation=str(n), service=None, version=str(n)))) for n in range(5)]
    assert kept == [None, None, ["large"], ["large"], ["large"]]
    for number in range(5_001):
        offers.completed(run("a", conversation=f"many {number}", service=None))
    assert names(offers.completed(run(conversation="many 0", service=None))) is None
    assert names(offers.completed(run(conversation="many 5000", service=None))) == ["a"]


def test_an_offer_that_is_too_large_is_not_kept():
    huge = ToolDefinition(name="huge", parameters={"x" * 20_000_000: 1})
    assert names(after(replace(run(), tools_offered=(huge,)), asking=run())) is None
    many = run(*[f"t{number}" for number in range(1_001)])
    assert names(after(many, asking=run())) is None


def test_depth_does_not_stop_an_offer():
    deep: JsonObject = {}
    for _ in range(10_000):
        deep = {"k": deep}
    tool = ToolDefinition(name="deep", parameters=deep)
    assert names(after(replace(run(), tools_offered=(tool,)), asking=run())) == ["deep"]


def criterion(evaluator: Evaluator) -> Criterion:
    return Criterion(name="c", evaluator_name="c", evaluator=evaluator, revision="0" * 12)


class OffersSeen:
    """Yields how many tools it sees on offer, as an evaluator that knows nothing of stand-ins."""

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002 (a fake)
        yield None, Scored(value=float(trajectory.tools_offered is not None), explanation=trajectory.offer_from)


def second(evaluator: Evaluator) -> Result:
    scorer = Scorer([criterion(evaluator)], ToolKinds())
    scorer.score(run("refund"))
    (result,) = scorer.score(run(tool="refnd"))
    return result


def test_known_tool_judges_by_it_and_says_so():
    outcome = second(KnownTool()).outcome
    assert isinstance(outcome, Scored)
    assert outcome.value == 0.0
    assert outcome.explanation == (
        "`refnd` was not among the 1 tools on offer (as last recorded in this conversation); the closest on offer is `refund`"
    )


def test_evaluators_that_do_not_ask_for_it_see_what_was_recorded():
    outcome = second(OffersSeen()).outcome
    assert isinstance(outcome, Scored)
    assert (outcome.value, outcome.explanation) == (0.0, "trace")
