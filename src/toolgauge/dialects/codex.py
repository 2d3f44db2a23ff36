"""The Codex CLI: its log events (`codex.tool_result` holds a whole call). Its spans trace its own functions.

Prompts are hidden unless `log_user_prompt` is set. A shell command that exits with another code than 0 worked for Codex.
"""

from collections.abc import Iterator, Mapping

from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.json import Value
from toolgauge.model.observations import (
    INVALID_ARGUMENTS,
    OTHER_ERROR,
    REFUSED,
    UNKNOWN_TOOL,
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    MessageSeen,
    Observation,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record
from toolgauge.recognize import values
from toolgauge.recognize.conventions import own_conversation
from toolgauge.recognize.dialect import PlainDialect

_SCOPE = "codex_otel"
_PREFIX = "codex."
# The event's name is an attribute; the field of the record has a place in the source.
_EVENT = "event.name"
_CONVERSATION = "conversation.id"
_HIDDEN = "[REDACTED]"
# The source of a person's decision, and the beginnings of the names of refusals and of the end of the turn.
_PERSON = "user"
_NO = ("denied", "abort", "timed")
_UNSUPPORTED, _UNREADABLE = "unsupported call: ", "failed to parse function arguments"


class Codex(PlainDialect):
    """Reads the log events of the Codex CLI."""

    name = "codex"
    rank = 80
    marks = (_PREFIX,)
    scopes = (_SCOPE,)
    grounds = Grounds(scopes=(_SCOPE,))

    def claims(self, record: Record) -> bool:
        """Claim log events by their scope and name."""
        if not isinstance(record, LogRecord) or not record.scope.name.startswith(_SCOPE):
            return False
        event = record.attributes.get(_EVENT)
        return isinstance(event, str) and event.startswith(_PREFIX)

    def read(self, record: Record) -> Iterator[Observation]:
        """Read one event."""
        attributes = record.attributes
        yield from own_conversation(attributes, (_CONVERSATION,))
        match attributes.get(_EVENT):
            case "codex.tool_result":
                yield from _call(attributes)
            case "codex.tool_decision":
                # A call that a person refused may have no other record; rules and reviewers deny, they do not refuse.
                name = values.as_str(attributes.get("tool_name"))
                decision = values.as_str(attributes.get("decision")) or ""
                if name is not None and attributes.get("source") == _PERSON and decision.lower().startswith(_NO):
                    call_id = values.identifier(attributes.get("call_id"))
                    agent = values.as_str(attributes.get("agent_name"))
                    yield CallRequested(position=0, name=name, call_id=call_id, agent=agent)
                    yield CallAnswered(call_id=call_id, name=name, error=CallError(kind=REFUSED, message=""))
            case "codex.user_prompt":
                prompt = values.as_str(attributes.get("prompt"))
                if prompt and prompt != _HIDDEN:
                    yield MessageSeen(role="user", text=prompt)
            case _:
                return


def _call(attributes: Mapping[str, Value]) -> Iterator[Observation]:
    name = values.as_str(attributes.get("tool_name"))
    if name is None:
        return
    call_id = values.identifier(attributes.get("call_id"))
    arguments = values.arguments_beside(attributes.get("arguments"), attributes.get("output"))
    agent = values.as_str(attributes.get("agent_name"))
    output = values.as_str(attributes.get("output")) or ""
    if str(attributes.get("success")).lower() != "false":
        result = values.result(attributes.get("output"))
        if str(attributes.get("output_truncated")).lower() == "true":
            match result:
                case Recorded(value=str() as text) | Unparsed(text=text):
                    result = Unparsed(text, "truncated")
                case _:
                    pass
        yield CallExecuted(name=name, call_id=call_id, arguments=arguments, result=result, agent=agent)
        return
    # Codex says in its own words why it did not run a call.
    not_run = UNKNOWN_TOOL if output.startswith(_UNSUPPORTED) else INVALID_ARGUMENTS
    if not output.startswith((_UNSUPPORTED, _UNREADABLE)):
        error = CallError(kind=OTHER_ERROR, message=output)
        yield CallExecuted(name=name, call_id=call_id, arguments=arguments, error=error, agent=agent)
        return
    error = CallError(kind=not_run, message=output)
    yield CallRequested(position=0, name=name, call_id=call_id, arguments=arguments, agent=agent)
    yield CallAnswered(call_id=call_id, name=name, error=error)
