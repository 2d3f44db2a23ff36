"""Reads what a run was made with, in any convention: its model, provider, request settings, prompt and the agent's version.

Regressions are explained by these properties. They repeat with each model call: one object is made for all equal ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from toolgauge.model.json import Value
from toolgauge.model.metrics import MAX_PROPERTY, fit_label, short_hash
from toolgauge.model.observations import AgentRun, ModelCall, Observation, PropertiesSeen
from toolgauge.recognize.values import as_object, decoded

REQUEST_MODEL, RESPONSE_MODEL = "gen_ai.request.model", "gen_ai.response.model"
PROVIDER, INSTRUCTIONS = "gen_ai.provider.name", "gen_ai.system_instructions"
_REQUEST, _PROMPT_NAME, _PROMPT_VERSION = "gen_ai.request.", "gen_ai.prompt.name", "gen_ai.prompt.version"
_AGENT_VERSION = "gen_ai.agent.version"
_SETTINGS = ("temperature", "top_p", "top_k", "max_tokens", "frequency_penalty", "presence_penalty", "reasoning_effort")
# By attribute; where several name one property, the first in this order counts.
_PROPERTIES: Mapping[str, str] = {
    **{name: name for name in (REQUEST_MODEL, RESPONSE_MODEL, PROVIDER, INSTRUCTIONS, _AGENT_VERSION)},
    **{name: name for name in (_PROMPT_NAME, _PROMPT_VERSION, *(_REQUEST + each for each in _SETTINGS))},
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
_LOOKED_FOR = frozenset((*_PROPERTIES, *_PARAMETERS))
_MOST_KNOWN, _LONGEST_TEXT = 128, 65_536
_REMEMBERED = (str, int, float, bool, bytes, type(None))


def properties(attributes: Mapping[str, Value], observations: Sequence[Observation]) -> PropertiesSeen | None:
    """Return the properties of a run that the record of an agent run or a model call has; `None` without any."""
    # Asked of every span: a loop costs half of what a generator does.
    for seen in observations:
        if type(seen) is ModelCall or type(seen) is AgentRun:
            break
    else:
        return None
    keys: Iterable[str] = getattr(attributes, "unordered", attributes)
    written: list[Value] = []
    for key in _LOOKED_FOR.intersection(keys):
        value = attributes.get(key)
        # The messages of instructions may be a list, and any text may be too long to be remembered.
        if type(value) not in _REMEMBERED or (type(value) is str and len(value) > _LONGEST_TEXT):
            value = short_hash(str(value)) if key == INSTRUCTIONS else None
        written += (key, value)
    return _named(*written) if written else None


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
