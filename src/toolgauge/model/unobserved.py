"""What of tool calls could not be observed, and why: the same for the evaluator `coverage` and for the metric."""

from toolgauge.model.content import NotRecorded, Recorded, Unparsed
from toolgauge.model.outcomes import Reason
from toolgauge.model.trajectory import ToolCall, Trajectory

# Of each call three things are looked for: its arguments, its end, and the definition of its tool.
OBSERVABLE = 3
UNOBSERVED: tuple[Reason, ...] = (
    "arguments_not_recorded",
    "redacted",
    "truncated",
    "unparsable",
    "results_not_recorded",
    "no_tool_offer",
    "no_schema",
    # Of calls that were made and not recorded.
    "no_content",
)


class Observed:
    """What was observed of the calls of one trajectory.

    Results and messages are not looked at, as they are not read for every trajectory: producers leave them out together
    with arguments.
    """

    __slots__ = ("_has_schema",)

    def __init__(self, trajectory: Trajectory) -> None:
        offered = trajectory.tools_offered
        self._has_schema = None if offered is None else {tool.name: tool.parameters is not None for tool in offered}

    def missing(self, call: ToolCall) -> tuple[Reason, ...]:
        """Return why each thing that could not be observed of a call could not; nothing for most calls."""
        if call.kind == "code":
            # No tool was called, and the model's own output is all that there is of its code.
            return ()
        found = self._arguments(call), self._end(call), self._definition(call)
        return () if found == _NOTHING else tuple([reason for reason in found if reason is not None])

    def _arguments(self, call: ToolCall) -> Reason | None:
        match call.arguments:
            case Recorded():
                return None
            case NotRecorded(reason="redacted"):
                return "redacted"
            case NotRecorded():
                return "arguments_not_recorded"
            case Unparsed(reason=reason):
                return reason

    def _end(self, call: ToolCall) -> Reason | None:
        is_open = call.state == "requested_only" and call.error is None
        return "results_not_recorded" if is_open and isinstance(call.result, NotRecorded) else None

    def _definition(self, call: ToolCall) -> Reason | None:
        if self._has_schema is None:
            return "no_tool_offer"
        # Of a tool that was not on offer all is known.
        return None if self._has_schema.get(call.name, True) else "no_schema"


_NOTHING = (None, None, None)
