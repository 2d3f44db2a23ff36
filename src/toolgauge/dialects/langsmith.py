"""Reads LangSmith's OTel mode: inputs and outputs are whole JSON texts in `gen_ai.prompt` and `gen_ai.completion`."""

import re
from collections.abc import Iterable, Iterator

from toolgauge.model.content import NOT_RECORDED, Content, Recorded
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import OTHER_ERROR, CallError, CallExecuted, CallRequested, MessageSeen, Observation
from toolgauge.model.ports import Grounds
from toolgauge.model.records import Span
from toolgauge.recognize import conventions, langchain, provider_messages, values
from toolgauge.recognize.conventions import call_id, model_call
from toolgauge.recognize.dialect import PlainDialect
from toolgauge.recognize.langchain import (
    Answer,
    as_requested,
    is_control_flow,
    node_answers,
    tool_answer,
    waiting_calls,
)

KIND = "langsmith.span.kind"
NAME = "langsmith.trace.name"
METADATA = "langsmith.metadata."
PROMPT = "gen_ai.prompt"
COMPLETION = "gen_ai.completion"

# `langsmith.trace.session_name` and `.session_id` are the project, no conversation.
_SESSIONS = ("session_id", "thread_id", "conversation_id")
_RUN_METADATA = ("lc_agent_name", "langgraph_node", "checkpoint_ns", "ls_integration")
# The message of the exception is `repr(error)`, an empty line, and the stack.
_ERROR = re.compile(r"([A-Za-z_][\w.]{0,255})\((.*?)\)\s*(?:\n|Traceback|$)", re.DOTALL)
_MAX_ERROR = 10_000
_STACK = "\n\nTraceback"


class LangSmith(PlainDialect):
    """The attributes of LangSmith's OTel exporter."""

    name = "langsmith"
    rank = 40
    marks = (KIND,)
    prefixes = (METADATA,)
    grounds = Grounds(keys=(KIND,))

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        kind = (values.as_str(attributes.get(KIND)) or "").lower()
        yield from conventions.conversation(attributes, (METADATA + key for key in _SESSIONS))
        if kind in ("tool", "llm") and PROMPT not in attributes and COMPLETION not in attributes:
            yield from self._conventions.read_span(span)
        elif kind == "tool":
            yield as_requested(_tool(span))
        elif kind == "llm":
            agent = values.as_str(span.attributes.get(METADATA + "lc_agent_name"))
            yield model_call(attributes, agent)
            given = _decoded(attributes.get(PROMPT))
            tools = values.as_list(values.as_object(given).get("tools"))
            yield from self._conventions.offered(attributes.get(conventions.DEFINITIONS) or tools)
            yield from langchain.received(provider_messages.given(given))
            written = provider_messages.written(_decoded(attributes.get(COMPLETION)))
            yield from langchain.written(written, agent)
        else:
            metadata: JsonObject = {}
            for key in _RUN_METADATA:
                if value := values.as_str(attributes.get(METADATA + key)):
                    metadata[key] = value
            if (run := langchain.agent_run(span.name, metadata, labelled=False)) is not None:
                yield run
            else:
                yield from node_answers(attributes.get(PROMPT), attributes.get(COMPLETION))
                yield from waiting_calls(span)

    def history(self, span: Span) -> Iterable[CallRequested | MessageSeen]:
        """Read the calls in the history that a model was given, and the texts of the user between them."""
        given = span.attributes.get(PROMPT)
        if given is None:
            return self._conventions.history(span)
        return langchain.past_calls(provider_messages.given(_decoded(given)))


def _decoded(value: Value) -> Json:
    read = values.content(value)
    return read.value if isinstance(read, Recorded) else values.as_str(value)


def _tool(span: Span) -> CallExecuted:
    attributes = span.attributes
    # The one member of the outputs is `output`.
    output = attributes.get(COMPLETION)
    recorded = values.as_object(values.decoded(output))
    if len(recorded) == 1 and "output" in recorded and not isinstance(recorded["output"], str):
        output = recorded["output"]
        answer = Answer(result=Recorded(None)) if output is None else tool_answer(output)
    elif len(recorded) == 1 and not isinstance(recorded.get("outputs", {}), dict):
        # In JavaScript whatever is no object is the one member `outputs`.
        answer = Answer(result=values.returned(recorded["outputs"]))
    else:
        answer = tool_answer(output)
    error = _error(span)
    return CallExecuted(
        name=values.as_str(attributes.get(conventions.TOOL_NAME)) or values.as_str(attributes.get(NAME)) or span.name,
        call_id=call_id(attributes) or answer.call_id,
        arguments=_arguments(attributes.get(PROMPT)),
        # A run that raised has outputs all the same: an empty object.
        result=NOT_RECORDED if error is not None and answer.result == Recorded({}) else answer.result,
        error=error or answer.error,
        agent=values.as_str(span.attributes.get(METADATA + "lc_agent_name"))
        or values.as_str(attributes.get(conventions.AGENT)),
    )


def _arguments(value: Value) -> Content:
    """Read the inputs; what LangChain has only as text is the one member `input`."""
    read = values.arguments(value)
    recorded = values.as_object(read.value) if isinstance(read, Recorded) else {}
    text = recorded.get("input")
    if recorded == {"input": ""}:
        return Recorded({})
    if len(recorded) == 1 and isinstance(text, str) and text.lstrip().startswith("{"):
        inner = values.arguments(text)
        return inner if isinstance(inner, Recorded) else read
    return read


def _error(span: Span) -> CallError | None:
    recorded = next((event.attributes for event in span.events if event.name == "exception"), None)
    if recorded is None:
        failed = span.status == "error"
        return CallError(kind=OTHER_ERROR, message=span.status_message) if failed else None
    # The event's own type is always `Exception`.
    text = (values.as_str(recorded.get("exception.message")) or span.status_message)[:_MAX_ERROR]
    found = _ERROR.match(text)
    if found is None:
        return CallError(kind=OTHER_ERROR, message=text.partition(_STACK)[0])
    if is_control_flow(found[1]):
        return None
    returned = values.parse_text(found[2])
    spoken = isinstance(returned, Recorded) and isinstance(returned.value, str)
    return CallError(
        kind=found[1], message=str(returned.value) if isinstance(returned, Recorded) and spoken else found[2]
    )
