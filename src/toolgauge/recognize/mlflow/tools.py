"""Reads tool spans: each of MLflow's integrations puts the call in its own place.

Arrives: a span of type `TOOL`. Leaves: its name, id, arguments and result. What an integration wraps is told by what
it writes beside it: a user's own tool may have an argument `call` or `tool_args`.
"""

from msgspec import Struct

from toolgauge.model.content import Content, Recorded
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import CallError
from toolgauge.model.records import Span
from toolgauge.recognize.langchain.answers import OTHER_ERROR, Answer, tool_answer
from toolgauge.recognize.values import arguments, as_list, as_object, as_str, content, parse_text, plain, result

INPUTS = "mlflow.spanInputs"
OUTPUTS = "mlflow.spanOutputs"

_NAMES = ("tool_name", "gen_ai.tool.name")
_CALL_IDS = ("tool_call_id", "tool_id", "gen_ai.tool.call.id")
_PREFIX = "execute_tool "
# Pydantic AI's calls go through one manager, whose method names the span.
_MANAGER = "ToolManager."
# LlamaIndex's spans are named after the method, whatever class the tool has.
_STEP = ".call_tool"
_METHODS = (".call", ".acall", ".__call__")


class Call(Struct, frozen=True, kw_only=True):
    """What a tool span says."""

    name: str
    call_id: str | None
    arguments: Content
    answer: Answer


def read_call(span: Span) -> Call:
    """Read the call that the span is."""
    given = decoded(span.attributes.get(INPUTS))
    told = as_object(given)
    if span.name.startswith(_MANAGER) and (call := _managed(told)):
        return Call(
            name=as_str(call.get("tool_name")) or span.name,
            call_id=as_str(call.get("tool_call_id")),
            arguments=arguments(call.get("args")),
            answer=tool_answer(span.attributes.get(OUTPUTS)),
        )
    if span.name.endswith(_METHODS) and (call := _of_llamaindex(span, told)):
        return call
    if set(told) == {"tool_name", "tool_args"} and told["tool_name"] == span.name:  # CrewAI
        return Call(
            name=span.name, call_id=None, arguments=arguments(told["tool_args"]), answer=_in_result(span, wrapped=True)
        )
    named = _first(span, _NAMES)
    return Call(
        name=named or span.name.removeprefix(_PREFIX),
        call_id=_first(span, _CALL_IDS),
        arguments=arguments(span.attributes.get(INPUTS)),
        answer=_in_result(span, wrapped="tool_id" in span.attributes),
    )


def decoded(value: Value) -> Json:
    """Decode an attribute; `None` when it is missing or no JSON."""
    read = content(value)
    return read.value if isinstance(read, Recorded) else None


def text(value: Value) -> str | None:
    """Return a text without the quotes of its JSON."""
    if isinstance(value, str) and value.startswith('"'):
        read = parse_text(value)
        return as_str(read.value) if isinstance(read, Recorded) and isinstance(read.value, str) else value
    return as_str(value)


def _first(span: Span, keys: tuple[str, ...]) -> str | None:
    return next((found for key in keys if (found := text(span.attributes.get(key)))), None)


def _managed(told: JsonObject) -> JsonObject:
    validated = as_object(told.get("validated"))
    return as_object(told.get("call")) or as_object(validated.get("call"))


def llamaindex_step(span: Span) -> Call | None:
    """Read the step of a LlamaIndex agent that runs a tool; it alone tells the call's id, and the name when it failed."""
    if not span.name.endswith(_STEP):
        return None
    event = as_object(as_object(decoded(span.attributes.get(INPUTS))).get("ev"))
    name, call_id = as_str(event.get("tool_name")), as_str(event.get("tool_id"))
    if name is None or call_id is None:
        return None
    output = as_object(as_object(decoded(span.attributes.get(OUTPUTS))).get("tool_output"))
    given = arguments(plain(event.get("tool_kwargs")))
    return Call(name=name, call_id=call_id, arguments=given, answer=_llamaindex_answer(output))


def _of_llamaindex(span: Span, told: JsonObject) -> Call | None:
    """Read the tool itself, whose output repeats name and arguments; without one only its step can name it."""
    output = as_object(decoded(span.attributes.get(OUTPUTS)))
    is_output = "raw_input" in output
    if not is_output and not (set(told) == {"kwargs"} and span.status == "error"):
        return None
    given = as_object(output.get("raw_input")).get("kwargs") if is_output else told["kwargs"]
    return Call(
        name=as_str(output.get("tool_name")) or "",
        call_id=None,
        arguments=Recorded(as_object(given)),
        answer=_llamaindex_answer(output),
    )


def _llamaindex_answer(output: JsonObject) -> Answer:
    if not output:
        return Answer()
    said = "\n".join(filter(None, (as_str(as_object(block).get("text")) for block in as_list(output.get("blocks")))))
    if output.get("is_error") is True:
        return Answer(result=result(said), error=CallError(kind=OTHER_ERROR, message=said))
    raw = output.get("raw_output")
    value = said if raw is None else raw
    return Answer(result=result(value) if isinstance(value, str) else Recorded(value))


def _in_result(span: Span, *, wrapped: bool) -> Answer:
    """Read the result, of two integrations from inside `{"result": ...}`."""
    value = span.attributes.get(OUTPUTS)
    told = as_object(decoded(value)) if wrapped else {}
    if list(told) != ["result"]:
        return tool_answer(value)
    inner = told["result"]
    return Answer(result=result(inner) if isinstance(inner, str) else Recorded(inner))
