"""Completes a model's calls from the provider's own response in `output.value`.

Arrives: the calls that the flattened messages show. Leaves: the same calls with their ids, or all calls where the
flattened messages leave them out. Without the ids an answer in the next request finds no call.
"""

from collections.abc import Iterator

from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.recognize.openinference.messages import Request
from toolgauge.recognize.values import arguments, as_list, as_object, as_str, parse_text

_MARKS = ('"tool_calls":[{', '"tool_calls": [{', '"function_call":{', '"function_call": {')


def with_response(found: list[Request], raw: Value) -> list[Request]:
    """Return the calls, completed from a response of OpenAI's or of Google's form."""
    if not isinstance(raw, str) or (found and all(request.call_id is not None for request in found)):
        return found
    # Responses are large; most hold no call.
    if not any(mark in raw for mark in _MARKS):
        return found
    read = parse_text(raw)
    told = list(_calls(as_object(read.value))) if isinstance(read, Recorded) else []
    if not found:
        return told
    if [request.name for request in found] != [request.name for request in told]:
        return found
    return [
        Request(name=request.name, call_id=request.call_id or other.call_id, arguments=request.arguments)
        for request, other in zip(found, told, strict=True)
    ]


def _calls(response: JsonObject) -> Iterator[Request]:
    choice = as_object((as_list(response.get("choices")) or [None])[0])
    for item in as_list(as_object(choice.get("message")).get("tool_calls")):
        call = as_object(item)
        function = as_object(call.get("function"))
        yield from _request(function.get("name"), call.get("id"), function.get("arguments"))
    candidate = as_object((as_list(response.get("candidates")) or [None])[0])
    for part in as_list(as_object(candidate.get("content")).get("parts")):
        call = as_object(as_object(part).get("function_call"))
        yield from _request(call.get("name"), call.get("id"), call.get("args"))


def _request(name: Json, call_id: Json, given: Json) -> Iterator[Request]:
    if isinstance(name, str) and name:
        told = Recorded({}) if given is None or given == "" else arguments(given)
        yield Request(name=name, call_id=as_str(call_id), arguments=told)
