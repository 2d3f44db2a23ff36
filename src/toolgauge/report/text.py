"""Trajectories, calls and verdicts as lines of text, for terminals and for the output of a failing test.

Text from spans is hostile: it is masked, control characters are shown as escapes, and lengths are bounded.
"""

from collections.abc import Iterator, Mapping
from itertools import islice, takewhile

from toolgauge.export.redact import MASKED, Redactor
from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.outcomes import Result, Scorecard, Scored, outcome_word
from toolgauge.model.plain_words import WHY_NOT_RECORDED, error_words, state_words
from toolgauge.model.trajectory import CallOrigins, ToolCall, Trajectory
from toolgauge.report.explanations import (
    HOW_TO_SHOW_VALUES,
    ShownVerdict,
    comparison,
    figure,
    origin_lines,
    requirement,
    shown_verdict,
)
from toolgauge.report.terminal import (
    PLAIN,
    TRACE_DIGITS,
    Style,
    counted,
    outcome_styled,
    printable,
    shortened,
    shortened_error,
)
from toolgauge.score.failing_calls import SHADOW
from toolgauge.score.origins.value_origin import failing_chains

_VALUE, _LINE, _NAME, _LONG_NAME = 80, 240, 120, 200
_MAX_AGENTS, _MAX_ARGUMENTS = 50, 50
MAX_CALLS = 50
_INDENT = " " * 4
_BELOW_CALL = " " * 10


