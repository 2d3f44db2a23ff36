"""Trajectories and results as JSON objects, for `--json`. Programs rely on their keys and words."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice

from toolgauge.export.redact import Redactor
from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Scorecard, outcome_word
from toolgauge.model.records import ENVIRONMENT, VERSION
from toolgauge.model.trajectory import CallOrigins, ToolCall, Trajectory
from toolgauge.otlp.encode import fit_time
from toolgauge.report.explanations import figure, origin_lines, shown_verdict
from toolgauge.report.text import MAX_CALLS, TextWriter
from toolgauge.score.origins.value_origin import failing_chains

_MAX_NAMES = 50
_MICROSECOND = 1_000


def result_objects(scorecard: Scorecard, redactor: Redactor) -> Iterator[JsonObject]:
    """Describe each result for `check --json`."""
    trajectory = scorecard.trajectory
    for result in scorecard.results:
        value, reason = figure(result.outcome)
        call = result.call
        yield {
            "trace_id": trajectory.trace_id,
            "conversation_id": trajectory.conversation_id,
            "span_id": None if result.target is None else result.target.span_id,
            "criterion": result.criterion,
            "revision": result.revision,
            "evaluator": result.evaluator,
            "version": result.version,
            "level": result.level,
            "outcome": outcome_word(result.outcome),
            "value": value,
            "reason": reason,
            "explanation": redactor.explain(result.outcome),
            "enforce": result.enforce,
            "service": trajectory.service,
            "environment": trajectory.resource.get(ENVIRONMENT),
            "service_version": trajectory.resource.get(VERSION),
            # Metrics, too, name the first agent for what judges a trajectory as a whole.
            "agent": next(iter(trajectory.agents), None) if call is None else call.agent,
            "tool": None if call is None else call.name,
            "time": _time(trajectory.end_ns if call is None else call.end_ns),
        }


def _time(time_ns: int) -> str | None:
    """Write a time in ISO 8601; producers without a clock write 0."""
    if time_ns <= 0:
        return None
    seconds, rest_ns = divmod(fit_time(time_ns), 1_000_000_000)
    time = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest_ns // _MICROSECOND)
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")


def trajectory_object(trajectory: Trajectory) -> JsonObject:
    """Describe one trajectory for `check --calls --json`."""
    tokens = trajectory.tokens
    return {
        "trace_id": trajectory.trace_id,
        "conversation_id": trajectory.conversation_id,
        "service": trajectory.service,
        "agents": list(trajectory.agents),
        "closed_because": trajectory.closed_because,
        "start_ns": trajectory.start_ns,
        "tools_offered": None if trajectory.tools_offered is None else [tool.name for tool in trajectory.tools_offered],
        "tokens": None
        if tokens is None
        else {"input": tokens.input, "output": tokens.output, "unmeasured": tokens.unmeasured},
        "tool_calls": [_call_object(call) for call in trajectory.calls],
    }


def _call_object(call: ToolCall) -> JsonObject:
    arguments, arguments_state = content_of(call.arguments)
    result, _ = content_of(call.result)
    error: Json = None if call.error is None else {"type": call.error.kind, "message": call.error.message}
    return {
        "order": call.order,
        "turn": call.turn,
        "name": call.name,
        "kind": call.kind,
        "arguments": arguments,
        "arguments_state": arguments_state,
        "result": result,
        # The error is the tool's own; a call that was turned down never reached its tool.
        "error": error if call.state != "rejected" else None,
        "rejection": error if call.state == "rejected" else None,
        "call_id": call.call_id,
        "agent": call.agent,
        "state": call.state,
        "executed": call.state == "executed",
        "span_id": call.span.span_id,
        "dialect": call.dialect,
        "start_ns": call.start_ns,
        "end_ns": call.end_ns,
    }


def content_of(content: Content) -> tuple[Json, str]:
    """Return a value, or the text of an unparsed one, and its state: `recorded`, or the reason why it is missing."""
    match content:
        case Recorded(value=value):
            return value, "recorded"
        case Unparsed(text=text, reason=reason):
            return text, reason
        case NotRecorded(reason=reason):
            return None, reason


def verdict_objects(scorecard: Scorecard, redactor: Redactor, pass_at: Mapping[str, float]) -> Iterator[JsonObject]:
    """Describe each verdict for `check --criterion --json`; `pass_at` is as in `shown_verdict`."""
    chains = failing_chains(scorecard.trajectory, scorecard.results)
    for result, about in zip(scorecard.results, result_objects(scorecard, redactor), strict=True):
        verdict = shown_verdict(result, redactor, pass_at)
        calls = scorecard.trajectory.calls if result.call is None else (result.call,)
        yield {
            **about,
            "explanation": verdict.explanation,
            "requirement": verdict.requirement,
            "differences": [
                {"where": one.where, "rule": one.rule, "expected": one.expected, "actual": one.actual}
                for one in verdict.differences
            ],
            "more_differences": verdict.more,
            "calls": [judged_call(call, chains.get(call.order), redactor) for call in calls[:MAX_CALLS]],
        }


def judged_call(call: ToolCall, origins: CallOrigins | None, redactor: Redactor) -> JsonObject:
    """Describe a call beside a verdict."""
    given = call.arguments.value if isinstance(call.arguments, Recorded) else None
    shown: JsonObject = {"arguments": TextWriter(redactor).arguments(call.arguments)} if redactor.shows_values else {}
    return {
        "order": call.order,
        "turn": call.turn,
        "name": call.name,
        "argument_names": list(islice(given, _MAX_NAMES)) if isinstance(given, dict) else ["?"],
        "state": call.state,
        "error": None if call.error is None else call.error.kind,
        "span_id": call.span.span_id,
        "value_origins": [*origin_lines(origins, redactor)],
        **shown,
    }
