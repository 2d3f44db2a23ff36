"""The verdicts of one criterion on a trajectory, each with the calls and the values that decided it.

What decided is written by `export.explanations`, as for the web view. Where values are hidden, the arguments that differ are
named with the kinds of the values; calls with the names of their arguments.
"""

from collections.abc import Iterator
from itertools import islice

from toolgauge.export.redact import Redactor
from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.plain_words import error_words, state_words
from toolgauge.model.trajectory import ToolCall
from toolgauge.model.value_origins import CallOrigins
from toolgauge.report.descriptions import call_lines, trajectory_head
from toolgauge.report.explanations import HOW_TO_SHOW_VALUES, ShownDifference, Verdict, VerdictWriter, comparison
from toolgauge.report.origin_lines import OriginWriter
from toolgauge.report.result_lines import outcome_styled, result_objects
from toolgauge.report.shown_values import ValueWriter
from toolgauge.report.terminal import PLAIN, Style, printable, shortened
from toolgauge.score.criterion import Criterion
from toolgauge.score.origins.value_chain import failing_chains

_LINE_LENGTH = 240
_MAX_CALLS = 50
_MAX_NAMES = 50
_INDENT = " " * 4


class VerdictLines:
    """Describes the verdicts of one criterion; `redactor` decides whether values are shown."""

    def __init__(self, criterion: Criterion, redactor: Redactor, style: Style = PLAIN) -> None:
        self._redactor = redactor
        self._verdicts = VerdictWriter(redactor, {criterion.revision: criterion.pass_at})
        self._values = ValueWriter(redactor)
        self._origins = OriginWriter(redactor)
        self._style = style
        # Whether what could be seen of a difference was held back.
        self.has_hidden_values = False

    def lines(self, scorecard: Scorecard) -> Iterator[str]:
        """Describe the verdicts on one trajectory for a person; the calls of a trajectory come once, behind its verdicts."""
        trajectory = scorecard.trajectory
        chains = failing_chains(trajectory, scorecard.results)
        yield self._style.head(trajectory_head(trajectory))
        for result in scorecard.results:
            yield from self._verdict_lines(self._verdicts.verdict(result))
            if result.call is not None:
                yield from self._call_lines(result.call, chains.get(result.call.order))
        if any(result.call is None for result in scorecard.results):
            for call in trajectory.calls[:_MAX_CALLS]:
                yield from self._call_lines(call, chains.get(call.order))
            if len(trajectory.calls) > _MAX_CALLS:
                yield f"{_INDENT}and {len(trajectory.calls) - _MAX_CALLS} more calls"
            if not trajectory.calls:
                yield f"{_INDENT}no tool calls"

    def objects(self, scorecard: Scorecard) -> Iterator[JsonObject]:
        """Describe each verdict for `--json`."""
        described = result_objects(scorecard, self._redactor)
        chains = failing_chains(scorecard.trajectory, scorecard.results)
        for result, about in zip(scorecard.results, described, strict=True):
            verdict = self._verdicts.verdict(result)
            calls = scorecard.trajectory.calls if result.call is None else (result.call,)
            yield {
                **about,
                "explanation": verdict.explanation,
                "requirement": verdict.requirement,
                "differences": [_difference_object(difference) for difference in verdict.differences],
                "more_differences": verdict.more,
                "calls": [self._call_object(call, chains.get(call.order)) for call in calls[:_MAX_CALLS]],
            }

    def _verdict_lines(self, verdict: Verdict) -> Iterator[str]:
        self.has_hidden_values = self.has_hidden_values or verdict.hides_values
        word = outcome_styled(self._style, verdict.word, f"{verdict.word:<13}")
        score = printable(verdict.reason or "") if verdict.value is None else f"{verdict.value:.3f}"
        enough = f" ({verdict.requirement})" if verdict.value is not None and verdict.requirement else ""
        call = verdict.result.call
        where = "trajectory" if call is None else shortened(call.name, _LINE_LENGTH)
        yield f"  {word} {f'{score}{enough}':<28} {where}  {printable(verdict.explanation)}".rstrip()
        for difference in verdict.differences:
            yield from self._difference_lines(difference)
        if verdict.more:
            yield f"{_INDENT}and {verdict.more} more differences"

    def _difference_lines(self, difference: ShownDifference) -> Iterator[str]:
        if difference.in_words:
            yield f"{_INDENT}{printable(comparison(difference))}"
            return
        yield f"{_INDENT}{printable(difference.where)} ({printable(difference.rule_words)})"
        if difference.expected is not None:
            yield f"{_INDENT}  expected {self._style.good(printable(difference.expected))}"
        if difference.actual is not None or difference.expected is not None:
            yield f"{_INDENT}  got      {self._style.bad(printable(difference.actual or 'nothing'))}"

    def _call_lines(self, call: ToolCall, origins: CallOrigins | None) -> Iterator[str]:
        if self._redactor.shows_values:
            yield from (f"  {line}" for line in call_lines(call, self._values, self._style))
        else:
            yield self._call_line(call)
        yield from (f"{_INDENT * 3}{printable(line)}" for line in self._origins.lines(origins))

    def _call_line(self, call: ToolCall) -> str:
        error = (
            "" if call.error is None else f"  {self._style.bad(shortened(error_words(call.error.kind), _LINE_LENGTH))}"
        )
        called = shortened(f"{call.name}({', '.join(_argument_names(call))})", _LINE_LENGTH)
        return f"{_INDENT}turn {call.turn}  {called}  {state_words(call.state)}{error}"

    def _call_object(self, call: ToolCall, origins: CallOrigins | None) -> JsonObject:
        names: Json = list(_argument_names(call))
        shown: JsonObject = {"arguments": self._values.arguments(call.arguments)} if self._redactor.shows_values else {}
        return {
            "order": call.order,
            "turn": call.turn,
            "name": call.name,
            "argument_names": names,
            "state": call.state,
            "error": None if call.error is None else call.error.kind,
            "span_id": call.span.span_id,
            "value_origins": list(self._origins.lines(origins)),
            **shown,
        }

    @property
    def hint(self) -> str | None:
        """How to see the values that were held back; `None` where none were."""
        return HOW_TO_SHOW_VALUES if self.has_hidden_values else None


def _difference_object(difference: ShownDifference) -> JsonObject:
    return {
        "where": difference.where,
        "rule": difference.rule,
        "expected": difference.expected,
        "actual": difference.actual,
    }


def _argument_names(call: ToolCall) -> Iterator[str]:
    match call.arguments:
        case Recorded(value=dict() as value):
            yield from islice(value, _MAX_NAMES)
        case _:
            yield "?"
