"""Reads VoltAgent's own spans: runs of agents, calls of models and of tools.

One model span stands for all steps of a run, without the requests in them: a call of a tool that does not exist, or with
arguments that break its schema, leaves no trace.
"""

from collections.abc import Iterator, Mapping

from toolgauge.model.json import Value
from toolgauge.model.observations import AgentRun, MessageSeen, Observation, ToolDefinition, ToolsOffered
from toolgauge.model.ports import Grounds
from toolgauge.model.records import Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.conventions import model_call
from toolgauge.recognize.dialect import PlainDialect, ToolFields, named_tools
from toolgauge.recognize.messages import read_messages

_SCOPE = "@voltagent/"
_KIND = "span.type"
_ENTITY = "entity.type"
_NAME = "entity.name"
_OPERATION = "voltagent.operation_id"
# The second is what applications set on runs outside of a conversation that is kept.
_CONVERSATIONS = ("conversation.id", "voltagent.conversation_id")
_INPUT = "input"
_OUTPUT = "output"
_MESSAGES = ("agent.messages", "llm.messages")
_SNAPSHOT = "agent.stateSnapshot"
_TOOL = ToolFields(name=("tool.name",), call_id=("tool.call.id",), arguments=(_INPUT,), result=(_OUTPUT,))
_TOOL_NAMES = "llm.tools"
_TOKENS = (("llm.usage.prompt_tokens",), ("llm.usage.completion_tokens",))
_SUBAGENT = "subagent:"
_MAX_TOOLS = 1_000


class VoltAgent(PlainDialect):
    """Reads spans of VoltAgent's tracer."""

    name = "voltagent"
    rank = 87
    marks = ("voltagent.",)
    scopes = (_SCOPE,)
    grounds = Grounds(keys=(_OPERATION,), scopes=(_SCOPE,))
    needs = (_KIND, _ENTITY)

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        yield from conventions.own_conversation(attributes, _CONVERSATIONS)
        kind = attributes.get(_KIND)
        if kind == "tool":
            if (call := _TOOL.read(span)) is not None:
                yield call
        elif kind == "llm":
            yield model_call(attributes, keys=_TOKENS)
            listed = attributes.get(_TOOL_NAMES)
            yield from named_tools([name.strip() for name in listed.split(",")] if isinstance(listed, str) else [])
            yield from _texts(attributes)
        elif (kind is None or kind == "agent") and attributes.get(_ENTITY) == "agent":
            # The run of an agent below has its caller's entity; only the span's name has its own.
            below = span.name.removeprefix(_SUBAGENT) if span.name.startswith(_SUBAGENT) else ""
            yield AgentRun(agent=below or values.as_str(attributes.get(_NAME)))
            yield from _texts(attributes)
            if text := values.as_str(attributes.get(_OUTPUT)):
                yield MessageSeen(role="assistant", text=text)
            # The parameters of a snapshot's tools are the insides of a zod schema, from which no JSON Schema follows.
            state = values.as_object(values.opened(attributes.get(_SNAPSHOT)))
            listed = values.as_list(state.get("tools"))[:_MAX_TOOLS]
            named = [(values.as_str(tool.get("name")), tool) for tool in map(values.as_object, listed)]
            if defined := tuple(
                ToolDefinition(name=name, description=values.as_str(tool.get("description")))
                for name, tool in named
                if name is not None
            ):
                yield ToolsOffered(tools=defined)


def _texts(attributes: Mapping[str, Value]) -> Iterator[Observation]:
    messages = read_messages(values.first(attributes, _MESSAGES), "user")
    if messages:
        yield from conventions.received(messages)
    elif text := values.as_str(attributes.get(_INPUT)):
        yield MessageSeen(role="user", text=text)
