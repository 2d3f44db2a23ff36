"""Reads LangChain's and LangGraph's content of other producers' spans: tool answers, chat messages, agent runs.

At the end the envelopes that frameworks put around the arguments and the result of a call are opened, for the calls of every dialect.
An envelope is known by all of its members: an object with others is a tool's argument or its result.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import (
    OTHER_ERROR,
    PAUSED,
    AgentRun,
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
)
from toolgauge.model.records import Span
from toolgauge.recognize import values
from toolgauge.recognize.messages import Message, Output

# LangGraph leaves a node through these exceptions; nothing has failed. Those that wait for a person are kept as errors:
# `assemble` distinguishes them from failures by their class.
_CONTROL_FLOW = ("ParentCommand", "GraphBubbleUp")
INVALID_TOOL = "invalid_tool"
_MESSAGE_REPR = re.compile(
    r"content=(?P<content>'[^'\\]*(?:\\.[^'\\]*)*'|\"[^\"\\]*(?:\\.[^\"\\]*)*\"|\[.*?\])"
    r"(?P<rest>(?: [a-z_]+=.*)?)",
    re.DOTALL,
)
_ACTION_REQUESTS = "action_requests"
# Two searches: a single expression would look for the end of each of many beginnings.
_ACTIONS = re.compile(r"[\"']action_requests[\"']: (?=\[)")
_END_OF_ACTIONS = re.compile(r"(?<=\]), [\"']review_configs")
_CALL_ID = re.compile(r"[ (]tool_call_id='([^'\\]{1,256})'")
_STATUS_ERROR = re.compile(r" status='error'(?: |$)")

_CALL_BLOCKS = ("tool_use", "tool_call", "function_call", "input_json_delta")
# What LangChain calls its messages; other types are those of a part that stands where a message could.
_ROLES = {
    "human": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
}
_PAIR = 2

# Names that LangChain gives to runs that the application did not name.
_UNNAMED_RUNS = ("LangGraph", "AgentExecutor", "CompiledStateGraph")
# What LangChain calls the parts of a chain, after their class and the keys they fill.
_PART = re.compile(r"(?:Runnable|Channel|Branch)\w*(?:<.*>)?|\w*OutputParser", re.DOTALL)
_GRAPH_INTEGRATIONS = ("langgraph", "langchain_create_agent")

REQUESTED = "requested_tool_name"
_ARGUMENTS = frozenset((REQUESTED, "available_tool_names"))


class Answer(Struct, frozen=True, kw_only=True):
    """The outcome of a call, as a tool run records it."""

    result: Content = NOT_RECORDED
    call_id: str | None = None
    error: CallError | None = None

    def of(
        self,
        name: str,
        arguments: Content,
        call_id: str | None = None,
        error: CallError | None = None,
        agent: str | None = None,
    ) -> CallExecuted:
        """Return the call that has this outcome; an id and a failure that its span has of its own count first."""
        return CallExecuted(
            name=name,
            call_id=call_id or self.call_id,
            arguments=arguments,
            result=self.result,
            error=error or self.error,
            agent=agent,
        )


def llamaindex_answer(output: JsonObject) -> Answer:
    """Read LlamaIndex's output of a tool: `raw_output` is the value itself, the other members are its Python repr."""
    texts = [values.as_str(values.as_object(block).get("text")) for block in values.as_list(output.get("blocks"))]
    shown = "\n".join(text for text in texts if text) or values.as_str(output.get("content"))
    raw = output.get("raw_output")
    returned = values.returned(raw) if raw is not None else values.result(shown)
    failed = output.get("is_error") is True
    return Answer(
        result=returned,
        error=CallError(kind=OTHER_ERROR, message=shown or values.text_of(returned)) if failed else None,
    )


def is_control_flow(exception: str) -> bool:
    """Return whether an exception's class is one that LangGraph raises on purpose."""
    return exception.rpartition(".")[2] in _CONTROL_FLOW


def tool_answer(value: Value) -> Answer:
    """Open the output of a tool run: a message, a command, either inside `{"output": ...}`, or the plain result."""
    read = values.content(value)
    if isinstance(read, NotRecorded):
        return Answer(result=read)
    opened = values.as_object(read.value) if isinstance(read, Recorded) else {}
    if len(opened) == 1 and "output" in opened:
        inner = opened["output"]
        if isinstance(inner, str):
            return repr_answer(inner)
        opened = values.as_object(inner) or opened
    data = message_fields(opened)
    if "tool_call_id" in data:
        return message_answer(data)
    if isinstance(update := opened.get("update"), dict):
        # Read a LangGraph command: of the messages it adds, perhaps after the whole history, the last tool message.
        for message in reversed(values.as_list(update.get("messages"))):
            data = message_fields(message)
            if "tool_call_id" in data:
                return message_answer(data)
        return Answer(result=read)
    text = read.value if isinstance(read, Recorded) else value
    if isinstance(text, str) and text.startswith(("content=", "Command(")):
        return repr_answer(text)
    return Answer(result=values.result(value))


