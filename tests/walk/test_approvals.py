"""Calls that wait for a person or that a person refused, in the ways in which producers record them."""

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Status

import toolgauge
from tests.walk.shapes import (
    ERROR,
    OK,
    Attributes,
    answered,
    asked,
    call_of,
    chat,
    evaluated,
    run,
    span,
    tool,
    trajectory_of,
)
from toolgauge.model.content import Recorded
from toolgauge.model.json import Json

OI_LANGCHAIN, OI_AGENTS = "openinference.instrumentation.langchain", "openinference.instrumentation.openai_agents"
AMOUNT: Json = {"amount": 900}
WIRE = asked("c1", "wire", AMOUNT)
ASKED = chat(WIRE)
INTERRUPT = "(Interrupt(value={'ask': 'ok?'}, id='abc'),)"
HITL = (
    "(Interrupt(value={'action_requests': [{'name': 'wire', 'args': {'amount': 900}, 'description': 'Tool execution requires "
    "approval'}], 'review_configs': [{'action_name': 'wire', 'allowed_decisions': ['approve', 'reject']}]}, id='abc'),)"
)


def wire(
    *,
    scope: str = "my.agent",
    result: Json = None,
    exception: tuple[str, str] | None = None,
    more: Attributes | None = None,
    at: float = 2,
    trace: str = "t1",
) -> ScopeSpans:
    """The span of the tool by the conventions; one with an exception has failed."""
    status = Status.STATUS_CODE_UNSET if exception is None else ERROR
    return tool(
        *("wire", AMOUNT),
        call="c1",
        result=result,
        scope=scope,
        status=status,
        exception=exception,
        more=more,
        at=at,
        trace=trace,
    )


def openinference_wire(scope: str, *, message: str = "", exception: tuple[str, str] | None = None) -> ScopeSpans:
    """The span of the tool in OpenInference, without an output; one with a message has failed."""
    attributes: Attributes = {"openinference.span.kind": "TOOL", "tool.name": "wire", "input.value": AMOUNT}
    status = ERROR if message else OK
    return span("wire", attributes, id="tool", at=2, scope=scope, status=status, message=message, exception=exception)


def part_of(scope: str, name: str, **attributes: Json) -> ScopeSpans:
    """A span of another kind, with attributes whose dots are written as `__`."""
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    exception = ("langgraph.errors.GraphInterrupt", HITL) if scope == OI_LANGCHAIN else None
    return span(name, named, id="part", at=2, scope=scope, status=ERROR if exception else OK, exception=exception)


def told(result: Json, *, at: float = 3, trace: str = "t1") -> ScopeSpans:
    """A later model call that was given an answer to the call."""
    return chat({"type": "text", "content": "ok"}, given=[answered("c1", result)], at=at, id="chat2", trace=trace)


def langfuse(kind: str, status_message: str) -> dict[str, Json]:
    values: dict[str, Json] = {"type": kind, "level": "DEFAULT", "status_message": status_message, "input": AMOUNT}
    return {f"langfuse__observation__{key}": value for key, value in values.items()}


