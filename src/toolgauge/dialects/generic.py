"""Reads spans that no other dialect claims, by whole shapes that providers share, whatever their attributes are called.

A key alone is no evidence. A model call is a span with messages of OpenAI, Anthropic, Gemini, Bedrock, LangChain or the
conventions; a tool call is a span with a tool's name, its arguments, and a result or failure. `mapping_of` names the attributes
as the section `dialects` of the configuration would, and `MappedDialect` reads them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import cast

from msgspec.structs import replace

from toolgauge.model.content import NotRecorded, Recorded
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    Observation,
)
from toolgauge.model.records import Record, Span
from toolgauge.recognize import conventions, provider_messages, values
from toolgauge.recognize.definitions import definitions, is_schema
from toolgauge.recognize.langchain import batch, message_fields
from toolgauge.recognize.mapped_dialect import MappedDialect, event_value
from toolgauge.recognize.messages import messages_of
from toolgauge.recognize.settings import MappedDialectSettings, SpanMapping, ValueSource

GENERIC = "generic"
# Attributes of a span, characters of a value, and elements of a list that are looked at.
_MAX_ATTRIBUTES, _MAX_TEXT, _MAX_ITEMS = 128, 1 << 20, 200
# Between the name of an event and the key of its attribute; nothing but the name stands for all attributes of the event.
_IN_EVENT = "\0"

# The words for the parts of a call, as the last words of a key.
_WORD = re.compile(
    r"(?P<tool_name>(?:^|[._:\0-])(?:tool(?:[._-]?(?:call|definition))?|function[._]call)[._\0-]?name)"
    r"|(?P<call_id>(?:(?<!agent[._-])call|tool[._-]?use|invocation)[._-]?id)"
    r"|(?P<arguments>(?:^|[._:\0-])(?:(?:tool|function|call)[._\0-]?)*(?:arguments|args|parameters|params|inputs?(?:[._]value)?))"
    r"|(?P<result>(?:^|[._:\0-])(?:(?:tool|function|call)[._\0-]?)*(?:results?|response|return(?:ed)?(?:[._]value)?|outputs?(?:[._]value)?))"
    r"|(?P<conversation>(?:session|conversation|thread)[._-]?id)"
    r"|(?P<agent>(?:^|[._:\0-])agent[._-]?name)"
    r"|(?P<kind>(?:^|[._:\0-]|span|sub)(?:type|kind|operation(?:[._-]name)?))",
    re.IGNORECASE,
)
_LONGEST_KEY = 128
_TOOL_KINDS = ("tool", "tool_call", "execute_tool", "tool_execution", "toolcall", "function_call")
_AGENT_KINDS = ("agent", "invoke_agent", "agent_run")
_MODEL_KINDS = ("llm", "chat", "generation", "model", "completion", "chat_model")
_IDENTIFIER = re.compile(r"[A-Za-z_][\w-]{0,127}")
# The span of a hand-over looks like that of a tool, under a name that no model wrote.
_HAND_OVER = re.compile(r"hand[_-]?off", re.IGNORECASE)
# A check of a call names the tool, too.
_CHECK = re.compile(
    r"(?:^|[._:-])(?:guardrails?|approvals?|eval(?:uation|uator)?s?|judge|policy|permissions?|review)(?:$|[._:-])",
    re.IGNORECASE,
)

_ROLES = ("system", "user", "assistant", "tool", "model", "developer", "function", "human", "ai")
_OUTPUT_ROLES = frozenset(("assistant", "model", "ai"))
_CONTENT = frozenset(("content", "parts", "tool_calls", "blocks", "contents"))
_CALL_TYPES = ("function", "function_call", "tool_call", "tool-call", "tool_use")
_BESIDE_CALLS = ("text", "thinking", "reasoning")
_ANSWER_TYPES = ("function_call_output", "tool_result", "tool-result", "tool_call_response")
# How JSON of these shapes begins, but for a bracket.
_OBJECTS = (
    *(
        '{"' + key + '":'
        for key in ("role", "parts", "messages", "choices", "candidates", "generations", "lc", "content")
    ),
    *(
        '{"' + key + '":'
        for key in ("message", "model", "contents", "tools", "tool_calls", "toolUse", "functionCall", "kwargs")
    ),
    *('{"' + key + '":' for key in ("toolCallType", "toolCallId", "function", "index", "finish_reason", "output")),
    *('{"type":"' + kind + '"' for kind in (*_CALL_TYPES, *_ANSWER_TYPES, "text", "message", "reasoning")),
    *('{"id":"' + prefix for prefix in ("chatcmpl", "resp_", "msg_", "gen-")),
    *("{" + first + '"method":"tools/call"' for first in ("", '"jsonrpc":"2.0",')),
)
_REQUESTS = ("messages", "contents", "input")
_MESSAGES = frozenset((conventions.INPUT, conventions.OUTPUT))
# Keys of the conventions without content, which alone make the content of a span not worth looking for.
_PLAIN = frozenset(
    (
        *(
            conventions.OPERATION,
            conventions.CONVERSATION,
            conventions.SESSION,
            conventions.AGENT,
            conventions.TOOL_NAME,
        ),
        *(conventions.CALL_ID, conventions.DEFINITIONS, conventions.ERROR_TYPE, conventions.FINISH_REASONS),
        *(conventions.MCP_METHOD, conventions.MCP_TOOL, *conventions.TOKEN_KEYS[0], *conventions.TOKEN_KEYS[1]),
        *("gen_ai.tool.type", "gen_ai.tool.description", "gen_ai.agent.id", "gen_ai.agent.description"),
        *(
            "gen_ai.system",
            "gen_ai.provider.name",
            "gen_ai.request.model",
            "gen_ai.response.model",
            "gen_ai.response.id",
        ),
        *("gen_ai.request.max_tokens", "gen_ai.request.temperature", "gen_ai.request.top_p", "gen_ai.output.type"),
        *("server.address", "server.port", "mcp.session.id", "jsonrpc.request.id"),
        *("http.request.method", "http.response.status_code", "http.route", "http.status_code", "url.full", "url.path"),
        *("url.scheme", "rpc.method", "rpc.service", "rpc.system", "mcp.protocol.version", "gen_ai.request.stream"),
    )
)


class Generic(MappedDialect):
    """Asked last, about spans that no other dialect claims."""

    def __init__(self) -> None:
        super().__init__(GENERIC, MappedDialectSettings.model_construct(rank=99, spans=()))
        self.marks = ("tool", "llm")
        self.objects = _OBJECTS
        # Marks in the bytes of events would cost every span.
        self.scope_words = ("agent", "llm", "llama", "langchain", "langgraph", "genai", "gen_ai", "openai", "anthropic")
        self.grounds = None
        self.completes = ("genai", "uipath")
        # The span that was asked about last: first it is claimed, then read.
        self._newest: tuple[Record | None, SpanMapping | None] = (None, None)

    def read(self, record: Record) -> Iterator[Observation]:
        """Read one span; its output may be that of a span around it."""
        for seen in super().read(record):
            yield replace(seen, may_repeat=True) if isinstance(seen, ModelCall) else seen

    def complete(self, span: Span, observations: tuple[Observation, ...]) -> tuple[Observation, ...]:
        """Add the content of a span to the observations of another dialect that read none."""
        call: CallExecuted | None = None
        model: ModelCall | None = None
        # Asked of every span of the conventions: a loop costs half of what a generator does.
        for seen in observations:
            if type(seen) is CallExecuted:
                if type(seen.arguments) is not NotRecorded or type(seen.result) is not NotRecorded:
                    return observations
                call = seen
            elif type(seen) is ModelCall:
                model = seen
            elif type(seen) is MessageSeen or type(seen) is CallAnswered:
                # A model that stopped for tools asked for calls.
                if model is None or not model.stopped_for_tools:
                    return observations
            elif type(seen) is CallRequested or type(seen) is AgentRun:
                return observations
        keys: Iterable[str] = getattr(span.attributes, "unordered", span.attributes)
        # Looking for shapes in spans without JSON took a tenth of the CPU of reading a span.
        others = set(keys).difference(_PLAIN)
        if not any(_may_be_json(span.attributes.get(key)) for key in others) and (
            not span.events or all(event.name == "exception" for event in span.events)
        ):
            return observations
        # The other dialect may have been asked for the calls alone.
        if not _MESSAGES.isdisjoint(keys) and (model is None or not model.stopped_for_tools):
            return observations
        found = tuple(self.read(span))
        if call is not None:
            executed = next((seen for seen in found if type(seen) is CallExecuted), None)
            if executed is None:
                return observations
            call_id = call.call_id or executed.call_id
            whole = replace(call, arguments=executed.arguments, result=executed.result, call_id=call_id)
            return tuple(whole if seen is call else seen for seen in observations)
        if model is not None and any(type(seen) is CallExecuted for seen in found):
            return observations
        known: set[object] = {type(seen) for seen in observations}
        if model is not None:
            known.add(AgentRun)
        added = [seen for seen in found if type(seen) not in known]
        return (*observations, *added) if any(type(seen) is not ConversationSeen for seen in added) else observations

    def _mapping(self, record: Record) -> SpanMapping | None:
        if self._newest[0] is not record:
            self._newest = record, mapping_of(record) if isinstance(record, Span) else None
        return self._newest[1]


def mapping_of(span: Span) -> SpanMapping | None:
    """Name the attributes of a span that hold a call, or a model's messages; `None` where it has no whole shape."""
    if not conventions.ORDINARY.isdisjoint(span.attributes):
        return None
    found_values = _values(span)
    texts = {key: value for key, value in found_values.items() if isinstance(value, str)}
    words: dict[str, list[str]] = {}
    for key in texts:
        words.setdefault(_word(key)[0], []).append(key)
    kinds = {texts[key].lower(): key for key in words.get("kind", ())}
    found = _tool_call(span, texts, words, kinds)
    reads = "tool_call"
    if found is None:
        reads = "model_call"
        if kinds.keys().isdisjoint(_MODEL_KINDS):
            reads = "model_call" if kinds.keys().isdisjoint(_AGENT_KINDS) else "agent_run"
            if reads == "model_call" and any(map(conventions.repeats_models, kinds)):
                return None
        is_labelled = reads == "agent_run" or any(word in kind for kind in kinds for word in _MODEL_KINDS)
        found = _messages(found_values, is_labelled=is_labelled)
    if not found:
        return None
    # A kind tells spans apart that have the same keys.
    kind = next((kind for kind in (*_TOOL_KINDS, *_AGENT_KINDS, *_MODEL_KINDS) if kind in kinds), None)
    by = next(iter(cast("Mapping[str, object]", found.pop("match")))) if kind is None else kinds[kind]
    around = {word: words[word][0] for word in ("conversation", "agent") if word in words}
    event, _, key = by.rpartition(_IN_EVENT)
    found["match"] = {} if event else {key: True if kind is None else texts[by]}
    return SpanMapping.model_construct(
        None, reads=reads, event=event or None, **{word: _place(value) for word, value in {**around, **found}.items()}
    )


