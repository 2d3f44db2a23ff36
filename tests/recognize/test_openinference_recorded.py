"""OpenInference as real packages wrote it: `tests/corpus` and `cases/openinference` (producer and version in the name)."""

from pathlib import Path

from tests.recognize.support import recorded, seen
from toolgauge.dialects.openinference import OpenInference
from toolgauge.model.content import NOT_RECORDED, Recorded, Unparsed
from toolgauge.model.json import Json
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
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


def test_langchain_tool_message_is_opened_and_gives_the_call_id():
    assert found(CallExecuted, "openinference-langgraph/single") == [
        CallExecuted(
            name="get_weather",
            call_id="call_w1",
            arguments=Recorded({"city": "Paris", "unit": "celsius"}),
            result=Recorded("18 degrees, light rain"),
            agent="shop_agent",
        )
    ]


def test_langchain_graph_and_nodes_are_not_agents_but_the_named_graph_is():
    assert found(AgentRun, "openinference-langgraph/single") == [AgentRun(agent="shop_agent")]


def test_langchain_hand_off_labelled_as_an_agent_is_a_call_and_its_parent_command_no_failure():
    names = [f"openinference-langgraph/handoff.0{number}" for number in range(1, 8)]
    assert found(CallExecuted, *names) == [
        CallExecuted(
            name="transfer_to_refund_agent",
            call_id="call_h1",
            result=Recorded("Transferred to refund_agent"),
            agent="triage_agent",
        ),
        CallExecuted(
            name="refund_order",
            call_id="call_h2",
            arguments=Recorded({"order_id": "A-1001", "amount": 42.5, "reason": "customer request"}),
            result=Recorded({"refund_id": "R-A-1001", "status": "accepted", "amount": 42.5}),
            agent="refund_agent",
        ),
    ]
    assert found(AgentRun, *names) == [
        AgentRun(agent="triage_agent"),
        AgentRun(agent="refund_agent"),
        AgentRun(agent=None),
    ]
    assert found(CallRequested, *names)[0] == requested("transfer_to_refund_agent", "call_h1", {}, agent="triage_agent")


def test_langchain_refused_call_is_answered_by_the_tool_node():
    refusal = (
        "Error: cancel_order is not a valid tool, try one of [get_weather, find_customer, list_orders, "
        "refund_order, charge_card, lookup_stock, create_ticket]."
    )
    assert found(CallAnswered, "openinference-langgraph/unknown_tool")[0] == CallAnswered(
        call_id="call_u1",
        name="cancel_order",
        result=Recorded(refusal),
        error=CallError(kind="_OTHER", message=refusal),
    )


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


def test_langchain_old_release_writes_python_literals_and_hides_ids_in_raw_output_and_repr():
    names = [f"openinference-langgraph-legacy/sequence.{number:02}" for number in range(1, 13)]
    assert found(CallRequested, *names) == [
        requested("find_customer", "call_s1", {"email": "zoe@example.com"}),
        requested("list_orders", "call_s2", {"customer_id": 7731, "limit": 1}),
        requested("refund_order", "call_s3", {"order_id": "A-1001", "amount": 42.5, "reason": "arrived damaged"}),
    ]
    assert found(CallExecuted, *names)[:2] == [
        CallExecuted(
            name="find_customer",
            call_id="call_s1",
            arguments=Recorded({"email": "zoe@example.com"}),
            result=Recorded({"customer_id": 7731, "name": "Zoë Müller", "tier": "gold"}),
        ),
        CallExecuted(
            name="list_orders",
            call_id="call_s2",
            arguments=Recorded({"customer_id": 7731, "limit": 1}),
            result=Recorded([{"order_id": "A-1001", "total": 42.5}]),
        ),
    ]
    # The graph node `agent` is labelled as an agent as well.
    assert found(AgentRun, *names) == [AgentRun(agent="shop_agent")]


# -- OpenAI Agents


def test_openai_agents_failed_tool_keeps_the_polite_text_as_result():
    assert found(CallExecuted, "openinference-openai-agents/error") == [
        CallExecuted(
            name="charge_card",
            arguments=Recorded({"customer_id": 7731, "amount": 20.0}),
            result=Recorded("An error occurred while running the tool. Please try again."),
            error=CallError(
                kind="_OTHER",
                message="Tool execution failed. Error details are redacted.",
            ),
        )
    ]


