"""Trajectories as JSON objects, and as lines for a person."""

from collections.abc import Iterator
from itertools import islice

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.plain_words import error_words, state_words
from toolgauge.model.trajectory import CallState, Tokens, ToolCall, Trajectory
from toolgauge.report.shown_values import ValueWriter
from toolgauge.report.terminal import PLAIN, Style, shortened

_LONG_NAME_LENGTH = 200


def trajectory_object(trajectory: Trajectory) -> JsonObject:
    """Describe one trajectory for `inspect --json`."""
    return {
        "trace_id": trajectory.trace_id,
        "conversation_id": trajectory.conversation_id,
        "service": trajectory.service,
        "agents": list(trajectory.agents),
        "closed_because": trajectory.closed_because,
        "start_ns": trajectory.start_ns,
        "tools_offered": None if trajectory.tools_offered is None else [tool.name for tool in trajectory.tools_offered],
        "tokens": _tokens_object(trajectory.tokens),
        "tool_calls": [_call_object(call) for call in trajectory.calls],
    }


def _tokens_object(tokens: Tokens | None) -> Json:
    if tokens is None:
        return None
    return {"input": tokens.input, "output": tokens.output, "unmeasured": tokens.unmeasured}


def _call_object(call: ToolCall) -> JsonObject:
    arguments, arguments_state = _content(call.arguments)
    result, _ = _content(call.result)
    return {
        "order": call.order,
        "turn": call.turn,
        "name": call.name,
        "kind": call.kind,
        "arguments": arguments,
        "arguments_state": arguments_state,
        "result": result,
        # The error is the tool's own; a call that was turned down never reached its tool.
        "error": _error_object(call) if call.state != "rejected" else None,
        "rejection": _error_object(call) if call.state == "rejected" else None,
        "call_id": call.call_id,
        "agent": call.agent,
        "state": call.state,
        "executed": call.state == "executed",
        "span_id": call.span.span_id,
        "dialect": call.dialect,
        "start_ns": call.start_ns,
        "end_ns": call.end_ns,
    }


def _error_object(call: ToolCall) -> Json:
    return None if call.error is None else {"type": call.error.kind, "message": call.error.message}


def _content(content: Content) -> tuple[Json, str]:
    match content:
        case Recorded(value=value):
            return value, "recorded"
        case Unparsed(text=text, reason=reason):
            return text, reason
        case NotRecorded(reason=reason):
            return None, reason


def trajectory_head(trajectory: Trajectory) -> str:
    """Name one trajectory for a person."""
    service = shortened(trajectory.service or "unknown service", _LONG_NAME_LENGTH)
    conversation = ""
    if trajectory.conversation_id:
        conversation = f", conversation {shortened(trajectory.conversation_id, _LONG_NAME_LENGTH)}"
    closed: str = trajectory.closed_because
    if trajectory.incomplete is not None:
        closed += f"; incomplete: {trajectory.incomplete}"
    return f"trace {trajectory.trace_id} of {service}{conversation} (closed: {closed})"


_NAME_LENGTH = 120
_MESSAGE_LENGTH = 240
_INDENT = " " * 10
_WHY = {
    "not_recorded": "the producer did not record it",
    "redacted": "the producer redacted it",
    "unparsable": "it is no valid JSON and stays text",
    "truncated": "it was cut off on the way",
}


def trajectory_lines(trajectory: Trajectory, values: ValueWriter, style: Style = PLAIN) -> Iterator[str]:
    """Describe one trajectory: a head line, then its calls in order, then the facts that are not known."""
    yield style.head(trajectory_head(trajectory))
    if trajectory.agents:
        yield f"  agents: {', '.join(shortened(agent, _NAME_LENGTH) for agent in islice(trajectory.agents, 50))}"
    if not trajectory.calls:
        yield "  no tool calls"
        return
    for call in trajectory.calls:
        yield from call_lines(call, values, style)
    unknown = "; ".join(_unknown(trajectory))
    if unknown:
        yield f"  {style.doubtful('not observable:')} {unknown}"


def call_lines(call: ToolCall, values: ValueWriter, style: Style) -> Iterator[str]:
    """Describe one call: a line with its arguments, then its result or error, then the facts that were not seen."""
    path = " > ".join(shortened(agent, _NAME_LENGTH) for agent in call.agent_path[-5:] or (call.agent,) if agent)
    agent = f"  {style.aside(f'[{path}]')}" if path else ""
    name = style.head(shortened(call.name, _NAME_LENGTH))
    state = _state(call.state, style) + (" code" if call.kind == "code" else "")
    yield f"  turn {call.turn}  {name}({values.arguments(call.arguments)})  {state}{agent}"
    if call.error is not None:
        word = "rejected" if call.state == "rejected" else "error"
        message = values.error(call.error.message, _MESSAGE_LENGTH)
        yield f"{_INDENT}{style.bad(f'{word}:')} {shortened(error_words(call.error.kind), _NAME_LENGTH)}: {message}"
    elif not isinstance(call.result, NotRecorded):
        yield f"{_INDENT}result: {values.content(call.result)}"
    unseen = "; ".join(_unseen(call))
    if unseen:
        yield f"{_INDENT}{style.doubtful('not observable:')} {unseen}"


def _state(state: CallState, style: Style) -> str:
    match state:
        case "executed":
            return style.good(state)
        case "rejected":
            return style.bad(state)
        case "requested_only" | "paused" | "refused":
            return style.doubtful(state_words(state))


def _unseen(call: ToolCall) -> Iterator[str]:
    """Name the parts of a call that could not be observed, and why."""
    if not isinstance(call.arguments, Recorded):
        yield f"arguments ({_WHY[call.arguments.reason]})"
    if call.state == "requested_only" and isinstance(call.result, NotRecorded) and call.error is None:
        yield "result (no execution and no answer was seen)"
    elif call.state == "executed" and call.error is None and not isinstance(call.result, Recorded):
        yield f"result ({_WHY[call.result.reason]})"


def _unknown(trajectory: Trajectory) -> Iterator[str]:
    """Name the facts of the trajectory that are not known."""
    if trajectory.tools_offered is None:
        yield "tools on offer (not recorded)"
    if not any(message.role == "user" for message in trajectory.messages):
        yield "the user's text (not recorded)"
