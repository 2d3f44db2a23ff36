"""Reads Haystack's own tracer: the spans of its agents and of components in pipelines.

Arrives: a span named `haystack...`. Leaves: observations. Content is there only with content tracing on. A failed call
leaves the span's status unset: its output says so, and the answer in the model's next input.
"""

from collections.abc import Iterator

from toolgauge.model.content import Content, Recorded
from toolgauge.model.json import Json, Value
from toolgauge.model.observations import AgentRun, CallError, CallExecuted, ModelCall, Observation, ToolsOffered
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import values
from toolgauge.recognize.conventions import content, names
from toolgauge.recognize.conventions.tools import call_error
from toolgauge.recognize.haystack.messages import answers, decoded, received, user_text, written
from toolgauge.recognize.langchain.answers import OTHER_ERROR
from toolgauge.recognize.messages import DefinitionReader

AGENT_RUN = "haystack.agent.run"
STEP_MODEL = "haystack.agent.step.llm"
# The second is what tools are called outside of an agent's step.
TOOL_SPANS = ("haystack.agent.step.tool", "haystack.tool.invoke")
COMPONENT_RUN = "haystack.component.run"

TOOL_NAME = "haystack.tool.name"
CALL_ID = "haystack.tool.call.id"
AGENT_TOOLS = "haystack.agent.tools"
COMPONENT_NAME = "haystack.component.name"
COMPONENT_TYPE = "haystack.component.type"

_PREFIX = "haystack."
_AGENT = "Agent"


class Haystack:
    """The tags of Haystack's tracer."""

    name = "haystack"
    rank = 70
    marks = (_PREFIX,)
    scopes = ("haystack",)
    grounds = Grounds(names=(_PREFIX,))

    def __init__(self) -> None:
        self._definitions = DefinitionReader()

    def claims(self, record: Record) -> bool:
        """Claim Haystack's spans, unless a tracer of somebody else's wrote them in the conventions."""
        if isinstance(record, LogRecord) or not record.name.startswith(_PREFIX):
            return False
        return names.OPERATION not in record.attributes

    def read(self, record: Record) -> Iterator[Observation]:
        """Yield what the span says."""
        if isinstance(record, LogRecord):
            return
        yield from content.conversation(record.attributes)
        if record.name in TOOL_SPANS:
            yield from _tool(record)
        elif record.name == STEP_MODEL:
            yield from self._model(record, STEP_MODEL)
        elif record.name == COMPONENT_RUN:
            yield from self._component(record)
        elif record.name == AGENT_RUN:
            yield AgentRun(agent=None)
            yield from self._offered(record.attributes.get(AGENT_TOOLS))
            yield from user_text(decoded(record.attributes.get("haystack.agent.input")).get("messages"))

    def attribute(self, record: Record, key: str) -> Value:
        """Look up an attribute; Haystack hides none."""
        return record.attributes.get(key)

    def _component(self, span: Span) -> Iterator[Observation]:
        """Read a component: an agent, a model, or what runs tools; in releases up to 2 agents are made of these."""
        kind = values.as_str(span.attributes.get(COMPONENT_TYPE)) or ""
        if kind.rpartition(".")[2].endswith(_AGENT):
            yield AgentRun(agent=values.as_str(span.attributes.get(COMPONENT_NAME)))
            return
        output = decoded(span.attributes.get("haystack.component.output"))
        if "replies" in output:
            yield from self._model(span, "haystack.component")
        else:
            yield from answers(output.get("tool_messages"))

    def _model(self, span: Span, prefix: str) -> Iterator[Observation]:
        yield ModelCall()
        given = decoded(span.attributes.get(prefix + ".input"))
        yield from self._offered(given.get("tools"))
        yield from received(given.get("messages"))
        yield from written(decoded(span.attributes.get(prefix + ".output")).get("replies"))

    def _offered(self, value: Value) -> Iterator[ToolsOffered]:
        tools = list(_definitions(_decoded(value)))
        if tools and (offered := self._definitions.read(tools)):
            yield ToolsOffered(tools=offered)


def _decoded(value: Value) -> Json:
    read = values.content(value)
    return read.value if isinstance(read, Recorded) else None


def _definitions(value: Json) -> Iterator[Json]:
    """Open serialised tools, `{"type": "<class>", "data": {...}}`, and the sets that hold them."""
    if isinstance(value, list):
        for item in value:
            yield from _definitions(item)
        return
    tool = values.as_object(value)
    inner = tool.get("data")
    fields = inner if isinstance(inner, dict) else tool
    if isinstance(several := fields.get("tools"), list):
        yield from _definitions(several)
    elif fields:
        yield fields


def _tool(span: Span) -> Iterator[Observation]:
    attributes = span.attributes
    output = attributes.get(TOOL_SPANS[0] + ".output")
    name = values.as_str(attributes.get(TOOL_NAME))
    if name is None:
        # One span for all calls of a step: the calls themselves are the model's.
        yield from answers(decoded(output).get("tool_messages"))
        return
    told = values.result(output)
    yield CallExecuted(
        name=name,
        call_id=values.identifier(attributes.get(CALL_ID)),
        arguments=values.arguments(attributes.get(TOOL_SPANS[0] + ".input")),
        result=told,
        error=call_error(span) or _told_error(told),
    )


def _told_error(told: Content) -> CallError | None:
    opened = values.as_object(told.value) if isinstance(told, Recorded) else {}
    message = opened.get("error")
    if len(opened) == 1 and isinstance(message, str):
        return CallError(kind=OTHER_ERROR, message=message)
    return None
