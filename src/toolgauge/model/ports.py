"""Interfaces of plug-ins: what a dialect and an evaluator must offer."""

from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from toolgauge.model.delivery import Assignment, BrokerMessage, Signal
from toolgauge.model.expected import Expected
from toolgauge.model.journal import ClosedId
from toolgauge.model.json import JsonObject, Value
from toolgauge.model.observations import CallRequested, MessageSeen, Observation
from toolgauge.model.outcomes import Level, Outcome
from toolgauge.model.records import Record, Span
from toolgauge.model.trajectory import ToolCall, Trajectory


class Grounds(Struct, frozen=True, kw_only=True):
    """What a dialect claims spans for: it never claims one that has none of the keys, values, scopes and names.

    `keys` are whole keys of attributes, `values` keys with the text that the attribute must have, `scopes` prefixes of
    scope names, `names` prefixes of span names.
    """

    keys: tuple[str, ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    scopes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # Others write dialects too, not all of them with a type checker: a single text would be read letter by letter.
        if {type(self.keys), type(self.values), type(self.scopes), type(self.names)} != {tuple}:
            raise TypeError("`keys`, `values`, `scopes` and `names` of grounds are tuples of texts")


class Dialect(Protocol):
    """One way of writing tool calls to spans and log records. Without memory: one record at a time.

    `marks` are prefixes of attribute keys (spans and log records) or of log event names: a record without any
    mark, and not of a scope in `scopes` (prefixes of scope names), is never decoded. `rank` orders dialects that
    could claim the same record: the lowest is asked first. One that also has `grounds: Grounds` is asked only about
    spans with one of these; one without is asked about every span that no dialect before it claims. One that also has
    `objects: tuple[str, ...]` has spans decoded whose attributes hold long JSON that begins with one of these texts (written
    without spaces, a bracket may come before), one that also has `scope_words: tuple[str, ...]` those whose scope has one of these
    in its name, one that also has `words: tuple[str, ...]` those with one of these in a key, or in the value of a kind or type.
    """

    @property
    def name(self) -> str:
        """What configuration, metrics and counters call it."""
        ...

    @property
    def rank(self) -> int:
        """Lower is asked first."""
        ...

    @property
    def marks(self) -> tuple[str, ...]:
        """Prefixes of attribute keys and log event names."""
        ...

    @property
    def scopes(self) -> tuple[str, ...]:
        """Prefixes of scope names that are always read."""
        ...

    def claims(self, record: Record) -> bool:
        """Return whether this dialect reads the record."""
        ...

    def read(self, record: Record) -> Iterable[Observation]:
        """Return the observations of the record, in order. May raise: the recognizer counts it and continues."""
        ...

    def attribute(self, record: Record, key: str) -> Value:
        """Look up an attribute that a criterion asks for, also where the dialect hides it; `None` when absent."""
        ...


@runtime_checkable
class Remembering(Protocol):
    """What a dialect may offer as well: the calls in a model's history, which replace outputs that were lost on the way."""

    def history(self, span: Span) -> Iterable[CallRequested | MessageSeen]:
        """Return the calls in a model's input, in order; `output` counts the outputs that asked for them, from 0. May raise."""
        ...


@runtime_checkable
class Completing(Protocol):
    """What a dialect may offer as well: the content of spans that other dialects claim and do not read."""

    @property
    def completes(self) -> tuple[str, ...]:
        """Names of dialects whose spans count as its own once it has completed them."""
        ...

    def complete(self, span: Span, observations: tuple[Observation, ...], dialect: str) -> tuple[Observation, ...]:
        """Return the observations of the `dialect` that claimed the span, with the missing content; the same object where nothing is missing. May raise."""
        ...

    def found_by(self, span: Span) -> str | None:
        """Return the key of an attribute by which spans like this one are found; `None` where it holds nothing. May raise."""
        ...


class Exporter(Protocol):
    """Sends requests to one place; toolgauge queues them, tries again and counts the outcomes.

    The class is called with its settings, an instance of its `Settings`: a pydantic model of what people write under
    `exporters.<name>`. All methods run on one event loop and must not block it.
    """

    async def start(self) -> None:
        """Open sockets and files; raise `StartError` when that fails."""

    async def send(self, signal: Signal, body: bytes) -> None:
        """Deliver one serialised `Export*ServiceRequest`.

        Raise `OSError` (`ConnectionError`, `TimeoutError`, ...) for errors that may pass; it is sent again then. With any
        other exception the request is dropped and counted.
        """

    async def close(self) -> None:
        """Close everything. Works twice and without a start."""


class Receiver(Protocol):
    """Hands requests to its consumer. It is made of its settings and a `Consumer`; its methods run on the event loop and must not block."""

    async def start(self) -> None:
        """Begin to receive; raise `StartError` when that cannot be."""

    async def stop(self, grace_s: float) -> None:
        """Take nothing more; requests under way get so many seconds to finish. Works twice and without a start."""


class OpenTraces(Protocol):
    """The open traces of the pipeline, for the receiver of a message broker. The pipeline's thread does it, soon."""

    async def forget(self) -> int:
        """Drop open trajectories of lost partitions; return how many."""
        ...

    async def remember(self, closed: Sequence[ClosedId], begun: Sequence[str]) -> None:
        """Remember what other processes closed, or had begun."""

    async def open_traces_of(self, messages: Sequence[BrokerMessage]) -> Sequence[tuple[str, Assignment]]:
        """Return the open traces that need one of these messages, with their partitions."""
        ...

    def stall(self) -> None:
        """Close nothing for want of messages, until `resume`."""

    async def stalled(self) -> None:
        """Do so now; return when the scores of closed trajectories are on their way."""

    def resume(self) -> None:
        """Close again."""


class MessageReceiver(Receiver, Protocol):
    """Reads from a message broker; a taken message is committed once sent on, which may happen until `leave`."""

    @property
    def trouble(self) -> tuple[str, int] | None:
        """Why nothing can be read, and since when; `None` where all is well."""
        ...

    async def leave(self, timeout_s: float) -> None:
        """Commit as far as possible, and leave the group, within the time. Works twice and without a start."""


# What an evaluator yields: the judged call (`None` for the trajectory) with its outcome. A plain `None` is ignored.
Evaluation: TypeAlias = tuple[ToolCall | None, Outcome] | None


class Needs(Struct, frozen=True, kw_only=True):
    """What an evaluator compares with and looks at: a class declares it as `needs: ClassVar[Needs]`, or as a property."""

    # Its reference: a criterion without expected `calls` or without an expected `answer` is an error, and so is
    # one that expects anything of an evaluator that compares with `none`.
    reference: Literal["calls", "answer", "none", "any"] = "any"
    # It judges runs of agents: its criteria are not for traces without any.
    agent_run: bool = False
    # False for one of level `call` that looks at nothing but the call and the tools on offer: where spans are missing, it
    # still judges the calls that were seen whole.
    whole: bool = True
    # It takes an earlier offer of tools where a trace shows none.
    recent_offer: bool = False
    # It judges failed steps of code agents like calls.
    code: bool = False
    # Its scores depend on the contracts of tools: a changed contract is a new revision.
    contracts: bool = False
    # It judges a trace by what earlier traces of its conversation showed.
    earlier_traces: bool = False
    # A case that records nothing that was done is an error.
    recorded_run: bool = False
    # Spans of a case come with arguments and results as they are written.
    raw_spans: bool = False
    # Keys of the attributes of the trace that it looks at: others are not read.
    attributes: tuple[str, ...] = ()
    # Its scores are 0 or 1 and nothing between: its histogram has fewer buckets.
    binary: bool = False
    # The parameter that names tools, and the parameters with rules whose titles mean nothing.
    tools_in: str = "tools"
    titled: tuple[str, ...] = ()


def needs_of(evaluator: object) -> Needs:
    """Return the declared needs of an evaluator; of a class only needs that do not depend on parameters."""
    found: object = getattr(evaluator, "needs", None)
    return found if isinstance(found, Needs) else Needs()


class Evaluator(Protocol):
    """A scoring rule; its fields are its parameters. Keeps nothing, opens nothing.

    `version` is raised when scores change meaning. `level` says what it yields outcomes for. One that compares with
    something, or looks at more than calls, also has `needs: Needs`.
    """

    version: ClassVar[str]
    level: ClassVar[Level]

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterable[Evaluation]:
        """Yield or return outcomes. An evaluator that takes more than 10 s for one trajectory is cut off."""
        ...


@runtime_checkable
class Original(Protocol):
    """An evaluator that reports a case in the words of another package."""

    def original(self, outcome: Outcome, trajectory: Trajectory, expected: Expected | None) -> JsonObject:
        """Return the report besides the score, values included."""
        ...


@runtime_checkable
class CaseParameters(Protocol):
    """An evaluator with a parameter for expectations in its package's own words."""

    @classmethod
    def case_parameters(cls, expected: JsonObject, actual: JsonObject) -> JsonObject:
        """Return the parameter that `expected` of a case stands for; empty where it is written in other words."""
        ...
