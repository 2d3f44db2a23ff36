"""OpenInference as real packages wrote it (`cases/openinference`, producer and version in the name): read, and joined."""

from pathlib import Path

from tests.assemble.support import joined
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
from toolgauge.model.trajectory import Trajectory

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
            position=1, name="get_weather", call_id="c1", arguments=Unparsed(CUT_OFF), agent="shop", usable=False
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


# -- the calls that were really made


def trajectory(name: str) -> Trajectory:
    return joined(*recorded(OpenInference(), str(CASES / f"{name}.otlp.pb")))


def calls(found: Trajectory) -> list[tuple[int, str, object, str]]:
    """Turn, name, arguments and state of each call."""
    return [
        (call.turn, call.name, call.arguments.value if isinstance(call.arguments, Recorded) else None, call.state)
        for call in found.calls
    ]


def outcomes(found: Trajectory) -> list[tuple[str | None, str | None]]:
    """The id of each call and the message of its failure."""
    return [(call.call_id, call.error.message if call.error is not None else None) for call in found.calls]


def weather_of(*cities: str) -> list[tuple[int, str, object, str]]:
    return [(0, "get_weather", {"city": city}, "executed") for city in cities]


def test_calls_of_an_adk_run_whose_model_calls_share_one_span_keep_their_order():
    found = trajectory("google-adk-1.0.5-sequence")
    assert calls(found) == [
        (0, "find_order", {"customer": "Ana"}, "executed"),
        (1, "get_order", {"order_id": "A-17"}, "executed"),
        (2, "refund", {"order_id": "A-17", "amount": 20.5}, "executed"),
    ]
    assert outcomes(found) == [("call_1", None), ("call_2", None), ("call_3", None)]


def test_calls_of_one_output_on_a_shared_adk_span_are_one_turn():
    assert calls(trajectory("google-adk-1.0.5-parallel")) == weather_of("Paris", "Rome", "Oslo")


def test_dspy_tool_is_named_without_its_method_and_its_arguments_are_opened():
    found = trajectory("dspy-0.1.48-tool-error")
    assert calls(found) == [
        (0, "refund", {"order_id": "BAD", "amount": 1.5}, "executed"),
        (1, "finish", {}, "executed"),
    ]
    assert outcomes(found) == [(None, "order BAD cannot be refunded"), (None, None)]
    assert found.root is not None


def test_portkey_calls_and_offer_are_read_from_the_response_and_the_request():
    found = trajectory("portkey-0.1.22-parallel")
    assert calls(found) == weather_of("Paris", "Rome", "Oslo")
    assert outcomes(found) == [("call_1", None), ("call_2", None), ("call_3", None)]
    assert [tool.name for tool in found.tools_offered or ()] == [
        "get_weather",
        "find_order",
        "get_order",
        "refund",
        "book",
    ]


def test_calls_that_googles_sdk_made_by_itself_are_seen():
    found = trajectory("google-genai-1.4.14-automatic")
    assert calls(found) == weather_of("Paris", "Rome", "Oslo")
    assert found.calls[2].result == Recorded({"city": "Oslo", "temp_c": 21})


def test_langchains_stand_in_for_an_invented_tool_is_no_call_and_parts_are_no_agents():
    found = trajectory("langchain-0.1.35-unknown-tool")
    assert calls(found) == [
        (0, "get_wether", {"city": "Paris"}, "rejected"),
        (1, "get_weather", {"city": "Paris"}, "executed"),
    ]
    assert found.agents == ()


def test_old_langchain_call_that_could_not_be_parsed_counts_once():
    (call,) = trajectory("langchain-0.1.35-bad-json").calls
    assert (call.name, call.call_id, call.state) == ("get_weather", "call_1", "rejected")
    assert call.arguments == Unparsed('{"city": "Par')
