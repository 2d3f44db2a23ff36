"""Holds the spans of a trace as nodes of a tree, and the two views of a call."""

from collections.abc import Hashable, Sequence
from itertools import repeat
from operator import attrgetter

from msgspec import Struct

from toolgauge.assemble.failures import NotExecuted, mcp_failure
from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import JsonObject, canonical
from toolgauge.model.names import is_same_tool
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallError,
    CallKind,
    CodeExecuted,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    PropertiesSeen,
    Reading,
    ToolDefinition,
    ToolsOffered,
)
from toolgauge.model.records import SpanRef


def arguments_key(arguments: Content) -> Hashable | None:
    """Return a key for the arguments of a call; `None` when they were not recorded and so equal nothing."""
    if type(arguments) is Recorded:
        value = arguments.value
    elif type(arguments) is Unparsed:
        value = arguments.text
    else:
        return None
    return ("text", value.strip()) if type(value) is str else canonical(value)


def likeness(requested: Content, executed: Content) -> float:
    """Return how alike arguments are, 0 to 1: producers fill in defaults, repair values, or write an only argument bare."""
    if not isinstance(requested, Recorded) or not isinstance(requested.value, dict):
        return 0.0
    wanted = requested.value
    match executed:
        case Recorded(value=dict() as given):
            shared = sum(1 for key in wanted if key in given and canonical(wanted[key]) == canonical(given[key]))
            return shared / max(1, len(wanted.keys() | given.keys()))
        case Recorded(value=bare) | Unparsed(text=bare):
            return float(len(wanted) == 1 and canonical(bare) == canonical(next(iter(wanted.values()))))
        case NotRecorded():
            return 0.0


def adds_to(executed: JsonObject, requested: Content) -> bool:
    """Return whether executed arguments hold all that was requested: the same members, or broken text as the only value."""
    match requested:
        case Recorded(value=dict() as wanted) if wanted:
            return all(key in executed and canonical(executed[key]) == canonical(wanted[key]) for key in wanted)
        case Unparsed(text=text):
            return list(executed.values()) == [text]
        case _:
            return False


_MARK = "<"


def restored_ref(given: SpanRef, number: int) -> SpanRef:
    """Return the id of a restored output: the span with the history, and a number."""
    return SpanRef(given.trace_id, f"{given.span_id}{_MARK}{number}")


def is_restored(ref: SpanRef) -> bool:
    """Return whether the id names a restored output."""
    return _MARK in ref.span_id


class Branch(Struct, frozen=True, eq=False):
    """What all spans directly below one span take over from it."""

    depth: int
    # Names of the agents from the outermost down to here.
    agents: tuple[str, ...]
    # The agent run that these spans are part of, and the outermost span that shows the same run.
    inside: "Node | None"
    outermost: "Node | None"
    # The nearest tool span above, and whether an agent or a model is between: then it is another call.
    tool_above: "Node | None"
    crossed: bool
    # The nearest span above that shows a model's own output.
    model_above: "Node | None"
    # The topmost span above, the nearest failed one, the nearest step of a code agent, and the topmost agent run.
    topmost: "Node | None" = None
    failed_above: "Node | None" = None
    step_above: "Node | None" = None
    top_run: "Node | None" = None


# Where spans hang that have none above them, and where one hangs as long as that is not known.
TOP = Branch(0, (), None, None, None, crossed=False, model_above=None)
NOWHERE = Branch(-1, (), None, None, None, crossed=False, model_above=None)


class Node(Struct, eq=False):
    """One span with all that was observed on it; `time_ns` is its start on the clock of the topmost service."""

    # That of the span itself, else that of its first log record.
    first: Reading
    ref: SpanRef
    parent: str | None
    start_ns: int
    end_ns: int
    from_log_only: bool
    # Whether its requests are a model's own output, and not a summary of several outputs.
    is_primary: bool
    time_ns: int
    # Its end on the same clock, never before its start: some clocks are set back in between.
    until_ns: int
    agent_run: AgentRun | None = None
    model_call: ModelCall | None = None
    requests: list["Request"] = []
    executions: list["Execution"] = []
    answers: list[CallAnswered] = []
    offers: list[ToolsOffered] = []
    definition: ToolDefinition | None = None
    messages: list[MessageSeen] = []
    # The first text of the user.
    user: MessageSeen | None = None
    conversation: ConversationSeen | None = None
    # The error that the span ended with, unless it executes a tool.
    failure: CallError | None = None
    code_step: CodeExecuted | None = None
    properties: PropertiesSeen | None = None
    # Its index among all spans in order of time.
    place: int = 0
    above: "Node | None" = None
    # Where it hangs; an agent run is on a branch of its own.
    branch: Branch = NOWHERE
    # Where the spans directly below it hang; made for the first one.
    below: Branch | None = None

    @property
    def is_outermost_run(self) -> bool:
        """Whether the span is an agent run that no other agent run contains."""
        return self.agent_run is not None and self.branch.top_run is None

    @property
    def model_around(self) -> "Node | None":
        """The model's span around this one; `None` where a tool or an agent run is between them."""
        above, branch = self.branch.model_above, self.branch
        is_same = above is not None and above.branch.inside is branch.inside
        return above if above is not None and is_same and above.branch.tool_above is branch.tool_above else None