def message_fields(message: Json) -> JsonObject:
    """Return the fields of a serialised message, wherever the way of serialising puts them."""
    item = values.as_object(message)
    for key in ("kwargs", "data"):
        if isinstance(inner := item.get(key), dict):
            return inner
    return item


def message_answer(data: JsonObject) -> Answer:
    """Read the fields of a tool message."""
    returned = data.get("content")
    failed = data.get("status") == "error"
    return Answer(
        result=values.result(returned) if isinstance(returned, (str, list, dict)) else Recorded(returned),
        call_id=values.as_str(data.get("tool_call_id")),
        error=CallError(kind=OTHER_ERROR, message=values.text_of(returned)) if failed else None,
    )


def repr_answer(text: str) -> Answer:
    """Read `content='..' name='..' tool_call_id='..'`, a tool message as Python shows it."""
    if text.startswith("Command("):
        call_ids = _CALL_ID.findall(text)
        return Answer(call_id=call_ids[-1] if call_ids else None)
    found = _MESSAGE_REPR.fullmatch(text.strip())
    if found is None:
        return Answer(result=values.result(text))
    returned = values.parse_text(found["content"])
    value: Json = returned.value if isinstance(returned, Recorded) else found["content"]
    call_id = _CALL_ID.search(found["rest"])
    failed = _STATUS_ERROR.search(found["rest"])
    return Answer(
        result=values.returned(value),
        call_id=call_id[1] if call_id else None,
        error=CallError(kind=OTHER_ERROR, message=values.text_of(value)) if failed else None,
    )


def waiting_calls(span: Span, interrupt: str = "") -> Iterator[CallAnswered]:
    """Read the calls for which LangChain's human in the loop asks, from the text of its exception: no tool has a span for them."""
    if not interrupt and (span.events or span.status == "error"):
        raised = (
            values.as_str(event.attributes.get("exception.message"))
            for event in span.events
            if event.name == "exception"
        )
        interrupt = next(filter(None, raised), span.status_message)
    begin = _ACTIONS.search(interrupt) if _ACTION_REQUESTS in interrupt else None
    end = _END_OF_ACTIONS.search(interrupt, begin.end()) if begin is not None else None
    read = values.parse_text(interrupt[begin.end() : end.start()]) if begin is not None and end is not None else None
    for action in values.as_list(read.value) if isinstance(read, Recorded) else []:
        name = values.as_str(values.as_object(action).get("name"))
        if name is not None:
            yield CallAnswered(name=name, error=CallError(kind=PAUSED, message=""))


def node_answers(given: Value, output: Value) -> Iterator[CallAnswered]:
    """Read the answers of a LangGraph tool node; a call that was refused has no tool run, only this."""
    if not isinstance(given, str) or '"tool_call' not in given or given[:1] not in ("[", "{"):
        return
    opened = values.decoded(given)
    inner = values.as_object(opened)
    calls = values.as_list(opened) or values.as_list(inner.get("input")) or [inner.get("tool_call")]
    if not all(values.as_object(call).get("type") == "tool_call" for call in calls):
        return
    returned = values.decoded_object(output)
    added = returned.get("output")
    listed = values.as_list(returned.get("messages")) or values.as_list(values.as_object(added).get("messages"))
    for message in listed or values.as_list(added):
        data = message_fields(message)
        if "tool_call_id" in data:
            yield from message_answers(data)


# A call may stand in one message three times (`tool_calls`, content blocks, `additional_kwargs`); one that LangChain could not parse
# stands only in `invalid_tool_calls`.
def generated(output: Json) -> list[JsonObject]:
    """Return the messages of a model's result, `{"generations": [[{"message": ...}]]}`; of alternatives the first."""
    found: list[JsonObject] = []
    for batch in values.as_list(values.as_object(output).get("generations")):
        first = values.as_object((values.as_list(batch) or [None])[0])
        message = message_fields(first.get("message"))
        if message:
            found.append(message)
    return found


def batch(messages: Json) -> list[Json]:
    """Return one conversation: the list itself, or the one list in it."""
    items = values.as_list(messages)
    first = items[0] if len(items) == 1 else None
    # `["user", "text"]` is a message, `[{...}, {...}]` is a list of them.
    return first if isinstance(first, list) and not (len(first) == _PAIR and isinstance(first[0], str)) else items


