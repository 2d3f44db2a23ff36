"""Reads the calls that Google's SDK made by itself between two requests of one span.

Arrives: `output.value` with `automatic_function_calling_history`. Leaves: the requests, by output, and their answers.
The span's own output is only the text after all of them, so that without this the calls would not be seen.
"""

from collections.abc import Iterator

from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import CallAnswered, CallError, CallRequested
from toolgauge.recognize.langchain.answers import OTHER_ERROR
from toolgauge.recognize.values import arguments, as_list, as_object, as_str, parse_text, result

_HISTORY = "automatic_function_calling_history"


def made_by_itself(raw: Value) -> Iterator[CallRequested | CallAnswered]:
    """Yield the calls since the newest user's text, and what came of them."""
    if not isinstance(raw, str) or _HISTORY not in raw:
        return
    read = parse_text(raw)
    history = as_list(as_object(read.value).get(_HISTORY)) if isinstance(read, Recorded) else []
    position = 0
    for output, content in enumerate(_since_user(history)):
        for part in _parts(content):
            call = as_object(part.get("function_call"))
            if name := as_str(call.get("name")):
                yield _request(call, name, position=position, output=output)
                position += 1
            elif told := as_object(part.get("function_response")):
                yield _answer(told)


def _since_user(history: list[Json]) -> list[Json]:
    for place in range(len(history) - 1, -1, -1):
        if as_object(history[place]).get("role") == "user" and any("text" in part for part in _parts(history[place])):
            return history[place + 1 :]
    return history


def _parts(content: Json) -> list[JsonObject]:
    return [as_object(part) for part in as_list(as_object(content).get("parts"))]


def _request(call: JsonObject, name: str, *, position: int, output: int) -> CallRequested:
    given = call.get("args")
    return CallRequested(
        position=position,
        name=name,
        call_id=as_str(call.get("id")),
        arguments=Recorded({}) if given is None else arguments(given),
        output=output,
    )


def _answer(told: JsonObject) -> CallAnswered:
    response = as_object(told.get("response"))
    # The SDK wraps whatever a function returns, and what it raises.
    said = response["result"] if list(response) == ["result"] else response
    failed = response["error"] if list(response) == ["error"] else None
    return CallAnswered(
        call_id=as_str(told.get("id")),
        name=as_str(told.get("name")),
        result=result(said) if isinstance(said, str) else Recorded(said),
        error=CallError(kind=OTHER_ERROR, message=failed) if isinstance(failed, str) else None,
    )