def place_and_time(node: Node) -> tuple[str | None, int, int]:
    """Return the key that a span shares with its copies under other ids, by a retrying exporter or a second tracer."""
    return node.parent, node.start_ns, node.end_ns


def order(node: Node) -> tuple[int, int, int, str, str]:
    """Sort by time, then by what differs between spans of equal start, the same in every order of arrival."""
    ref = node.ref
    return (node.time_ns, node.branch.depth, node.end_ns, ref.span_id, ref.trace_id)


class _Key(Struct, eq=False, kw_only=True):
    """Keeps the key of some arguments: it is used many times, and made by a walk over all arguments."""

    _keyed: Content | None = None
    _key: Hashable | None = None


class View(_Key, eq=False):
    """What both views of a call hold."""

    node: Node
    name: str
    call_id: str | None
    arguments: Content
    agent: str | None

    @property
    def arguments_key(self) -> Hashable | None:
        """Equal for equal arguments, `None` when they are not known."""
        if self._keyed is not self.arguments:
            self._keyed, self._key = self.arguments, arguments_key(self.arguments)
        return self._key

    def has_other_id_than(self, other: "View") -> bool:
        """Return whether both carry an id, and not the same."""
        return self.call_id is not None and other.call_id is not None and self.call_id != other.call_id

    def may_have_arguments_of(self, other: "View") -> bool:
        """Return whether both have the same arguments, or one has none."""
        mine, others = self.arguments_key, other.arguments_key
        return mine is None or others is None or mine == others


class Request(View, eq=False):
    """A call as a model asked for it; `alive` until another view of the same request takes its place."""

    position: int
    usable: bool
    output: int | None = None
    by_provider: bool = False
    alive: bool = True
    execution: "Execution | None" = None

    @property
    def run(self) -> Node | None:
        """The agent run that asked."""
        return self.node.branch.inside

    def absorb(self, other: "Request") -> None:
        """Fill missing fields from another view of this request, which ends with that."""
        other.alive = False
        self.call_id = self.call_id if self.call_id is not None else other.call_id
        self.agent = self.agent if self.agent is not None else other.agent
        self.usable = self.usable and other.usable
        self.by_provider = self.by_provider or other.by_provider
        if isinstance(self.arguments, NotRecorded):
            self.arguments = other.arguments


class Execution(View, eq=False):
    """A call as a tool span shows it; the spans within it that show the same call are absorbed."""

    result: Content
    error: CallError | None
    is_protocol: bool
    tool_id: str | None
    # ClaimedAct by a log record, which may name the span of the run in place of the tool's own.
    from_log: bool
    is_unfinished: bool = False
    host: "Execution | None" = None
    # Whether a request was found for it.
    was_requested: bool = False
    # The end of the inner span that the error comes from.
    failed_ns: int | None = None
    kind: CallKind = "tool"
    # Whether it waits (for a person, or for a result from outside) or was refused; known once calls are paired.
    stopped: NotExecuted | None = None

    @property
    def run(self) -> Node | None:
        """The agent run that made the call: what the tool span itself runs does not count."""
        return self.node.above.branch.inside if self.node.above is not None else None

    def has_name_of(self, other: "Execution") -> bool:
        """Return whether both name the same tool; a span of the protocol may name none."""
        is_served = self.is_protocol or other.is_protocol
        return not self.name or not other.name or is_same_tool(self.name, other.name, loosely=is_served)

    def absorb(self, other: "Execution") -> None:
        """Fill missing fields from another view of this call."""
        other.host = self
        if not self.has_name_of(other):
            return
        self.name = self.name or other.name
        self.call_id = self.call_id if self.call_id is not None else other.call_id
        self.agent = self.agent if self.agent is not None else other.agent
        self.tool_id = self.tool_id if self.tool_id is not None else other.tool_id
        # Rule: a failure of an inner span, or a failure flag in its result, fails the call unless a later attempt succeeded.
        if self.error is None or (self.failed_ns is not None and other.node.time_ns >= self.failed_ns):
            self.error = other.error or mcp_failure(other.result)
            self.failed_ns = None if self.error is None else other.node.until_ns
        if isinstance(self.arguments, NotRecorded):
            self.arguments = other.arguments
        if isinstance(self.result, NotRecorded):
            self.result = other.result
        self.is_unfinished = self.is_unfinished and other.is_unfinished


_CALLS, _TEXTS = ("requests", "executions", "answers"), ("messages", "offers")
_FIELDS = [*map(attrgetter, (*_CALLS, *_TEXTS, "agent_run", "model_call", "failure", "code_step"))]


class NodeIndex:
    """Nodes, and the nodes with requests, with executions, with answers and so on; each in order of time."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        for place, node in enumerate(nodes):
            node.place = place
        showing = [*map(list[Node], map(filter, _FIELDS, repeat(nodes)))]
        self.requesting, self.executing, self.answering, self.speaking, self.offering = showing[:5]
        self.running, self.models, self.failing, self.coding = showing[5:]
        # Whether any agent, model or tool call was seen.
        self.of_run = bool(self.requesting or self.executing or self.running or self.models)