def _values(span: Span) -> dict[str, Value]:
    found = {key: span.attributes.get(key) for key in [*span.attributes][:_MAX_ATTRIBUTES]}
    is_short = span.size_bytes <= _MAX_TEXT
    events = [event for event in span.events[:_MAX_ITEMS] if event.name != "exception"] if is_short else []
    places = dict.fromkeys((event.name, key) for event in events for key in event.attributes)
    for name, key in [*places][:_MAX_ATTRIBUTES]:
        found[name + _IN_EVENT + key] = event_value(span, name, key)
        if key == "role":
            found[name + _IN_EVENT] = event_value(span, name, None)
    return {key: value for key, value in found.items() if not isinstance(value, str) or len(value) <= _MAX_TEXT}


def _place(value: object) -> object:
    """Turn a key of an attribute of events into the place where it is."""
    source = ValueSource.model_construct(None, attribute=value) if isinstance(value, str) else value
    if not isinstance(source, ValueSource) or _IN_EVENT not in (source.attribute or ""):
        return value
    event, _, key = (source.attribute or "").rpartition(_IN_EVENT)
    return source.model_copy(update={"event": event, "attribute": key or None})


@lru_cache(1024)
def _word(key: str) -> tuple[str, str]:
    """Return for which part of a call the key has its last word, "" for none, and its namespace before that."""
    found = next((found for found in _WORD.finditer(key[-_LONGEST_KEY:]) if found.end() == len(found.string)), None)
    if found is None:
        return "", key
    before = found.string[: found.start()]
    # The events of a span share one namespace.
    return found.lastgroup or "", before.partition(_IN_EVENT)[2] if _IN_EVENT in found.string else before


