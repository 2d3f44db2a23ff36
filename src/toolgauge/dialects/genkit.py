"""Reads Genkit's own spans, of its JavaScript and its Go package: flows, calls of models and of tools.

Arrives: a span with `genkit:*` attributes. Leaves: observations. `generate` (type `util`) and flows repeat the messages of
the model calls below them: no call is read there. A tool's span has no call id; the model's output and input have it as `ref`.
"""

from collections.abc import Iterable, Iterator

from toolgauge.model.content import NOT_RECORDED, Content, Recorded
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import (
    OTHER_ERROR,
    PAUSED,
    AgentRun,
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    Observation,
    ToolsOffered,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.conventions import token_count
from toolgauge.recognize.messages import DefinitionReader
from toolgauge.recognize.past_calls import PastMessage, numbered

_TYPE = "genkit:type"
_SUBTYPE = "genkit:metadata:subtype"
_NAME = "genkit:name"
_PATH = "genkit:path"
_INPUT = "genkit:input"
_OUTPUT = "genkit:output"
_STATE = "genkit:state"
_INTERRUPT = "genkit:metadata:interrupt"
_SESSION = "genkit:sessionId"
# Attributes that an application gives to a span get this prefix.
_METADATA = "genkit:metadata:"

_FLOW, _MODEL, _TOOL = "flow", "model", "tool"
# A tool whose output is an object with the result, and parts of other media, beside each other.
_MULTIPART_TOOL = "tool.v2"
_MULTIPART_KEYS = {"output", "content", "metadata"}
_UTIL, _GENERATE = "util", "generate"
_GENERATE_STEP = "{generate,"

# Calls in one output and messages in one history; of more the first and the newest are read.
_MAX_CALLS = 1_000
_MAX_MESSAGES = 10_000


class Genkit:
    """Reads spans of Genkit's tracer."""

    name = "genkit"
    rank = 86
    marks = ("genkit:",)
    scopes = ("genkit-tracer",)
    grounds = Grounds(keys=(_TYPE, _SUBTYPE))

    def __init__(self) -> None:
        self._definitions = DefinitionReader()

    def claims(self, record: Record) -> bool:
        """Claim spans with the type of an action."""
        return not isinstance(record, LogRecord) and (_TYPE in record.attributes or _SUBTYPE in record.attributes)

    def read(self, record: Record) -> Iterator[Observation]:
        """Read one span."""
        if isinstance(record, LogRecord):
            return
        attributes = record.attributes
        if session := values.identifier(attributes.get(_SESSION)):
            yield ConversationSeen(conversation_id=session, rank=2)
        subtype = attributes.get(_SUBTYPE)
        if subtype in (_TOOL, _MULTIPART_TOOL):
            yield from _executed(record)
        elif subtype == _MODEL:
            yield from self._model(record)
        elif subtype == _FLOW:
            yield AgentRun(agent=_name(record))
            yield from _asked(attributes.get(_INPUT))
        elif attributes.get(_TYPE) == _UTIL and attributes.get(_NAME) == _GENERATE:
            yield from _generation(values.as_str(attributes.get(_PATH)) or "")

    def history(self, span: Span) -> Iterable[CallRequested | MessageSeen]:
        """Read the calls in the history that a model was given, and the texts of the user between them."""
        given = _opened(span.attributes.get(_INPUT))
        messages = map(values.as_object, values.as_list(given.get("messages"))[-_MAX_MESSAGES:])
        return numbered(map(_past, messages))

    def attribute(self, record: Record, key: str) -> Value:
        """Look up an attribute, also among what the application gave to a span."""
        value = record.attributes.get(key)
        return record.attributes.get(_METADATA + key) if value is None else value

    def _model(self, span: Span) -> Iterator[Observation]:
        given, output = _opened(span.attributes.get(_INPUT)), _opened(span.attributes.get(_OUTPUT))
        message = _written_message(output)
        calls = list(_requested(message))
        usage = values.as_object(output.get("usage"))
        yield ModelCall(
            stopped_for_tools=bool(calls),
            input_tokens=token_count(usage.get("inputTokens")),
            output_tokens=token_count(usage.get("outputTokens")),
        )
        yield from calls
        if text := _text(message):
            yield MessageSeen(role="assistant", text=text)
        if offered := self._definitions.read(given.get("tools")):
            yield ToolsOffered(tools=offered)
        yield from _received(given.get("messages"))


def _name(span: Span) -> str | None:
    return values.as_str(span.attributes.get(_NAME)) or values.as_str(span.name)


def _opened(value: Value) -> JsonObject:
    return values.as_object(values.opened(value))


def _asked(value: Value) -> Iterator[MessageSeen]:
    """Read the input of a flow where it is nothing but a text."""
    read = values.content(value)
    if isinstance(read, Recorded) and isinstance(read.value, str) and read.value:
        yield MessageSeen(role="user", text=read.value)


def _generation(path: str) -> Iterator[AgentRun]:
    """Read `generate`: the run of an agent where it is no turn of one, and no part of a flow."""
    steps = path.split("/")
    above = steps[-2] if len(steps) > 1 else ""
    if not above:
        yield AgentRun(agent=None)
    elif ",t:action" in above and not above.startswith(_GENERATE_STEP):
        # Below a tool: the tool is an agent.
        yield AgentRun(agent=above.removeprefix("{").partition(",")[0] or None)


def _executed(span: Span) -> Iterator[CallExecuted]:
    attributes = span.attributes
    name = _name(span)
    if name is None:
        return
    error = conventions.call_error(span)
    if _INTERRUPT in attributes:
        error = CallError(kind=PAUSED, message="")
    if error is None and attributes.get(_STATE) == "error":
        error = CallError(kind=OTHER_ERROR, message=span.status_message)
    yield CallExecuted(
        name=name,
        arguments=values.arguments(attributes.get(_INPUT)),
        result=_result(attributes.get(_OUTPUT), is_multipart=attributes.get(_SUBTYPE) == _MULTIPART_TOOL),
        error=error,
    )


def _result(value: Value, *, is_multipart: bool) -> Content:
    read = values.result(value)
    if is_multipart and isinstance(read, Recorded) and isinstance(read.value, dict):
        opened = read.value
        if "output" in opened and opened.keys() <= _MULTIPART_KEYS:
            return Recorded(opened["output"])
    return read


def _written_message(output: JsonObject) -> JsonObject:
    if "message" in output:
        return values.as_object(output["message"])
    # Releases before 0.9 have several candidates, of which the first is used.
    candidates = values.as_list(output.get("candidates"))
    return values.as_object(values.as_object(candidates[0]).get("message")) if candidates else {}


def _parts(message: JsonObject) -> list[JsonObject]:
    return [values.as_object(part) for part in values.as_list(message.get("content"))]


def _text(message: JsonObject) -> str:
    return "".join(text for part in _parts(message) if (text := values.as_str(part.get("text"))))


def _requested(message: JsonObject) -> Iterator[CallRequested]:
    requests = [values.as_object(part["toolRequest"]) for part in _parts(message) if "toolRequest" in part]
    for position, request in enumerate(requests[:_MAX_CALLS]):
        name = values.as_str(request.get("name"))
        if name is not None:
            yield CallRequested(
                position=position,
                name=name,
                call_id=values.identifier(request.get("ref")),
                arguments=_arguments(request.get("input")),
            )


def _arguments(value: Json) -> Content:
    # An object inside what was parsed before needs no second look.
    return values.arguments_inside(value)


def _received(value: Json) -> Iterator[Observation]:
    """Read a model's input: instructions, answers to calls, and the newest text of the user."""
    messages = [values.as_object(message) for message in values.as_list(value)[-_MAX_MESSAGES:]]
    asked: list[JsonObject] = []
    for message in messages:
        match message.get("role"):
            case "system":
                if text := _text(message):
                    yield MessageSeen(role="system", text=text)
            case "user":
                asked.append(message)
            case _:
                yield from _answers(message)
    written = [text for message in asked if (text := _text(message))]
    if written:
        has_media = any("media" in part for message in asked for part in _parts(message))
        yield MessageSeen(role="user", text=written[-1], follows=len(written) > 1, has_media=has_media)


def _past(message: JsonObject) -> PastMessage:
    user = _text(message) if message.get("role") == "user" else ""
    return PastMessage(calls=list(_requested(message)), has_answers=any(_answers(message)), user=user)


def _answers(message: JsonObject) -> Iterator[CallAnswered]:
    for part in _parts(message):
        response = values.as_object(part.get("toolResponse"))
        call_id, name = values.identifier(response.get("ref")), values.as_str(response.get("name"))
        if call_id is None and name is None:
            continue
        output = response.get("output")
        result = values.result_inside(output)
        yield CallAnswered(call_id=call_id, name=name, result=NOT_RECORDED if "output" not in response else result)
