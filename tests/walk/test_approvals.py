"""Calls that wait for a person or that a person refused, in the ways in which producers record them."""

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Status

import toolgauge
from tests.walk.shapes import ERROR, OK, answered, asked, call_of, chat, evaluated, run, span, tool, trajectory_of
from toolgauge.model.content import Recorded
from toolgauge.model.json import Json

OI_LANGCHAIN, OI_AGENTS = "openinference.instrumentation.langchain", "openinference.instrumentation.openai_agents"
ASKED = chat(asked("c1", "wire", {"amount": 900}))
INTERRUPT = "(Interrupt(value={'ask': 'ok?'}, id='abc'),)"
HITL = (
    "(Interrupt(value={'action_requests': [{'name': 'wire', 'args': {'amount': 900}, 'description': 'Tool execution requires "
    "approval'}], 'review_configs': [{'action_name': 'wire', 'allowed_decisions': ['approve', 'reject']}]}, id='abc'),)"
)


def middleware(
    name: str, attributes: dict[str, Json], *, scope: str, exception: tuple[str, str] | None, message: str = ""
):
    return span(name, attributes, id="hitl", at=2, scope=scope, status=ERROR, message=message, exception=exception)


def openinference_tool(
    output: str | None,
    *,
    scope: str,
    status: Status.StatusCode.ValueType = OK,
    exception: tuple[str, str] | None = None,
):
    attributes: dict[str, Json] = {
        "openinference.span.kind": "TOOL",
        "tool.name": "wire",
        "input.value": '{"amount": 900}',
    }
    if output is not None:
        attributes["output.value"] = output
    return span("wire", attributes, id="tool", at=2, scope=scope, status=status, exception=exception)


WAITING: dict[str, tuple[ScopeSpans, ...]] = {
    "langgraph in openinference, status ok": (
        ASKED,
        openinference_tool(None, scope=OI_LANGCHAIN, exception=("langgraph.errors.GraphInterrupt", INTERRUPT)),
    ),
    "langgraph in langfuse": (
        ASKED,
        span(
            "wire",
            {
                "langfuse.observation.type": "tool",
                "langfuse.observation.input": '{"amount": 900}',
                "langfuse.observation.level": "DEFAULT",
                "langfuse.observation.status_message": INTERRUPT,
            },
            id="tool",
            at=2,
            scope="langfuse-sdk",
        ),
    ),
    "human in the loop of langchain": (
        ASKED,
        span(
            "HumanInTheLoopMiddleware.after_model",
            {"openinference.span.kind": "CHAIN"},
            id="hitl",
            at=2,
            scope=OI_LANGCHAIN,
            status=ERROR,
            exception=("langgraph.errors.GraphInterrupt", HITL),
        ),
        tool("search", {}, call="x", result="ok", at=0.5),
    ),
    "human in the loop of langchain, in langfuse": (
        ASKED,
        middleware(
            "HumanInTheLoopMiddleware.after_model",
            {
                "langfuse.observation.type": "span",
                "langfuse.observation.level": "DEFAULT",
                "langfuse.observation.status_message": HITL,
            },
            scope="langfuse-sdk",
            exception=None,
        ),
    ),
    "hosted mcp that asks": (
        chat(
            {
                "type": "mcp_approval_request",
                "id": "c1",
                "server_label": "s",
                "name": "wire",
                "arguments": '{"amount": 900}',
            }
        ),
    ),
    "ai sdk by the conventions": (
        chat(
            asked("c1", "wire", {"amount": 900}),
            {"type": "tool-approval-request", "approvalId": "a1", "toolCallId": "c1"},
        ),
    ),
    "agent framework": (
        chat(asked("c1", "wire", {"amount": 900}), scope="agent_framework"),
        span(
            "invoke_agent b",
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.output.messages": [
                    {
                        "role": "assistant",
                        "parts": [
                            {
                                "type": "function_approval_request",
                                "id": "r",
                                "function_call": {"call_id": "c1", "name": "wire"},
                            }
                        ],
                    }
                ],
            },
            id="agent",
            scope="agent_framework",
        ),
    ),
    "pydantic ai": (
        ASKED,
        tool(
            "wire",
            {"amount": 900},
            call="c1",
            scope="pydantic-ai",
            more={"pydantic_ai.tool.deferral.name": "CallDeferred"},
        ),
    ),
    "pydantic ai, output of the run": (
        chat(asked("c1", "wire", {"amount": 900}), scope="pydantic-ai"),
        span(
            "invoke_agent b",
            {
                "gen_ai.operation.name": "invoke_agent",
                "final_result": '{"calls": [], "approvals": [{"tool_name": "wire", "args": {"amount": 900}, "tool_call_id": "c1"}]}',
            },
            id="agent",
            scope="pydantic-ai",
        ),
    ),
    "openai agents": (ASKED, openinference_tool(None, scope=OI_AGENTS)),
    "google adk": (
        ASKED,
        tool(
            "wire",
            {"amount": 900},
            call="c1",
            result={"error": "This tool call requires confirmation, please approve or reject."},
            scope="gcp.vertex.agent",
        ),
    ),
    "genkit": (
        ASKED,
        tool("wire", {"amount": 900}, call="c1", status=ERROR, exception=("ToolInterruptError", "")),
    ),
    "strands": (
        ASKED,
        tool(
            "wire",
            {"amount": 900},
            call="c1",
            scope="strands.telemetry.tracer",
            more={"gen_ai.system": "strands-agents"},
        ),
    ),
    "mastra": (
        ASKED,
        tool("wire", {"amount": 900}, call="c1", scope="@mastra/otel", more={"mastra.span.type": "tool_call"}),
    ),
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


