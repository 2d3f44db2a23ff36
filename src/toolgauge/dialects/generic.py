"""Reads spans that no other dialect claims, and spans that look like a call although their dialect reads none.

`draft` writes a mapping from one span alone, as the section `dialects` of the configuration would have it, and `MappedDialect`
reads the span by it. A key alone is not evidence. A model call is a span with messages in a form that producers share; a tool call
is a span with a tool's name, its arguments, and a result or failure, or one that is labelled as the span of a tool.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Recorded
from toolgauge.model.json import Json, Value
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
from toolgauge.recognize import conventions, langchain, values
from toolgauge.recognize.definitions import is_schema
from toolgauge.recognize.mapped_dialect import (
    MappedDialect,
    MappedDialectSettings,
    Requests,
    SpanMapping,
    ValueSource,
    event_value,
)
from toolgauge.recognize.provider_messages import (
    OBJECTS,
    PLAIN,
    calls_in,
    is_message,
    is_request,
    may_be_json,
    shape_of,
)

GENERIC = "generic"
# Attributes of a span, characters of a value, and elements of a list that are looked at.
_MAX_ATTRIBUTES, _MAX_TEXT, _MAX_ITEMS = 128, 1 << 20, 200
# Between the name of an event and the key of its attribute; nothing but the name stands for all attributes of the event.
_IN_EVENT = "\0"

# The words for the parts of a call, as the last words of a key.
_WORD = re.compile(
    r"(?P<tool_name>(?:^|[._:\0-])(?:tool(?:[._-]?(?:call|definition|function))?|function[._]call)[._\0-]?name)"
    r"|(?P<call_id>(?:(?<!agent[._-])call|tool[._-]?use|invocation)[._-]?id)"
    r"|(?P<arguments>(?:^|[._:\0-])(?:(?:tool|function|call)[._\0-]?)*"
    r"(?:arguments|args|parameters|params|inputs?(?:[._](?:value|messages))?))"
    r"|(?P<result>(?:^|[._:\0-])(?:(?:tool|function|call)[._\0-]?)*"
    r"(?:results?|response|return(?:ed)?(?:[._]value)?|outputs?(?:[._](?:value|messages))?))"
    r"|(?P<conversation>(?:session|conversation|thread)[._-]?id|agentic[._]session)"
    r"|(?P<agent>(?:^|[._:\0-])agent[._-]?name)"
    r"|(?P<kind>(?:^|[._:\0-]|span|sub)(?:type|kind|operation(?:[._-]name)?))"
    r"|(?P<error>(?:^|[._:\0-])error(?:[._-]message)?)",
    re.IGNORECASE,
)
_LONGEST_KEY, _PARTS = 128, re.compile(r"[._:\0-]")
# The last words of a kind.
_TOOL_KIND = re.compile(
    r"(?:^|[._:/ -])(?:tool(?:[._: -]?(?:call|use|invocation|execution|run))?|execute[._ -]?tool|function[._ -]?call)$"
    r"|^mcp[._](?:tool|invocation)$",
    re.IGNORECASE,
)
_AGENT_KIND = re.compile(
    r"(?:^|[._:/ -])(?:agent(?:[._ -]?(?:run|invocation))?|invoke[._ -]?agent|agentic[._ -]invocation)$", re.IGNORECASE
)
_MODEL_KIND = re.compile(
    r"(?:^|[._:/ -])(?:llm|chat|generation|model|completion|chat[._ -]?model|inference(?:[._]framework)?)$",
    re.IGNORECASE,
)
_KINDS = (_TOOL_KIND, _AGENT_KIND, _MODEL_KIND)
# The keys that label a span; others label a thing in it.
_LABEL = re.compile(
    r"(?:^|[._:-])(?:span|observation|event|run|step|operation)[._-]?(?:type|kind|name)$|^gen_ai\.operation\.name$",
    re.IGNORECASE,
)
# The keys that name what a labelled span is about, and keys with any name.
_ENTITY = re.compile(
    r"(?:^|[._:-])(?:entity(?:[._]\d{1,3})?|event|operation|function|observation|span|display)[._-]name$", re.IGNORECASE
)
_ANY_NAME = re.compile(r"(?:^|[._:-])name$", re.IGNORECASE)
_IDENTIFIER = re.compile(r"[A-Za-z_][\w-]{0,127}")
_ACT = r"(?:execute|run|running|call|use|invoke)?[ _.:/-]?tool(?:[ _.-]?(?:call|use|execution|execute|invocation|run))?"
_ACT_ALONE = re.compile(rf"(?:.*[ ._:/-])?{_ACT}", re.IGNORECASE)
_NAMED_ACT = re.compile(rf"({_ACT}[ .:/-]+)([A-Za-z][\w-]{{0,127}})", re.IGNORECASE)
# Names of acts, which do not name tools.
_ACTS = ("execute", "run", "call", "use", "invoke", "execution", "invocation", "tool")
# The span of a request for a call; what ran has a result, or failed.
_REQUESTED = re.compile(r"(?:llm_)?tool_?calls?(?:$|[ .:_-])", re.IGNORECASE)
# The span of a hand-over looks like that of a tool, under a name that no model wrote.
_HAND_OVER = re.compile(r"hand[_-]?off", re.IGNORECASE)
# A check of a call names the tool, too.
_CHECK = re.compile(
    r"(?:^|[._:-])(?:guardrails?|approvals?|eval(?:uation|uator)?s?|judge|policy|permissions?|review)(?:$|[._:-])",
    re.IGNORECASE,
)
_STATE = re.compile(r"(?:^|[._:-])(?:result[._-])?(?:status|outcome|state|success|ok)$", re.IGNORECASE)
_FAILURES = ("error", "failed", "failure", "false")
# An attribute for each argument, or for each part of a result: how their keys begin.
_EACH_ARGUMENT = re.compile(
    r"\A.{0,100}?(?:inputs?|arguments|args|param(?:eter)?s)[._](?:_params_\.)?(?=[^.])", re.IGNORECASE
)
_EACH_RESULT = re.compile(r"\A.{0,100}?(?:outputs?[._]results?|outputs?|results?)\.(?=[^.])", re.IGNORECASE)
_EACH_TOOL = re.compile(r"\A.{0,100}?(?:functions|tools|definitions)\.(?=\d{1,4}\.(?:function\.)?name$)", re.IGNORECASE)
_OF_CONVENTIONS = frozenset((conventions.ARGUMENTS, conventions.RESULT, "input.value", "output.value"))
_MESSAGES = frozenset((conventions.INPUT, conventions.OUTPUT))
# Nothing is missing where a dialect found one of these.
_COMPLETE = frozenset((CallRequested, AgentRun))


class Generic(MappedDialect):
    """Asked last, about spans that no other dialect claims, and about content that another dialect left out."""

    def __init__(self) -> None:
        super().__init__(GENERIC, MappedDialectSettings.model_construct(rank=99, spans=()))
        self.marks = ("tool", "llm", "conversation.")
        self.words = ("tool", "llm")
        self.objects = OBJECTS
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

    def complete(self, span: Span, observations: tuple[Observation, ...], dialect: str) -> tuple[Observation, ...]:
        """Add content of the span that the dialect that claimed it did not read."""
        if not _COMPLETE.isdisjoint(map(type, observations)):
            return observations
        call: CallExecuted | None = None
        model: ModelCall | None = None
        for seen in observations:
            if type(seen) is CallExecuted:
                if seen.arguments != NOT_RECORDED and seen.result != NOT_RECORDED:
                    return observations
                call = seen
            elif type(seen) is ModelCall:
                model = seen
            # A model that stopped for tools asked for calls.
            elif (type(seen) is CallAnswered or (type(seen) is MessageSeen and seen.role != "system")) and (
                model is None or not model.stopped_for_tools
            ):
                return observations
        keys = span.attributes.keys()
        # Looking for shapes in spans without JSON took a tenth of the CPU of reading a span.
        others = set(keys).difference(PLAIN)
        has_shape = any(map(may_be_json, map(span.attributes.get, others)))
        if not has_shape and all(event.name == "exception" for event in span.events):
            return observations
        if call is not None:
            return self._with_content(span, observations, call)
        # An agent's messages repeat its models' messages.
        operation = span.attributes.get(conventions.OPERATION)
        is_model = model is not None or (isinstance(operation, str) and _MODEL_KIND.search(operation) is not None)
        if not _MESSAGES.isdisjoint(keys) and not is_model:
            return observations
        found = tuple(self.read(span))
        if model is not None and any(type(seen) is CallExecuted for seen in found):
            return observations
        known: set[object] = {type(seen) for seen in observations if type(seen) is not MessageSeen}
        if model is not None:
            known.add(AgentRun)
        # Dialects of producers leave out repeated content; they claim calls, or content in the conventions, by mistake or in part.
        if dialect not in self.completes and (model is None or _MESSAGES.isdisjoint(keys)):
            found = tuple(seen for seen in found if type(seen) is CallExecuted)
        added = [seen for seen in found if type(seen) not in known]
        return (*observations, *added) if any(type(seen) is not ConversationSeen for seen in added) else observations

    def _with_content(
        self, span: Span, observations: tuple[Observation, ...], call: CallExecuted
    ) -> tuple[Observation, ...]:
        has_part = call.arguments != NOT_RECORDED or call.result != NOT_RECORDED
        # A tool may have nothing to take or to return: then only another convention on the same span is asked.
        if has_part and _OF_CONVENTIONS.isdisjoint(span.attributes):
            return observations
        executed = next((seen for seen in self.read(span) if type(seen) is CallExecuted), None)
        if executed is None:
            return observations
        whole = replace(
            call,
            arguments=executed.arguments if call.arguments == NOT_RECORDED else call.arguments,
            result=executed.result if call.result == NOT_RECORDED else call.result,
            call_id=call.call_id or executed.call_id,
            error=call.error or executed.error,
        )
        return observations if whole == call else tuple(whole if seen is call else seen for seen in observations)

    def found_by(self, span: Span) -> str | None:
        """Return the key by which spans like this one are found; `None` where it holds nothing."""
        mapping = self._mapping(span)
        return None if mapping is None else mapping.found_by

    def _mapping(self, record: Record) -> SpanMapping | None:
        if self._newest[0] is not record:
            self._newest = record, draft(record) if isinstance(record, Span) else None
        return self._newest[1]


_Fields = dict[str, object]


def draft(span: Span) -> SpanMapping | None:
    """Write the mapping of a span that holds a call, or a model's messages; `None` where it has no whole shape."""
    if not conventions.ORDINARY.isdisjoint(span.attributes):
        return None
    found_values = _values(span)
    texts = {key: value for key, value in found_values.items() if isinstance(value, str)}
    words: dict[str, list[str]] = {}
    for key in texts:
        words.setdefault(_word(key)[0], []).append(key)
    kinds = {texts[key]: key for key in words.get("kind", ()) if len(texts[key]) <= _LONGEST_KEY}
    # What tells spans apart that have the same keys.
    by = next((key for pattern in _KINDS for kind, key in kinds.items() if pattern.search(kind)), None)
    reads, found = "tool_call", _tool_call(span, texts, words, kinds)
    if found is None:
        is_model = any(map(_MODEL_KIND.search, kinds))
        reads = "agent_run" if not is_model and any(map(_AGENT_KIND.search, kinds)) else "model_call"
        if reads == "model_call" and not is_model and any(map(conventions.repeats_models, kinds)):
            return None
        label = by is not None and _LABEL.search(by) is not None
        found = _messages(span, found_values, words, has_label=label and (is_model or reads == "agent_run"))
        if reads == "agent_run" and label and (found is not None or "agent" not in words):
            found = {"match": by, "agent": _named(span, texts), **(found or {})}
        elif reads == "agent_run" and label:
            found = {"match": by}
    if found is None:
        is_of_conversation = "conversation.id" in texts and "conversation.type" in span.attributes
        if not is_of_conversation:
            return None
        reads, found = "conversation", {"match": "conversation.id"}
    match = found.pop("match")
    key = str(match if by is None else by)
    around = {word: words[word][0] for word in ("conversation", "agent") if word in words}
    fields = {word: _place(value) for word, value in {**around, **found}.items() if value is not None}
    event, _, key = key.rpartition(_IN_EVENT)
    fields["match"] = {} if event else {key: True if by is None else texts[by]}
    return SpanMapping.model_construct(None, reads=reads, event=event or None, **fields)


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