class TextWriter:
    """Writes lines. `pass_at` is as in `shown_verdict`; without `shows_values` the redactor decides about values."""

    def __init__(
        self,
        redactor: Redactor,
        pass_at: Mapping[str, float] = {},
        style: Style = PLAIN,
        *,
        shows_values: bool | None = None,
    ) -> None:
        self._redactor = redactor
        self._pass_at = pass_at
        self._style = style
        self._shows_values = redactor.shows_values if shows_values is None else shows_values
        self._has_hidden_values = False

    @property
    def hint(self) -> str | None:
        """How to see values that `explained` held back; `None` where it showed all."""
        return HOW_TO_SHOW_VALUES if self._has_hidden_values else None

    def trajectory(self, trajectory: Trajectory) -> Iterator[str]:
        """Describe a trajectory: a head line, its calls in order, then the facts that are not known."""
        yield self._style.head(trajectory_head(trajectory))
        if trajectory.agents:
            yield f"  agents: {', '.join(shortened(agent, _NAME) for agent in trajectory.agents[:_MAX_AGENTS])}"
        if not trajectory.calls:
            yield "  no tool calls"
            return
        for call in trajectory.calls:
            yield from self.call(call)
        unknown = ["tools on offer (not recorded)"] if trajectory.tools_offered is None else []
        if not any(message.role == "user" for message in trajectory.messages):
            unknown.append("the user's text (not recorded)")
        if unknown:
            yield f"  {self._style.doubtful('not observable:')} {'; '.join(unknown)}"

    def call(self, call: ToolCall, origins: CallOrigins | None = None) -> Iterator[str]:
        """Describe a call: arguments, result or error, missing facts, and the origins of its values."""
        style = self._style
        path = " > ".join(shortened(agent, _NAME) for agent in call.agent_path[-5:] or (call.agent,) if agent)
        agent = f"  {style.aside(f'[{path}]')}" if path else ""
        styled = {"executed": style.good, "rejected": style.bad}.get(call.state, style.doubtful)
        state = styled(state_words(call.state)) + (" code" if call.kind == "code" else "")
        yield f"  turn {call.turn + 1}  {style.head(shortened(call.name, _NAME))}({self.arguments(call.arguments)})  {state}{agent}"
        if call.error is not None:
            word = style.bad("rejected:" if call.state == "rejected" else "error:")
            message = shortened_error(self._redactor.error(call.error.message, _LINE), _LINE)
            kind = shortened(error_words(call.error.kind), _NAME)
            yield f"{_BELOW_CALL}{word} {f'{kind}: {message}' if self._shows_values else kind}"
        elif self._shows_values and not isinstance(call.result, NotRecorded):
            yield f"{_BELOW_CALL}result: {self._content(call.result)}"
        unseen = (
            "" if isinstance(call.arguments, Recorded) else f"arguments ({WHY_NOT_RECORDED[call.arguments.reason]}); "
        )
        if call.state == "requested_only" and isinstance(call.result, NotRecorded) and call.error is None:
            unseen += "result (no execution and no answer was seen)"
        elif call.state == "executed" and call.error is None and not isinstance(call.result, Recorded):
            unseen += f"result ({WHY_NOT_RECORDED[call.result.reason]})"
        if unseen:
            yield f"{_BELOW_CALL}{style.doubtful('not observable:')} {unseen.removesuffix('; ')}"
        yield from (f"{_BELOW_CALL}{printable(line)}" for line in origin_lines(origins, self._redactor))

    def calls(
        self, trajectory: Trajectory, origins: Mapping[int, CallOrigins], most: int = MAX_CALLS, *, first: int = 0
    ) -> Iterator[str]:
        """Describe calls, indented; `origins` are by the order of their call."""
        for call in trajectory.calls[first : first + most]:
            yield from (f"  {line}" for line in self.call(call, origins.get(call.order)))
        if more := len(trajectory.calls[first + most :]):
            yield f"{_INDENT}and {counted(more, 'more call')}"
        if not trajectory.calls:
            yield f"{_INDENT}no tool calls"

    def explained(self, scorecard: Scorecard) -> Iterator[str]:
        """Describe verdicts on a trajectory and the calls they judge, each once: below all, where they are of several criteria."""
        trajectory, is_one = scorecard.trajectory, len(scorecard.criteria) == 1
        chains = failing_chains(trajectory, scorecard.results)
        yield self._style.head(trajectory_head(trajectory))
        for result in scorecard.results:
            yield from self.verdict(result, names_criterion=not is_one)
            if result.call is not None and is_one:
                yield from (f"  {line}" for line in self.call(result.call, chains.get(result.call.order)))
                # `error_handling` names it a failure that the answer ignored.
                if isinstance(result.outcome, Scored) and result.outcome.parts.get("ignored"):
                    yield from self._ignoring_answer(trajectory, result.call)
        if not is_one or any(result.call is None for result in scorecard.results):
            yield from self.calls(trajectory, chains)

    def verdict(self, result: Result, *, names_criterion: bool = True) -> Iterator[str]:
        """Describe a verdict, and the differences below it."""
        verdict = shown_verdict(result, self._redactor, self._pass_at)
        self._has_hidden_values = self._has_hidden_values or verdict.hides_values
        where = "trajectory" if result.call is None else shortened(result.call.name, _LINE)
        if names_criterion:
            where = f"{printable(result.criterion)}{SHADOW if result.enforce == 'shadow' else ''}  {where}"
        word = outcome_styled(self._style, verdict.word, f"{verdict.word:<13}")
        yield f"  {word} {printable(verdict.score_words):<28} {where}  {printable(verdict.explanation)}".rstrip()
        yield from self.differences(verdict)

    def _ignoring_answer(self, trajectory: Trajectory, call: ToolCall) -> Iterator[str]:
        """Write the last answer after a failed call, before the user wrote again."""
        self._has_hidden_values = self._has_hidden_values or not self._shows_values
        later = (one for one in trajectory.messages if one.role != "system" and one.turn > call.turn)
        texts = [one.text for one in takewhile(lambda one: one.role == "assistant", later) if one.text.strip()]
        if texts and self._shows_values:
            yield f"{_BELOW_CALL}  answer: {shortened(self._redactor.masked(texts[-1]), _LINE)}"

    def differences(self, verdict: ShownVerdict, most: int | None = None) -> Iterator[str]:
        """Write the differences, expected above actual."""
        for one in verdict.differences[:most]:
            if one.in_words:
                yield f"{_INDENT}{printable(comparison(one))}"
                continue
            yield f"{_INDENT}{printable(one.where)} ({printable(one.rule_words)})"
            for side, text in one.sides:
                styled = self._style.good if side == "expected" else self._style.bad
                yield f"{_INDENT}  {side:<8} {styled(printable(text))}"
        if more := verdict.more + len(verdict.differences) - len(verdict.differences[:most]):
            yield f"{_INDENT}and {counted(more, 'more difference')}"

    def result(self, result: Result) -> str:
        """Describe a result on one line."""
        value, reason = figure(result.outcome)
        word = outcome_word(result.outcome)
        score = f"{value:.3f}" if value is not None else printable(reason or "")
        where = printable(result.call.name) if result.call is not None else "trajectory"
        shadow = f" {self._style.aside('(shadow)')}" if result.enforce == "shadow" else ""
        shown = outcome_styled(self._style, word, f"{word:<13}")
        return f"  {shown} {score:<5}  {printable(result.criterion)}{shadow}  {where}  {self.why(result)}".rstrip()

    def why(self, result: Result) -> str:
        """Explain a result; a pass below 1 names the least score that passes, or it would read as a fault."""
        explanation, outcome = printable(self._redactor.explain(result.outcome)), result.outcome
        if isinstance(outcome, Scored) and outcome.passed and outcome.value < 1:
            return f"{requirement(result, self._pass_at) or 'enough to pass'}: {explanation}"
        return explanation

    def arguments(self, content: Content) -> str:
        """Write arguments as `name=value, ...`, or their names alone where values are hidden."""
        match content:
            case Recorded(value=dict() as value) if self._shows_values:
                # Enough entries to fill a line; the rest would be cut off anyhow.
                members = (
                    (name[:_LINE], MASKED if self._redactor.is_private(name) else self._redactor.json(one, _VALUE))
                    for name, one in islice(value.items(), _LINE)
                )
                return shortened(", ".join(f"{name}={shortened(text, _VALUE)}" for name, text in members), _LINE)
            case Recorded(value=dict() as value):
                return shortened(", ".join(islice(value, _MAX_ARGUMENTS)), _LINE)
            case _:
                return self._content(content) if self._shows_values else "?"

    def _content(self, content: Content) -> str:
        match content:
            case Recorded(value=value):
                return shortened(self._redactor.json(value, _LINE), _LINE)
            case Unparsed(text=text):
                return shortened(self._redactor.masked(text), _LINE)
            case NotRecorded():
                return "?"


def trajectory_head(trajectory: Trajectory) -> str:
    """Name one trajectory for a person."""
    service = shortened(trajectory.service or "unknown service", _LONG_NAME)
    named = trajectory.conversation_id
    conversation = f", conversation {shortened(named, _LONG_NAME)}" if named else ""
    incomplete = "" if trajectory.incomplete is None else f"; incomplete: {trajectory.incomplete}"
    return f"trace {trajectory.trace_id[:TRACE_DIGITS]} of {service}{conversation} (closed: {trajectory.closed_because}{incomplete})"
