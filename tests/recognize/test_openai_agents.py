"""opentelemetry-instrumentation-openai-agents-v2 0.1.0, with the Responses and the chat completions interface."""

from tests.recognize.support import observations, span
from tests.rows import each_row
from toolgauge.dialects.genai import OpenAIAgents
from toolgauge.model.json import Value
from toolgauge.model.observations import CallRequested, MessageSeen
from toolgauge.model.records import Span


def own(operation: str, **attributes: Value) -> Span:
    return span(
        {"gen_ai.operation.name": operation, "gen_ai.system": "openai", **attributes},
        name=operation,
        scope="opentelemetry.instrumentation.openai_agents",
    )


def written(text: str) -> list[object]:
    output: list[Value] = [{"role": "assistant", "parts": [{"type": "text", "content": text}]}]
    return list(observations(OpenAIAgents(), own("chat", **{"gen_ai.output.messages": output})))


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
