"""What a dialect read from one span or log record. Joining them to tool calls is `assemble`'s work.

Readings wait by the ten thousand, and nothing in them leads back to them: they are not looked at for garbage (`gc=False`).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final, Literal, TypeAlias, TypeVar, cast, final

from msgspec import Struct

from toolgauge.model.content import NOT_RECORDED, Content
from toolgauge.model.json import JsonObject
from toolgauge.model.records import Resource, Scope, SpanRef, StatusCode

# LangGraph, Pydantic AI, Genkit, Strands, Agent Framework, LlamaIndex. Their classes, without the module.
PAUSING_EXCEPTIONS: Final = frozenset(
    (
        *("GraphInterrupt", "NodeInterrupt", "GraphDrained"),
        *("ApprovalRequired", "CallDeferred"),
        "ToolInterruptError",
        *("InterruptException", "InterruptError"),
        "UserInputRequiredException",
        "WaitingForEvent",
    )
)


# Kinds of errors. The first four are ours: an output asked for a tool that is not there, or with arguments that it does not take;
# the call waits for a person, or a person turned it down. The last is OpenTelemetry's fallback for `error.type`.
UNKNOWN_TOOL: Final = "unknown_tool"
INVALID_ARGUMENTS: Final = "invalid_arguments"
PAUSED: Final = "paused"
REFUSED: Final = "refused"
OTHER_ERROR: Final = "_OTHER"
# Properties of a run.
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"


# Rule: a failed step in which an agent ran code that its model wrote is a call of kind `code`; all other calls are of tools.
CallKind: TypeAlias = Literal["tool", "code"]


class CallError(Struct, frozen=True, kw_only=True, gc=False):
    """Why a call failed. `kind` is `error.type` or the exception's class; `message` may hold argument values."""

    kind: str
    message: str


class AgentRun(Struct, frozen=True, kw_only=True, gc=False):
    """The span is one run of an agent; its end is the run's end. `named_by_id` when its producer has an id in place of a name."""

    agent: str | None
    named_by_id: bool = False


# Why the output of a model is not a whole answer: it has neither text nor calls, or its finish reason says so.
Ending: TypeAlias = Literal["empty", "length", "content_filter", "refusal"]


class ModelCall(Struct, frozen=True, kw_only=True, gc=False):
    """The span is one call of a model. All calls it requests are one turn.

    `ending` is `None` for a whole answer, and where nothing was recorded.
    `stopped_for_tools` when its finish reason says that it asked for tools, whether or not the calls were recorded.
    `may_repeat` when its operation is not known as a model's: its output may be that of another span.
    Tokens are its producer's count, `None` when not recorded. `may_add_up` when they may include earlier calls' tokens.
    """

    agent: str | None = None
    stopped_for_tools: bool = False
    may_repeat: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None
    may_add_up: bool = False
    ending: Ending | None = None


class CallRequested(Struct, frozen=True, kw_only=True, gc=False):
    """A tool call in a model's output. `position` counts from 0 within this output."""

    position: int
    name: str
    call_id: str | None = None
    arguments: Content = NOT_RECORDED
    agent: str | None = None
    # False when the producer says that it could not use the request (LangChain's `invalid_tool_calls`).
    usable: bool = True
    # The number of the output on a span that sums up several; `None` when not recorded.
    output: int | None = None
    # The producer marks the tool as one that the model's provider runs.
    by_provider: bool = False


class CallExecuted(Struct, frozen=True, kw_only=True, gc=False):
    """The span is the execution of a tool call.

    `protocol` is `mcp` for a span of the protocol beneath a tool (client or server side): where an outer
    span of the same call exists, it is the same call seen again. `is_unfinished` when it has neither result nor error, and its
    producer ends the span of a call that waits for a person in the same way: the call is paused if its run stopped there.
    """

    name: str
    call_id: str | None = None
    arguments: Content = NOT_RECORDED
    result: Content = NOT_RECORDED
    error: CallError | None = None
    agent: str | None = None
    protocol: Literal["mcp"] | None = None
    # The id of the tool itself, which all its calls share, where a producer tells one.
    tool_id: str | None = None
    is_unfinished: bool = False


class CodeExecuted(Struct, frozen=True, kw_only=True, gc=False):
    """The span is a step in which an agent ran code, or tried to; the code is in the output of the model call beneath it."""

    name: str
    error: CallError | None = None


class CallAnswered(Struct, frozen=True, kw_only=True, gc=False):
    """The answer to a call in a model's input, or beside the call in its output where the provider ran the tool (`by_provider`)."""

    call_id: str | None = None
    name: str | None = None
    result: Content = NOT_RECORDED
    error: CallError | None = None
    by_provider: bool = False


class ToolDefinition(Struct, frozen=True, kw_only=True, gc=False):
    """A tool on offer. `parameters` is its JSON Schema, `None` when not recorded; `takes_text` where it takes free text instead.

    `is_repeatable` where MCP's hints say that another equal call changes nothing more.
    """

    name: str
    description: str | None = None
    parameters: JsonObject | None = None
    takes_text: bool = False
    is_repeatable: bool = False


_Found = TypeVar("_Found")


