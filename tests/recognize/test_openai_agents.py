"""opentelemetry-instrumentation-openai-agents-v2 0.1.0, with the Responses and the chat completions interface."""

from tests.recognize.support import CORPUS, observations, recorded, records, seen, span
from tests.rows import each_row
from toolgauge.dialects.genai import OpenAIAgents
from toolgauge.model.content import NOT_RECORDED, Recorded
from toolgauge.model.json import Json, Value
from toolgauge.model.observations import (
    AgentRun,
    CallError,
    CallExecuted,
    CallRequested,
    MessageSeen,
    ModelCall,
)
from toolgauge.model.records import Span
from toolgauge.testing.dialects import check_dialect

LIMA: Json = {"city": "Lima", "unit": "celsius"}
WEATHER: Json = {"city": "Lima", "temp": 18.25, "unit": "celsius"}


def own(operation: str, **attributes: Value) -> Span:
    return span(
        {"gen_ai.operation.name": operation, "gen_ai.system": "openai", **attributes},
        name=operation,
        scope="opentelemetry.instrumentation.openai_agents",
    )


def written(text: str) -> list[object]:
    output: list[Value] = [{"role": "assistant", "parts": [{"type": "text", "content": text}]}]
    return list(observations(OpenAIAgents(), own("chat", **{"gen_ai.output.messages": output})))


def test_calls_are_read_from_reprs_and_a_handoff_from_its_span():
    readings = recorded(OpenAIAgents(), "openai-agents/handoff.otlp.pb")

    assert seen(readings, CallRequested) == [
        CallRequested(position=0, name="transfer_to_weather_agent", call_id="call_3188ea6c", arguments=Recorded({})),
        CallRequested(position=0, name="get_weather", call_id="call_cfc0641d", arguments=Recorded(LIMA)),
    ]
    assert seen(readings, CallExecuted) == [
        CallExecuted(name="transfer_to_weather_agent", agent="triage"),
        CallExecuted(name="get_weather", arguments=Recorded(LIMA), result=Recorded(WEATHER)),
    ]
    assert set(seen(readings, AgentRun)) == {
        AgentRun(agent=None),
        AgentRun(agent="triage"),
        AgentRun(agent="weather_agent"),
    }
    assert set(seen(readings, ModelCall)) == {ModelCall(input_tokens=42, output_tokens=7)}
    assert {(one.role, one.text) for one in seen(readings, MessageSeen) if isinstance(one, MessageSeen)} == {
        ("user", "Weather in Lima?"),
        ("assistant", "18.25 C"),
    }


def test_calls_of_the_chat_completions_interface_are_read_from_the_repr_of_the_message():
    readings = recorded(OpenAIAgents(), "openai-agents/chatapi_sequence3.otlp.pb")
    assert seen(readings, CallRequested) == [
        CallRequested(position=0, name="get_user", call_id="call_9e3779b1", arguments=Recorded({"user_id": 7})),
        CallRequested(
            position=0,
            name="send_email",
            call_id="call_daa66d13",
            arguments=Recorded(
                {"to": "zoe@example.com", "subject": "Vejret i København", "body": "11.5 °C, Zoë Ågren"}
            ),
        ),
    ]


def test_parallel_calls_keep_the_models_order():
    names = sorted(f"openai-agents/{path.name}" for path in (CORPUS / "openai-agents").glob("parallel.*.otlp.pb"))
    found = [one for one in seen(recorded(OpenAIAgents(), *names), CallRequested) if isinstance(one, CallRequested)]
    assert [(one.position, one.call_id) for one in found] == [
        (0, "call_a708a7ae"),
        (1, "call_4540215f"),
        (2, "call_e3779b10"),
    ]


def test_a_failed_tool_says_so_in_its_status():
    (failed, _) = seen(recorded(OpenAIAgents(), "openai-agents/bad_args.otlp.pb"), CallExecuted)
    assert isinstance(failed, CallExecuted)
    assert failed.arguments == Recorded({"town": "Lima"})
    assert isinstance(failed.error, CallError)


def test_without_content_names_are_left():
    names = {repr(one) for one in seen(recorded(OpenAIAgents(), "openai-agents/content_off.otlp.pb"), CallExecuted)}
    assert repr(CallExecuted(name="get_user", arguments=NOT_RECORDED)) in names


@each_row(
    "text",
    [
        "ResponseFunctionToolCall(",
        "ResponseFunctionToolCall(name=__import__('os').system('x'))",
        "ResponseFunctionToolCall()",
        "{'a': 1}",
        "{'role': 'assistant', 'tool_calls': None}",
        "ResponseFunctionToolCall(" * 5000,
        "just text",
    ],
    ids=["cut", "code", "empty", "object", "no calls", "deep", "text"],
)
def test_text_that_is_no_repr_of_a_call_is_no_call(text: str):
    assert not [one for one in written(text) if isinstance(one, CallRequested)]


def test_text_beside_calls_is_kept():
    found = written("{'role': 'assistant', 'content': 'Wait.', 'tool_calls': [{'id': '1', 'function': {'name': 'f'}}]}")
    assert CallRequested(position=0, name="f", call_id="1") in found
    assert MessageSeen(role="assistant", text="Wait.") in found


def test_traceloops_tracer_of_the_same_name_is_left_to_traceloop():
    scope = "opentelemetry.instrumentation.openai_agents"
    theirs = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai"}
    assert not OpenAIAgents().claims(span(theirs, scope=scope))
    assert not OpenAIAgents().claims(span({**theirs, "gen_ai.system": "x", "traceloop.span.kind": "tool"}, scope=scope))
    assert not OpenAIAgents().claims(span({**theirs, "gen_ai.system": "openai"}, scope="other"))


def test_it_keeps_the_contract():
    captures = sorted(f"openai-agents/{path.name}" for path in (CORPUS / "openai-agents").glob("*.otlp.pb"))
    check_dialect(OpenAIAgents(), records(OpenAIAgents(), *captures))
