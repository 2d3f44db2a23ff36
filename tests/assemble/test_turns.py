"""Results and tools on offer carry the first turn of calls that could know them."""

from msgspec.structs import replace

from tests.assemble.support import agent, answered, executed, joined, model, reading, requested
from toolgauge.model.observations import ToolDefinition, ToolsOffered


def offer(*names: str) -> ToolsOffered:
    return ToolsOffered(tools=tuple(ToolDefinition(name=name) for name in names))


def test_a_result_is_known_to_the_first_turn_after_its_tool_ended():
    trajectory = joined(
        reading("ask1", model(), requested("slow", id="c1"), requested("fast", id="c2", position=1), start=0, end=5),
        reading("t1", executed("slow", id="c1", result=answered("c1").result), start=6, end=50),
        reading("t2", executed("fast", id="c2", result=answered("c2").result), start=6, end=9),
        reading("ask2", model(), requested("fast", id="c3"), start=10, end=12),
        reading("t3", executed("fast", id="c3", result=answered("c3").result), start=13, end=14),
        reading("ask3", model(), requested("fast", id="c4"), start=60, end=62),
    )
    assert [(call.call_id, call.turn, call.result_turn) for call in trajectory.calls] == [
        ("c1", 0, 2),
        ("c2", 0, 1),
        ("c3", 1, 2),
        ("c4", 2, None),
    ]


def test_a_result_that_only_a_later_history_tells_is_known_when_it_was_told():
    trajectory = joined(
        reading("ask1", model(), requested("f", id="c1"), start=0, end=5),
        reading("ask2", model(), requested("f", id="c2"), start=10, end=12),
        reading("ask3", model(), answered("c1"), answered("c2"), requested("f", id="c3"), start=20, end=22),
    )
    assert [call.result_turn for call in trajectory.calls] == [2, 2, None]


def test_each_output_of_a_summary_knew_what_came_of_those_before_it():
    asked = [replace(requested("f", id=f"c{at}", position=at), output=at) for at in range(3)]
    trajectory = joined(reading("run", agent("a"), *asked, *map(answered, ("c0", "c1", "c2")), start=0, end=9))
    assert [(call.turn, call.result_turn) for call in trajectory.calls] == [(0, 1), (1, 2), (2, 3)]
