"""Reads the spans of Traceloop's SDK and instrumentations (OpenLLMetry), current and legacy.

Arrives: a span with Traceloop's kind or entity, of one of its scopes, or with messages in indexed attributes. Leaves:
observations. Current releases follow the GenAI conventions; what they put into a value is opened in
`recognize/traceloop/`. Log records of its event mode are the conventions' own and stay with them.
"""

import re
from collections.abc import Iterator

from toolgauge.model.json import Value
from toolgauge.model.observations import AgentRun, CallExecuted, ConversationSeen, ModelCall, Observation
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import values
from toolgauge.recognize.conventions import content, names
from toolgauge.recognize.conventions.reader import ConventionsReader
from toolgauge.recognize.langchain.invalid_tool import as_requested
from toolgauge.recognize.traceloop.graphs import graph_name, graph_run
from toolgauge.recognize.traceloop.indexed import read_exchange
from toolgauge.recognize.traceloop.item_ids import with_item_ids
from toolgauge.recognize.traceloop.llamaindex import tool_call
from toolgauge.recognize.traceloop.names import ASSOCIATION, ENTITY_INPUT, ENTITY_NAME, ENTITY_OUTPUT, LANGCHAIN_AGENT
from toolgauge.recognize.traceloop.tasks import task_output
from toolgauge.recognize.traceloop.tools import executed

KIND = "traceloop.span.kind"
REQUEST_TYPE = "llm.request.type"
HANDOFF_FROM = "gen_ai.handoff.from_agent"
HANDOFF_TO = "gen_ai.handoff.to_agent"

_MARKS = ("traceloop.", "gen_ai.", "llm.request.")
# Other attributes of the SDK are copied to all spans of a run, those of other producers included.
_OWN = (KIND, ENTITY_NAME, ENTITY_INPUT, ENTITY_OUTPUT)
_INDEXED = (
    "gen_ai.prompt.0.role",
    "gen_ai.prompt.0.content",
    "gen_ai.completion.0.role",
    "gen_ai.completion.0.content",
)
_LEGACY = (REQUEST_TYPE, *_INDEXED)
_INSTRUMENTATIONS = ("opentelemetry.instrumentation.", "@traceloop/instrumentation-")
_INTEGRATIONS = (
    *("agno", "alephalpha", "anthropic", "bedrock", "cohere", "crewai", "google_generativeai", "groq", "haystack"),
    *("langchain", "llamaindex", "mcp", "mistralai", "ollama", "openai.v0", "openai.v1", "openai_agents", "openai"),
    *("replicate", "sagemaker", "together", "transformers", "vertexai", "voyageai", "watsonx", "writer"),
)
_SCOPE = re.compile(
    f"(?:{'|'.join(map(re.escape, _INSTRUMENTATIONS))})({'|'.join(map(re.escape, _INTEGRATIONS))})" + r"(?:\.|$)"
)
_SCOPES = tuple(prefix + name for prefix in _INSTRUMENTATIONS for name in _INTEGRATIONS)
_DECORATOR = ("traceloop.tracer", "@traceloop/node-server-sdk")
_MODEL_REQUESTS = frozenset(("chat", "completion"))
_CONVERSATIONS = ("conversation_id", "session_id", "thread_id", "chat_id")
_NOT_WORD = re.compile(r"[^a-zA-Z0-9_]")


