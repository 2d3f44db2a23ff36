"""How the Acme agent framework writes tool calls to its spans.

Each span has `acme.step`: `run` (one run of an agent), `llm` (a model's answer, with the calls it asked for as JSON) or
`tool` (one executed call). A dialect is asked about one span at a time and keeps nothing: toolgauge joins what is
requested with what is executed, and puts calls in order.
"""

from collections.abc import Iterator, Mapping

from toolgauge.model.content import Recorded
from toolgauge.model.json import Value
from toolgauge.model.observations import (
    AgentRun,
    CallError,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    ModelCall,
    Observation,
    ToolsOffered,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions, provider_messages, values
from toolgauge.recognize.definitions import DefinitionReader
from toolgauge.recognize.messages import messages_of

STEP = "acme.step"
AGENT = "acme.agent"
THREAD = "acme.thread"
MESSAGES = "acme.llm.messages"
TOOLS = "acme.llm.tools"
ANSWER = "acme.llm.answer"
CALLS = "acme.llm.calls"
TOOL = "acme.tool"
CALL_ID = "acme.tool.id"
INPUT = "acme.tool.input"
OUTPUT = "acme.tool.output"


class Acme:
    """Reads spans of the Acme agent framework."""

    name = "acme"
    # Lower is asked first; the GenAI conventions, which many borrow from, have 90.
    rank = 50
    # A span without such an attribute is never decoded, and a dialect costs nothing for other people's spans.
    marks = ("acme.",)
    scopes: tuple[str, ...] = ()
    # What its claims go by: about spans without it the dialect is not asked. May be left out.
    grounds = Grounds(keys=(STEP,))

    def __init__(self) -> None:
        # Agents repeat the tools on offer with each call of a model: each text is read once.
        self._definitions = DefinitionReader()

    def claims(self, record: Record) -> bool:
        """Claim spans with a step."""
        return not isinstance(record, LogRecord) and STEP in record.attributes

    def read(self, record: Record) -> Iterator[Observation]:
        """Read one span. What raises here is counted, and the next span goes on."""
        if isinstance(record, LogRecord):
            return
        attributes = record.attributes
        thread = values.as_str(attributes.get(THREAD))
        if thread is not None:
            yield ConversationSeen(conversation_id=thread, rank=2)
        agent = values.as_str(attributes.get(AGENT))
        match attributes.get(STEP):
            case "run":
                yield AgentRun(agent=agent)
            case "llm":
                yield ModelCall(agent=agent)
                if tools := self._definitions.read(attributes.get(TOOLS)):
                    yield ToolsOffered(tools=tools)
                # A request as providers write it: instructions, the newest text of the user, answers to calls.
                given = provider_messages.given(values.decoded(attributes.get(MESSAGES)))
                yield from conventions.received(messages_of(given, "user"))
                yield from _requested(attributes)
                written = provider_messages.written(values.decoded(attributes.get(ANSWER)))
                yield from conventions.written(messages_of([*written], "assistant"), agent)
            case "tool":
                yield _executed(record, agent)
            case _:
                return

    def attribute(self, record: Record, key: str) -> Value:
        """Look up an attribute that a criterion asks for; Acme hides none."""
        return record.attributes.get(key)


def _requested(attributes: Mapping[str, Value]) -> Iterator[CallRequested]:
    read = values.content(attributes.get(CALLS))
    calls = values.as_list(read.value) if isinstance(read, Recorded) else []
    for position, call in enumerate(map(values.as_object, calls)):
        name = values.as_str(call.get("tool"))
        if name is not None:
            yield CallRequested(
                position=position,
                name=name,
                call_id=values.identifier(call.get("id")),
                # JSON text, broken JSON and "not recorded" stay apart: `values` knows how.
                arguments=values.arguments(call.get("input")),
            )


def _executed(span: Span, agent: str | None) -> CallExecuted:
    attributes = span.attributes
    failed = span.status == "error"
    return CallExecuted(
        name=values.as_str(attributes.get(TOOL)) or span.name,
        call_id=values.identifier(attributes.get(CALL_ID)),
        arguments=values.arguments(attributes.get(INPUT)),
        result=values.result(attributes.get(OUTPUT)),
        error=CallError(kind="error", message=span.status_message) if failed else None,
        agent=agent,
    )