class Tools(tuple[ToolDefinition, ...]):
    """Tools on offer. All runs that repeat an offer share one object, which keeps the answers to questions about it."""

    @classmethod
    def of(cls, tools: Sequence[ToolDefinition] | None) -> "Tools":
        """Return the tools as they are, where they are such an object."""
        return tools if isinstance(tools, cls) else cls(tools) if tools else NO_TOOLS

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names in the order of the offer."""
        return tuple([tool.name for tool in self])

    @cached_property
    def by_name(self) -> Mapping[str, ToolDefinition]:
        """The first tool of each name, beginning with the last name."""
        return {tool.name: tool for tool in reversed(self)}

    def once(self, find: Callable[["Tools"], _Found]) -> _Found:
        """Return what a function finds in these tools; it looks once."""
        found = cast("dict[object, object]", vars(self))
        if find not in found:
            found[find] = find(self)
        return cast("_Found", found[find])

    def __reduce__(self) -> tuple[type[tuple[ToolDefinition, ...]], tuple[tuple[ToolDefinition, ...]]]:
        # Copies carry the tools alone.
        return tuple, (tuple(self),)


NO_TOOLS: Final = Tools()


class ToolDescribed(Struct, frozen=True, kw_only=True, gc=False):
    """The called tool as the span of its own execution describes it."""

    tool: ToolDefinition


class ToolsOffered(Struct, frozen=True, kw_only=True, gc=False):
    """The tools a model or agent could choose from."""

    tools: tuple[ToolDefinition, ...]


class MessageSeen(Struct, frozen=True, kw_only=True, gc=False):
    """A system prompt, output, or newest user text, which `follows` an earlier one or not; `has_media` if any user message has media."""

    role: Literal["system", "user", "assistant"]
    text: str
    follows: bool = False
    has_media: bool = False


class SpanFailed(Struct, frozen=True, kw_only=True, gc=False):
    """The span, which does not execute a tool, ended with an error: a run, a turn or a model call."""

    error: CallError


# The properties of a run that producers record as attributes.
RunProperty: TypeAlias = Literal[
    "gen_ai.request.model",
    "gen_ai.response.model",
    "gen_ai.provider.name",
    "gen_ai.system_instructions",
    "gen_ai.agent.version",
    "gen_ai.prompt.name",
    "gen_ai.prompt.version",
    "gen_ai.request.temperature",
    "gen_ai.request.top_p",
    "gen_ai.request.top_k",
    "gen_ai.request.max_tokens",
    "gen_ai.request.frequency_penalty",
    "gen_ai.request.presence_penalty",
    "gen_ai.request.reasoning_effort",
]


class PropertiesSeen(Struct, frozen=True, kw_only=True, gc=False):
    """Properties of the run, such as model and prompt version, by name, for an agent run or model call on the same record.

    `cost` is the price of the call or run by its producer's count; tokens are the sums that an agent run's span repeats.
    """

    values: tuple[tuple[str, str], ...]
    cost: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


class ConversationSeen(Struct, frozen=True, kw_only=True, gc=False):
    """A conversation id. The lowest rank wins: 0 `gen_ai.conversation.id`, 1 `session.id`, 2 a framework's key."""

    conversation_id: str
    rank: int


Observation: TypeAlias = (
    AgentRun
    | ModelCall
    | CallRequested
    | CallExecuted
    | CodeExecuted
    | CallAnswered
    | ToolDescribed
    | ToolsOffered
    | MessageSeen
    | ConversationSeen
    | SpanFailed
    | PropertiesSeen
)


@final
class Reading(Struct, frozen=True, kw_only=True, gc=False):
    """All that was read from one span or log record.

    `ref` is the span itself, or the span that a log record belongs to (`is_log`). `dialect` is `None`
    for a span that was viewed for its ids or `attributes` alone. `attributes` are only the ones that a
    criterion asks for (`when.attributes`, `reference.key`), resource attributes included. `resource` are the labels of
    the producer, one object for all spans of a resource. `version` is that of the scope, `language` that of the SDK; "" where
    not recorded. `is_cut` when the producer dropped attributes or events of the span.
    """

    ref: SpanRef
    is_log: bool
    parent_span_id: str | None
    parent_is_remote: bool | None
    start_ns: int
    end_ns: int
    service: str | None
    scope: str
    dialect: str | None
    status: StatusCode
    observations: tuple[Observation, ...]
    size_bytes: int
    attributes: tuple[tuple[str, str | int | float | bool], ...] = ()
    resource: Mapping[str, str] = {}
    version: str = ""
    language: str = ""
    is_cut: bool = False

    @property
    def is_open(self) -> bool:
        """Whether its span had not ended: some producers send a copy of a span when it begins, and the whole span later."""
        return self.end_ns < self.start_ns


@final
class ModelInput(Struct, frozen=True, kw_only=True, gc=False):
    """The span of a model call that was given answers, as the bytes it came in: its history may hold calls that an output lost.

    `answered` are the ids of these answers in their order; empty where some have none.
    """

    span_id: str
    dialect: str
    answered: tuple[str, ...]
    raw: bytes
    resource: Resource
    scope: Scope
