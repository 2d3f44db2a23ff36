"""OpenInference as real packages wrote it: `tests/corpus` and `cases/openinference` (producer and version in the name)."""

from pathlib import Path

from tests.recognize.support import recorded, seen
from toolgauge.dialects.openinference import OpenInference
from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.json import Json
from toolgauge.model.observations import (
    AgentRun,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    Observation,
    PropertiesSeen,
    Reading,
    ToolDefinition,
    ToolsOffered,
)

CASES = Path(__file__).parent / "cases" / "openinference"
CUT_OFF = '{"city": "Tokyo", "unit": '


def readings(*names: str) -> list[Reading]:
    return recorded(OpenInference(), *(f"{name}.otlp.pb" for name in names))


def case(name: str) -> list[Reading]:
    return recorded(OpenInference(), str(CASES / f"{name}.otlp.pb"))


def found(kind: type[Observation], *names: str) -> list[Observation]:
    return seen(readings(*names), kind)


def requested(
    name: str,
    call_id: str | None,
    arguments: Json,
    position: int = 0,
    agent: str | None = None,
    output: int | None = None,
) -> CallRequested:
    return CallRequested(
        position=position, name=name, call_id=call_id, arguments=Recorded(arguments), agent=agent, output=output
    )


# -- LangChain


def test_langchain_rejected_request_is_found_in_the_raw_output_behind_the_accepted_one():
    assert seen(case("langchain-0.1.80-bad-json"), CallRequested) == [
        requested("get_weather", "c0", {"city": "Oslo"}, agent="shop"),
        CallRequested(
            position=1,
            name="get_weather",
            call_id="c1",
            arguments=Unparsed(CUT_OFF),
            agent="shop",
            usable=False,
        ),
        requested("get_weather", "c2", {"city": "Tokyo"}, agent="shop"),
    ]


def test_langchain_session_set_in_metadata_arrives_as_the_sessions_id():
    assert set(seen(case("langchain-0.1.80-bad-json"), ConversationSeen)) == {
        ConversationSeen(conversation_id="s-1", rank=1)
    }


def test_langchain_text_argument_written_bare_is_not_taken_for_a_value():
    executed = seen(case("langchain-0.1.80-bare-text"), CallExecuted)
    assert executed[0] == CallExecuted(
        name="find_customer",
        call_id="c1",
        arguments=Unparsed("zoe@example.com"),
        result=Recorded({"customer_id": 7731, "name": "Zoë"}),
    )
    assert executed[1] == CallExecuted(
        name="lookup", call_id="c2", arguments=Unparsed("7731"), result=Recorded("found 5")
    )


# -- smolagents


def calls_and_runs(reading: Reading) -> tuple[Observation, ...]:
    return tuple(seen for seen in reading.observations if not isinstance(seen, ToolsOffered | PropertiesSeen))


def test_smolagents_run_of_a_managed_agent_is_a_call_and_the_outer_run_is_not():
    spans = case("smolagents-0.1.43-managed-agent")
    runs = [calls_and_runs(reading) for reading in spans if AgentRun(agent="refund_agent") in reading.observations]
    assert runs == [
        (
            AgentRun(agent="refund_agent"),
            CallExecuted(name="refund_agent", arguments=Recorded({"task": "refund A"}), result=Recorded("refunded")),
        )
    ]
    (outer,) = [reading for reading in spans if AgentRun(agent="shop_agent") in reading.observations]
    assert calls_and_runs(outer) == (AgentRun(agent="shop_agent"),)


def test_smolagents_offers_its_tools_and_the_agents_that_it_manages():
    spans = case("smolagents-0.1.43-managed-agent")
    (outer,) = [reading for reading in spans if AgentRun(agent="shop_agent") in reading.observations]
    (offer,) = [seen for seen in outer.observations if isinstance(seen, ToolsOffered)]
    assert [tool.name for tool in offer.tools] == ["get_weather", "final_answer", "refund_agent"]


# -- CrewAI, AutoGen, Haystack, OpenAI client, UiPath


def test_crewai_delegation_has_the_name_that_the_model_called():
    spans = case("crewai-1.1.21-delegation")
    assert [call.name for call in seen(spans, CallExecuted) if isinstance(call, CallExecuted)] == [
        "get_weather",
        "delegate_work_to_coworker",
    ]
    assert seen(spans, CallRequested) == [
        requested(
            "delegate_work_to_coworker",
            "c1",
            {"task": "refund", "context": "c", "coworker": "Refund agent"},
            agent="shop_agent",
            output=2,
        )
    ]
    assert seen(spans, ToolsOffered) == [
        ToolsOffered(
            tools=(
                ToolDefinition(name="get_weather"),
                ToolDefinition(name="find_customer"),
                ToolDefinition(name="delegate_work_to_coworker"),
                ToolDefinition(name="Delegate work to coworker"),
                ToolDefinition(name="ask_question_to_coworker"),
                ToolDefinition(name="Ask question to coworker"),
            )
        )
    ]