class Traceloop:
    """Reads Traceloop; asked before the conventions, which most of its spans follow in part."""

    name = "traceloop"
    rank = 60
    marks = _MARKS
    scopes: tuple[str, ...] = ()
    grounds = Grounds(keys=(*_OWN, *_LEGACY), scopes=_SCOPES)

    def __init__(self) -> None:
        self._conventions = ConventionsReader()

    def claims(self, record: Record) -> bool:
        """Claim the spans of Traceloop's own tracers, and whoever else writes its older attributes."""
        if isinstance(record, LogRecord):
            return False
        attributes = record.attributes
        # Asked of every span: a loop costs half of what a generator does.
        for key in _OWN:
            if key in attributes:
                return True
        if _SCOPE.match(record.scope.name):
            return any(key.startswith(_MARKS) for key in attributes)
        return names.OPERATION not in attributes and any(key in attributes for key in _LEGACY)

    def read(self, record: Record) -> Iterator[Observation]:
        """Read one span."""
        if isinstance(record, LogRecord):
            return
        yield from _conversation(record)
        integration = _integration(record)
        kind = record.attributes.get(KIND)
        operation = values.as_str(record.attributes.get(names.OPERATION))
        request = values.as_str(record.attributes.get(REQUEST_TYPE))
        if kind == "tool" or operation == names.EXECUTE:
            if call := executed(record, integration):
                yield as_requested(call)
        elif operation in names.MODEL_OPERATIONS or request in _MODEL_REQUESTS:
            yield from self._model(record)
        elif operation == names.INVOKE:
            yield from self._invoked(record)
        elif kind in ("agent", "workflow"):
            yield AgentRun(agent=_agent(record, integration))
        elif kind == "handoff":
            yield from _handoff(record)
        else:
            yield from self._task(record, integration)

    def attribute(self, record: Record, key: str) -> Value:
        """Look up an attribute, also among the properties that an application associates with its spans."""
        found = record.attributes.get(key)
        return record.attributes.get(ASSOCIATION + key) if found is None else found

    def _task(self, span: Span, integration: str) -> Iterator[Observation]:
        """Read what the producer does not label: a tool or a graph run by a framework, or a model's older form."""
        if integration == "llamaindex" and (call := tool_call(span)):
            yield call
        elif integration == "langchain":
            yield from graph_run(span.attributes)
            yield from task_output(span.attributes.get(ENTITY_OUTPUT))
        elif any(key in span.attributes for key in _INDEXED):
            yield from self._model(span)

    def _invoked(self, span: Span) -> Iterator[Observation]:
        for seen in self._conventions.read_span(span):
            yield AgentRun(agent=graph_name(seen.agent)) if isinstance(seen, AgentRun) else seen

    def _model(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        if names.INPUT in attributes or names.OUTPUT in attributes:
            seen = self._conventions.model_call(attributes, span.ref.trace_id)
            yield from with_item_ids(attributes.get(names.INPUT), seen)
            return
        agent = values.as_str(attributes.get(names.AGENT)) or values.as_str(attributes.get(LANGCHAIN_AGENT))
        yield ModelCall(agent=agent)
        exchange = read_exchange(attributes)
        yield from self._conventions.offered(exchange.functions or attributes.get(names.DEFINITIONS))
        yield from content.received(exchange.received)
        yield from content.written(exchange.written, agent)


def _integration(span: Span) -> str:
    if span.scope.name.startswith(_DECORATOR):
        return "decorator"
    found = _SCOPE.match(span.scope.name)
    return found[1] if found is not None else ""


def _conversation(span: Span) -> Iterator[ConversationSeen]:
    found = list(content.conversation(span.attributes))
    yield from found
    if found:
        return
    for key in _CONVERSATIONS:
        value = values.identifier(span.attributes.get(ASSOCIATION + key))
        if value is not None:
            yield ConversationSeen(conversation_id=value, rank=2)
            return


def _agent(span: Span, integration: str) -> str | None:
    """Name the agent of a run: a workflow is one, but only LangGraph names it after the agent."""
    named = values.as_str(span.attributes.get(names.AGENT))
    entity = values.as_str(span.attributes.get(ENTITY_NAME))
    if named is None and integration == "langchain":
        return graph_name(entity)
    return named or (entity if span.attributes.get(KIND) == "agent" else None)


def _handoff(span: Span) -> Iterator[Observation]:
    """Read a hand-off, which some releases cannot name: from the agent's name the SDK derives the called name."""
    target = values.as_str(span.attributes.get(HANDOFF_TO))
    if target is not None and target != "unknown":
        yield CallExecuted(
            name="transfer_to_" + _NOT_WORD.sub("_", target).lower(),
            agent=values.as_str(span.attributes.get(HANDOFF_FROM)),
        )
