"""How many tokens a model call took, as conventions write it and as nobody should."""

from tests.recognize.support import observations, span
from tests.rows import each_row
from toolgauge.dialects.coding_agents import ClaudeCode
from toolgauge.dialects.genai import GenAI
from toolgauge.dialects.javascript_frameworks import Vercel
from toolgauge.dialects.mlflow import MLflow
from toolgauge.dialects.openinference import OpenInference
from toolgauge.dialects.tracing_services import Langfuse
from toolgauge.model.json import Value
from toolgauge.model.observations import ModelCall
from toolgauge.model.ports import Dialect
from toolgauge.recognize.conventions import token_count, token_counts

CHAT: dict[str, Value] = {"gen_ai.operation.name": "chat"}


def read(
    dialect: Dialect, attributes: dict[str, Value], *, name: str = "span", scope: str = "x"
) -> tuple[Value, Value]:
    found = [
        one for one in observations(dialect, span(attributes, name=name, scope=scope)) if isinstance(one, ModelCall)
    ]
    (call,) = found
    return call.input_tokens, call.output_tokens


def test_the_conventions_and_their_older_names():
    assert read(GenAI(), CHAT | {"gen_ai.usage.input_tokens": 42, "gen_ai.usage.output_tokens": 7}) == (42, 7)
    assert read(GenAI(), CHAT | {"gen_ai.usage.prompt_tokens": 42, "gen_ai.usage.completion_tokens": 7}) == (42, 7)
    assert read(GenAI(), CHAT | {"gen_ai.usage.output_tokens": 7}) == (None, 7)


def test_other_conventions():
    model: dict[str, Value] = {"openinference.span.kind": "LLM"}
    assert read(OpenInference(), model | {"llm.token_count.prompt": 4, "llm.token_count.completion": 2}) == (4, 2)
    assert read(OpenInference(), model | {"gen_ai.usage.input_tokens": 4}) == (4, None)
    generation: dict[str, Value] = {"langfuse.observation.type": "generation"}
    usage = '{"input": 40, "input_cached_tokens": 2, "output": 5, "total": 47}'
    assert read(Langfuse(), generation | {"langfuse.observation.usage_details": usage}) == (42, 5)
    chat: dict[str, Value] = {"mlflow.spanType": '"CHAT_MODEL"'}
    assert read(MLflow(), chat | {"mlflow.chat.tokenUsage": '{"input_tokens": 4, "output_tokens": 2}'}) == (4, 2)
    generate: dict[str, Value] = {"ai.operationId": "ai.generateText.doGenerate"}
    assert read(Vercel(), generate | {"ai.usage.promptTokens": 4, "ai.usage.completionTokens": 2.0}) == (4, 2)


def test_what_was_in_a_cache_counts_with_the_input():
    attributes: dict[str, Value] = {
        "span.type": "llm_request",
        "input_tokens": 3,
        "cache_read_tokens": 1000,
        "cache_creation_tokens": 20,
        "output_tokens": 7,
    }
    assert read(ClaudeCode(), attributes, name="claude_code.llm_request") == (1023, 7)


@each_row(
    "value",
    ["42", "", True, -1, -0.5, 1.5, 1e300, float("nan"), float("inf"), 10**13, None, [42], {"input": 42}, b"42"],
    ids=repr,
)
def test_what_is_no_count_is_not_recorded(value: Value):
    assert token_count(value) is None
    assert read(GenAI(), CHAT | {"gen_ai.usage.input_tokens": value, "gen_ai.usage.output_tokens": 7}) == (None, 7)


@each_row(
    "value",
    [None, "", "many", "[1, 2]", '{"input": "42", "output": -1}', '{"total": 4}', "[" * 5000, "{" * 5000, 7],
    ids=lambda value: str(value)[:20],
)
def test_texts_without_counts_hold_none(value: Value):
    assert token_counts(value) == (None, None)


def test_spans_of_agents_have_no_tokens_of_their_own():
    run = span({"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 42})
    assert [one for one in observations(GenAI(), run) if isinstance(one, ModelCall)] == []
