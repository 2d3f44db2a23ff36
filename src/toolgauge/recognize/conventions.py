"""The GenAI and MCP conventions: names of attributes, operations, events and finish reasons, and the observations in them."""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import (
    OTHER_ERROR,
    PAUSED,
    PAUSING_EXCEPTIONS,
    AgentRun,
    CallError,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    Ending,
    MessageSeen,
    ModelCall,
    Observation,
    SpanFailed,
)
from toolgauge.model.records import Span
from toolgauge.recognize import values
from toolgauge.recognize.messages import Messages, Output, read_messages, read_text

# The keys of a convention in order of preference: the first one present counts.
TOKEN_KEYS = (
    ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
)
OPENINFERENCE_TOKENS = (("llm.token_count.prompt", *TOKEN_KEYS[0]), ("llm.token_count.completion", *TOKEN_KEYS[1]))
# Far more than any model takes.
_MOST = 10**12
# How providers, Langfuse and MLflow name counts; they have parts (`input_cached_tokens`) besides.
_INPUT_WORDS = ("input", "prompt")
_OUTPUT_WORDS = ("output", "completion")
_MAX_COUNTS = 100

Keys: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
# Attributes of spans of databases, brokers, flags, functions, pipelines, tests and processes, which may pass messages of agents on.
ORDINARY = frozenset(
    [
        *("db.system", "db.system.name", "db.query.text", "db.statement", "messaging.system", "faas.trigger"),
        *("feature_flag.key", "cicd.pipeline.name", "cicd.pipeline.run.id", "cicd.pipeline.task.name"),
        *("cicd.pipeline.task.run.id", "test.case.name", "test.suite.name", "process.command"),
    ]
)
# A request to a model may be one span with its transport; a tool's call is not.
TRANSPORT = frozenset(("http.method", "http.request.method", "http.route", "rpc.method", "rpc.service"))


def model_call(
    attributes: Mapping[str, Value],
    agent: str | None = None,
    *,
    keys: Keys = TOKEN_KEYS,
    finish: Value = None,
    stopped_for_tools: bool = False,
) -> ModelCall:
    """Make the observation of a model call, with the tokens it took; `finish` is a finish reason under a producer's own key."""
    reason = attributes.get(FINISH_REASONS) if finish is None else finish
    return ModelCall(
        agent=agent,
        stopped_for_tools=stopped_for_tools,
        ending=None if reason is None else ending(reason),
        input_tokens=_tokens(attributes, keys[0]),
        output_tokens=_tokens(attributes, keys[1]),
    )


def token_counts(usage: Value) -> tuple[int | None, int | None]:
    """Return (input, output) tokens of an object or its JSON text: sums of the counts whose names begin with `input` or `prompt`, and so on."""
    sums: list[int | None] = [None, None]
    for key, value in list(values.decoded_object(usage).items())[:_MAX_COUNTS]:
        count = token_count(value)
        for place, words in enumerate((_INPUT_WORDS, _OUTPUT_WORDS)):
            if count is not None and key.startswith(words):
                sums[place] = (sums[place] or 0) + count
    return sums[0], sums[1]


def _tokens(attributes: Mapping[str, Value], keys: tuple[str, ...]) -> int | None:
    """Return the number of tokens under the first of the keys that is present."""
    for key in keys:
        if (value := attributes.get(key)) is not None:
            return value if type(value) is int and 0 <= value <= _MOST else token_count(value)
    return None


def token_count(value: Value) -> int | None:
    """Return a number of tokens; `None` for any other value."""
    if type(value) is int:
        return value if 0 <= value <= _MOST else None
    # JavaScript knows no whole numbers.
    if type(value) is float and 0 <= value <= _MOST and value.is_integer():
        return int(value)
    return None


OPERATION = "gen_ai.operation.name"
CONVERSATION = "gen_ai.conversation.id"
SESSION = "session.id"
AGENT = "gen_ai.agent.name"
TOOL_NAME = "gen_ai.tool.name"
CALL_ID = "gen_ai.tool.call.id"
ARGUMENTS = "gen_ai.tool.call.arguments"
# What begins the keys of producers that write an attribute for each argument: the second with JSON text as its value.
EACH_ARGUMENT = ARGUMENTS + "."
EACH_MCP_ARGUMENT = "mcp.request.argument."
RESULT = "gen_ai.tool.call.result"
DEFINITIONS = "gen_ai.tool.definitions"
SYSTEM = "gen_ai.system_instructions"
INPUT = "gen_ai.input.messages"
OUTPUT = "gen_ai.output.messages"
MCP_METHOD = "mcp.method.name"
MCP_TOOL = "mcp.tool.name"
# Sentry's MCP instrumentation: the content blocks, or the text of each of several blocks under its number.
MCP_CONTENT = "mcp.tool.result.content"
MCP_CONTENT_COUNT = "mcp.tool.result.content_count"
MCP_BLOCK_CONTENT = "mcp.tool.result.{}.content"
MCP_IS_ERROR = "mcp.tool.result.is_error"
ERROR_TYPE = "error.type"
FINISH_REASONS = "gen_ai.response.finish_reasons"
# How providers say that a model stopped in order to have tools called.
TOOL_FINISHES = ("tool_call", "tool_calls", "tool-calls", "tool_use", "function_call")