def _tool_call(
    span: Span, texts: Mapping[str, str], words: Mapping[str, list[str]], kinds: Mapping[str, str]
) -> _Fields | None:
    if (
        not conventions.TRANSPORT.isdisjoint(span.attributes)
        or any(map(_CHECK.search, kinds))
        or any(map(_MODEL_KIND.search, kinds))
    ):
        return None
    kind = next((key for text, key in kinds.items() if _TOOL_KIND.search(text)), None)
    name: object = None
    for key in words.get("tool_name", ()):
        text = texts[key]
        if text and text[0] not in "[{" and not _HAND_OVER.match(text) and not _CHECK.search(key):
            name = key
            break
    match = name if isinstance(name, str) else kind
    if name is None:
        name = None if kind is None or words.get("tool_name") else _named(span, texts)
        if name is None:
            return _request(texts, words)
    about = str(match)
    states = {key: str(span.attributes.get(key)) for key in span.attributes if _STATE.search(key)}
    failed = {
        key: state
        for key, state in states.items()
        if state[:_LONGEST_KEY].lower() in _FAILURES and _is_about(key, about)
    }
    error = next((key for key in words.get("error", ()) if texts[key] and _is_about(key, about)), None)
    has_failed = bool(failed) or error is not None or conventions.call_error(span) is not None
    found: _Fields = {
        "tool_name": name,
        "match": match,
        "call_id": next(iter(words.get("call_id", ())), None),
        "failed": failed or None,
        "error": error,
    }
    is_labelled = kind is not None and _LABEL.search(kind) is not None
    results = words.get("result", [])
    # Parameters may belong to the tool's definition.
    for key in sorted(words.get("arguments", ()), key=lambda key: ("tool" not in key.lower(), "param" in key.lower())):
        arguments = _arguments(key, texts[key])
        # Arguments and result have keys of one namespace: `build.input` is not what became `result`.
        result = next((other for other in results if _word(other)[1] == _word(key)[1]), None)
        is_of_call = is_labelled or not _word(key)[1] or _is_about(key, about)
        if arguments is not None and is_of_call and (result is not None or has_failed):
            return {**found, "arguments": arguments, "result": result}
    return _labelled(span, texts, words, found, is_labelled=is_labelled, has_failed=has_failed)


