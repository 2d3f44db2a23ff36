"""An earlier offer stands in where a trajectory has none, and nothing that is kept for it grows without bound."""

from collections.abc import Iterator
from typing import ClassVar

from msgspec.structs import replace

from tests.rows import each_row
from tests.score.support import TRACE, agent_run, tool_call, trajectory
from toolgauge.evaluators.tool_checks import KnownTool
from toolgauge.model.expected import Expected
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.outcomes import Level, Scored
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


BOSS, WORKER, OTHER = (SpanRef(TRACE, f"{number:016x}") for number in (101, 102, 103))


def of_agent(span: SpanRef, agent: str | None, *tools: str, above: SpanRef | None = None) -> Run:
    offered = tuple(ToolDefinition(name=name) for name in tools) or None
    return agent_run(span, above, agent=agent, tools=offered)


def team(*runs: Run, conversation: str | None = "c") -> Trajectory:
    offered = [tool.name for one in runs for tool in one.tools_offered or ()]
    return replace(run(*offered, conversation=conversation, agents=("boss", "worker")), runs=runs)


def of_runs(completed: Trajectory) -> list[tuple[list[str] | None, str]]:
    offers = [(one.tools_offered, one.offer_from) for one in completed.runs]
    return [(None if tools is None else [tool.name for tool in tools], source) for tools, source in offers]


@each_row("named", [("boss", "worker"), ("same", "same"), (None, None)])
def test_each_run_gets_the_offer_of_the_same_agent(named: tuple[str | None, str | None]):
    boss, worker = named
    for conversation, source in (("c", "conversation"), (None, "service")):
        before = team(
            of_agent(BOSS, boss, "delegate"),
            of_agent(WORKER, worker, "search", above=BOSS),
            conversation=conversation,
        )
        asking = team(of_agent(BOSS, boss), of_agent(WORKER, worker, above=BOSS), conversation=conversation)
        assert of_runs(after(before, asking=asking)) == [(["delegate"], source), (["search"], source)]


def test_what_is_kept_is_bounded():
    offers = RecentOffers()
    large = ToolDefinition(name="large", parameters={"x" * 5_000_000: 1})
    for n in range(5):
        lone = run(conversation=str(n), service=None, version=str(n))
        offers.completed(replace(lone, tools_offered=(large,)))
    kept = [names(offers.completed(run(conversation=str(n), service=None, version=str(n)))) for n in range(5)]
    assert kept == [None, None, ["large"], ["large"], ["large"]]
    for number in range(5_001):
        offers.completed(run("a", conversation=f"many {number}", service=None))
    assert names(offers.completed(run(conversation="many 0", service=None))) is None
    assert names(offers.completed(run(conversation="many 5000", service=None))) == ["a"]
    huge = ToolDefinition(name="huge", parameters={"x" * 20_000_000: 1})
    for too_large in (replace(run(), tools_offered=(huge,)), run(*[f"t{number}" for number in range(1_001)])):
        assert names(after(too_large, asking=run())) is None


class OffersSeen:
    """Yields how many tools it sees on offer, as an evaluator that knows nothing of stand-ins."""

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002 (a fake)
        yield None, Scored(value=float(trajectory.tools_offered is not None), explanation=trajectory.offer_from)


def second(evaluator: Evaluator) -> Scored:
    criterion = Criterion(name="c", evaluator_name="c", evaluator=evaluator, revision="0" * 12)
    scorer = Scorer([criterion], ToolKinds())
    scorer.score(run("refund"))
    (result,) = scorer.score(run(tool="refnd"))
    assert isinstance(result.outcome, Scored)
    return result.outcome


def test_evaluators_that_ask_for_it_judge_by_it_and_others_see_what_was_recorded():
    known = second(KnownTool())
    assert (known.value, "as last recorded" in known.explanation) == (0.0, True)
    assert (second(OffersSeen()).value, second(OffersSeen()).explanation) == (0.0, "trace")