# A tuple, not a set: the value looked up may be an unhashable list or object.
MODEL_OPERATIONS = ("chat", "generate_content", "text_completion", "chat.completions", "completion", "responses")
# Whole words, and whole names, of operations whose messages repeat a model's, or belong to no model.
_OTHER_OPERATIONS = re.compile(
    r"(?:^|_)(?:(?:sub|multi)?agents?|workflows?|tools?|functions?|chains?(?!_of_thought)|(?:lang)?graphs?|crew(?:ai|s)?|swarms?|teams?"
    r"|pipelines?|orchestrat(?:e|or|ion)|frameworks?|event_?loops?|hand_?offs?|embed(?:ding)?s?|retriev(?:al|er)s?|rerank(?:er|ing)?"
    r"|memor(?:y|ies)|evaluat(?:ion|or)s?|guardrails?)(?:_|$)"
    r"|^(?:evaluate|retrieve|(?:(?:create|execute|invoke|process|run|start)_)?tasks?(?:_(?:execution|run))?)$"
)
_WORD_BREAKS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_MAX_OPERATION = 256
_NOT_WORD = re.compile(r"[^a-zA-Z0-9_]")
_TRUE = (True, "true", "True")
# Classes of LangChain's tools, and ADK's span around several tools, in place of a tool's name.
UNNAMED = (None, "", "DynamicStructuredTool", "DynamicTool", "StructuredTool", "(merged tools)")
EXECUTE = "execute_tool"
INVOKE = "invoke_agent"
TOOLS_CALL = "tools/call"

DETAILS = "gen_ai.client.inference.operation.details"
CHOICE = "gen_ai.choice"
TOOL_MESSAGE = "gen_ai.tool.message"
SYSTEM_MESSAGE = "gen_ai.system.message"
USER_MESSAGE = "gen_ai.user.message"
CONTENT_COMPLETION = "gen_ai.content.completion"
CONTENT_PROMPT = "gen_ai.content.prompt"
# `gen_ai.assistant.message` is history alone and `gen_ai.evaluation.result` is a score: neither is read.
MESSAGE_EVENTS = frozenset((CHOICE, TOOL_MESSAGE, SYSTEM_MESSAGE, USER_MESSAGE))
EVENT_BODY = "gen_ai.event.content"
# The events of a history, with the roles of their messages.
HISTORY_EVENTS: Mapping[str, str] = {
    "gen_ai.assistant.message": "assistant",
    TOOL_MESSAGE: "tool",
    USER_MESSAGE: "user",
}

# Choices beyond the first are alternatives; their calls must not take the positions of the first one's.
_POSITIONS_A_CHOICE = 1000
# Counts that producers write in place of hidden arguments, under similar keys.
_MEASURES = frozenset(("bytes", "chars", "length", "size", "truncated"))
_MAX_BLOCKS = 100
# `Error running tool (non-fatal): {'tool_name': .., 'error': ..}`, or the same as `message` and `data` of one object.
_SDK_NOTES = ("Error running tool", "{'message': 'Error running tool", '{"message": "Error running tool')
# The longest instructions that are remembered.
_MAX_KNOWN_TEXT = 65_536


