"""The facts that each producer leaves out of its spans, and the setting that records them (`remedies.toml`).

Joined calls are judged, since another span may fill a gap. Settings do not explain a fact that only some calls lack.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall, Trajectory

Fact: TypeAlias = Literal[
    "calls",
    "arguments",
    "results",
    "failures",
    "call_ids",
    "tool_spans",
    "tool_definitions",
    "conversation_id",
    "user_text",
    "agent_name",
]
# The facts that a single content switch governs.
_CONTENT: tuple[Fact, ...] = ("calls", "arguments", "results", "user_text")
# Hides all outputs of models and tools.
HIDES_OUTPUTS = "OPENINFERENCE_HIDE_OUTPUTS"
_HIDES = "OPENINFERENCE_HIDE_"

# `telemetry.sdk.language` has a closed list of values; a page in a browser runs what a server in JavaScript runs.
_SAME = {"webjs": "nodejs"}
# Where the resource names no language, the form of the scope's name shows it.
_FORMS = (
    (re.compile(r"@[\w.-]+/|(?:.+[./-])?(?:typescript|javascript|nodejs)$"), "nodejs"),
    (re.compile(r"io\.opentelemetry\.contrib\.php\."), "php"),
    (re.compile(r"(?:io\.opentelemetry|io\.micrometer|org\.springframework|com\.arize|dev\.langchain4j)\."), "java"),
    # The path of a module: a host, then a slash.
    (re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+/"), "go"),
    (re.compile(r"[A-Z]\w*(?:\.[A-Z]\w*)+$"), "dotnet"),
    (
        re.compile(r"(?:opentelemetry|openinference|openlit|strands|traceloop|uipath|semantic_kernel|litellm)\."),
        "python",
    ),
    (
        re.compile(r"(?:pydantic[-_]ai|agent_framework|autogen|haystack|litellm|logfire|fastmcp|mcp-python-sdk)\b"),
        "python",
    ),
    # The tracers of the AI SDK, of Strands for TypeScript, and of the Gemini CLI.
    (re.compile(r"(?:ai|gen_ai|strands-agents|gemini-cli)$"), "nodejs"),
)
_LONGEST_SCOPE = 256
_RELEASE = re.compile(r"v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?")


class Producer(Struct, frozen=True, kw_only=True, order=True):
    """A library (`scope`, `version`) in a service, and the language of its process. Each is "" where it is not known."""

    service: str
    scope: str
    version: str
    language: str = ""

    @property
    def release(self) -> tuple[int, ...] | None:
        """The numbers of the version, up to three; `None` without any."""
        found = _RELEASE.match(self.version)
        return None if found is None else tuple(int(number) for number in found.groups() if number is not None)


def producer_of(service: str | None, scope: str, version: str, sdk_language: str) -> Producer:
    """Name a producer; `sdk_language` is the resource's `telemetry.sdk.language`, "" where it has none."""
    language = _SAME.get(sdk_language, sdk_language)
    if not language:
        language = next((language for form, language in _FORMS if form.match(scope[:_LONGEST_SCOPE])), "")
    return Producer(service=service or "", scope=scope, version=version, language=language)


class Remedy(Struct, frozen=True, kw_only=True):
    """How to record a missing fact, with the exact names of `switches`; where no setting does (`never`), `how` names other help."""

    how: str
    switches: tuple[str, ...] = ()
    never: bool = False


