"""Spring AI: the observations of its chat clients, advisors, models and tools, as Micrometer turns them into spans.

The tracer's scope is the application's, so keys show the spans. Every value is text. Releases up to 1.1 write no call id,
no span has the model's requests, and a tool that raises has the exception's message in place of a result in JSON.
"""

import re
from collections.abc import Iterator

from msgspec.structs import replace

from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.observations import (
    UNKNOWN_TOOL,
    AgentRun,
    CallAnswered,
    CallError,
    CallRequested,
    ConversationSeen,
    ModelCall,
    Observation,
    ToolDefinition,
    ToolsOffered,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.dialect import PlainDialect, ToolFields, named_tools

_PREFIX = "spring.ai."
_KIND = _PREFIX + "kind"

_TOOL_NAME = _PREFIX + "tool.definition.name"
_TOOL_DESCRIPTION = _PREFIX + "tool.definition.description"
_TOOL_SCHEMA = _PREFIX + "tool.definition.schema"
_TOOL = ToolFields(
    name=(_TOOL_NAME,),
    call_id=(_PREFIX + "tool.call.id", conventions.CALL_ID),
    arguments=(_PREFIX + "tool.call.arguments", conventions.ARGUMENTS),
    result=(_PREFIX + "tool.call.result", conventions.RESULT),
)

_CONVERSATION = _PREFIX + "chat.client.conversation.id"
_CLIENT_TOOLS = _PREFIX + "chat.client.tool.names"
_MODEL_TOOLS = _PREFIX + "model.request.tool.names"

_COUNT = re.compile(r"[0-9]{1,12}")
# Nothing else has the name of a missing tool that the model asked for.
_NO_SUCH_TOOL = re.compile(r"No ToolCallback found for tool name: (\S{1,200})\s*")


class SpringAI(PlainDialect):
    """The attributes of Spring AI's observations."""

    name = "spring_ai"
    rank = 81
    marks = (_PREFIX,)
    grounds = Grounds(keys=(_KIND, _TOOL_NAME, _MODEL_TOOLS))
    conversations = None

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        conversation = values.identifier(attributes.get(_CONVERSATION))
        if conversation is not None:
            yield ConversationSeen(conversation_id=conversation, rank=0)
        else:
            yield from conventions.conversation(attributes)
        kind = attributes.get(_KIND)
        if kind == "tool_call" or (kind is None and _TOOL_NAME in attributes):
            yield from _executed(span)
        elif kind == "chat_client":
            yield AgentRun(agent=values.as_str(attributes.get(conventions.AGENT)))
            yield from named_tools(values.decoded(attributes.get(_CLIENT_TOOLS)))
            # The call that ended the run because no tool has its name.
            failed = span.status_message if span.status == "error" else ""
            if (found := _NO_SUCH_TOOL.fullmatch(failed)) is not None:
                yield CallRequested(position=0, name=found[1])
                yield CallAnswered(name=found[1], error=CallError(kind=UNKNOWN_TOOL, message=failed))
        elif _MODEL_TOOLS in attributes:
            yield from named_tools(values.decoded(attributes.get(_MODEL_TOOLS)))
            # Its span has tokens as text, finish reasons in capitals.
            reasons = (values.as_str(attributes.get(conventions.FINISH_REASONS)) or "").lower()
            tokens = [values.first(attributes, keys) for keys in conventions.TOKEN_KEYS]
            sent, received = (
                conventions.token_count(int(one) if isinstance(one, str) and _COUNT.fullmatch(one) else one)
                for one in tokens
            )
            for seen in self._conventions.read_span(span):
                if isinstance(seen, ModelCall):
                    yield replace(
                        seen,
                        stopped_for_tools=conventions.stopped_for_tools({conventions.FINISH_REASONS: reasons}),
                        input_tokens=sent,
                        output_tokens=received,
                        # Up to 1.1, the sums of a whole loop over tools, whose calls are below one span.
                        may_add_up=True,
                    )
                else:
                    yield seen


def _executed(span: Span) -> Iterator[Observation]:
    attributes = span.attributes
    call = _TOOL.read(span, span.name.partition(" ")[2].strip())
    if call is None:
        return
    # Spring AI writes a result as JSON: bare text is an exception's message, or comes from a user's converter.
    value = values.first(attributes, _TOOL.result)
    is_bare = isinstance(call.result, Recorded) and call.result.value == value
    if isinstance(value, str) and is_bare and value[:1] not in ('"', "{", "[", ""):
        call = replace(call, result=Unparsed(value))
    yield call
    schema, description = values.decoded(attributes.get(_TOOL_SCHEMA)), attributes.get(_TOOL_DESCRIPTION)
    parameters = schema if isinstance(schema, dict) else None
    tool = ToolDefinition(name=call.name, description=values.as_str(description), parameters=parameters)
    yield ToolsOffered(tools=(tool,))
