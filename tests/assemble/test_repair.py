from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from tests.assemble.support import TRACE, agent, answered, args, executed, model, reading, requested, span_id
from toolgauge.assemble.join import GatheredTrace, join
from toolgauge.model.content import Content, Unparsed
from toolgauge.model.observations import CallRequested, MessageSeen, Reading, ToolDefinition, ToolsOffered
from toolgauge.model.trajectory import ToolCall

Past = CallRequested | MessageSeen
QUESTION = MessageSeen(role="user", text="Weather?")
OFFER = ToolsOffered(tools=(ToolDefinition(name="find"), ToolDefinition(name="mail")))


def past(name: str, id: str | None, output: int, position: int = 0, **arguments: str) -> CallRequested:
    return replace(requested(name, args(**arguments), id=id, position=position), output=output)


def calls(readings: Sequence[Reading], histories: Mapping[str, Sequence[Past]]) -> tuple[Sequence[ToolCall], list[str]]:
    """Join, and return which histories were read as well."""
    read: list[str] = []
    by_span = {span_id(name): name for name in histories}

    def history(span: str) -> Sequence[Past]:
        read.append(by_span[span])
        return histories[by_span[span]]

    parents = {one.ref.span_id: one.parent_span_id for one in readings}
    gathered = GatheredTrace(trace_id=TRACE, readings=readings, parents=parents, history=history)
    trajectory = join([gathered], scope="trace", closed_because="idle")
    assert trajectory is not None
    return trajectory.calls, read


def asking(name: str, start: int, *seen: CallRequested, parent: str = "run") -> Reading:
    return reading(name, model(), QUESTION, OFFER, *seen, parent=parent, start=start)


def given(name: str, start: int, *ids: str, parent: str = "run", asks: Sequence[CallRequested] = ()) -> Reading:
    answers = [answered(id) for id in ids]
    said = () if asks else (MessageSeen(role="assistant", text="done"),)
    return reading(name, model(), QUESTION, OFFER, *answers, *asks, *said, parent=parent, start=start)


RUN = reading("run", agent("a"), start=0, end=100)


def shown(found: Sequence[ToolCall]) -> list[tuple[int, int, str, str | None]]:
    return [(call.turn, call.position, call.name, call.call_id) for call in found]


def test_an_output_that_was_lost_is_taken_from_the_next_input():
    readings = [RUN, asking("m1", 1), given("m2", 10, "c1", "c2")]
    history = [QUESTION, past("find", "c1", 0, q="x"), past("mail", "c2", 0, 1, to="y")]
    found, _ = calls(readings, {"m2": history})
    assert shown(found) == [(0, 0, "find", "c1"), (0, 1, "mail", "c2")]
    assert [call.requested_by and call.requested_by.span_id for call in found] == [span_id("m1")] * 2


def test_a_span_that_never_came_is_stood_for_by_the_input_that_shows_it():
    readings = [
        RUN,
        asking("m1", 1, requested("find", args(q="x"), id="c1")),
        given("m3", 30, "c1", "c2", asks=[requested("find", args(q="z"), id="c3")]),
        given("m4", 40, "c1", "c2", "c3"),
    ]
    history = [QUESTION, past("find", "c1", 0, q="x"), past("mail", "c2", 1, to="y")]
    found, read = calls(readings, {"m3": history})
    assert shown(found) == [(0, 0, "find", "c1"), (1, 0, "mail", "c2"), (2, 0, "find", "c3")]
    assert found[1].span.span_id == span_id("m3")
    assert found[1].dialect == "test"
    assert read == ["m3"]


def test_a_name_made_of_two_is_no_call_where_the_history_shows_the_two():
    glued = requested("findmail", Unparsed('{"q": "x"}{"to": "y"}'), id="c1c2")
    readings = [RUN, asking("m1", 1, glued), given("m2", 10, "c1", "c2")]
    history = [QUESTION, past("find", "c1", 0, q="x"), past("mail", "c2", 0, 1, to="y")]
    found, _ = calls(readings, {"m2": history})
    assert shown(found) == [(0, 0, "find", "c1"), (0, 1, "mail", "c2")]


def test_arguments_that_were_cut_are_taken_whole():
    readings = [RUN, asking("m1", 1, requested("find", Unparsed('{"q": "a lo'), id="c1")), given("m2", 10, "c1")]
    found, _ = calls(readings, {"m2": [QUESTION, past("find", "c1", 0, q="a long one")]})
    assert [call.arguments for call in found] == [args(q="a long one")]


@pytest.mark.parametrize(("text", "kept"), [('{"q": "a lo', Unparsed('{"q": "a lo')), ("{", args())])
def test_an_empty_object_in_a_history_replaces_no_text(text: str, kept: Content):
    readings = [RUN, asking("m1", 1, requested("find", Unparsed(text), id="c1")), given("m2", 10, "c1")]
    found, read = calls(readings, {"m2": [QUESTION, past("find", "c1", 0)]})
    assert read == ["m2"]
    assert [call.arguments for call in found] == [kept]


def test_calls_of_an_earlier_turn_are_never_counted():
    readings = [RUN, given("m1", 1, "old"), asking("m2", 5), given("m3", 10, "old", "c1")]
    history = [past("find", "old", 0, q="o"), QUESTION, past("find", "c1", 1, q="x")]
    found, _ = calls(readings, {"m3": history})
    assert shown(found) == [(0, 0, "find", "c1")]


def test_a_small_model_call_before_it_makes_an_earlier_turn_no_part_of_the_trace():
    router = reading("router", model(), MessageSeen(role="user", text="Weather?"), start=1, parent="run")
    readings = [RUN, router, given("m1", 10, "old")]
    history = [MessageSeen(role="user", text="Before"), past("find", "old", 0, q="o"), QUESTION]
    found, read = calls(readings, {"m1": history})
    assert shown(found) == []
    assert read == ["m1"]


def test_examples_in_the_first_input_of_another_agent_are_no_calls():
    readings = [
        RUN,
        asking("m1", 1, requested("find", args(q="x"), id="c1")),
        reading("sub", agent("b"), parent="run", start=5, end=50),
        given("s1", 6, "example", parent="sub"),
        given("s2", 20, "example", parent="sub"),
        given("m2", 60, "c1"),
    ]
    found, _ = calls(readings, {"s1": [past("mail", "example", 0)], "s2": [past("mail", "example", 0)]})
    assert shown(found) == [(0, 0, "find", "c1")]


def test_a_call_that_a_tools_span_shows_is_restored_once():
    ran = reading("tool", executed("find", args(q="x"), id="c1"), parent="run", start=5)
    readings = [RUN, asking("m1", 1), ran, given("m2", 10, "c1")]
    found, _ = calls(readings, {"m2": [QUESTION, past("find", "c1", 0, q="x")]})
    assert shown(found) == [(0, 0, "find", "c1")]
    assert found[0].executed_by is not None


def test_a_call_that_two_agents_histories_show_is_restored_once():
    readings = [
        RUN,
        asking("m1", 1),
        given("m2", 10, "c1"),
        reading("next", agent("b"), start=20, end=50),
        reading("n1", model(), QUESTION, OFFER, parent="next", start=21),
        given("n2", 30, "c1", parent="next"),
    ]
    history = [QUESTION, past("find", "c1", 0, q="x")]
    found, _ = calls(readings, {"m2": history, "n2": history})
    assert shown(found) == [(0, 0, "find", "c1")]
