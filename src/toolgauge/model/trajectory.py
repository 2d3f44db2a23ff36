"""The ordered tool calls of one trace or conversation, with their context."""

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from toolgauge.model.content import Content, NotRecorded, Recorded
from toolgauge.model.json import Json
from toolgauge.model.left_out import NOTHING_LEFT_OUT, EarlierValues, LeftOut
from toolgauge.model.observations import UNKNOWN_TOOL, CallError, CallKind, Ending, ToolDefinition
from toolgauge.model.records import SpanRef

# `rejected` only on evidence that somebody refused the call: an error result, the producer's word, an answer that says so.
# `paused` waits for a person or for a result from outside; `refused` was turned down by a person; `cancelled` was stopped before
# it ended, by a person, by its run or because another call failed. None of these failed.
CallState: TypeAlias = Literal["executed", "rejected", "requested_only", "paused", "refused", "cancelled"]
# The dialect of calls that an offline case declares, and that no producer recorded.
CASE_DIALECT: Final = "case"
# Properties of a trajectory that an offline case describes: the key of its calls, and whether its answer is text or JSON.
CASE_SHAPE: Final = "case.shape"
CASE_OUTPUT: Final = "case.output"
TrajectoryScope: TypeAlias = Literal["trace", "conversation"]
OfferSource: TypeAlias = Literal["trace", "conversation", "service"]
ClosedBecause: TypeAlias = Literal[
    "run_ended",
    "idle",
    "open_idle",
    "parent_missing",
    "conversation_idle",
    "max_duration",
    "max_open",
    "max_open_bytes",
    "memory",
    "shutdown",
]


class ToolCall(Struct, frozen=True, gc=False):
    """One tool call after its requested and executed views are joined.

    `order` counts all calls from 0; `turn` counts model outputs from 0; calls of one turn are a parallel
    group, `position` is the model's order within it. `span` is the tool span, or the span of the model
    that requested the call where no tool span exists; several calls may share the latter.
    """

    order: int
    turn: int
    position: int
    name: str
    arguments: Content
    result: Content
    error: CallError | None
    call_id: str | None
    agent: str | None
    # Agents from the outermost to the caller.
    agent_path: tuple[str, ...]
    state: CallState
    span: SpanRef
    requested_by: SpanRef | None
    executed_by: SpanRef | None
    dialect: str
    # Both 0 when not known.
    start_ns: int
    end_ns: int
    # The first turn that could know the result or the error; past the last turn for a later result.
    result_turn: int | None = None
    # The run that made the call: the span of one of the trajectory's runs.
    run: SpanRef | None = None
    # The id of the tool itself, which all its calls share, where a producer tells one.
    tool_id: str | None = None
    # Whether its request and its execution carry the same id: joined in any other way, they may be of two calls.
    is_joined_by_id: bool = False
    # Whether the model's provider ran the tool (web search, code interpreter, hosted MCP).
    by_provider: bool = False
    # The tool as its own span describes it, `None` where the producer records no schema there.
    definition: ToolDefinition | None = None
    kind: CallKind = "tool"
    # Whether its own span has the status OK.
    has_ok_status: bool = False
    # The kind of tool that a case names, where it is not a function.
    tool_type: str = ""

    @property
    def has_failed(self) -> bool:
        """Whether the call was rejected or ended in an error."""
        return self.state == "rejected" or self.error is not None


class CodeStep(Struct, frozen=True, kw_only=True, gc=False):
    """A step in which an agent ran code that its model wrote; `code` is `None` where it was not recorded."""

    span: SpanRef
    name: str
    agent: str | None
    code: str | None
    has_failed: bool
    start_ns: int


class Message(Struct, frozen=True, gc=False):
    """Text of the conversation. `turn` is the first turn of calls that could know it."""

    role: Literal["system", "user", "assistant"]
    text: str
    turn: int
    # When a model read it, or had written it; 0 when not known.
    time_ns: int = 0


class EarlierTurns(Struct, frozen=True, gc=False):
    """The turns before a trace, where the input of its first model call holds them with the result of each call."""

    user: tuple[str, ...]
    results: tuple[Content, ...]


class Run(Struct, frozen=True, kw_only=True, gc=False):
    """One run of an agent; a trace without any agent run is one run as a whole.

    `above` is the run around it; `prompt`, `response` and `tools_offered` are `None` where no producer recorded them.
    """

    span: SpanRef
    above: SpanRef | None
    agent: str | None
    prompt: str | None
    response: str | None
    tools_offered: tuple[ToolDefinition, ...] | None
    start_ns: int
    end_ns: int
    # False for the trace as a whole, in which no agent run was seen.
    is_agent: bool = True
    # Where `tools_offered` is from: its own spans, or an earlier offer; filled in by the scorer.
    offer_from: OfferSource = "trace"
    # Its error: on its own span, or on its last model call and the spans around that. Of outermost runs alone.
    error: CallError | None = None
    # Why its last model output is not a whole answer, where that and content of the run were recorded. Of outermost runs alone.
    ending: Ending | None = None
    # Whether its first model call was given messages or answers of earlier runs.
    has_history: bool = False


