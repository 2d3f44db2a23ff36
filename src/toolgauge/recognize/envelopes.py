"""Opens the envelopes of frameworks around the arguments and the result of a call, for the calls of every dialect.

An envelope is known by all of its members: an object with others is a tool's argument or its result.
"""

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import OTHER_ERROR, CallAnswered, CallError, CallExecuted
from toolgauge.recognize import values
from toolgauge.recognize.langchain import Answer, message_answer, message_fields, repr_answer

_TYPED, _TYPES = frozenset(("type", "value")), ("chat_messages", "json", "list", "raw", "text")
_PYTHON = frozenset(("args", "kwargs"))
# What frameworks write beside the answer to a call.
_MESSAGE = frozenset(
    (
        *("additional_kwargs", "artifact", "content", "id", "name", "response_metadata", "role", "status"),
        *("tool_call_id", "type"),
    )
)
# An envelope around a result has one of these.
_MARKS = frozenset(("content", "data", "kwargs", "value"))
_IDS = frozenset(("callId", "call_id", "id", "tool_call_id"))
REPRS = ("content=", "Command(", "ToolMessage(", "[ToolMessage(")
_LIST_OF_MESSAGES = '[{"'


def unwrapped(value: Json) -> Json:
    """Take a value out of `{"type": "json", "value": ...}`."""
    if type(value) is dict and value.keys() == _TYPED and value["type"] in _TYPES:
        return value["value"]
    return value


def opened_call(seen: CallExecuted) -> CallExecuted:
    """Open the envelopes of a call's arguments and result; the same object without any."""
    arguments, answer = given(seen.arguments), _answer(seen.result)
    found = arguments.value if type(arguments) is Recorded else None
    if type(found) is dict and found.get("name") == seen.name and not _IDS.isdisjoint(found):
        # The whole request for the call: `{"id": ..., "name": ..., "args": ...}`.
        inner = found.get("args", found.get("arguments"))
        arguments = values.arguments_inside(inner) if isinstance(inner, dict | str) else arguments
    if answer is None:
        return seen if arguments is seen.arguments else replace(seen, arguments=arguments)
    call_id, error = seen.call_id or answer.call_id, seen.error or answer.error
    return replace(seen, arguments=arguments, result=answer.result, call_id=call_id, error=error)


def opened_answer(seen: CallAnswered) -> CallAnswered:
    """Open the envelope of an answer; the same object without one."""
    answer = _answer(seen.result)
    if answer is None:
        return seen
    call_id, error = seen.call_id or answer.call_id, seen.error or answer.error
    return replace(seen, result=answer.result, call_id=call_id, error=error)


def given(recorded: Content) -> Content:
    """Open the envelope of arguments; the same object without one."""
    if type(recorded) is Unparsed:
        # A list, which is how a message to the tool is written.
        if recorded.text.startswith(_LIST_OF_MESSAGES) and (message := _tool_message(values.decoded(recorded.text))):
            return values.arguments_inside(message["content"])
        return recorded
    found = recorded.value if type(recorded) is Recorded else None
    # Asked of every call: most have other arguments.
    if type(found) is not dict or not 0 < len(found) <= len(_TYPED):
        return recorded
    if (inner := unwrapped(found)) is not found:
        return values.arguments_inside(inner)
    if found.keys() == _PYTHON:
        # Written by a tracer of functions. Positional arguments have no names, and count as not recorded.
        positional, named = found["args"], found["kwargs"]
        if isinstance(positional, list) and isinstance(named, dict):
            if not positional:
                return Recorded(named)
            only = positional[0] if len(positional) == 1 else None
            return Recorded(only) if isinstance(only, dict) and not named else NOT_RECORDED
    action = found.get("action") if len(found) == 1 else None
    if isinstance(action, dict) and str(action.get("kind", "")).endswith("Action"):
        return Recorded({key: value for key, value in action.items() if key != "kind"})
    return recorded


def _answer(recorded: Content) -> Answer | None:
    """Return the answer in an envelope around a result; `None` without one."""
    returned = recorded.value if type(recorded) is Recorded else None
    if type(returned) is str:
        if not returned.startswith(REPRS):
            return None
        # A message of LangChain's as Python shows it.
        if returned.startswith(("content=", "Command(")):
            return repr_answer(returned)
        read = values.from_repr(returned)
        data = values.as_object(read[0] if isinstance(read, list) and len(read) == 1 else read)
        return message_answer(data) if "content" in data else None
    if type(returned) is list:
        message = _tool_message(returned)
        return None if message is None else message_answer(message)
    # Settles nearly all results.
    if type(returned) is not dict or _MARKS.isdisjoint(returned):
        return None
    if (inner := unwrapped(returned)) is not returned:
        return Answer(result=values.returned(inner))
    data = message_fields(returned)
    if "tool_call_id" in data and "content" in data and data.keys() <= _MESSAGE:
        return message_answer(data)
    # Read `{"content": [...], "state": ...}`: the text of the blocks, and whether the call failed.
    content, state = returned.get("content"), returned.get("state")
    if not isinstance(content, list) or not isinstance(state, str):
        return None
    texts = [values.as_object(block).get("text") for block in content]
    text = "\n".join(one for one in texts if isinstance(one, str))
    failed = CallError(kind=OTHER_ERROR, message=text) if state.lower() in ("error", "failed") else None
    whole = bool(texts) and all(isinstance(one, str) for one in texts)
    return Answer(result=values.result(text) if whole else Recorded(content), error=failed)


def _tool_message(value: Json) -> JsonObject | None:
    """Return the only message of a list, where it is to a tool or of one."""
    message = values.as_object(value[0]) if isinstance(value, list) and len(value) == 1 else {}
    return message if message.get("role") == "tool" and "content" in message else None