def _labelled(
    span: Span,
    texts: Mapping[str, str],
    words: Mapping[str, list[str]],
    found: _Fields,
    *,
    is_labelled: bool,
    has_failed: bool,
) -> _Fields | None:
    """Map a span that is labelled as that of a tool: its arguments may be of any form, or hidden."""
    if conventions.MCP_METHOD in span.attributes:
        return None
    if not is_labelled:
        is_of_agent = str(found["tool_name"]).startswith("gen_ai.") or found["call_id"] is not None
        if not is_of_agent or _ACT_ALONE.fullmatch(span.name) is None:
            return None
    arguments: object = next((key for key in words.get("arguments", ()) if _arguments(key, texts[key])), None)
    if arguments is None:
        arguments = next(
            (
                key
                for key in words.get("arguments", ())
                if texts[key] and not texts[key].startswith("{") and not is_message(values.decoded(texts[key]))
            ),
            _each(span, _EACH_ARGUMENT) if is_labelled else None,
        )
    result: object = next(iter(words.get("result", ())), _each(span, _EACH_RESULT) if is_labelled else None)
    if result is None and not has_failed and _REQUESTED.match(span.name):
        return None
    return {**found, "arguments": arguments, "result": result}


def _each(span: Span, beginning: re.Pattern[str]) -> ValueSource | None:
    """Return the place of a value that has an attribute for each of its parts."""
    for key in [*span.attributes][:_MAX_ATTRIBUTES]:
        if (begun := beginning.match(key[:_LONGEST_KEY])) is not None:
            return ValueSource(prefix=begun[0])
    return None


