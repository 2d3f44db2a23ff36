"""Reads what LiteLLM's callback tells beside the conventions: the calls that its `gen_ai.output.messages` leave out.

They are on the span of the raw request, as the provider's answer (a Python literal), with their ids; and in flat keys
on the span of the request or, where an application has a span open, on that one, for the latest request alone.
"""

from collections.abc import Iterator, Mapping

from toolgauge.model.content import Recorded
from toolgauge.model.json import Value
from toolgauge.model.observations import CallRequested, ModelCall, Observation
from toolgauge.model.records import Span
from toolgauge.recognize import values
from toolgauge.recognize.conventions import content, names
from toolgauge.recognize.messages import Message, read_messages

SCOPE = "litellm"
RAW_SPAN = "raw_gen_ai_request"

_PROVIDER = "llm."
_CHOICES = ".choices"
_MESSAGES = ".messages"
_TOOLS = ".tools"
_FLAT_NAME = "gen_ai.completion.{}.function_call.name"
_FLAT_ARGUMENTS = "gen_ai.completion.{}.function_call.arguments"
_FIRST_FLAT_NAME = _FLAT_NAME.format(0)
_MAX_FLAT = 128


def is_raw(span: Span) -> bool:
    """Tell whether the span is a raw request of LiteLLM's."""
    return span.scope.name == SCOPE and span.name == RAW_SPAN


def raw_request(span: Span) -> Iterator[Observation]:
    """Read the provider's answer; nothing where it is not in the shape of OpenAI's, which LiteLLM turns most into."""
    key = next((key for key in span.attributes if key.startswith(_PROVIDER) and key.endswith(_CHOICES)), None)
    read = values.content(span.attributes.get(key)) if key is not None else None
    choices = values.as_list(read.value) if isinstance(read, Recorded) else []
    if key is not None and choices:
        yield ModelCall()
        # The conventions' messages on the span of the request have lost the ids of answers.
        given = span.attributes.get(key.removesuffix(_CHOICES) + _MESSAGES)
        yield from content.received(read_messages(given, "user"))
        yield from content.written([Message(values.as_object(choice), "assistant") for choice in choices], None)


def raw_tools(span: Span) -> Value:
    """Return the tools that the raw request has on offer."""
    key = next((key for key in span.attributes if key.startswith(_PROVIDER) and key.endswith(_TOOLS)), None)
    return span.attributes.get(key) if key is not None else None


def flat_calls(attributes: Mapping[str, Value]) -> list[CallRequested]:
    """Read the calls in flat keys, numbered from 0."""
    calls: list[CallRequested] = []
    # Asked of every model span, and nearly none has any.
    if _FIRST_FLAT_NAME not in attributes:
        return calls
    agent = values.as_str(attributes.get(names.AGENT))
    for position in range(_MAX_FLAT):
        name = values.as_str(attributes.get(_FLAT_NAME.format(position)))
        if name is None:
            break
        arguments = values.arguments(attributes.get(_FLAT_ARGUMENTS.format(position)))
        calls.append(CallRequested(position=position, name=name, arguments=arguments, agent=agent))
    return calls
