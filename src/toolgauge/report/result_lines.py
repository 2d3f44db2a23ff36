"""Results as JSON objects, and as lines for a person."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from toolgauge.export.redact import Redactor
from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import OutcomeWord, Result, Scorecard, Scored, outcome_word
from toolgauge.model.records import ENVIRONMENT, VERSION
from toolgauge.model.trajectory import Trajectory
from toolgauge.otlp.encode import fit_time
from toolgauge.report.explanations import figure, requirement
from toolgauge.report.terminal import PLAIN, Style, printable

_MICROSECOND = 1_000


def result_objects(scorecard: Scorecard, redactor: Redactor) -> Iterator[JsonObject]:
    """Describe each result for `replay --json`."""
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
            "agent": _first_agent(trajectory) if call is None else call.agent,
            "tool": None if call is None else call.name,
            "time": _time(trajectory.end_ns if call is None else call.end_ns),
        }


def _first_agent(trajectory: Trajectory) -> str | None:
    """Name the agent as metrics do for what judges a trajectory as a whole."""
    return trajectory.agents[0] if trajectory.agents else None


def _time(time_ns: int) -> str | None:
    """Write a time in ISO 8601; producers without a clock write 0."""
    if time_ns <= 0:
        return None
    seconds, rest_ns = divmod(fit_time(time_ns), 1_000_000_000)
    time = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest_ns // _MICROSECOND)
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")


class ResultLines:
    """Describes results for a person. `pass_at` is as in `VerdictWriter`."""

    def __init__(self, redactor: Redactor, pass_at: Mapping[str, float], style: Style = PLAIN) -> None:
        self._redactor = redactor
        self._pass_at = pass_at
        self._style = style

    def line(self, result: Result) -> str:
        """Describe one result on one line."""
        value, reason = figure(result.outcome)
        word = outcome_word(result.outcome)
        score = f"{value:.3f}" if value is not None else printable(reason or "")
        where = printable(result.call.name) if result.call is not None else "trajectory"
        shadow = f" {self._style.aside('(shadow)')}" if result.enforce == "shadow" else ""
        why = self.why(result)
        tail = f"  {why}" if why else ""
        shown = outcome_styled(self._style, word, f"{word:<13}")
        return f"  {shown} {score:<22} {printable(result.criterion)}{shadow}  {where}{tail}"

    def why(self, result: Result) -> str:
        """Explain a result; what a pass lacks of a full score reads as a fault without the score that is enough."""
        explanation = printable(self._redactor.explain(result.outcome))
        match result.outcome:
            case Scored(value=value, passed=True) if value < 1:
                return f"{requirement(result, self._pass_at) or 'enough to pass'}: {explanation}"
            case _:
                return explanation


def outcome_styled(style: Style, word: OutcomeWord, text: str) -> str:
    """Set off a text by the outcome that it is about."""
    match word:
        case "pass":
            return style.good(text)
        case "fail" | "error":
            return style.bad(text)
        case "not_evaluated":
            return style.doubtful(text)
