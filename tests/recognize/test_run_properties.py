"""What a run was made with, in the words of each convention."""

from tests.recognize.support import span
from tests.rows import each_row
from toolgauge.model.json import Value
from toolgauge.model.observations import AgentRun, CallExecuted, ModelCall
from toolgauge.recognize.recognizer import properties

MODEL = (ModelCall(),)


def read(attributes: dict[str, Value]) -> dict[str, str]:
    seen = properties(span(attributes).attributes, MODEL)
    return {} if seen is None else dict(seen.values)


@each_row(
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


@each_row(
    ("attributes", "cost"),
    [
        ({"gen_ai.usage.cost": 0.25}, 0.25),
        ({"gen_ai.usage.cost.total": 1, "gen_ai.usage.cost.input": 0.75, "gen_ai.usage.cost.output": 0.25}, 1.0),
        ({"gen_ai.usage.cost.input": 0.5, "gen_ai.usage.cost.output": 0.25}, 0.75),
        ({"llm.cost.prompt": 0.5, "llm.cost.completion": 0.125}, 0.625),
        ({"llm.cost.total": 0.5, "llm.cost.prompt": 0.5}, 0.5),
        ({"operation.cost": 0.5}, 0.5),
        ({"cost_usd": 0.5}, 0.5),
        # Written for models without a known price.
        ({"gen_ai.usage.cost": 0.0}, None),
        ({"gen_ai.usage.cost": "0.25"}, None),
        ({"gen_ai.usage.cost": float("nan")}, None),
        ({"gen_ai.usage.cost": float("inf")}, None),
        ({"gen_ai.usage.cost": -1.0}, None),
        ({"gen_ai.usage.cost": 1e300}, None),
        ({"gen_ai.usage.cost": 10**400}, None),
        ({"gen_ai.usage.cost": True}, None),
        ({"gen_ai.usage.cost": [0.25]}, None),
    ],
)
def test_the_recorded_cost_of_a_call_is_read_in_each_convention(
    attributes: dict[str, Value], cost: float | None
) -> None:
    seen = properties(span({"gen_ai.request.model": "a", **attributes}).attributes, MODEL)
    assert seen is not None
    assert seen.cost == cost
    assert dict(seen.values) == {"gen_ai.request.model": "a"}
