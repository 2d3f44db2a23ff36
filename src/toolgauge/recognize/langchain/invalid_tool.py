"""Reads the tool that LangChain's `AgentExecutor` runs in place of one that does not exist.

Arrives: the execution of a tool. Leaves: the call that the model made. Taken as it is, the stand-in would be a call of
its own that nobody asked for, and one that went well.
"""

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Recorded
from toolgauge.model.observations import CallError, CallExecuted
from toolgauge.recognize.langchain.answers import OTHER_ERROR
from toolgauge.recognize.values import as_object, as_str

_NAME = "invalid_tool"
_REQUESTED = "requested_tool_name"
_ARGUMENTS = frozenset((_REQUESTED, "available_tool_names"))


def as_requested(call: CallExecuted) -> CallExecuted:
    """Return the call under the name that the model gave, failed; any other call as it is."""
    given = as_object(call.arguments.value) if call.name == _NAME and isinstance(call.arguments, Recorded) else {}
    requested = as_str(given.get(_REQUESTED))
    if requested is None or given.keys() != _ARGUMENTS:
        return call
    said = call.result.value if isinstance(call.result, Recorded) else None
    error = call.error or CallError(kind=OTHER_ERROR, message=said if isinstance(said, str) else "")
    return replace(call, name=requested, arguments=NOT_RECORDED, error=error)