def test_openai_agents_hand_off_has_the_name_that_the_model_called():
    names = [f"openinference-openai-agents/handoff.0{number}" for number in range(1, 5)]
    assert found(CallExecuted, *names)[0] == CallExecuted(
        name="transfer_to_refund_agent", arguments=NOT_RECORDED, agent="triage_agent"
    )
    # The outermost agent span is the whole workflow and names no agent.
    assert found(AgentRun, *names) == [
        AgentRun(agent="triage_agent"),
        AgentRun(agent="refund_agent"),
        AgentRun(agent=None),
    ]


def test_openai_agents_request_without_tool_span_stays():
    assert found(CallRequested, "openinference-openai-agents/unknown_tool") == [
        requested("cancel_order", "call_u1", {"order_id": "A-1001"})
    ]
    assert found(CallExecuted, "openinference-openai-agents/unknown_tool") == []


def test_openai_agents_responses_offer_tools_on_the_model_span():
    offered = found(ToolsOffered, "openinference-openai-agents-responses/single")[0]
    assert isinstance(offered, ToolsOffered)
    assert [tool.name for tool in offered.tools] == [
        "get_weather",
        "find_customer",
        "list_orders",
        "refund_order",
        "charge_card",
        "lookup_stock",
        "create_ticket",
    ]
    assert offered.tools[1].description == "Find a customer by e-mail address."
    assert offered.tools[1].parameters == {
        "properties": {"email": {"description": "The customer's e-mail address.", "title": "Email", "type": "string"}},
        "required": ["email"],
        "title": "find_customer_args",
        "type": "object",
    }


# -- LlamaIndex


def test_llama_index_parallel_calls_keep_the_models_order_and_real_results():
    spans = case("llama-index-4.6.1-parallel")
    assert seen(spans, CallRequested) == [
        requested("get_weather", "c1", {"city": "Paris"}, position=0),
        requested("get_weather", "c2", {"city": "Tokyo"}, position=1),
        requested("find_customer", "c3", {"email": "z@x"}, position=2),
    ]
    assert CallExecuted(
        name="find_customer",
        arguments=Recorded({"email": "z@x"}),
        result=Recorded({"customer_id": 7731, "name": "Zoë"}),
    ) in seen(spans, CallExecuted)
    assert seen(spans, AgentRun) == [AgentRun(agent=None)]


def test_llama_index_invented_tool_has_no_execution_but_an_answer():
    spans = case("llama-index-4.6.1-unknown-tool")
    assert seen(spans, CallRequested)[0] == requested("cancel", "c1", {"a": 1})
    assert [call.name for call in seen(spans, CallExecuted) if isinstance(call, CallExecuted)] == ["find_customer"]
    assert seen(spans, CallAnswered)[0] == CallAnswered(
        call_id="c1", result=Recorded("Tool cancel not found. Please select a tool that is available.")
    )


# -- smolagents


def test_smolagents_envelope_is_opened_and_the_task_prefix_removed():
    assert found(CallExecuted, "openinference-smolagents/retry")[0] == CallExecuted(
        name="lookup_stock",
        arguments=Recorded({"sku": "AB-1", "warehouse": "FRA2"}),
        error=CallError(kind="TimeoutError", message="inventory backend timed out after 2 s"),
    )
    assert found(AgentRun, "openinference-smolagents/retry") == [AgentRun(agent="shop_agent")]
    assert (
        MessageSeen(role="user", text="How many AB-1 are in warehouse FRA2?")
        in readings("openinference-smolagents/retry")[0].observations
    )


def test_smolagents_positional_arguments_get_their_names_from_the_schema():
    assert found(CallExecuted, "openinference-smolagents-code/error")[1] == CallExecuted(
        name="final_answer",
        arguments=Recorded({"answer": "The card was declined."}),
        result=Recorded("The card was declined."),
    )


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


