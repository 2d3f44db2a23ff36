"""Reads the model span that Google's ADK shares with the agent's run.

Where the framework opens no span of its own for a model call, the instrumentation writes each call's attributes over
those of the call before, on the span of the agent's run. Read as one model call it would ask for calls of two outputs,
and before all that was really called first. What was asked for is in the history that the last call was given.
"""

from collections.abc import Iterator, Mapping

from toolgauge.model.content import Recorded
from toolgauge.model.json import Value
from toolgauge.model.observations import CallRequested
from toolgauge.model.records import Span
from toolgauge.recognize.openinference.messages import Message, Messages, Request, requests
from toolgauge.recognize.values import arguments, as_list, as_object, as_str, content

_AGENT_RUN = "invoke_agent "
_OUTPUT = "output.value"
_USER = "user"


def is_shared(span: Span, instrumentation: str) -> bool:
    """Tell whether a model span is an agent's run that may hold several model calls."""
    return instrumentation == "google_adk" and span.name.startswith(_AGENT_RUN)


def requested(messages: Messages, attributes: Mapping[str, Value]) -> Iterator[CallRequested]:
    """Yield what the outputs of this run asked for: those in the history, and the last one."""
    outputs = [found for message in _since_user(messages.input) if (found := requests([message]))]
    outputs.append(_last(attributes))
    position = 0
    for number, found in enumerate(outputs):
        for request in found:
            yield CallRequested(
                position=position,
                name=request.name,
                call_id=request.call_id,
                arguments=request.arguments,
                output=number,
            )
            position += 1


def _since_user(history: list[Message]) -> list[Message]:
    """Leave out what came before the newest user's message: it belongs to earlier runs."""
    for place in range(len(history) - 1, -1, -1):
        if history[place].role == _USER and not requests([history[place]]):
            return history[place + 1 :]
    return history


def _last(attributes: Mapping[str, Value]) -> list[Request]:
    read = content(attributes.get(_OUTPUT))
    response = as_object(read.value) if isinstance(read, Recorded) else {}
    found: list[Request] = []
    for part in as_list(as_object(response.get("content")).get("parts")):
        call = as_object(as_object(part).get("function_call"))
        name = as_str(call.get("name"))
        if name is not None:
            given = call.get("args")
            told = Recorded({}) if given is None else arguments(given)
            found.append(Request(name=name, call_id=as_str(call.get("id")), arguments=told))
    return found