@pytest.mark.parametrize("scope", [OI_AGENTS, "@mastra/otel"])
def test_a_tool_that_returned_nothing_has_run_where_the_run_went_on(scope: str):
    shape = (
        openinference_tool(None, scope=scope)
        if scope == OI_AGENTS
        else tool("wire", {"amount": 900}, call="c1", scope=scope, more={"mastra.span.type": "tool_call"})
    )
    assert call_of(run(), ASKED, shape, chat({"type": "text", "content": "done"}, at=3, id="chat2")).state == "executed"


REFUSED: dict[str, tuple[ScopeSpans, ...]] = {
    "openai agents, span": (
        ASKED,
        span(
            "wire",
            {"openinference.span.kind": "TOOL", "tool.name": "wire", "input.value": '{"amount": 900}'},
            id="tool",
            at=2,
            scope=OI_AGENTS,
            status=ERROR,
            message="Tool execution was not approved.: {'tool_name': 'wire', 'error': 'Tool execution for c1 was manually rejected"
            " by user.'}",
        ),
    ),
    **{
        words: (ASKED, chat({"type": "text", "content": "ok"}, given=[answered("c1", words)], at=3, id="chat2"))
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
    "google adk": (
        ASKED,
        tool(
            "wire",
            {"amount": 900},
            call="c1",
            result={"error": "This tool call is rejected."},
            scope="gcp.vertex.agent",
        ),
    ),
    "ai sdk": (
        span(
            "ai.generateText.doGenerate",
            {
                "ai.operationId": "ai.generateText.doGenerate",
                "ai.response.toolCalls": [{"toolCallId": "c1", "toolName": "wire", "input": {"amount": 900}}],
            },
            id="m1",
            scope="ai",
        ),
        span(
            "ai.generateText.doGenerate",
            {
                "ai.operationId": "ai.generateText.doGenerate",
                "ai.prompt.messages": [
                    {
                        "role": "tool",
                        "content": [
                            {
                                "type": "tool-result",
                                "toolCallId": "c1",
                                "toolName": "wire",
                                "output": {"type": "execution-denied", "reason": "too much"},
                            }
                        ],
                    }
                ],
            },
            id="m2",
            at=3,
            scope="ai",
        ),
    ),
    "ai sdk by the conventions": (
        ASKED,
        chat(
            {"type": "text", "content": "ok"},
            given=[answered("c1", {"denied": True, "reason": "no"})],
            at=3,
            id="chat2",
        ),
    ),
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
    ("told", "state"),
    [
        ("Permission to use wire has been denied.", "rejected"),
        ("Tool execution denied by policy.", "rejected"),
        ("The order was cancelled. The tool call was denied.", "executed"),
        ("Tool execution rejected by the firewall in 3 of 5 cases.", "executed"),
        ("Tool shed requires approval. Building permits are on the second floor.", "executed"),
    ],
)
def test_a_rule_denies_and_other_words_are_results(told: str, state: str):
    failed = answered("c1", told)
    trajectory = trajectory_of(run(), ASKED, chat({"type": "text", "content": "ok"}, given=[failed], at=3, id="chat2"))
    assert [call.state for call in trajectory.calls] == [state]


def conversation(*second: ScopeSpans, first: tuple[ScopeSpans, ...]):
    """Return the calls of a conversation of two traces, and the outcome of F1 against one call."""
    f1 = toolgauge.Criterion(
        name="f1",
        evaluator="tool_call_f1",
        scope="conversation",
        expected=[{"name": "wire", "args": {"amount": 900}}],
    )
    spans = (run(conversation="c"), *first, run(trace="t2", conversation="c"), *second)
    (whole,) = [one for one in evaluated(*spans, criteria=[f1]) if one.trajectory.scope == "conversation"]
    outcomes = [result.outcome for result in whole.results if result.criterion == "f1"]
    return [(call.name, call.state) for call in whole.trajectory.calls], outcomes


RAN = tool("wire", {"amount": 900}, call="c1", result="sent", at=60, trace="t2")


@pytest.mark.parametrize(
    "first",
    [
        WAITING["langgraph in openinference, status ok"],
        WAITING["pydantic ai"],
        WAITING["openai agents"],
        WAITING["google adk"],
        # No span at all shows that it waits.
        (ASKED,),
    ],
)
def test_a_call_that_a_later_trace_carries_out_is_one_call_of_the_conversation(first: tuple[ScopeSpans, ...]):
    assert conversation(RAN, first=first) == ([("wire", "executed")], ["pass"])


@pytest.mark.parametrize("first", [WAITING["pydantic ai"], WAITING["openai agents"], WAITING["google adk"]])
def test_the_model_that_goes_on_after_a_resumed_call_makes_no_second_call_of_it(first: tuple[ScopeSpans, ...]):
    history: list[Json] = [
        {"role": "assistant", "parts": [asked("c1", "wire", {"amount": 900})]},
        answered("c1", "sent"),
    ]
    later = chat({"type": "text", "content": "done"}, given=history, at=62, trace="t2", id="chat2")
    resumed = tool("wire", {"amount": 900}, call="c1", result="sent", at=61, trace="t2")
    assert conversation(resumed, later, first=first) == ([("wire", "executed")], ["pass"])


def test_a_resumed_trace_is_not_half_a_trace():
    resumed = tool("wire", {"amount": 900}, call="c1", result="sent", at=61, trace="t2")
    later = chat({"type": "text", "content": "done"}, given=[answered("c1", "sent")], at=62, trace="t2", id="chat2")
    spans = (run(conversation="c"), *WAITING["pydantic ai"], run(trace="t2", conversation="c"), resumed, later)
    first, second = evaluated(*spans)
    assert (first.trajectory.incomplete, second.trajectory.incomplete) == (None, None)
    alone = evaluated(run(trace="t2", conversation="c"), resumed, later)
    assert alone[0].trajectory.incomplete is not None


def test_a_call_that_is_refused_in_a_later_trace_is_one_call_of_the_conversation():
    denied = chat(
        {"type": "text", "content": "ok"}, given=[answered("c1", "The tool call was denied.")], at=60, trace="t2"
    )
    assert conversation(denied, first=WAITING["pydantic ai"])[0] == [("wire", "refused")]


def test_a_call_that_was_resumed_in_its_own_trace_is_one_call():
    interrupted = WAITING["langgraph in openinference, status ok"][1]
    resumed = tool("wire", {"amount": 900}, call="c1", result="sent", at=60)
    (call,) = trajectory_of(run(), ASKED, interrupted, resumed).calls
    assert (call.state, call.result) == ("executed", Recorded("sent"))


def test_equal_calls_of_two_traces_stay_two_calls_where_the_model_asked_twice():
    again = chat(asked("c2", "wire", {"amount": 900}), at=50, trace="t2")
    second = tool("wire", {"amount": 900}, call="c2", result="sent", at=60, trace="t2")
    calls, _ = conversation(again, second, first=WAITING["pydantic ai"])
    assert calls == [("wire", "paused"), ("wire", "executed")]


def test_an_interrupt_of_something_else_says_nothing_about_calls():
    other = span(
        "review",
        {"openinference.span.kind": "CHAIN"},
        id="node",
        at=2,
        scope=OI_LANGCHAIN,
        exception=("langgraph.errors.GraphInterrupt", INTERRUPT),
    )
    assert call_of(run(), ASKED, other).state == "requested_only"