class Tokens(Struct, frozen=True, kw_only=True, gc=False):
    """The tokens of all model calls that recorded them. `unmeasured` are the model calls that did not, or not both sides.

    `cost` is the sum of the costs that producers recorded, `None` without any. `unpriced` are the tokens (in, out) of all other
    calls by the name of their model, which is empty where it was not recorded.
    """

    input: int
    output: int
    unmeasured: int = 0
    cost: float | None = None
    unpriced: Mapping[str, tuple[int, int]] = {}


class SpanSource(Struct, frozen=True, kw_only=True, gc=False):
    """A library that wrote spans of a trajectory: their ids, and its number of model calls; `has_runs` if it recorded any run."""

    service: str | None
    scope: str
    dialect: str
    spans: tuple[str, ...]
    model_calls: int
    has_runs: bool
    version: str = ""
    language: str = ""


class Trajectory(Struct, frozen=True, kw_only=True, gc=False):
    """A closed trajectory. For scope `conversation`, `trace_id` is the trace of the last turn.

    `root` is the outermost agent run, else the trace's span without a parent, `None` when neither was seen.
    `tools_offered` is `None` when no producer told. `attributes` are the ones that a criterion asks for; `resource` are
    the attributes of the service's resource by which metrics, events and detectors tell producers apart.
    """

    scope: TrajectoryScope
    trace_id: str
    conversation_id: str | None
    service: str | None
    agents: tuple[str, ...]
    root: SpanRef | None
    calls: tuple[ToolCall, ...]
    tools_offered: tuple[ToolDefinition, ...] | None
    messages: tuple[Message, ...]
    attributes: Mapping[str, str | int | float | bool]
    closed_because: ClosedBecause
    # Both 0 when not known.
    start_ns: int
    end_ns: int
    # Names of the called or offered tools that change state; decided by configuration, filled in by the scorer.
    writing_tools: frozenset[str] = frozenset()
    # Names of the called tools that hand over, answer or think; filled in by the scorer, too.
    neutral_tools: frozenset[str] = frozenset()
    # The neutral tools by which a model gave its structured answer: their calls are judged where they are named.
    answer_tools: frozenset[str] = frozenset()
    # Where `tools_offered` is from: its own spans, else an earlier offer of the conversation or service;
    # filled in by the scorer.
    offer_from: OfferSource = "trace"
    # Hashes from texts that were too long to keep.
    left_out: LeftOut = NOTHING_LEFT_OUT
    # Model calls that asked for tools, where neither the calls nor any tool span was recorded.
    hidden_turns: int = 0
    # Whether the first model call had no earlier messages of the user; `None` where inputs do not repeat them.
    has_beginning: bool | None = None
    # The turns before the first model call; `None` without any, or where its input does not hold them all.
    earlier_turns: EarlierTurns | None = None
    # Whether users sent pictures, sound or files, which are not read.
    has_media: bool = False
    # Agent runs in order of time.
    runs: tuple[Run, ...] = ()
    # Steps of code agents in order of time; steps that failed by themselves are calls, too.
    code_steps: tuple[CodeStep, ...] = ()
    # When its first span arrived.
    opened_ns: int = 0
    resource: Mapping[str, str] = {}
    # What its agent runs and model calls were made with, by name: several values are one text.
    properties: Mapping[str, str] = {}
    # `None` when no model call recorded any.
    tokens: Tokens | None = None
    # Why it may lack spans, in words; `None` where nothing says so.
    incomplete: str | None = None
    # What in it shows that spans of it went elsewhere, in words; `None` where nothing does.
    split_sign: str | None = None
    # The partition of the message broker that its spans came from.
    partition: int | None = None
    # Who wrote its spans.
    sources: tuple[SpanSource, ...] = ()
    # What earlier traces of its conversation showed, for a trace; filled in by the pipeline. `None` where nobody remembers them.
    earlier: EarlierValues | None = None
    # Tools that the configuration registers, by name, for what the traffic does not show; filled in by the scorer.
    registered_tools: Mapping[str, ToolDefinition] = {}

    @property
    def closed_id(self) -> str:
        """Its id once it is closed: its trace, and its run where that is a part of the trace; or its conversation."""
        if self.scope == "conversation":
            return self.conversation_id or ""
        is_part = self.closed_because == "parent_missing" and self.root is not None
        return f"{self.trace_id}-{self.root.span_id}" if is_part and self.root is not None else self.trace_id

    @property
    def case_shape(self) -> str:
        """The key that holds the calls of the case; empty where spans were recorded."""
        return self.properties.get(CASE_SHAPE, "")

    @property
    def has_agent_run(self) -> bool:
        """Whether an agent run was seen; one that was written by hand, without runs, is taken for a run."""
        return not self.runs or self.runs[0].is_agent or any(run.is_agent for run in self.runs)


