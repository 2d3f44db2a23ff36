"""Reads what a run was made with, in any convention: its model, provider, request settings, prompt, the agent's version, its cost.

Regressions are explained by these properties. They repeat with each model call: one object is made for all equal ones.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import cast, get_args

from toolgauge.model.json import Value
from toolgauge.model.metrics import MAX_PROPERTY, fit_label, short_hash
from toolgauge.model.observations import (
    REQUEST_MODEL,
    RESPONSE_MODEL,
    AgentRun,
    ModelCall,
    Observation,
    PropertiesSeen,
    RunProperty,
)
from toolgauge.recognize.conventions import TOKEN_KEYS, Keys, model_call
from toolgauge.recognize.values import as_object, decoded

PROVIDER, INSTRUCTIONS = "gen_ai.provider.name", "gen_ai.system_instructions"
_REQUEST, _PROMPT_NAME, _PROMPT_VERSION = "gen_ai.request.", "gen_ai.prompt.name", "gen_ai.prompt.version"
_NAMES: tuple[RunProperty, ...] = get_args(RunProperty)
_SETTINGS = [name.removeprefix(_REQUEST) for name in _NAMES if name.startswith(_REQUEST) and name != REQUEST_MODEL]
# By attribute; where several name one property, the first in this order counts.
_PROPERTIES: Mapping[str, str] = {
    **{name: name for name in _NAMES},
    "gen_ai.system": PROVIDER,
    # OpenInference.
    "llm.request.model_name": REQUEST_MODEL,
    "llm.response.model_name": RESPONSE_MODEL,
    "llm.model_name": RESPONSE_MODEL,
    "llm.provider": PROVIDER,
    "llm.system": PROVIDER,
    "llm.prompt_template.version": _PROMPT_VERSION,
    # Vercel, Langfuse, LangSmith, LiteLLM, Traceloop, VoltAgent, and the coding agents.
    "ai.model.id": REQUEST_MODEL,
    "ai.response.model": RESPONSE_MODEL,
    "ai.model.provider": PROVIDER,
    "langfuse.observation.model.name": REQUEST_MODEL,
    "langfuse.observation.prompt.name": _PROMPT_NAME,
    "langfuse.observation.prompt.version": _PROMPT_VERSION,
    "langsmith.metadata.ls_model_name": REQUEST_MODEL,
    "langsmith.metadata.ls_provider": PROVIDER,
    "traceloop.prompt.key": _PROMPT_NAME,
    "traceloop.prompt.version": _PROMPT_VERSION,
    "llm.model": REQUEST_MODEL,
    "model": REQUEST_MODEL,
}
# JSON texts with the settings of a request, among other things.
_PARAMETERS = ("llm.invocation_parameters", "langfuse.observation.model.parameters")
# OpenLIT, OpenInference, Logfire, LiteLLM, Claude Code; else the sum of the parts counts.
_COSTS = ("gen_ai.usage.cost", "gen_ai.usage.cost.total", "llm.cost.total", "operation.cost", "gen_ai.cost.total_cost", "cost_usd")  # fmt: skip
_COST_PARTS = ("gen_ai.usage.cost.input", "gen_ai.usage.cost.output", "llm.cost.prompt", "llm.cost.completion")
_ANY_COST = frozenset((*_COSTS, *_COST_PARTS))
_HIGHEST_COST = 1e6
# The sums of all model calls on the span of an agent run.
_SUMS: Keys = (
    ("llm.token_count.prompt", "ai.usage.inputTokens", "ai.usage.promptTokens", *TOKEN_KEYS[0]),
    ("llm.token_count.completion", "ai.usage.outputTokens", "ai.usage.completionTokens", *TOKEN_KEYS[1]),
)
_LOOKED_FOR = frozenset((*_PROPERTIES, *_PARAMETERS, *_ANY_COST))
_MOST_KNOWN, _LONGEST_TEXT = 128, 65_536


def properties(attributes: Mapping[str, Value], observations: Sequence[Observation]) -> PropertiesSeen | None:
    """Return the properties of a run that the record of an agent run or a model call has; `None` without any."""
    # Asked of every span: a loop costs half of what a generator does.
    for seen in observations:
        if type(seen) is ModelCall or type(seen) is AgentRun:
            break
    else:
        return None
    keys: Iterable[str] = getattr(attributes, "unordered", attributes)
    present = _LOOKED_FOR.intersection(keys)
    sums = model_call(attributes, keys=_SUMS) if type(seen) is AgentRun else None
    # Costs differ from call to call, and what is remembered must not.
    costs = () if present.isdisjoint(_ANY_COST) else present & _ANY_COST
    if costs:
        present -= _ANY_COST
    written: list[Value] = []
    for key in present:
        value = attributes.get(key)
        # The messages of instructions may be a list, and any text may be too long to be remembered.
        if isinstance(value, (list, dict)) or (type(value) is str and len(value) > _LONGEST_TEXT):
            value = short_hash(str(value)) if key == INSTRUCTIONS else None
        written += (key, value)
    named = _named(*cast("list[Hashable]", written)) if written else None
    if not costs and (sums is None or (sums.input_tokens is None and sums.output_tokens is None)):
        return named
    return PropertiesSeen(
        values=() if named is None else named.values,
        cost=_cost({key: attributes.get(key) for key in costs}),
        input_tokens=None if sums is None else sums.input_tokens,
        output_tokens=None if sums is None else sums.output_tokens,
    )


def _cost(written: Mapping[str, Value]) -> float | None:
    """Return the recorded cost; `None` for 0, which producers write for models whose price they do not know."""
    known = {
        key: value for key, value in written.items() if isinstance(value, int | float) and not isinstance(value, bool)
    }
    cost = next((known[key] for key in _COSTS if key in known), sum(known.values()))
    return float(cost) if 0 < cost <= _HIGHEST_COST else None


# Without it, reading a model's span takes 10 % more CPU.
@lru_cache(maxsize=_MOST_KNOWN)
def _named(*written: Value) -> PropertiesSeen | None:
    found: dict[str, str] = {}
    given = dict(zip(written[::2], written[1::2], strict=True))
    for key, name in _PROPERTIES.items():
        value = given.get(key)
        if isinstance(value, bool | int | float | str) and value != "" and name not in found:
            found[name] = short_hash(str(value)) if name == INSTRUCTIONS else fit_label(str(value))[:MAX_PROPERTY]
    for key in _PARAMETERS:
        parameters = as_object(decoded(given.get(key)))
        for setting in _SETTINGS:
            if isinstance(value := parameters.get(setting), int | float | str) and value != "":
                found.setdefault(_REQUEST + setting, fit_label(str(value))[:MAX_PROPERTY])
    return PropertiesSeen(values=tuple(found.items())) if found else None