class ChainMessage(Message):
    """One of LangChain's messages, with the calls that it could not parse."""

    __slots__ = ("_data",)

    def __init__(self, item: Json, default_role: str) -> None:
        self._data = message_fields(item)
        super().__init__(flat_message(self._data), default_role)

    def answers(self) -> list[CallAnswered]:
        """Read the answers to calls, in order."""
        return [*message_answers(self._data)] if self.role == "tool" else super().answers()

    def add_to(self, output: Output) -> None:
        """Add the message's calls, answers and texts; nothing of a tool's message."""
        if self.role != "tool":
            super().add_to(output)
            output.calls += rejected(self._data, output.agent, output.first + len(output.calls))


def messages_of(items: Sequence[Json], default_role: str) -> list[ChainMessage]:
    """Read the messages of a list that is open already."""
    return [ChainMessage(item, default_role) for item in items]


def message_answers(data: JsonObject) -> Iterator[CallAnswered]:
    """Read the fields of a tool message that names its call or its tool."""
    answer, name = message_answer(data), values.as_str(data.get("name"))
    if answer.call_id is not None or name is not None:
        yield CallAnswered(call_id=answer.call_id, name=name, result=answer.result, error=answer.error)


def rejected(data: JsonObject, agent: str | None, position: int) -> Iterator[CallRequested]:
    """Read the calls that LangChain could not parse, from `position` on."""
    for item in values.as_list(data.get("invalid_tool_calls")):
        call = values.as_object(item)
        name = values.as_str(call.get("name"))
        if name is None:
            continue
        text = values.as_str(call.get("args"))
        yield CallRequested(
            position=position,
            name=name,
            call_id=values.as_str(call.get("id")),
            arguments=NOT_RECORDED if text is None else Unparsed(text),
            agent=agent,
            usable=False,
        )
        position += 1


def flat_message(data: JsonObject) -> JsonObject:
    """Return the message with a role, and with each call once."""
    flat = dict(data)
    role = _ROLES.get(values.as_str(data.get("type")) or "")
    if role is not None:
        flat["role"] = role
        del flat["type"]
    calls = values.as_list(data.get("tool_calls"))
    if not calls and not data.get("invalid_tool_calls"):
        # Old releases keep the provider's own form.
        kwargs = values.as_object(data.get("additional_kwargs"))
        function = kwargs.get("function_call")
        calls = values.as_list(kwargs.get("tool_calls")) or ([function] if isinstance(function, dict) else [])
        flat["tool_calls"] = calls
    if calls or data.get("invalid_tool_calls"):
        blocks = data.get("content")
        if isinstance(blocks, list):
            flat["content"] = [block for block in blocks if values.as_object(block).get("type") not in _CALL_BLOCKS]
    return flat


# A graph's nodes look like agents by their names, and their end would be taken for the end of the run.
def agent_name(metadata: JsonObject) -> str | None:
    """Return the agent to which a run belongs, by LangChain's metadata."""
    return values.as_str(metadata.get("lc_agent_name"))


def agent_run(name: str, metadata: JsonObject, *, labelled: bool) -> AgentRun | None:
    """Return a chain's run as an agent run if it is one; `labelled`: the producer marks it as an agent."""
    agent = agent_name(metadata)
    if agent is not None and agent == name:
        return AgentRun(agent=agent)
    if "langgraph_node" not in metadata:
        if labelled and name not in _UNNAMED_RUNS and _PART.fullmatch(name) is None:
            return AgentRun(agent=name)
        if name in _UNNAMED_RUNS or metadata.get("ls_integration") in _GRAPH_INTEGRATIONS:
            return AgentRun(agent=agent_name(metadata))
        return None
    # A node that runs a graph of its own: the graph's run has the node's checkpoint, its nodes have theirs.
    inside = metadata.get("checkpoint_ns")
    if labelled and agent is None and inside is not None and inside == metadata.get("langgraph_checkpoint_ns", inside):
        return AgentRun(agent=name)
    return None


def as_requested(call: CallExecuted) -> CallExecuted:
    """Return the call under the name that the model gave, failed; any other call as it is."""
    given = (
        values.as_object(call.arguments.value)
        if call.name == INVALID_TOOL and isinstance(call.arguments, Recorded)
        else {}
    )
    requested = values.as_str(given.get(REQUESTED))
    if requested is None or given.keys() != _ARGUMENTS:
        return call
    returned = call.result.value if isinstance(call.result, Recorded) else None
    error = call.error or CallError(kind=OTHER_ERROR, message=values.text_of(returned))
    return replace(call, name=requested, arguments=NOT_RECORDED, error=error)


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
    arguments, answer = opened_arguments(seen.arguments), _answer(seen.result)
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


def opened_arguments(recorded: Content) -> Content:
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
