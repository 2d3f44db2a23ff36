"""Reads how many tokens a model call took, as each convention writes it.

Arrives: the attributes of a model's span. Leaves: a `ModelCall` with whole numbers, or `None` for what was not recorded;
whatever else stands there (text, fractions, numbers below 0 or beyond all models) was not.
"""

from collections.abc import Mapping
from typing import TypeAlias

from toolgauge.model.content import Recorded
from toolgauge.model.json import JsonObject, Value
from toolgauge.model.observations import ModelCall
from toolgauge.recognize import values

# The keys of a convention, of which the first that is there counts.
CONVENTIONS = (
    ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
)
OPENINFERENCE = (
    ("llm.token_count.prompt", *CONVENTIONS[0]),
    ("llm.token_count.completion", *CONVENTIONS[1]),
)
# Far more than any model takes.
_MOST = 10**12
# How objects with counts name them: those of providers, Langfuse and MLflow, with parts (`input_cached_tokens`) besides.
_INPUT_WORDS = ("input", "prompt")
_OUTPUT_WORDS = ("output", "completion")
_MAX_COUNTS = 100

Keys: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]


def model_call(
    attributes: Mapping[str, Value],
    agent: str | None = None,
    *,
    keys: Keys = CONVENTIONS,
    stopped_for_tools: bool = False,
) -> ModelCall:
    """Make the observation of a model call, with the tokens it took."""
    return ModelCall(
        agent=agent,
        stopped_for_tools=stopped_for_tools,
        input_tokens=_first(attributes, keys[0]),
        output_tokens=_first(attributes, keys[1]),
    )


def counted(usage: JsonObject) -> tuple[int | None, int | None]:
    """Read an object with counts: its input is the sum of what begins with `input` or `prompt`, and so on."""
    sums: list[int | None] = [None, None]
    for key, value in list(usage.items())[:_MAX_COUNTS]:
        count = token_count(value)
        for place, words in enumerate((_INPUT_WORDS, _OUTPUT_WORDS)):
            if count is not None and key.startswith(words):
                sums[place] = (sums[place] or 0) + count
    return sums[0], sums[1]


def counted_text(value: Value) -> tuple[int | None, int | None]:
    """Read an object with counts that an attribute holds as JSON text."""
    read = values.content(value)
    return counted(values.as_object(read.value)) if isinstance(read, Recorded) else (None, None)


def token_count(value: Value) -> int | None:
    """Return a value as a number of tokens; `None` when it is none."""
    if type(value) is int:
        return value if 0 <= value <= _MOST else None
    # JavaScript knows no whole numbers.
    if type(value) is float and 0 <= value <= _MOST and value.is_integer():
        return int(value)
    return None


def _first(attributes: Mapping[str, Value], keys: tuple[str, ...]) -> int | None:
    for key in keys:
        if (value := attributes.get(key)) is not None:
            return token_count(value)
    return None