def _is_about(key: str, other: str) -> bool:
    """Return whether a key names a tool, has no namespace, or shares the other key's."""
    beginning, *rest = _PARTS.split(key)
    root = _PARTS.split(other)[0]
    return not rest or root in ("tool", beginning) or "tool" in (beginning, *rest)


def _named(span: Span, texts: Mapping[str, str]) -> object:
    """Return where a labelled span has the name of its tool or agent: a key, or the span's name."""
    for key, text in texts.items():
        if _ANY_NAME.search(key) and _IDENTIFIER.fullmatch(text) and text.lower() not in _ACTS:
            is_in_name = re.search(rf"(?<![\w-]){re.escape(text)}(?![\w-])", span.name) is not None
            if (is_in_name or _ENTITY.search(key)) and not _TOOL_KIND.search(text) and not _HAND_OVER.match(text):
                return key
    if _IDENTIFIER.fullmatch(span.name) and not _HAND_OVER.match(span.name):
        return ValueSource(span_name="")
    named = _NAMED_ACT.fullmatch(span.name)
    if named is None or named[2].lower() in _ACTS:
        return None
    return ValueSource(span_name=named[1])


def _request(texts: Mapping[str, str], words: Mapping[str, list[str]]) -> _Fields | None:
    """Map a request of MCP's, `{"method": "tools/call", "params": ...}`."""
    for key, text in texts.items():
        if '"tools/call"' in text and text.startswith("{"):
            request = values.decoded_object(text)
            parameters = values.as_object(request.get("params"))
            if request.get("method") == "tools/call" and values.as_str(parameters.get("name")):
                return {
                    "match": key,
                    "tool_name": ValueSource(attribute=key, path=("params", "name")),
                    "arguments": ValueSource(attribute=key, path=("params", "arguments")),
                    "result": next((other for other in words.get("result", ()) if other != key), None),
                }
    return None