def executed(span: Span, prefix: str, protocol: Literal["mcp"] | None) -> CallExecuted | None:
    """Read a tool span; `prefix` is an optional prefix of its name. `None` without a tool name."""
    attributes = span.attributes
    name = values.as_str(attributes.get(TOOL_NAME)) or values.as_str(attributes.get(MCP_TOOL))
    if not name:
        # Some MCP clients name the tool in the span name alone: `MCP send tools/call x`.
        name = span.name.partition(prefix + " ")[2].strip()
    if name in UNNAMED:
        return None
    arguments: Content = NOT_RECORDED
    written = attributes.get(ARGUMENTS)
    if not written or written == "{}":
        arguments = one_by_one(attributes)
    result = attributes.get(RESULT)
    if written is not None and not isinstance(arguments, Recorded):
        arguments = values.arguments_beside(written, result)
    returned = values.result(result)
    if result is None:
        # MCP instrumentations write content to attributes of their own.
        whole, count = attributes.get(MCP_CONTENT), attributes.get(MCP_CONTENT_COUNT)
        returned = values.result(whole)
        if whole is None and isinstance(count := values.decoded(count), int):
            texts = [attributes.get(MCP_BLOCK_CONTENT.format(number)) for number in range(min(count, _MAX_BLOCKS))]
            blocks: list[Json] = [{"type": "text", "text": text} for text in texts if isinstance(text, str)]
            returned = Recorded(blocks) if blocks else NOT_RECORDED
    error = call_error(span)
    # Rule: MCP's failure flag in an attribute of its own is a failure, as inside a result.
    if error is None and attributes.get(MCP_IS_ERROR) in _TRUE:
        error = CallError(kind=OTHER_ERROR, message="")
    return CallExecuted(
        name=name,
        call_id=call_id(attributes),
        arguments=arguments,
        result=returned,
        error=error,
        agent=values.as_str(attributes.get(AGENT)),
        protocol=protocol,
    )


def repeats_models(operation: str) -> bool:
    """Return whether an operation has a word for an agent, a tool or the like, whose messages repeat a model's."""
    words = _WORD_BREAKS.sub("_", operation[:_MAX_OPERATION]).lower()
    return _OTHER_OPERATIONS.search(words) is not None


def one_by_one(attributes: Mapping[str, Value]) -> Content:
    """Read arguments with one attribute each; the rest of the key, dots included, is the argument's name.

    Rule: they count where `gen_ai.tool.call.arguments` is absent or empty. Keys below `gen_ai.tool.call.result` describe the result.
    """
    # Runs for every tool span without arguments: searching one text costs a tenth of testing each key.
    if "argument" not in " ".join(attributes):
        return NOT_RECORDED
    found: dict[str, Value] = {}
    for key in attributes:
        value = attributes.get(key)
        if key.startswith(EACH_ARGUMENT):
            found[key.removeprefix(EACH_ARGUMENT)] = value
        elif key.startswith(EACH_MCP_ARGUMENT):
            read = values.content(value)
            found.setdefault(key.removeprefix(EACH_MCP_ARGUMENT), read.value if isinstance(read, Recorded) else value)
    # Without any family of arguments this holds too.
    if all(name in _MEASURES and isinstance(value, int) for name, value in found.items()):
        return NOT_RECORDED
    return values.arguments(found)


def call_id(attributes: Mapping[str, Value], keys: tuple[str, ...] = (CALL_ID,)) -> str | None:
    """Read the call's id; a placeholder in brackets names no call: two failed calls would be taken for one."""
    found = values.identifier(values.first(attributes, keys))
    return None if found is not None and found.startswith("<") and found.endswith(">") else found


def call_error(span: Span) -> CallError | None:
    """Read why the call failed; `None` when it did not."""
    error_type = values.identifier(span.attributes.get(ERROR_TYPE))
    if span.status == "ok" and error_type is None:
        # Frameworks record intended exceptions (a hand-off) on successful spans.
        return pause(span) if span.events else None
    exception = event(span) if span.events else None
    if span.status != "error" and error_type is None and exception is None:
        return None
    recorded: Mapping[str, Value] = exception if exception is not None else {}
    message = span.status_message
    if error_type is not None and " " in error_type:
        # OpenLIT writes the message there; its status says only that a call failed.
        message, error_type = error_type, None
    return CallError(
        kind=error_type or values.as_str(recorded.get("exception.type")) or OTHER_ERROR,
        message=own_message(message or values.as_str(recorded.get("exception.message")) or ""),
    )


def own_message(text: str) -> str:
    """Return the tool's message from the notes of OpenAI's agents SDK; any other text as it is."""
    if not text.startswith(_SDK_NOTES):
        return text
    noted = values.decoded_object(text[text.find("{") :])
    return values.as_str(values.as_object(noted.get("data", noted)).get("error")) or text


def span_failure(span: Span, kinds: Collection[type[Observation]]) -> SpanFailed | None:
    """Read the error of a span that executes no tool. Without an error status, exceptions count only on agent runs and model calls."""
    if span.status == "ok" or CallExecuted in kinds:
        return None
    may_fail = span.status == "error" or AgentRun in kinds or (ModelCall in kinds and bool(span.events))
    error = call_error(span) if may_fail else None
    return SpanFailed(error=error) if error is not None else None