MIDDLEWARE = "HumanInTheLoopMiddleware.after_model"
HOSTED: Json = {"type": "mcp_approval_request", "id": "c1", "server_label": "s", "name": "wire", "arguments": AMOUNT}
APPROVAL: Json = {"type": "function_approval_request", "id": "r", "function_call": {"call_id": "c1", "name": "wire"}}
DEFERRED: Json = {"calls": [], "approvals": [{"tool_name": "wire", "args": AMOUNT, "tool_call_id": "c1"}]}
CONFIRM: Json = {"error": "This tool call requires confirmation, please approve or reject."}
WAITING: dict[str, tuple[ScopeSpans, ...]] = {
    "langgraph in openinference": (
        ASKED,
        openinference_wire(OI_LANGCHAIN, exception=("langgraph.errors.GraphInterrupt", INTERRUPT)),
    ),
    "langgraph in langfuse": (ASKED, part_of("langfuse-sdk", "wire", **langfuse("tool", INTERRUPT))),
    "human in the loop of langchain": (
        ASKED,
        part_of(OI_LANGCHAIN, MIDDLEWARE, openinference__span__kind="CHAIN"),
        tool("search", {}, call="x", result="ok", at=0.5),
    ),
    "human in the loop of langchain, in langfuse": (
        ASKED,
        part_of("langfuse-sdk", MIDDLEWARE, **langfuse("span", HITL)),
    ),
    "hosted mcp that asks": (chat(HOSTED),),
    "ai sdk by the conventions": (
        chat(WIRE, {"type": "tool-approval-request", "approvalId": "a1", "toolCallId": "c1"}),
    ),
    "agent framework": (
        chat(WIRE, scope="agent_framework"),
        part_of(
            *("agent_framework", "invoke_agent b"),
            gen_ai__operation__name="invoke_agent",
            gen_ai__output__messages=[{"role": "assistant", "parts": [APPROVAL]}],
        ),
    ),
    "pydantic ai": (ASKED, wire(scope="pydantic-ai", more={"pydantic_ai.tool.deferral.name": "CallDeferred"})),
    "pydantic ai, output of the run": (
        chat(WIRE, scope="pydantic-ai"),
        part_of("pydantic-ai", "invoke_agent b", gen_ai__operation__name="invoke_agent", final_result=DEFERRED),
    ),
    "openai agents": (ASKED, openinference_wire(OI_AGENTS)),
    "google adk": (ASKED, wire(scope="gcp.vertex.agent", result=CONFIRM)),
    "genkit": (ASKED, wire(exception=("ToolInterruptError", ""))),
    "strands": (ASKED, wire(scope="strands.telemetry.tracer", more={"gen_ai.system": "strands-agents"})),
    "mastra": (ASKED, wire(scope="@mastra/otel", more={"mastra.span.type": "tool_call"})),
}


@pytest.mark.parametrize("producer", WAITING)
def test_a_call_that_waits_for_a_person_is_paused_and_has_not_failed(producer: str):
    (one,) = evaluated(run(), *WAITING[producer])
    (call,) = [call for call in one.trajectory.calls if call.name == "wire"]
    assert (call.state, call.error, call.arguments) == ("paused", None, Recorded({"amount": 900}))
    outcomes = {(result.criterion, result.reason) for result in one.results if result.call == call}
    assert ("default.tool_success", "not_executed") in outcomes
    assert ("default.error_handling", "not_executed") in outcomes
    assert not [result for result in one.results if result.outcome == "fail"]


@pytest.mark.parametrize("producer", ["openai agents", "mastra"])
def test_a_tool_that_returned_nothing_has_run_where_the_run_went_on(producer: str):
    went_on = chat({"type": "text", "content": "done"}, at=3, id="chat2")
    assert call_of(run(), *WAITING[producer], went_on).state == "executed"


AI_SDK = {"ai.operationId": "ai.generateText.doGenerate"}
ASKED_OF_AI_SDK: Json = [{"toolCallId": "c1", "toolName": "wire", "input": AMOUNT}]
DENIED: Json = {"type": "tool-result", "toolCallId": "c1", "toolName": "wire",
                "output": {"type": "execution-denied", "reason": "too much"}}  # fmt: skip
REFUSED: dict[str, tuple[ScopeSpans, ...]] = {
    "openai agents, span": (
        ASKED,
        openinference_wire(OI_AGENTS, message="{'error': 'Tool execution for c1 was manually rejected by user.'}"),
    ),
    **{
        words: (ASKED, told(words))
        for words in (
            "The tool call was denied.",
            "User rejected the tool call for `wire` with id c1. The tool was not executed.",
            "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit).",
            "Tool execution for 'wire' was rejected by the user. With user feedback: too much",
            "Error: Tool call invocation was rejected by user.",
            "Tool call was not approved by the user",
            "exec command rejected by user",
            "[Operation Cancelled] Reason: User denied execution.",
        )
    },
    "google adk": (ASKED, wire(scope="gcp.vertex.agent", result={"error": "This tool call is rejected."})),
    "ai sdk": (
        span("ai", {**AI_SDK, "ai.response.toolCalls": ASKED_OF_AI_SDK}, id="m1", scope="ai"),
        span(
            "ai", {**AI_SDK, "ai.prompt.messages": [{"role": "tool", "content": [DENIED]}]}, id="m2", at=3, scope="ai"
        ),
    ),
    "ai sdk by the conventions": (ASKED, told({"denied": True, "reason": "no"})),
}