_Fields = dict[str, object]


def _tool_call(
    span: Span, texts: Mapping[str, str], words: Mapping[str, list[str]], kinds: Mapping[str, str]
) -> _Fields | None:
    if (
        not conventions.TRANSPORT.isdisjoint(span.attributes)
        or any(map(_CHECK.search, kinds))
        or not kinds.keys().isdisjoint(_MODEL_KINDS)
    ):
        return None
    name = next(
        (
            key
            for key in words.get("tool_name", ())
            if texts[key] and not _HAND_OVER.match(texts[key]) and not _CHECK.search(key)
        ),
        None,
    )
    kind = next((kind for kind in _TOOL_KINDS if kind in kinds), None)
    found: _Fields = {"tool_name": name, "match": {name: True}}
    if name is None:
        if kind is None or _IDENTIFIER.fullmatch(span.name) is None or _HAND_OVER.match(span.name):
            for key, text in texts.items():
                if '"tools/call"' in text and text.startswith("{"):
                    request = values.opened_object(text)
                    parameters = values.as_object(request.get("params"))
                    if request.get("method") == "tools/call" and values.as_str(parameters.get("name")):
                        return {
                            "match": {key: True},
                            "tool_name": ValueSource(attribute=key, path=("params", "name")),
                            "arguments": ValueSource(attribute=key, path=("params", "arguments")),
                            "result": next((other for other in words.get("result", ()) if other != key), None),
                        }
            return None
        found = {"tool_name": ValueSource(span_name=""), "match": {kinds[kind]: True}}
    call_id = next(iter(words.get("call_id", ())), None)
    has_failed = conventions.call_error(span) is not None
    # Parameters may be those of the tool's definition.
    for key in sorted(words.get("arguments", ()), key=lambda key: ("tool" not in key.lower(), "param" in key.lower())):
        text = texts[key]
        read = values.arguments(text) if text[:1] == "{" else None
        given = values.as_object(read.value) if isinstance(read, Recorded) else None
        if given is None or (given and is_schema(given)) or _is_request(given):
            arguments = None
        else:
            # Python's `f(*args, **kwargs)`, as tracers of functions write it, and what LangChain hands to its callbacks.
            is_function = isinstance(given.get("kwargs"), dict) and not given.get("args")
            inner = "kwargs" if is_function else "input_str" if {"input_str", "tags"} <= given.keys() else None
            arguments = key if inner is None else ValueSource(attribute=key, path=(inner,))
        # Arguments and result have keys of one namespace: `build.input` is not what became `result`.
        result = next((other for other in words.get("result", ()) if _word(other)[1] == _word(key)[1]), None)
        if arguments is not None and (result is not None or has_failed):
            return {**found, "arguments": arguments, "result": result, "call_id": call_id}
    return None