# `earlier` is an earlier trace of the conversation; `model` where nothing before the call held the value, `unknown` where not everything before it was recorded; `common` for
# values that are in any conversation, such as small numbers; `derived` for sums, dates named in other words and the like.
ValueSource: TypeAlias = Literal[
    "user", "system", "schema", "result", "earlier", "derived", "model", "common", "unknown"
]


class ValueOrigin(Struct, frozen=True, kw_only=True):
    """The source of the argument value at `path`; `result_of` is the first call whose result held all of it, with that call's origins."""

    path: str
    value: Json
    source: ValueSource
    result_of: "CallOrigins | None" = None


class CallOrigins(Struct, frozen=True, kw_only=True):
    """The origins of the argument values of one call. `more` counts the values that were not followed."""

    call: ToolCall
    values: tuple[ValueOrigin, ...]
    more: int = 0


# The share of a failed step's lines that are in the later step, for both to be the same cell.
_SAME_CELL = 0.5
# So many steps after a failed one are compared with it: each with each would take a minute for a trace of 10,000.
_MAX_LATER = 50


def made_good(calls: Sequence[ToolCall]) -> dict[int, ToolCall]:
    """Map the order of each failed call of a tool that was made good to the first success after it."""
    successes: dict[int, ToolCall] = {}
    failed: dict[tuple[str | None, str], deque[ToolCall]] = {}
    for call in calls:
        if call.kind == "code":
            continue
        key = call.agent, call.name
        if call.has_failed:
            failed.setdefault(key, deque()).append(call)
        elif key in failed and has_succeeded(call):
            # Calls of one turn were asked for together: none of them is a retry of another.
            waiting = failed[key]
            while waiting and waiting[0].turn < call.turn:
                successes[waiting.popleft().order] = call
    return successes


def repaired_code(trajectory: Trajectory) -> frozenset[int]:
    """Return the orders of failed code steps followed by a working step of the same agent with at least half of their lines."""
    failed = [call for call in trajectory.calls if call.kind == "code" and call.has_failed]
    if not failed:
        return frozenset()
    worked: dict[tuple[str, str | None], list[tuple[int, frozenset[str]]]] = {}
    for step in sorted(trajectory.code_steps, key=attrgetter("start_ns")):
        if step.code is not None and not step.has_failed:
            worked.setdefault((step.name, step.agent), []).append((step.start_ns, _lines(step.code)))
    return frozenset(call.order for call in failed if _is_repaired(call, worked.get((call.name, call.agent), ())))


def _is_repaired(call: ToolCall, worked: Sequence[tuple[int, frozenset[str]]]) -> bool:
    written = call.arguments.value if isinstance(call.arguments, Recorded) else None
    code = written.get("code") if isinstance(written, dict) else None
    lines = _lines(code if isinstance(code, str) else "")
    first = bisect_left(worked, call.end_ns, key=itemgetter(0))
    return bool(lines) and any(
        len(lines & later) >= _SAME_CELL * len(lines) for _, later in islice(worked, first, first + _MAX_LATER)
    )


def recovered(trajectory: Trajectory) -> frozenset[int]:
    """Return the orders of all failed calls that were made good."""
    if not any(call.has_failed for call in trajectory.calls):
        return frozenset()
    return repaired_code(trajectory).union(made_good(trajectory.calls))


def invented_tools(trajectory: Trajectory) -> frozenset[str]:
    """Return the names of called tools that do not exist, as far as that was seen."""
    if all(call.state == "executed" for call in trajectory.calls):
        return frozenset()
    offers = (trajectory.tools_offered or (), *(run.tools_offered or () for run in trajectory.runs))
    offered = {tool.name for tools in offers for tool in tools}
    known = offered.union([call.name for call in trajectory.calls if call.state not in ("rejected", "requested_only")])
    return frozenset(
        call.name
        for call in trajectory.calls
        if call.name not in known and (offered or (call.error is not None and call.error.kind == UNKNOWN_TOOL))
    )


def has_succeeded(call: ToolCall) -> bool:
    """Return whether the call was executed, or answered, without an error."""
    if call.error is not None:
        return False
    return call.state == "executed" or (call.state == "requested_only" and not isinstance(call.result, NotRecorded))


def _lines(code: str) -> frozenset[str]:
    stripped = (line.strip() for line in code.splitlines())
    return frozenset(line for line in stripped if line and not line.startswith("#"))