def test_crewai_ids_come_from_the_history_in_the_agents_output():
    assert found(CallRequested, "openinference-crewai/retry") == [
        requested("lookup_stock", "call_r1", {"sku": "AB-1", "warehouse": "FRA2"}, 0, "shop_agent", 2),
        requested("lookup_stock", "call_r2", {"sku": "AB-1", "warehouse": "FRA2"}, 1, "shop_agent", 4),
    ]
    assert found(CallAnswered, "openinference-crewai/retry")[1] == CallAnswered(
        call_id="call_r2",
        name="lookup_stock",
        result=Recorded({"sku": "AB-1", "warehouse": "FRA2", "available": 14}),
    )
    assert found(AgentRun, "openinference-crewai/retry") == [AgentRun(agent="shop_agent")]
    assert MessageSeen(role="user", text="How many AB-1 are in warehouse FRA2?") in found(
        MessageSeen, "openinference-crewai/retry"
    )


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


def test_crewai_invented_tool_is_only_in_the_history():
    spans = case("crewai-1.1.21-unknown-tool")
    assert [call.name for call in seen(spans, CallExecuted) if isinstance(call, CallExecuted)] == [
        "get_weather",
        "get_weather",
    ]
    assert seen(spans, CallRequested)[1] == requested("cancel", "c2", {"a": 1}, 1, "shop_agent", 4)
    assert seen(spans, CallAnswered)[1] == CallAnswered(call_id="c2", name="cancel", result=Recorded("Tool not found"))


def test_crewai_session_is_the_sessions_id():
    assert found(ConversationSeen, "openinference-crewai/session.01")[0] == ConversationSeen(
        conversation_id="sess-zoë-0042", rank=1
    )


def test_autogen_failure_shows_in_the_output_behind_status_ok():
    message = "Error: Expecting value: line 1 column 27 (char 26)"
    assert found(CallExecuted, "openinference-autogen/bad_json")[0] == CallExecuted(
        name="get_weather",
        arguments=Unparsed(CUT_OFF),
        result=Recorded(message),
        error=CallError(kind="_OTHER", message=message),
    )
    assert found(CallAnswered, "openinference-autogen/bad_json")[0] == CallAnswered(
        call_id="call_j1",
        name="get_weather",
        result=Recorded(message),
        error=CallError(kind="_OTHER", message=message),
    )
    # Each run ends in a cancelled stream; that is no failure.
    assert found(AgentRun, "openinference-autogen/bad_json") == [AgentRun(agent="shop_agent")]


def test_haystack_calls_are_read_from_the_messages_of_the_agent():
    assert found(CallRequested, "openinference-haystack/unknown_tool") == [
        requested("cancel_order", "call_u1", {"order_id": "A-1001"}, position=0, output=2),
        requested("refund_order", "call_u2", {"order_id": "A-1001", "amount": 42.5}, position=1, output=4),
    ]
    refusal = (
        "Tool 'cancel_order' not found. Available tools: get_weather, find_customer, list_orders, refund_order, "
        "charge_card, lookup_stock, create_ticket"
    )
    assert found(CallAnswered, "openinference-haystack/unknown_tool") == [
        CallAnswered(
            call_id="call_u1",
            name="cancel_order",
            result=Recorded(refusal),
            error=CallError(kind="_OTHER", message=refusal),
        ),
        CallAnswered(
            call_id="call_u2",
            name="refund_order",
            result=Recorded({"refund_id": "R-A-1001", "status": "accepted", "amount": 42.5}),
        ),
    ]
    assert found(MessageSeen, "openinference-haystack/unknown_tool") == [
        MessageSeen(role="system", text="You are a shop assistant."),
        MessageSeen(role="user", text="Cancel order A-1001."),
        MessageSeen(role="assistant", text="I refunded it instead."),
    ]


def test_openai_client_keeps_broken_arguments_as_text():
    assert found(CallRequested, "openinference-openai/bad_json") == [
        CallRequested(position=0, name="get_weather", call_id="call_j1", arguments=Unparsed(CUT_OFF)),
        requested("get_weather", "call_j2", {"city": "Tokyo", "unit": "celsius"}),
    ]


def test_uipath_functions_are_calls():
    assert found(CallExecuted, "uipath/retry") == [
        CallExecuted(
            name="lookup_stock",
            arguments=Recorded({"sku": "AB-1", "warehouse": "FRA2"}),
            error=CallError(kind="TimeoutError", message="inventory backend timed out after 2 s"),
        ),
        CallExecuted(
            name="lookup_stock",
            arguments=Recorded({"sku": "AB-1", "warehouse": "FRA2"}),
            result=Recorded({"sku": "AB-1", "warehouse": "FRA2", "available": 14}),
        ),
    ]