def _messages(found_values: Mapping[str, Value], *, is_labelled: bool) -> _Fields | None:
    """Find the input, the output and the offered tools of a model call."""
    shapes: dict[str, list[str]] = {}
    opened: dict[str, Json] = {}
    found: _Fields = {}
    for key, written in found_values.items():
        if _may_be_json(written):
            value = values.opened(written)
            opened[key] = value
            shapes.setdefault(_shape(value), []).append(key)
            if isinstance(value, dict) and _shape(value.get("tools")) == "tools":
                found["tools"] = ValueSource(attribute=key, path=("tools",))
    outputs, inputs = shapes.get("output", []), shapes.get("input", [])
    if not outputs and not inputs:
        return None
    if outputs:
        found["output"] = output = max(outputs, key=lambda key: len(_calls_in(opened[key])))
        # Parsers, memories and tools repeat calls: without ids, nothing joins them to those of the model.
        is_message = isinstance(opened[output], list) or _role(values.as_object(opened[output]))
        if (
            is_message
            and not inputs
            and not is_labelled
            and not all(call.call_id for call in _calls_in(opened[output]))
        ):
            return None
    if inputs:
        found["input"] = max(inputs, key=lambda key: len(values.as_str(found_values[key]) or ""))
    if tools := shapes.get("tools"):
        found["tools"] = tools[0]
    return {"match": {found.get("output", found.get("input")): True}, **found}


