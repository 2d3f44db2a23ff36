"""Reads Genkit's own spans, of its JavaScript and its Go package: flows, calls of models and of tools.

`generate` (type `util`) and flows repeat the messages of model calls. A call's id is `ref` in the model's output and input.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import (
    OTHER_ERROR,
    PAUSED,
    AgentRun,
    CallError,
    CallRequested,
    MessageSeen,
    ModelCall,
    Observation,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.conventions import token_count
from toolgauge.recognize.dialect import PlainDialect, ToolFields
from toolgauge.recognize.messages import Message

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
_CALL = ToolFields(name=(_NAME,), call_id=(), arguments=(_INPUT,), result=(_OUTPUT,))
_UTIL, _GENERATE = "util", "generate"
_GENERATE_STEP = "{generate,"


class Genkit(PlainDialect):
    """Reads spans of Genkit's tracer."""

    name = "genkit"
    rank = 86
    marks = ("genkit:",)
    scopes = ("genkit-tracer",)
    prefixes = (_METADATA,)
    grounds = Grounds(keys=(_TYPE, _SUBTYPE))

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        yield from conventions.own_conversation(attributes, (_SESSION,))
        subtype = attributes.get(_SUBTYPE)
        if subtype in (_TOOL, _MULTIPART_TOOL):
            if (call := _CALL.read(span, span.name)) is not None:
                if _INTERRUPT in attributes:
                    call = replace(call, error=CallError(kind=PAUSED, message=""))
                elif call.error is None and attributes.get(_STATE) == "error":
                    call = replace(call, error=CallError(kind=OTHER_ERROR, message=span.status_message))
                if subtype == _MULTIPART_TOOL and isinstance(call.result, Recorded):
                    opened = values.as_object(call.result.value)
                    if "output" in opened and opened.keys() <= _MULTIPART_KEYS:
                        call = replace(call, result=Recorded(opened["output"]))
                yield call
        elif subtype == _MODEL:
            given, output = _opened(span.attributes.get(_INPUT)), _opened(span.attributes.get(_OUTPUT))
            # Releases before 0.9 have several candidates, of which the first is used.
            candidates = values.as_list(output.get("candidates"))
            first = output if "message" in output else values.as_object(candidates[0] if candidates else None)
            written = conventions.written([_message(values.as_object(first.get("message")))], None)
            usage = values.as_object(output.get("usage"))
            yield ModelCall(
                stopped_for_tools=any(isinstance(seen, CallRequested) for seen in written),
                input_tokens=token_count(usage.get("inputTokens")),
                output_tokens=token_count(usage.get("outputTokens")),
            )
            yield from written
            yield from self._conventions.offered(given.get("tools"))
            yield from conventions.received(_messages(given))
        elif subtype == _FLOW:
            yield AgentRun(agent=values.as_str(attributes.get(_NAME)) or values.as_str(span.name))
            # An input that is nothing but a text.
            asked = values.decoded(attributes.get(_INPUT))
            if isinstance(asked, str) and asked:
                yield MessageSeen(role="user", text=asked)
        elif attributes.get(_TYPE) == _UTIL and attributes.get(_NAME) == _GENERATE:
            # Read `generate`: the run of an agent where it is no turn of one, and no part of a flow.
            path = values.as_str(attributes.get(_PATH)) or ""
            steps = path.split("/")
            above = steps[-2] if len(steps) > 1 else ""
            if not above:
                yield AgentRun(agent=None)
            elif ",t:action" in above and not above.startswith(_GENERATE_STEP):
                # Below a tool: the tool is an agent.
                yield AgentRun(agent=above.removeprefix("{").partition(",")[0] or None)

    def _given(self, span: Span) -> list[Message]:
        return _messages(_opened(span.attributes.get(_INPUT)))


def _opened(value: Value) -> JsonObject:
    return values.as_object(values.opened(value))


def _messages(given: JsonObject) -> list[Message]:
    return [_message(values.as_object(one)) for one in values.as_list(given.get("messages"))[-values.MAX_ITEMS :]]


def _message(written: JsonObject) -> Message:
    """Read a message of parts, of which each has a key of its own; the texts of all parts are one text."""
    texts: list[str] = []
    parts: list[Json] = []
    for part in map(values.as_object, values.as_list(written.get("content"))):
        if text := values.as_str(part.get("text")):
            texts.append(text)
        elif "toolRequest" in part:
            request = values.as_object(part["toolRequest"])
            name, call_id = request.get("name"), values.identifier(request.get("ref"))
            parts.append({"type": "tool_call", "id": call_id, "name": name, "arguments": request.get("input")})
        elif "toolResponse" in part:
            response = values.as_object(part["toolResponse"])
            answer: JsonObject = {"type": "tool_call_response", "id": values.identifier(response.get("ref"))}
            output: JsonObject = {"response": response["output"]} if "output" in response else {}
            parts.append({**answer, "name": response.get("name"), **output})
        elif "media" in part:
            parts.append({"type": "media"})
    return Message({"role": written.get("role"), "parts": [{"type": "text", "content": "".join(texts)}, *parts]}, "")