def ended_without_result(call: CallExecuted) -> CallExecuted:
    """Mark a call that recorded arguments and nothing else, of a producer that ends spans of waiting calls in this way."""
    is_recorded = isinstance(call.arguments, Recorded) and call.error is None and call.result == NOT_RECORDED
    return replace(call, is_unfinished=True) if is_recorded else call


def handoff_name(agent: str) -> str:
    """Return the name of the tool that hands over to an agent, as OpenAI's SDK derives it."""
    return "transfer_to_" + _NOT_WORD.sub("_", agent).lower()


def pause(span: Span) -> CallError | None:
    """Read the exception with which a framework waits for a person, with any status of the span."""
    exception = event(span) or {}
    kind = values.as_str(exception.get("exception.type")) or ""
    if kind.rpartition(".")[2] not in PAUSING_EXCEPTIONS:
        return None
    return CallError(kind=PAUSED, message=values.as_str(exception.get("exception.message")) or "")


def event(span: Span, name: str = "exception") -> Mapping[str, Value] | None:
    """Return the attributes of the first event of this name."""
    return next((event.attributes for event in span.events if event.name == name), None)


def conversation(attributes: Mapping[str, Value], own: Iterable[str] = ()) -> list[ConversationSeen]:
    """Read the conversation id, else the producer's session, else the first of its `own` keys."""
    found = values.identifier(attributes.get(CONVERSATION))
    if found is not None:
        return [ConversationSeen(conversation_id=found, rank=0)]
    session = values.identifier(attributes.get(SESSION))
    if session is not None:
        return [ConversationSeen(conversation_id=session, rank=1)]
    return own_conversation(attributes, own) if own else []


def own_conversation(attributes: Mapping[str, Value], keys: Iterable[str]) -> list[ConversationSeen]:
    """Read the conversation id under the first of a producer's own keys that has one."""
    for key in keys:
        if (found := values.identifier(attributes.get(key))) is not None:
            return [ConversationSeen(conversation_id=found, rank=2)]
    return []


# The words of OpenAI, Anthropic, Google, Bedrock, Mistral and the AI SDK.
_ENDINGS: Mapping[str, Ending] = {
    **dict.fromkeys(("length", "max_tokens", "maxtokens", "model_length", "max_output_tokens"), "length"),
    **dict.fromkeys(("content_filter", "content_filtered", "contentfilter", "guardrail_intervened"), "content_filter"),
    **dict.fromkeys(("safety", "recitation", "blocklist", "prohibited_content", "spii"), "content_filter"),
    "refusal": "refusal",
}
_REASON = re.compile(r"[A-Za-z][A-Za-z_-]*")
_LONGEST_REASON = 200
# It comes last in a message, which is the last of an output.
_FINISH = re.compile(r"finish_reason\W{1,6}(\w{1,40})\W{0,8}$")
_TAIL = 80


def ending(reasons: Value) -> Ending | None:
    """Return the ending that the last finish reason names."""
    reason = reasons[-1] if isinstance(reasons, list) and reasons else reasons
    return _ending(reason) if isinstance(reason, str) and len(reason) <= _LONGEST_REASON else None


# The same few words come with each model call.
@lru_cache(maxsize=128)
def _ending(reason: str) -> Ending | None:
    # Some producers write the list as JSON text, or the name of the enumeration in front.
    words = _REASON.findall(reason)
    return _ENDINGS.get(words[-1].lower().replace("-", "_")) if words else None


def finish_in(written: Value) -> Value:
    """Return the finish reason that the last message of an output names itself; `None` without any."""
    if isinstance(written, str):
        found = _FINISH.search(written[-_TAIL:])
        return None if found is None else found[1]
    last = written[-1] if isinstance(written, list) and written else None
    return last.get("finish_reason") if isinstance(last, dict) else None


def is_for_tools(finish: Value) -> bool:
    """Return whether a finish reason means that the model asked for tools."""
    return isinstance(finish, str) and finish.lower().startswith(("tool", "function"))


def stopped_for_tools(attributes: Mapping[str, Value]) -> bool:
    """Return whether a finish reason shows that the model called tools: it is recorded even without content."""
    reasons = attributes.get(FINISH_REASONS)
    if isinstance(reasons, str):
        # Some producers write the list as JSON text, or one reason without a list.
        return any(f'"{word}"' in reasons or word == reasons for word in TOOL_FINISHES)
    return isinstance(reasons, list) and any(map(TOOL_FINISHES.__contains__, reasons))