def _may_be_json(value: Value) -> bool:
    if isinstance(value, str):
        return value.startswith(("[", "{"))
    return isinstance(value, dict) or (isinstance(value, list) and not isinstance(value[0] if value else "", str))


def _calls_in(value: Json) -> list[CallRequested]:
    written = messages_of([*provider_messages.written(value)], "assistant")
    return [seen for seen in conventions.written(written, None) if isinstance(seen, CallRequested)]


def _shape(value: Json) -> str:
    """Return whether a value is the `input` or `output` of a model, or the `tools` on offer; "" for anything else."""
    if isinstance(value, list):
        items = [values.as_object(item) for item in batch(value)[:_MAX_ITEMS]]
        if not items or not all(items):
            return ""
        if any(map(_is_call, items)) and all(_is_call(item) or item.get("type") in _BESIDE_CALLS for item in items):
            return "output"
        if all(map(_is_definition, items)):
            return "tools"
        roles = [_role(item) for item in items]
        if not all(roles):
            return ""
        return "output" if _OUTPUT_ROLES.issuperset(roles) else "input"
    message = values.as_object(value)
    if role := _role(message):
        return "output" if role in _OUTPUT_ROLES else "input"
    if _is_request(message):
        return "input"
    written = provider_messages.written(value)
    is_response = bool(written) and written[0] is not message and all(_role(item) for item in written)
    return "output" if is_response else ""


def _is_request(item: JsonObject) -> bool:
    return any(isinstance(item.get(key), list) and _shape(item[key]) in ("input", "output") for key in _REQUESTS)


def _role(item: JsonObject) -> str:
    """Return the role of a whole message, "" where it is none."""
    kind = item.get("type")
    if kind in _ANSWER_TYPES:
        return "tool"
    if _is_call(item):
        return "assistant"
    message = message_fields(item)
    inner = message.get("message")
    message = inner if isinstance(inner, dict) else message
    role = message.get("role", message.get("type"))
    return str(role) if role in _ROLES and not _CONTENT.isdisjoint(message) else ""


def _is_call(item: JsonObject) -> bool:
    function = values.as_object(item.get("function"))
    if values.as_str(function.get("name")) and "arguments" in function:
        return True
    # Syntax trees and build tools have names with other arguments.
    given = next((item[key] for key in ("arguments", "args", "input") if key in item), None)
    if not isinstance(given, dict) and not (isinstance(given, str) and given[:1] in ("{", "")):
        return False
    name = "name" if item.get("type") in _CALL_TYPES else "toolName"
    return bool(values.as_str(item.get(name))) and item.get("type") != "function"


def _is_definition(item: JsonObject) -> bool:
    found = [*definitions(item)]
    return bool(found) and all(tool.parameters is not None and is_schema(tool.parameters) for tool in found)