def _arguments(key: str, text: str) -> object:
    """Return the place of a call's arguments, `None` where the text holds none."""
    read = langchain.opened_arguments(values.arguments(text)) if text.startswith(("{", "[{")) else None
    given = values.as_object(read.value) if isinstance(read, Recorded) else None
    if given is None or (given and is_schema(given)) or is_request(given):
        return None
    # The forms of keyword arguments alone, and of LangChain's callbacks.
    is_function = isinstance(given.get("kwargs"), dict) and not given.get("args")
    inner = "kwargs" if is_function else "input_str" if {"input_str", "tags"} <= given.keys() else None
    return key if inner is None else ValueSource(attribute=key, path=(inner,))


def _messages(
    span: Span, found_values: Mapping[str, Value], words: Mapping[str, list[str]], *, has_label: bool
) -> _Fields | None:
    """Find the input, the output and the offered tools of a model call."""
    shapes: dict[str, list[str]] = {}
    opened: dict[str, Json] = {}
    found: _Fields = {}
    for key, written in found_values.items():
        if may_be_json(written):
            value = langchain.unwrapped(values.decoded(written))
            opened[key] = value
            shapes.setdefault(shape_of(value), []).append(key)
            if isinstance(value, dict) and shape_of(value.get("tools")) == "tools":
                found["tools"] = ValueSource(attribute=key, path=("tools",))
            elif has_label and (requests := _requests(key, value)):
                found["requests"] = requests
    outputs, inputs = shapes.get("output", []), shapes.get("input", [])
    if tools := shapes.get("tools"):
        found["tools"] = tools[0]
    elif has_label and (offered := _each(span, _EACH_TOOL)) is not None:
        found["tools"] = offered
    if outputs:
        found["output"] = output = max(outputs, key=lambda key: len(calls_in(opened[key])))
        # Parsers, memories and tools repeat calls: without ids, nothing joins them to the model's.
        is_repeated = isinstance(opened[output], list) or is_message(opened[output])
        if is_repeated and not inputs and not has_label and not all(call.call_id for call in calls_in(opened[output])):
            return None
    if inputs:
        found["input"] = max(inputs, key=lambda key: len(values.as_str(found_values[key]) or ""))
    if has_label:
        # On a span that is labelled as a model's or an agent's, texts are messages, too.
        for field, word, each in (("input", "arguments", _EACH_ARGUMENT), ("output", "result", _EACH_RESULT)):
            if field not in found and "requests" not in found:
                place = next(iter(words.get(word, ())), None) or _each_message(span, each)
                found |= {} if place is None else {field: place}
    elif not outputs and not inputs:
        return None
    key = next((place for field in ("output", "input", "tools") if isinstance(place := found.get(field), str)), None)
    return {"match": key or next(iter(found_values)), **found} if found else None


def _each_message(span: Span, beginning: re.Pattern[str]) -> ValueSource | None:
    """Return the place of messages that have an attribute for each of their parts."""
    place = _each(span, beginning)
    parts = {} if place is None or place.prefix is None else values.nested(span.attributes, place.prefix)
    if place is None or shape_of(parts):
        return place
    member = next((key for key, value in parts.items() if shape_of(value)), None)
    return None if member is None else ValueSource(prefix=place.prefix, path=(member,))


def _requests(key: str, value: Json) -> Requests | None:
    """Map a list of calls that a model asks for, each with the name of a tool and arguments under keys of their own."""
    items = [values.as_object(item) for item in value[:_MAX_ITEMS]] if isinstance(value, list) else []
    members = {word: member for member in (items[0] if items else {}) if (word := _word(member)[0])}
    if _IN_EVENT in key or not {"tool_name", "arguments"} <= members.keys():
        return None
    if any(not values.as_str(item.get(members["tool_name"])) for item in items):
        return None
    call_id = members.get("call_id")
    return Requests(
        attribute=key,
        path=("*",),
        tool_name=(members["tool_name"],),
        arguments=(members["arguments"],),
        call_id=None if call_id is None else (call_id,),
    )
