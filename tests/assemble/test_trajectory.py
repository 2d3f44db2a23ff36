"""What a trajectory says around its calls: agents, root, service, tools on offer, messages, attributes."""

from msgspec.structs import replace

from tests.assemble.support import agent, conversation, executed, joined, log, model, only_call, reading, requested
from toolgauge.assemble.join import GatheredTrace, join
from toolgauge.model.observations import CallExecuted, MessageSeen, ToolDefinition, ToolsOffered
from toolgauge.model.trajectory import Message


def said(role: str, text: str) -> MessageSeen:
    assert role in ("system", "user", "assistant")
    return MessageSeen(role=role, text=text)


def test_nothing_of_interest_is_no_trajectory():
    readings = (reading("web", conversation("c")), log("web", said("user", "hello")))
    trace = GatheredTrace(trace_id=readings[0].ref.trace_id, readings=readings, parents={})
    assert join([trace], scope="trace", closed_because="idle") is None
    assert join([], scope="trace", closed_because="idle") is None


def test_the_nearest_agent_run_names_the_agent_before_the_span_itself_does():
    trajectory = joined(
        reading("run", agent("refunds"), start=0),
        reading("tool", CallExecuted(name="f", agent="OpenAI Agent"), parent="run", start=1),
        reading("lone", CallExecuted(name="g", agent="OpenAI Agent"), start=2),
    )
    assert [call.agent for call in trajectory.calls] == ["refunds", "OpenAI Agent"]
    assert trajectory.agents == ("refunds", "OpenAI Agent")


def test_root_is_the_outermost_agent_run():
    trajectory = joined(
        reading("web", conversation("c"), service="web", start=0),
        reading("run", agent("a"), parent="web", service="agents", start=1),
        reading("sub", agent("b"), parent="run", service="experts", start=2),
    )
    assert (trajectory.root, trajectory.service, trajectory.agents) == (reading("run").ref, "agents", ("a", "b"))


def test_without_an_agent_run_the_parentless_span_is_the_root():
    trajectory = joined(
        reading("ask", model(), parent="top", start=0, service=None),
        reading("top", conversation("c"), start=1, service="shop"),
    )
    assert (trajectory.root, trajectory.service) == (reading("top").ref, "shop")
    assert joined(reading("ask", model(), parent="gone")).root is None


def test_the_lowest_rank_names_the_conversation_and_the_root_among_equals():
    trajectory = joined(
        reading("run", agent("a"), conversation("root's", rank=1), start=5),
        reading(
            "ask", model(), conversation("early", rank=1), conversation("framework's", rank=2), parent="run", start=1
        ),
    )
    assert trajectory.conversation_id == "root's"
    better = joined(
        reading("run", agent("a"), conversation("root's", rank=1), start=0),
        reading("ask", model(), conversation("standard", rank=0), parent="run", start=1),
    )
    assert better.conversation_id == "standard"


def test_tools_on_offer_are_united_and_completed():
    schema = ToolDefinition(name="f", parameters={"type": "object"})
    trajectory = joined(
        reading("ask1", model(), ToolsOffered(tools=(ToolDefinition(name="f"), ToolDefinition(name="g"))), start=0),
        reading("ask2", model(), ToolsOffered(tools=(schema, ToolDefinition(name="h"))), start=1),
    )
    assert trajectory.tools_offered == (schema, ToolDefinition(name="g"), ToolDefinition(name="h"))


def test_messages_come_once_with_the_turn_that_could_know_them():
    trajectory = joined(
        reading("run", agent("a"), said("user", "hi"), said("assistant", "bye"), start=0, end=90),
        reading(
            "ask1", model(), said("system", "be kind"), said("user", "hi"), requested("f"), parent="run", start=1, end=2
        ),
        reading(
            "ask2",
            model(),
            said("system", "be kind"),
            said("user", "hi"),
            said("assistant", "on it"),
            requested("g"),
            parent="run",
            start=10,
            end=12,
        ),
        reading("ask3", model(), said("user", "and?"), said("assistant", "bye"), parent="run", start=20, end=22),
    )
    assert trajectory.messages == (
        Message(role="user", text="hi", turn=0),
        Message(role="system", text="be kind", turn=0, time_ns=1_000_000),
        Message(role="assistant", text="on it", turn=2, time_ns=12_000_000),
        Message(role="user", text="and?", turn=2, time_ns=20_000_000),
        Message(role="assistant", text="bye", turn=2, time_ns=22_000_000),
    )


def test_the_roots_attributes_win():
    trajectory = joined(
        reading("early", attributes=(("case", "early"), ("tier", "gold")), parent="run", start=0),
        reading("run", agent("a"), attributes=(("case", "root"),), parent="web", start=5),
        reading("web", attributes=(("case", "web"), ("region", "eu")), start=9),
    )
    assert trajectory.attributes == {"case": "root", "region": "eu", "tier": "gold"}


def test_the_resource_is_that_of_the_span_that_names_the_service():
    trajectory = joined(
        reading("top", conversation("c"), start=0, service=None, version="9"),
        reading("run", model(), parent="top", start=1, service="shop", version="1.1"),
        reading("ask", model(), parent="top", start=2, service="shop", version="1.0"),
    )
    assert (trajectory.service, trajectory.resource) == ("shop", {"service.version": "1.1"})


def test_a_deep_chain_of_agents_has_a_path_of_bounded_length():
    readings = [reading("s0", agent("a0"), start=0)]
    readings += [reading(f"s{n}", agent(f"a{n}"), parent=f"s{n - 1}", start=n) for n in range(1, 500)]
    readings.append(replace(reading("tool", executed("f"), parent="s499"), start_ns=10**9))
    path = only_call(joined(*readings)).agent_path
    assert (len(path), path[0], path[-1]) == (32, "a0", "a499")