@pytest.mark.parametrize("producer", REFUSED)
def test_a_call_that_a_person_turned_down_is_refused_and_has_not_failed(producer: str):
    (one,) = evaluated(run(), *REFUSED[producer])
    (call,) = one.trajectory.calls
    assert (call.state, call.error) == ("refused", None)
    reasons = {result.criterion: result.reason for result in one.results if result.call is not None}
    assert reasons["default.tool_success"] == reasons["default.error_handling"] == "not_executed"
    assert not [result for result in one.results if result.outcome == "fail"]


@pytest.mark.parametrize(
    ("words", "state"),
    [
        ("Permission to use wire has been denied.", "rejected"),
        ("Tool execution denied by policy.", "rejected"),
        ("The order was cancelled. The tool call was denied.", "executed"),
        ("Tool execution rejected by the firewall in 3 of 5 cases.", "executed"),
        ("Tool shed requires approval. Building permits are on the second floor.", "executed"),
    ],
)
def test_a_rule_denies_and_other_words_are_results(words: str, state: str):
    assert call_of(run(), ASKED, told(words)).state == state


def conversation(*second: ScopeSpans, first: tuple[ScopeSpans, ...]):
    """Return the calls of a conversation of two traces, and the outcome of F1 against one call."""
    wanted = [{"name": "wire", "args": AMOUNT}]
    f1 = toolgauge.Criterion(name="f1", evaluator="tool_call_f1", scope="conversation", expected=wanted)
    spans = (run(conversation="c"), *first, run(trace="t2", conversation="c"), *second)
    (whole,) = [one for one in evaluated(*spans, criteria=[f1]) if one.trajectory.scope == "conversation"]
    outcomes = [result.outcome for result in whole.results if result.criterion == "f1"]
    return [(call.name, call.state) for call in whole.trajectory.calls], outcomes


RAN = wire(result="sent", at=60, trace="t2")


@pytest.mark.parametrize(
    "first",
    [
        WAITING["langgraph in openinference"],
        WAITING["pydantic ai"],
        WAITING["openai agents"],
        WAITING["google adk"],
        # No span at all shows that it waits.
        (ASKED,),
    ],
)
def test_a_call_that_a_later_trace_carries_out_is_one_call_of_the_conversation(first: tuple[ScopeSpans, ...]):
    assert conversation(RAN, first=first) == ([("wire", "executed")], ["pass"])


def test_a_resumed_trace_is_not_half_a_trace():
    resumed = wire(result="sent", at=61, trace="t2")
    later = told("sent", at=62, trace="t2")
    spans = (run(conversation="c"), *WAITING["pydantic ai"], run(trace="t2", conversation="c"), resumed, later)
    first, second = evaluated(*spans)
    assert (first.trajectory.incomplete, second.trajectory.incomplete) == (None, None)
    alone = evaluated(run(trace="t2", conversation="c"), resumed, later)
    assert alone[0].trajectory.incomplete is not None


def test_a_call_that_is_refused_in_a_later_trace_is_one_call_of_the_conversation():
    denied = told("The tool call was denied.", at=60, trace="t2")
    assert conversation(denied, first=WAITING["pydantic ai"])[0] == [("wire", "refused")]


def test_a_call_that_was_resumed_in_its_own_trace_is_one_call():
    interrupted = WAITING["langgraph in openinference"][1]
    resumed = wire(result="sent", at=60)
    (call,) = trajectory_of(run(), ASKED, interrupted, resumed).calls
    assert (call.state, call.result) == ("executed", Recorded("sent"))


def test_equal_calls_of_two_traces_stay_two_calls_where_the_model_asked_twice():
    again = chat(asked("c2", "wire", {"amount": 900}), at=50, trace="t2")
    second = tool("wire", {"amount": 900}, call="c2", result="sent", at=60, trace="t2")
    calls, _ = conversation(again, second, first=WAITING["pydantic ai"])
    assert calls == [("wire", "paused"), ("wire", "executed")]


def test_an_interrupt_of_something_else_says_nothing_about_calls():
    interrupted = ("langgraph.errors.GraphInterrupt", INTERRUPT)
    other = span("review", {"openinference.span.kind": "CHAIN"}, id="node", scope=OI_LANGCHAIN, exception=interrupted)
    assert call_of(run(), ASKED, other).state == "requested_only"
