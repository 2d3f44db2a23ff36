"""What a run was made with, in the words of each convention."""

import pytest

from tests.recognize.support import recorded, span
from toolgauge.dialects.genai import GenAI
from toolgauge.dialects.openinference import OpenInference
from toolgauge.dialects.vercel import Vercel
from toolgauge.model.json import Value
from toolgauge.model.observations import AgentRun, CallExecuted, ModelCall, PropertiesSeen
from toolgauge.recognize.run_properties import properties

MODEL = (ModelCall(),)


def read(attributes: dict[str, Value]) -> dict[str, str]:
    seen = properties(span(attributes).attributes, MODEL)
    return {} if seen is None else dict(seen.values)


@pytest.mark.parametrize(
    ("attributes", "found"),
    [
        (
            {"gen_ai.request.model": "a", "gen_ai.response.model": "a-05", "gen_ai.request.temperature": 0.2},
            {"gen_ai.request.model": "a", "gen_ai.response.model": "a-05", "gen_ai.request.temperature": "0.2"},
        ),
        ({"gen_ai.system": "openai"}, {"gen_ai.provider.name": "openai"}),
        ({"gen_ai.system": "old", "gen_ai.provider.name": "new"}, {"gen_ai.provider.name": "new"}),
        (
            {"llm.model_name": "a", "llm.invocation_parameters": '{"temperature": 1, "tools": [], "top_p": ""}'},
            {"gen_ai.response.model": "a", "gen_ai.request.temperature": "1"},
        ),
        (
            {"gen_ai.prompt.name": "p", "langfuse.observation.prompt.version": 3},
            {"gen_ai.prompt.name": "p", "gen_ai.prompt.version": "3"},
        ),
        ({"gen_ai.request.model": "m" * 500}, {"gen_ai.request.model": "m" * 64}),
        ({"gen_ai.request.model": "", "llm.invocation_parameters": "broken {"}, {}),
        ({"gen_ai.request.model": ["a"]}, {}),
    ],
)
def test_each_convention_names_the_same_properties(attributes: dict[str, Value], found: dict[str, str]) -> None:
    assert read(attributes) == found


def test_of_instructions_only_a_hash_is_kept() -> None:
    first, second = (read({"gen_ai.system_instructions": text}) for text in ("You are A.", "You are B."))
    assert first != second
    assert len(first["gen_ai.system_instructions"]) == 8
    assert read({"gen_ai.system_instructions": [{"content": "You are A."}]}).keys() == first.keys()


def test_only_agent_runs_and_model_calls_have_properties() -> None:
    attributes = span({"gen_ai.request.model": "a"}).attributes
    assert properties(attributes, (CallExecuted(name="find_order"),)) is None
    assert properties(attributes, (AgentRun(agent=None),)) == properties(attributes, MODEL) is not None


def test_equal_properties_are_one_object() -> None:
    one, other = (properties(span({"gen_ai.request.model": "a"}).attributes, MODEL) for _ in range(2))
    assert one is other is not None


@pytest.mark.parametrize(
    ("dialect", "file", "model"),
    [
        (GenAI(), "openai-v2/content_off.otlp.pb", "stub-model"),
        (OpenInference(), "openinference-openai/bad_json.otlp.pb", "gpt-4o-mini"),
        (Vercel(), "openinference-vercel/one_call.otlp.pb", "stub-model"),
    ],
)
def test_recorded_model_calls_have_a_model(dialect: GenAI | OpenInference | Vercel, file: str, model: str) -> None:
    seen = [
        each for reading in recorded(dialect, file) for each in reading.observations if isinstance(each, PropertiesSeen)
    ]
    assert {dict(each.values).get("gen_ai.response.model", model) for each in seen} == {model}
    assert seen


def test_texts_of_any_length_are_hashed_and_not_remembered() -> None:
    long = "You are A. " * 10_000
    assert read({"gen_ai.system_instructions": long}) != read({"gen_ai.system_instructions": long + "B"})
    assert read({"llm.invocation_parameters": f'{{"top_p": 1, "tools": ["{long}"]}}'}) == {}
