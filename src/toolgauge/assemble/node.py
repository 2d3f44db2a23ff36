"""What joining works on: the spans of a trace as nodes of a tree, and the two views of a call."""

from collections.abc import Hashable

from msgspec import Struct

from toolgauge.assemble.canonical import arguments_key, fold_name
from toolgauge.model.content import Content, NotRecorded
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    ToolsOffered,
)
from toolgauge.model.records import SpanRef


class Node(Struct, kw_only=True, eq=False):
    """One span with all that was observed on it; `time_ns` is its start on the clock of the topmost service.

    All fields from `above` on follow from the spans above it.
    """

    ref: SpanRef
    parent: str | None
    start_ns: int
    end_ns: int
    service: str | None
    scope: str
    dialect: str
    from_log_only: bool
    agent_run: AgentRun | None = None
    model_call: ModelCall | None = None
    requests: list["Request"] = []
    executions: list["Execution"] = []
    answers: list[CallAnswered] = []
    offers: list[ToolsOffered] = []
    messages: list[MessageSeen] = []
    conversations: list[ConversationSeen] = []
    above: "Node | None" = None
    depth: int = 0
    time_ns: int = 0
    # Names of the agents from the outermost down to this span.
    agents: tuple[str, ...] = ()
    # The agent run that this span is, or is part of.
    inside: "Node | None" = None
    # The nearest tool span above, and whether an agent or a model stands between: then it is another call.
    tool_above: "Node | None" = None
    crossed: bool = False
    # The nearest span above that shows a model's own output.
    model_above: "Node | None" = None

    def part(self) -> None:
        """Let go of all that leads back here; the node is of no use from then on."""
        self.requests = []
        self.executions = []
        self.inside = None

    @property
    def order(self) -> tuple[int, int, int, str, str]:
        """Sort key: time, then what tells spans of equal start apart, the same in every order of arrival."""
        return (self.time_ns, self.depth, self.end_ns, self.ref.span_id, self.ref.trace_id)

    @property
    def is_outermost_run(self) -> bool:
        """Whether the span is an agent run that no other agent run contains."""
        return self.agent_run is not None and (self.above is None or self.above.inside is None)

    @property
    def is_primary(self) -> bool:
        """Whether its requests are a model's own output, and not a summary of several outputs."""
        return self.model_call is not None or self.from_log_only


class Request(Struct, kw_only=True, eq=False):
    """A call as a model asked for it; `alive` until another view of the same request takes its place."""

    node: Node
    position: int
    name: str
    call_id: str | None
    arguments: Content
    agent: str | None
    usable: bool
    output: int | None = None
    alive: bool = True
    # The key is asked for many times and costs a walk over the arguments.
    _keyed: Content | None = None
    _key: Hashable | None = None

    @staticmethod
    def of(node: Node, seen: CallRequested) -> "Request":
        """Take over what a dialect read."""
        return Request(
            node=node,
            position=seen.position,
            name=seen.name,
            call_id=seen.call_id,
            arguments=seen.arguments,
            agent=seen.agent,
            usable=seen.usable,
            output=seen.output,
        )

    @property
    def arguments_key(self) -> Hashable | None:
        """Equal for equal arguments, `None` when they are not known."""
        if self._keyed is not self.arguments:
            self._keyed, self._key = self.arguments, arguments_key(self.arguments)
        return self._key

    @property
    def run(self) -> Node | None:
        """The agent run that asked."""
        return self.node.inside

    def absorb(self, other: "Request") -> None:
        """Take what is missing from another view, which thereby ends."""
        other.alive = False
        self.call_id = self.call_id if self.call_id is not None else other.call_id
        self.agent = self.agent if self.agent is not None else other.agent
        self.usable = self.usable and other.usable
        if isinstance(self.arguments, NotRecorded):
            self.arguments = other.arguments


class Execution(Struct, kw_only=True, eq=False):
    """A call as a tool span shows it; the spans within it that show the same call are absorbed."""

    node: Node
    name: str
    call_id: str | None
    arguments: Content
    result: Content
    error: CallError | None
    agent: str | None
    is_protocol: bool
    tool_id: str | None = None
    # Told by a log record, which may name the span of the run in place of the tool's own.
    from_log: bool = False
    host: "Execution | None" = None
    _keyed: Content | None = None
    _key: Hashable | None = None

    @staticmethod
    def of(node: Node, seen: CallExecuted, *, from_log: bool) -> "Execution":
        """Take over what a dialect read."""
        return Execution(
            node=node,
            name=seen.name,
            call_id=seen.call_id,
            arguments=seen.arguments,
            result=seen.result,
            error=seen.error,
            agent=seen.agent,
            is_protocol=seen.protocol is not None,
            tool_id=seen.tool_id,
            from_log=from_log,
        )

    @property
    def arguments_key(self) -> Hashable | None:
        """Equal for equal arguments, `None` when they are not known."""
        if self._keyed is not self.arguments:
            self._keyed, self._key = self.arguments, arguments_key(self.arguments)
        return self._key

    @property
    def run(self) -> Node | None:
        """The agent run that made the call: what the tool span itself runs does not count."""
        return self.node.above.inside if self.node.above is not None else None

    def has_name_of(self, other: "Execution") -> bool:
        """Tell whether both name the same tool; a span of the protocol may name none."""
        return not self.name or not other.name or fold_name(self.name) == fold_name(other.name)

    def has_other_id_than(self, other: "Execution") -> bool:
        """Tell whether both carry an id, and not the same."""
        return self.call_id is not None and other.call_id is not None and self.call_id != other.call_id

    def absorb(self, other: "Execution") -> None:
        """Take what is missing from another view of this call."""
        other.host = self
        if not self.has_name_of(other):
            return
        self.name = self.name or other.name
        self.call_id = self.call_id if self.call_id is not None else other.call_id
        self.agent = self.agent if self.agent is not None else other.agent
        self.tool_id = self.tool_id if self.tool_id is not None else other.tool_id
        self.error = self.error if self.error is not None else other.error
        if isinstance(self.arguments, NotRecorded):
            self.arguments = other.arguments
        if isinstance(self.result, NotRecorded):
            self.result = other.result

    def end_with(self, attempt: "Execution") -> None:
        """Take a later attempt at this call for its outcome."""
        self.absorb(attempt)
        self.result, self.error = attempt.result, attempt.error
