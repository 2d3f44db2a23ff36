"""Trajectories and results as JSON objects, and as lines for a person."""

import json
from collections.abc import Iterator
from itertools import islice

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Errored, NotEvaluated, Result, Scorecard, Scored, outcome_word
from toolgauge.model.trajectory import CallState, Tokens, ToolCall, Trajectory
from toolgauge.offline.terminal import PLAIN, Style, printable, shortened

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
    service = shortened(trajectory.service or "unknown service", _LONG_NAME_LENGTH)
    conversation = ""
    if trajectory.conversation_id:
        conversation = f", conversation {shortened(trajectory.conversation_id, _LONG_NAME_LENGTH)}"
    closed: str = trajectory.closed_because
    if trajectory.incomplete is not None:
        closed += f"; incomplete: {trajectory.incomplete}"
    return f"trace {trajectory.trace_id} of {service}{conversation} (closed: {closed})"


def result_line(result: Result) -> str:
    """Describe one result for a person."""
    value, reason, explanation = _outcome(result)
    where = printable(result.call.name) if result.call is not None else "trajectory"
    word = outcome_word(result.outcome)
    figure = f"{value:.3f}" if value is not None else printable(reason or "")
    tail = f"  {printable(explanation)}" if explanation else ""
    return f"  {word:<13} {figure:<22} {printable(result.criterion)}  {where}{tail}"


_NAME_LENGTH = 120
_VALUE_LENGTH = 80
_LINE_LENGTH = 240
_MESSAGE_LENGTH = 240
_DEPTH = 6
_INDENT = " " * 10
_WHY = {
    "not_recorded": "the producer did not record it",
    "redacted": "the producer redacted it",
    "unparsable": "it is no valid JSON and stays text",
    "truncated": "it was cut off on the way",
}


def trajectory_lines(trajectory: Trajectory, style: Style = PLAIN) -> Iterator[str]:
    """Describe one trajectory: a head line, then its calls in order, then the facts that are not known."""
    yield style.head(trajectory_head(trajectory))
    if trajectory.agents:
        yield f"  agents: {', '.join(shortened(agent, _NAME_LENGTH) for agent in islice(trajectory.agents, 50))}"
    if not trajectory.calls:
        yield "  no tool calls"
        return
    for call in trajectory.calls:
        yield from _call_lines(call, style)
    unknown = "; ".join(_unknown(trajectory))
    if unknown:
        yield f"  {style.doubtful('not observable:')} {unknown}"


def _call_lines(call: ToolCall, style: Style) -> Iterator[str]:
    path = " > ".join(shortened(agent, _NAME_LENGTH) for agent in call.agent_path[-5:] or (call.agent,) if agent)
    agent = f"  {style.aside(f'[{path}]')}" if path else ""
    name = style.head(shortened(call.name, _NAME_LENGTH))
    yield f"  turn {call.turn}  {name}({_arguments(call.arguments)})  {_state(call.state, style)}{agent}"
    if call.error is not None:
        word = "rejected" if call.state == "rejected" else "error"
        message = shortened(call.error.message, _MESSAGE_LENGTH)
        yield f"{_INDENT}{style.bad(f'{word}:')} {shortened(call.error.kind, _NAME_LENGTH)}: {message}"
    elif not isinstance(call.result, NotRecorded):
        yield f"{_INDENT}result: {_shown(call.result)}"
    unseen = "; ".join(_unseen(call))
    if unseen:
        yield f"{_INDENT}{style.doubtful('not observable:')} {unseen}"


def _state(state: CallState, style: Style) -> str:
    match state:
        case "executed":
            return style.good(state)
        case "rejected":
            return style.bad(state)
        case "requested_only":
            return style.doubtful(state)


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
        yield "tools on offer (no producer told)"
    if not any(message.role == "user" for message in trajectory.messages):
        yield "the user's text (no producer told)"


def _arguments(content: Content) -> str:
    match content:
        case Recorded(value=dict() as value):
            # Enough entries to fill a line; the rest would be cut off anyhow.
            shown = (
                f"{key[:_LINE_LENGTH]}={_json(item, _VALUE_LENGTH)}"
                for key, item in islice(value.items(), _LINE_LENGTH)
            )
            return shortened(", ".join(shown), _LINE_LENGTH)
        case Recorded() | Unparsed():
            return _shown(content)
        case NotRecorded():
            return "?"


def _shown(content: Content) -> str:
    match content:
        case Recorded(value=value):
            return _json(value, _LINE_LENGTH)
        case Unparsed(text=text):
            return shortened(text, _LINE_LENGTH)
        case NotRecorded():
            return "?"


def _json(value: Json, room: int) -> str:
    """Write JSON until the room is filled: hostile values are larger than anybody would wait for."""
    filled = 0
    pieces: list[str] = []
    for piece in _pieces(value, room, _DEPTH):
        pieces.append(piece)
        filled += len(piece)
        if filled > room:
            break
    return shortened("".join(pieces), room)


def _pieces(value: Json, room: int, depth: int) -> Iterator[str]:
    """Write JSON bit by bit: `room` bounds each text, `depth` the nesting."""
    match value:
        case str():
            yield json.dumps(value[: room + 1], ensure_ascii=False)
        case dict() | list() if not depth:
            yield "…"
        case dict():
            yield "{"
            for place, (key, item) in enumerate(value.items()):
                yield f"{', ' if place else ''}{json.dumps(key[: room + 1], ensure_ascii=False)}: "
                yield from _pieces(item, room, depth - 1)
            yield "}"
        case list():
            yield "["
            for place, item in enumerate(value):
                yield ", " if place else ""
                yield from _pieces(item, room, depth - 1)
            yield "]"
        case bool() | int() | float() | None:
            yield json.dumps(value)
