"""A pipeline that goes on by other rules, and one that has to end before all is scored."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel

from tests.walk.support import Walk
from toolgauge.config.load import load
from toolgauge.evaluators.tool_checks import KnownTool
from toolgauge.model.expected import Expected
from toolgauge.model.outcomes import Level, Scored
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.criterion import Criterion, When
from toolgauge.service.pipeline_factory import make_rules

TRACE_ONLY = ("pydantic-ai", "tool_error")


class Slow(BaseModel):
    """Yields `None` often before it says anything, as older plug-ins do."""

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        del trajectory, expected
        for _ in range(10):
            yield None
        yield None, Scored(value=1.0, explanation="at last")


def slow(name: str, **more: object) -> Criterion:
    return Criterion(name=name, evaluator_name="slow", evaluator=Slow(), revision="r", **more)  # pyright: ignore[reportArgumentType] (fields of a criterion)


def adopt(walk: Walk, *criteria: Criterion, **overrides: str) -> None:
    config = load((), tuple(f"{key.replace('__', '.')}={value}" for key, value in overrides.items()), {})
    walk.pipeline.adopt(
        make_rules(config, criteria, walk.metrics, running=load((), (), {}), read=walk.pipeline.scorer.wanted)
    )


def results(walk: Walk) -> dict[tuple[str, str, str], float]:
    """Evaluations by criterion, outcome and reason."""
    (metric,) = (metric for metric in walk.registry if metric.name == "toolgauge.evaluations")
    return {
        (labels[5], labels[-2], labels[-1]): value
        for labels, value in metric.cells.items()
        if isinstance(value, int | float) and value
    }


def test_what_closes_later_is_scored_by_the_other_rules():
    walk = Walk(criteria=[slow("early")])
    walk.send_folder(*TRACE_ONLY)
    walk.wait(60)
    adopt(walk, slow("late"))
    walk.send_folder("pydantic-ai", "one_call")
    walk.wait(60)
    assert results(walk) == {("early", "pass", ""): 1, ("late", "pass", ""): 1}


def test_other_registered_tools_hold_for_what_closes_later(tmp_path: Path):
    tools = tmp_path / "tools.json"
    known = Criterion(name="known", evaluator_name="known_tool", evaluator=KnownTool(), revision="r")
    tools.write_text('[{"name": "another"}]')
    walk = Walk(f"tool_definitions=[{tools}]", criteria=[known])
    walk.send_folder("openai-agents", "retry")
    walk.wait(60)
    # The first call failed; the second was answered, so that its tool exists.
    assert {key[1:] for key in results(walk)} == {("fail", ""), ("not_evaluated", "no_tool_offer")}
    tools.write_text('[{"name": "get_weather"}]')
    adopt(walk, known, tool_definitions=f"[{tools}]")
    walk.send_folder("openai-agents", "one_call")
    walk.wait(60)
    assert {key[1:] for key in results(walk)} == {("fail", ""), ("not_evaluated", "no_tool_offer"), ("pass", "")}


def test_attributes_that_were_not_asked_for_are_read_from_then_on():
    walk = Walk(criteria=[])
    walk.send_folder(*TRACE_ONLY)
    walk.wait(60)
    adopt(walk, slow("when", when=When(attributes={"agent_name": "no such agent"})), slow("always"))
    assert walk.pipeline.scorer.wanted == {"agent_name"}
    walk.send_folder("pydantic-ai", "one_call")
    walk.wait(60)
    assert results(walk) == {("always", "pass", ""): 1}


def test_conversations_are_gathered_when_a_criterion_asks_for_them_and_no_longer_when_none_does():
    walk = Walk(criteria=[])
    adopt(walk, slow("whole", scope="conversation"))
    walk.send_folder(*TRACE_ONLY)
    walk.wait(60)
    assert walk.pipeline.trajectories_open == 1
    adopt(walk)
    walk.send_folder("pydantic-ai", "one_call")
    walk.wait(60)
    assert walk.pipeline.trajectories_open == 1
    walk.wait(3600)
    assert walk.pipeline.trajectories_open == 0


def test_held_spans_stay_held_and_leave_by_the_time_that_holds_now():
    walk = Walk("assemble.run_end_grace=1h", "assemble.idle_timeout=1h", criteria=[])
    walk.send_folder(*TRACE_ONLY)
    held = walk.pipeline.admission.spans_held
    assert held > 0
    adopt(walk, hold__timeout="2s")
    assert walk.pipeline.admission.spans_held == held
    walk.wait(3)
    assert walk.pipeline.admission.spans_held == 0


def test_what_is_unscored_when_there_is_no_more_time_leaves_as_incomplete_and_is_counted():
    walk = Walk(criteria=[slow("slow")])
    walk.send_folder(*TRACE_ONLY)
    walk.send_folder("pydantic-ai", "one_call")
    walk.pipeline.close(walk.now_ns)
    walk.pipeline.scoring.interrupt()
    while walk.pipeline.tick(walk.now_ns):
        pass
    walk.pipeline.release()
    walk.pipeline.flush()
    assert results(walk) == {("slow", "not_evaluated", "incomplete"): 2}
    assert walk.pipeline.scoring.interrupted == 2
    assert walk.pipeline.trajectories_open == 0
    assert len(walk.scorecards()) == 2
    assert walk.pipeline.admission.spans_held == 0
