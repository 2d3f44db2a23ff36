"""Vercel AI SDK: spans `ai.*` of its own form, and the conventions with the SDK's context beside them.

Below a run (`ai.generateText`, `ai.streamText`) are model calls (`.doGenerate`, `.doStream`) and `ai.toolCall`, sometimes
below its model call. The run repeats the last calls as its response, which is not read: they would count twice.
"""

from collections.abc import Iterable, Iterator, Mapping

from toolgauge.model.content import NOT_RECORDED
from toolgauge.model.json import JsonObject, Value
from toolgauge.model.observations import (
    OTHER_ERROR,
    REFUSED,
    AgentRun,
    CallAnswered,
    CallError,
    CallRequested,
    MessageSeen,
    Observation,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.conventions import TOKEN_KEYS, model_call
from toolgauge.recognize.dialect import PlainDialect, ToolFields
from toolgauge.recognize.hosted_tools import is_by_provider
from toolgauge.recognize.messages import Message, PastMessage, numbered

_SCOPE = "gen_ai"
_OPERATION = "ai.operationId"
# Older versions tell the operation here, with the function's id behind it: `ai.toolCall assistant`.
_NAME_AND_FUNCTION = "operation.name"
_FUNCTION = "ai.telemetry.functionId"
_CONTEXT = "ai.settings.context."
_METADATA = "ai.telemetry.metadata."
_TOOL_NAME = "ai.toolCall.name"
_PROMPT = "ai.prompt"
_PROMPT_MESSAGES = "ai.prompt.messages"
_PROMPT_TOOLS = "ai.prompt.tools"
_TEXTS = ("ai.response.text", "ai.result.text")
_CALLS = ("ai.response.toolCalls", "ai.result.toolCalls")
_TOOL = ToolFields(
    name=(_TOOL_NAME,),
    call_id=("ai.toolCall.id",),
    arguments=("ai.toolCall.args", "ai.toolCall.input"),
    result=("ai.toolCall.result", "ai.toolCall.output"),
)

# The second is what older versions write.
_FINISH_REASON = "ai.response.finishReason"
_TOKENS = (
    ("ai.usage.inputTokens", "ai.usage.promptTokens", *TOKEN_KEYS[0]),
    ("ai.usage.outputTokens", "ai.usage.completionTokens", *TOKEN_KEYS[1]),
)
_TOOL_CALL = "ai.toolCall"
_RUNS = ("ai.generateText", "ai.streamText")
_MODEL_CALLS = (".doGenerate", ".doStream")
# Applications choose the key; these are the names that tracing services ask them for.
_CONVERSATIONS = tuple(
    prefix + key
    for prefix in (_CONTEXT, _METADATA)
    for word in ("conversation", "session", "thread", "chat")
    for key in (word + "Id", word + "_id", word + ".id", word + "ID")
)

# Calls in one output and messages in one history; of more the first and the newest are read.
_MAX_CALLS = 1_000
_MAX_MESSAGES = 10_000
# Tuples: what is looked for in them may be a list or an object, which no set can be asked for.
_ANSWER_TYPES = ("tool-result", "tool-error")
_FAILED = ("error-text", "error-json")
# The type of the output of a call that a person refused.
_DENIED = "execution-denied"
_ENVELOPES = ("text", "json", "content", *_FAILED)


class Vercel(PlainDialect):
    """Reads spans of the AI SDK."""

    name = "vercel"
    rank = 83
    marks = ("ai.",)
    prefixes = (_METADATA, _CONTEXT)
    grounds = Grounds(keys=(_OPERATION, _TOOL_NAME), scopes=(_SCOPE,))

    def claims(self, record: Record) -> bool:
        """Claim spans with an operation of the SDK, and those of any form with its context."""
        if isinstance(record, LogRecord):
            return False
        attributes = record.attributes
        if _OPERATION in attributes or _TOOL_NAME in attributes:
            return True
        # Looking through all keys is dear; only spans in the conventions' form need it, and these have one scope.
        return record.scope.name == _SCOPE and any(key.startswith((_CONTEXT, _METADATA)) for key in attributes)

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        yield from conventions.conversation(attributes)
        yield from conventions.own_conversation(attributes, _CONVERSATIONS)
        named = (values.as_str(attributes.get(key)) for key in (_OPERATION, _NAME_AND_FUNCTION))
        operation = (next(filter(None, named), None) or span.name).partition(" ")[0]
        agent = values.as_str(attributes.get(_FUNCTION))
        if operation == _TOOL_CALL:
            if (call := _TOOL.read(span, agent=agent)) is not None:
                yield call
        elif operation in _RUNS:
            yield AgentRun(agent=agent)
            recorded = values.as_object(values.decoded(attributes.get(_PROMPT)))
            yield from conventions.system(values.as_str(recorded.get("system")))
            asked = recorded.get("prompt")
            if isinstance(asked, str):
                yield from _newest_user_text([{"role": "user", "content": asked}])
            else:
                messages = values.as_list(recorded.get("messages")) or values.as_list(asked)
                yield from _newest_user_text([values.as_object(message) for message in messages[-_MAX_MESSAGES:]])
            yield from _written_text(attributes)
        elif operation.startswith("ai.") and operation.endswith(_MODEL_CALLS):
            yield model_call(attributes, agent, keys=_TOKENS, finish=attributes.get(_FINISH_REASON))
            yield from self._conventions.offered(attributes.get(_PROMPT_TOOLS))
            messages = values.objects(attributes.get(_PROMPT_MESSAGES), "")[-_MAX_MESSAGES:]
            for message in messages:
                role = message.get("role")
                if role == "system":
                    yield from conventions.system(values.as_str(message.get("content")))
                elif role in ("tool", "assistant"):
                    # What the provider ran itself is answered in the assistant's own message.
                    for part in values.as_list(message.get("content")):
                        yield from _answer(values.as_object(part), by_provider=role == "assistant")
            yield from _newest_user_text(messages)
            yield from _calls_requested(values.first(attributes, _CALLS), agent)
            yield from _written_text(attributes)
        elif not operation.startswith("ai."):
            yield from self._conventions.read_span(span)

    def history(self, span: Span) -> Iterable[CallRequested | MessageSeen]:
        """Read the calls in the history that a model was given, and the texts of the user between them."""
        if _PROMPT_MESSAGES not in span.attributes:
            return self._conventions.history(span)
        return numbered(map(_past, values.objects(span.attributes.get(_PROMPT_MESSAGES), "")[-_MAX_MESSAGES:]))


def _written_text(attributes: Mapping[str, Value]) -> Iterator[MessageSeen]:
    text = values.as_str(values.first(attributes, _TEXTS))
    if text is not None:
        yield MessageSeen(role="assistant", text=text)


def _calls_requested(value: Value, agent: str | None) -> Iterator[CallRequested]:
    """Read the calls of one output: `input` is an object or JSON text, in older versions it is called `args`."""
    for position, item in enumerate(values.objects(value, "")[:_MAX_CALLS]):
        name = values.as_str(item.get("toolName"))
        if name is not None:
            yield CallRequested(
                position=position,
                name=name,
                call_id=values.identifier(item.get("toolCallId")),
                arguments=values.arguments_inside(item["input"] if "input" in item else item.get("args")),
                agent=agent,
                usable=item.get("invalid") is not True,
                by_provider=is_by_provider(item),
            )


def _past(message: JsonObject) -> PastMessage:
    parts = [values.as_object(part) for part in values.as_list(message.get("content"))]
    return PastMessage(
        calls=list(_calls_requested([part for part in parts if part.get("type") == "tool-call"], None)),
        has_answers=any(part.get("type") in _ANSWER_TYPES for part in parts),
        user=Message(message, "").text if message.get("role") == "user" else "",
    )


def _newest_user_text(messages: list[JsonObject]) -> list[MessageSeen]:
    return conventions.newest_user_text([Message(one, "") for one in messages if one.get("role") == "user"])


def _answer(part: JsonObject, *, by_provider: bool) -> Iterator[CallAnswered]:
    if part.get("type") not in _ANSWER_TYPES:
        return
    call_id, name = values.identifier(part.get("toolCallId")), values.as_str(part.get("toolName"))
    output = part["output"] if "output" in part else part.get("result", part.get("error"))
    failed = part.get("isError") is True or part.get("type") == "tool-error"
    if isinstance(output, dict) and output.get("type") == _DENIED:
        reason = values.as_str(output.get("reason")) or ""
        yield CallAnswered(call_id=call_id, name=name, error=CallError(kind=REFUSED, message=reason))
        return
    if isinstance(output, dict) and output.get("type") in _ENVELOPES:
        failed = failed or output.get("type") in _FAILED
        output = output.get("value")
    message = "" if output is None else values.text_of(output) or values.dump(output)
    yield CallAnswered(
        call_id=call_id,
        name=name,
        result=NOT_RECORDED if failed else values.result_inside(output),
        error=CallError(kind=OTHER_ERROR, message=message) if failed else None,
        by_provider=by_provider,
    )