class Row(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Remedies for producers of these dialects, scope beginnings and languages (empty fits all), in releases below `before`."""

    dialects: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    before: tuple[int, ...] | None = None
    remedies: dict[Fact | Literal["content"], str]

    def fits(self, producer: Producer, dialects: Collection[str]) -> bool:
        """Return whether the row is about this producer."""
        if self.dialects and not any(dialect in self.dialects for dialect in dialects):
            return False
        # Whole words: `ai` is not the beginning of `airline`.
        if self.scopes and not any(re.match(rf"{re.escape(scope)}(?!\w)", producer.scope) for scope in self.scopes):
            return False
        if self.languages and producer.language not in self.languages:
            return False
        return self.before is None or (producer.release is not None and producer.release < self.before)


class Table(Struct, frozen=True, forbid_unknown_fields=True):
    """The file of remedies."""

    remedies: dict[str, Remedy]
    rows: tuple[Row, ...]


@cache
def table() -> Table:
    """Read the file of remedies."""
    written = files("toolgauge.recognize").joinpath("remedies.toml").read_bytes()
    return msgspec.toml.decode(written, type=Table)


def remedy(fact: Fact, producer: Producer, dialects: Collection[str]) -> Remedy:
    """Look up what helps a producer whose spans lack the fact: the first row that fits and knows the fact answers."""
    for row in table().rows:
        name = row.remedies.get(fact) or (row.remedies.get("content") if fact in _CONTENT else None)
        if name is not None and row.fits(producer, dialects):
            return table().remedies[name]
    raise KeyError(fact)  # the last row knows all facts


# Without these the calls themselves cannot be judged; without the rest, fewer criteria apply.
PROBLEMS: tuple[Fact, ...] = ("calls", "arguments", "results")
_OF_A_CALL: tuple[Fact, ...] = ("arguments", "results", "call_ids")
_AROUND: tuple[Fact, ...] = ("tool_definitions", "user_text")
_NOTES: tuple[Fact, ...] = ("tool_spans", "tool_definitions", "user_text", "conversation_id", "call_ids")

COSTS: Mapping[Fact, str] = {
    "calls": "what the model asked for is unknown: no call can be judged",
    "arguments": "it is known that a tool was called, not with what",
    "results": "what a tool answered is unknown: only errors tell whether a call worked",
    "failures": "a call that failed looks like one that worked, and passes as one",
    "tool_spans": "results are known from the model's next request alone, errors by their text, and no tool's time at all",
    "tool_definitions": "a tool that does not exist cannot be told from one that does",
    "user_text": "judges do not know what was asked for, and values that only the user gave cannot be traced",
    "conversation_id": "criteria with `scope: conversation` see every trace as a conversation of its own",
    "call_ids": "requests and executions are joined by name, arguments and order instead",
    "agent_name": "an id is no name: these runs count under what is left without it, or under the service alone",
}
NAMES: Mapping[Fact, str] = {
    "calls": "tool calls",
    "arguments": "arguments",
    "results": "results",
    "failures": "mark that a call has failed",
    "tool_spans": "tool spans",
    "tool_definitions": "tool definitions",
    "user_text": "text of the user",
    "conversation_id": "conversation id",
    "call_ids": "call ids",
    "agent_name": "name of the agent but an id",
}
_WITHHELD = "__REDACTED__"


# Their spans show a failed call as one that worked.
_UNMARKED_FAILURES = frozenset(("spring_ai",))
# Their model spans never have calls, and a call that is made always has a span of its own.
_CALLS_HAVE_SPANS = frozenset(("spring_ai",))


@dataclass(slots=True)
class TraceCounts:
    """The producers of a trajectory's spans; `runs` are those with model calls or agent runs."""

    spans: dict[str, Producer] = field(default_factory=dict[str, Producer])
    runs: set[Producer] = field(default_factory=set[Producer])
    model_calls: Counter[Producer] = field(default_factory=Counter[Producer])
    has_content: bool = False

    def producer(self, span: SpanRef | None) -> Producer | None:
        """Name the producer of a span."""
        return None if span is None else self.spans.get(span.span_id)


def counts_of(trajectory: Trajectory) -> TraceCounts:
    """Count the spans of a trajectory by their producers."""
    counts = TraceCounts(has_content=bool(trajectory.calls or trajectory.messages))
    for source in trajectory.sources:
        producer = producer_of(source.service, source.scope, source.version, source.language)
        counts.spans |= dict.fromkeys(source.spans, producer)
        if source.has_runs:
            counts.runs.add(producer)
        if source.model_calls:
            counts.model_calls[producer] += source.model_calls
    return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """A fact missing in `count` of `of` places (`unit`)."""

    fact: Fact
    count: int
    of: int
    unit: str
    remedy: Remedy

    @property
    def name(self) -> str:
        """The fact in words."""
        return NAMES[self.fact]

    @property
    def what(self) -> str:
        """The missing fact and its count, for a person."""
        return f"no {self.name} in {self.count} of {self.of} {self.unit}"

    @property
    def cost(self) -> str:
        """The consequence for scores."""
        return COSTS[self.fact]

    @property
    def is_problem(self) -> bool:
        """Whether calls cannot be judged without it."""
        return self.fact in PROBLEMS


@dataclass(slots=True)
class _Counts:
    """By fact: in how many places it could be, and in how many places and trajectories it is missing."""

    calls: int = 0
    # Model calls whose finish reason shows that they asked for tools, where neither these calls nor a tool span was seen.
    hidden: int = 0
    # Traces in which some call came with its arguments: a switch for all content is on.
    with_content: int = 0
    # Traces whose calls have results and no arguments.
    bare_traces: int = 0
    # The facts around calls that traces without a call have.
    elsewhere: set[Fact] = field(default_factory=set[Fact])
    # Traces with some output of a model or a tool: a switch that hides all outputs is off.
    with_outputs: int = 0
    places: Counter[Fact] = field(default_factory=Counter[Fact])
    missing: Counter[Fact] = field(default_factory=Counter[Fact])
    traces_missing: Counter[Fact] = field(default_factory=Counter[Fact])

    def add(self, fact: Fact, lacks: Sequence[bool]) -> None:
        """Count a trajectory, with one element for each place of the fact; all places or none lack it."""
        missing = len(lacks) if all(lacks) else 0
        self.places[fact] += len(lacks)
        self.missing[fact] += missing
        self.traces_missing[fact] += bool(missing)


class Shortfalls:
    """Takes trajectories with the producers of their spans; knows then what each producer leaves out."""

    def __init__(self) -> None:
        self._counts = defaultdict[Producer, _Counts](_Counts)
        # Services with tool spans: where they show none, none was called.
        self._executing: set[str] = set()

    def add(self, trajectory: Trajectory, trace: TraceCounts) -> None:
        """Take one trajectory."""
        calls_of_tools = [call for call in trajectory.calls if call.kind == "tool"]
        if not calls_of_tools:
            # Nothing was called, or the requested calls were not recorded. A run that failed before a call shows neither.
            has_failed = not trajectory.hidden_turns and any(run.error is not None for run in trajectory.runs)
            for producer, model_calls in () if has_failed else trace.model_calls.items():
                counts = self._counts[producer]
                counts.add("calls", [not trace.has_content] * model_calls)
                counts.hidden += trajectory.hidden_turns
                if not trace.has_content:
                    self._add_surroundings(producer, trajectory)
            for producer in trace.runs:
                elsewhere = self._counts[producer].elsewhere
                elsewhere |= {"tool_definitions"} if trajectory.tools_offered else set()
                elsewhere |= {"user_text"} if _shows_input(trajectory) else set()
            return
        by_producer: dict[Producer, list[ToolCall]] = {}
        for call in calls_of_tools:
            executed_by = trace.producer(call.executed_by)
            if executed_by is not None:
                self._executing.add(executed_by.service)
            for producer in {trace.producer(span) for span in (call.span, call.requested_by, call.executed_by)}:
                if producer is not None:
                    by_producer.setdefault(producer, []).append(call)
        # Of a tool without parameters no arguments are missing.
        bare = {
            tool.name
            for tool in trajectory.tools_offered or ()
            if tool.parameters is not None and not tool.parameters.get("properties") and not tool.takes_text
        }
        for producer, calls in by_producer.items():
            counts = self._counts[producer]
            counts.calls += len(calls)
            executed = [call for call in calls if call.state == "executed" and call.error is None]
            # Of a call that never ran, some producers have nothing but the message that says so.
            made = [call for call in calls if call.state != "rejected" or not _is_kept_back(call.arguments)]
            arguments = [_is_kept_back(call.arguments) for call in made if call.name not in bare]
            results = [_is_kept_back(call.result) for call in executed]
            counts.bare_traces += bool(arguments) and all(arguments) and not all(results)
            counts.add("arguments", arguments)
            counts.add("results", results)
            counts.add("tool_spans", [call.executed_by is None for call in executed if not call.by_provider])
            counts.add("call_ids", [call.call_id is None for call in calls])
        for producer in trace.runs or by_producer:
            self._add_surroundings(producer, trajectory)

    def calls(self, producer: Producer) -> int:
        """Count the calls that a producer recorded."""
        return self._counts.get(producer, _Counts()).calls

    def of(self, producer: Producer, dialects: Collection[str], without_trace: int = 0) -> Iterator[Shortfall]:
        """Yield the facts that a producer leaves out; `without_trace` are its log records that nothing can join."""
        counts = deepcopy(self._counts.get(producer, _Counts()))
        has_spans = not counts.hidden and not _CALLS_HAVE_SPANS.isdisjoint(dialects)
        if has_spans or producer.service in self._executing:
            counts.missing["calls"] = 0
        if without_trace:
            counts.add("calls", [True] * without_trace)
        elif counts.missing["calls"] and not counts.calls:
            # Of calls that are not recorded, nothing is known at all.
            for fact in _OF_A_CALL:
                counts.places[fact] += counts.places["calls"]
                counts.missing[fact] += counts.missing["calls"]
                counts.traces_missing[fact] += counts.traces_missing["calls"]
        of_calls = "calls" if counts.calls else "model calls"
        units: dict[Fact, str] = dict.fromkeys((*_OF_A_CALL, "tool_spans"), of_calls)
        units["calls"] = "log records" if without_trace else "model calls"
        for fact in (*PROBLEMS, *_NOTES):
            # Calls without arguments that show results, which the same switch records, had none.
            has_bare = fact == "arguments" and counts.bare_traces == counts.traces_missing[fact]
            if counts.missing[fact] and not (has_bare and _is_shared(producer, dialects)):
                yield Shortfall(
                    fact=fact,
                    count=counts.missing[fact],
                    of=counts.places[fact],
                    unit=units.get(fact, "traces"),
                    remedy=_remedy(fact, producer, dialects, counts),
                )
        if counts.calls and not _UNMARKED_FAILURES.isdisjoint(dialects):
            yield Shortfall(
                fact="failures",
                count=counts.calls,
                of=counts.calls,
                unit=of_calls,
                remedy=remedy("failures", producer, dialects),
            )

    def _add_surroundings(self, producer: Producer, trajectory: Trajectory) -> None:
        counts = self._counts[producer]
        counts.with_content += any(not _is_kept_back(call.arguments) for call in trajectory.calls)
        answered = any(message.role == "assistant" and message.text != _WITHHELD for message in trajectory.messages)
        counts.with_outputs += answered or any(not _is_kept_back(call.result) for call in trajectory.calls)
        counts.add("tool_definitions", [trajectory.tools_offered is None])
        counts.add("conversation_id", [trajectory.conversation_id is None])
        counts.add("user_text", [not _shows_input(trajectory)])


class ProducerAdvice(Struct, frozen=True, kw_only=True):
    """One producer with its missing facts: one switch mostly governs several, so they are grouped by remedy."""

    producer: Producer
    dialects: tuple[str, ...]
    calls: int
    missing: Mapping[Remedy, Sequence[Shortfall]]


def advice(trajectories: Iterable[Trajectory]) -> list[ProducerAdvice]:
    """Find the facts that producers leave out, problems first."""
    shortfalls = Shortfalls()
    dialects: dict[Producer, dict[str, None]] = {}
    for trajectory in trajectories:
        # Each trace of a conversation is a trajectory of its own.
        if trajectory.scope == "trace":
            shortfalls.add(trajectory, counts_of(trajectory))
            for source in trajectory.sources:
                producer = producer_of(source.service, source.scope, source.version, source.language)
                dialects.setdefault(producer, {})[source.dialect] = None
    found: list[ProducerAdvice] = []
    for producer, names in sorted(dialects.items(), key=lambda entry: entry[0]):
        alike: dict[Remedy, list[Shortfall]] = {}
        for shortfall in shortfalls.of(producer, tuple(names)):
            alike.setdefault(shortfall.remedy, []).append(shortfall)
        if alike:
            calls = shortfalls.calls(producer)
            found.append(ProducerAdvice(producer=producer, dialects=tuple(names), calls=calls, missing=alike))
    return sorted(found, key=lambda one: not any(each.is_problem for group in one.missing.values() for each in group))


def _remedy(fact: Fact, producer: Producer, dialects: Collection[str], counts: _Counts) -> Remedy:
    # The remedy that records the calls records everything in them.
    asked: Fact = "calls" if fact in _OF_A_CALL and not counts.calls else fact
    found = remedy(asked, producer, dialects)
    # Rule: a variable that hides all outputs is not set where any output was recorded.
    if asked == "results" and HIDES_OUTPUTS in found.switches and counts.with_outputs:
        return table().remedies["outputs_are_recorded"]
    # Rule: a switch that governs both is on where arguments were recorded.
    if (
        asked == "results"
        and counts.with_content
        and not counts.missing["arguments"]
        and _is_shared(producer, dialects)
    ):
        return table().remedies["content_is_on"]
    if fact in _AROUND and (fact in counts.elsewhere or counts.missing[fact] < counts.places[fact]):
        return table().remedies["offered_elsewhere" if fact == "tool_definitions" else "recorded_elsewhere"]
    # Rule: nothing shows that a variable hides one part where all other parts are recorded.
    if fact in _AROUND and counts.with_content and found.switches and all(_HIDES in one for one in found.switches):
        return table().remedies["content_is_on"]
    is_on = fact in _AROUND and counts.with_content == counts.places[fact]
    if is_on and not found.never and found == remedy("arguments", producer, dialects):
        return table().remedies["content_is_on"]
    return found


def _is_shared(producer: Producer, dialects: Collection[str]) -> bool:
    """Return whether one switch records arguments and results."""
    found = remedy("arguments", producer, dialects)
    return bool(found.switches) and found == remedy("results", producer, dialects)


def _shows_input(trajectory: Trajectory) -> bool:
    """Return whether a model's input was recorded: a system prompt alone means that no user asked."""
    return any(message.role in ("user", "system") and message.text != _WITHHELD for message in trajectory.messages)


def _is_kept_back(content: Content) -> bool:
    match content:
        case NotRecorded():
            return True
        case Unparsed(text=text):
            return text == _WITHHELD
        case Recorded(value=value):
            return value == _WITHHELD