def text_seen(role: Literal["system", "user", "assistant"], text: Value) -> tuple[MessageSeen, ...]:
    """Return the text of a message as an observation; nothing without text."""
    return (MessageSeen(role=role, text=text),) if isinstance(text, str) and text else ()


def system(value: Value) -> tuple[MessageSeen, ...]:
    """Read system instructions."""
    if isinstance(value, str) and len(value) <= _MAX_KNOWN_TEXT:
        return _instructions(value)
    return text_seen("system", read_text(value)) if value is not None else ()


# They repeat with each model call. Without it, chat spans of 20 KB take 3 % more CPU, and each has its own in memory.
@lru_cache(maxsize=64)
def _instructions(written: str) -> tuple[MessageSeen, ...]:
    return text_seen("system", read_text(written))


def received(messages: Messages) -> list[Observation]:
    """Read a model's input: instructions, the newest user text, and answers to calls; nothing else of the history."""
    if not messages:
        return []
    return [*instructions_and_answers(messages), *newest_user_text(messages)]


def instructions_and_answers(messages: Messages) -> list[Observation]:
    """Read the instructions and the answers to calls, message by message."""
    seen: list[Observation] = []
    for message in messages:
        if message.role == "system":
            seen += text_seen("system", message.text)
        seen += message.answers()
    return seen


def newest_user_text(messages: Messages) -> list[MessageSeen]:
    """Read the newest text of the user. Some producers give answers to calls the role `user`; those have no text."""
    given = [message for message in messages if message.role == "user"] if messages else []
    while given:
        if text := given[-1].text:
            has_media = any(message.has_media for message in messages if message.role == "user")
            return [MessageSeen(role="user", text=text, follows=len(given) > 1, has_media=has_media)]
        given.pop()
    return []


def written(messages: Messages, agent: str | None, first: int = 0) -> list[Observation]:
    """Read a model's output: the calls that it asks for, from position `first` on, and its text."""
    output = Output(agent, first)
    for message in messages:
        message.add_to(output)
    calls = output.calls
    if len(calls) > 1 and len({call.call_id for call in calls}) < len(calls):
        calls = [replace(call, position=position) for position, call in enumerate(_once(calls), first)]
    # Tools with answers in the same output were run by the provider.
    return [*calls, *output.answers, *_text_of(output.texts)]


def _once(calls: list[CallRequested]) -> Iterable[CallRequested]:
    """Return each call once, where a streamed output is recorded in pieces and then as a whole."""
    found: dict[object, CallRequested] = {}
    for place, call in enumerate(calls):
        key = (call.name, call.call_id)
        known = found.get(key) if call.call_id is not None else None
        if known is not None and (call.arguments == known.arguments or not isinstance(known.arguments, Recorded)):
            found[key] = call
        else:
            # Some producers restart call numbers in each piece: an id alone does not identify a call.
            found[key if known is None and call.call_id is not None else place] = call
    return found.values()


def written_text(messages: Messages) -> list[MessageSeen]:
    """Read the text of an output."""
    return _text_of([text for message in messages if message.role != "tool" and (text := message.text)])


def _text_of(texts: list[str]) -> list[MessageSeen]:
    if len(texts) > 1 and texts[-1] == "".join(texts[:-1]):
        # The pieces of a stream come before the whole.
        del texts[:-1]
    return [MessageSeen(role="assistant", text="\n".join(texts))] if texts else []


def message_event(name: str, body: Value, agent: str | None) -> Iterable[Observation]:
    """Read one of the per-message events (up to 1.36), on a span or in a log record."""
    message = event_body(body)
    if name == CHOICE:
        index = message.get("index")
        choice = index if isinstance(index, int) and 0 < index < _POSITIONS_A_CHOICE else 0
        return written(read_messages(message, "assistant"), agent, choice * _POSITIONS_A_CHOICE)
    if name == TOOL_MESSAGE:
        return [answer for recorded in read_messages(message, "tool") for answer in recorded.answers()]
    if name == SYSTEM_MESSAGE:
        return system(message.get("content"))
    if name == USER_MESSAGE:
        recorded = read_messages(message, "user")
        # Of Bedrock's answers only these have the failures.
        return [*(answer for one in recorded for answer in one.answers()), *newest_user_text(recorded)]
    return ()


def event_body(body: Value) -> JsonObject:
    """Open an event's body, which some producers write as JSON text or as nothing but the message's text."""
    match values.content(body):
        case Recorded(dict() as message):
            return message
        case Recorded(str() as text) | Unparsed(text, "unparsable"):
            return {"content": text}
        case _:
            return {}
