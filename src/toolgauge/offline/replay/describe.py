"""Trajectories and results as JSON objects, and each as a line for a person."""

from collections.abc import Iterator

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Errored, NotEvaluated, Result, Scorecard, Scored, outcome_word
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.offline.replay.style import printable, shortened

_NAME_LENGTH = 200


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
        "tool_calls": [_call_object(call) for call in trajectory.calls],
    }


def _call_object(call: ToolCall) -> JsonObject:
    arguments, arguments_state = _content(call.arguments)
    result, _ = _content(call.result)
    return {
        "order": call.order,
        "turn": call.turn,
        "name": call.name,
        "arguments": arguments,
        "arguments_state": arguments_state,
        "result": result,
        # The error is the tool's own; a call that was turned down never reached its tool.
        "error": _error(call) if call.state != "rejected" else None,
        "rejection": _error(call) if call.state == "rejected" else None,
        "call_id": call.call_id,
        "agent": call.agent,
        "state": call.state,
        "executed": call.state == "executed",
        "span_id": call.span.span_id,
        "dialect": call.dialect,
        "start_ns": call.start_ns,
        "end_ns": call.end_ns,
    }


def _error(call: ToolCall) -> Json:
    return None if call.error is None else {"type": call.error.kind, "message": call.error.message}


def _content(content: Content) -> tuple[Json, str]:
    match content:
        case Recorded(value=value):
            return value, "recorded"
        case Unparsed(text=text, reason=reason):
            return text, reason
        case NotRecorded(reason=reason):
            return None, reason


def result_objects(scorecard: Scorecard) -> Iterator[JsonObject]:
    """Describe each result for `replay --json`."""
    for result in scorecard.results:
        value, reason, explanation = _outcome(result)
        yield {
            "trace_id": scorecard.trajectory.trace_id,
            "conversation_id": scorecard.trajectory.conversation_id,
            "span_id": None if result.target is None else result.target.span_id,
            "criterion": result.criterion,
            "revision": result.revision,
            "evaluator": result.evaluator,
            "version": result.version,
            "level": result.level,
            "outcome": outcome_word(result.outcome),
            "value": value,
            "reason": reason,
            "explanation": explanation,
        }


def _outcome(result: Result) -> tuple[float | None, str | None, str]:
    match result.outcome:
        case Scored(value=value, explanation=explanation):
            return value, None, explanation
        case NotEvaluated(reason=reason, explanation=explanation):
            return None, reason, explanation
        case Errored(error_type=error_type, message=message):
            return None, error_type, message


def trajectory_head(trajectory: Trajectory) -> str:
    """Name one trajectory for a person."""
    service = shortened(trajectory.service or "unknown service", _NAME_LENGTH)
    conversation = ""
    if trajectory.conversation_id:
        conversation = f", conversation {shortened(trajectory.conversation_id, _NAME_LENGTH)}"
    return f"trace {trajectory.trace_id} of {service}{conversation} (closed: {trajectory.closed_because})"


def result_line(result: Result) -> str:
    """Describe one result for a person."""
    value, reason, explanation = _outcome(result)
    where = printable(result.call.name) if result.call is not None else "trajectory"
    word = outcome_word(result.outcome)
    figure = f"{value:.3f}" if value is not None else printable(reason or "")
    tail = f"  {printable(explanation)}" if explanation else ""
    return f"  {word:<13} {figure:<22} {printable(result.criterion)}  {where}{tail}"
