"""`faithfulness`: does the last response follow from the conversation and the tools' results? Asks a judge."""

from collections.abc import Iterator
from typing import ClassVar

from toolgauge.model.expected import Expected
from toolgauge.model.json import JsonObject
from toolgauge.model.judging import Asking, Question
from toolgauge.model.outcomes import Level, NotEvaluated, Outcome
from toolgauge.model.trajectory import Trajectory
from toolgauge.score import prompts
from toolgauge.score.judged import JudgedByModel, Writer, labelled, question
from toolgauge.score.prompts import JudgeView, exchanges_by_run, view_of_response


class Faithfulness(JudgedByModel):
    """1 for Completely Yes, 0.75 Generally Yes, 0.5 Neutral/Mixed, 0.25 Not Generally, 0 Not At All."""

    version: ClassVar[str] = prompts.FAITHFULNESS.version
    level: ClassVar[Level] = "trajectory"

    def questions(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Asking]:  # noqa: ARG002 (no reference needed)
        """Yield the question about the last response."""
        exchanges = exchanges_by_run(trajectory)
        response = exchanges[-1].response if exchanges else ""
        if not response:
            yield None, NotEvaluated(reason="no_content", explanation="the last response was not recorded")
            return
        counted = {call.order for call in self.calls(trajectory)}
        view = _narrowed(view_of_response(exchanges), counted)
        if not view.history:
            yield None, NotEvaluated(reason="no_content", explanation="nothing before the response was recorded")
            return
        writer = Writer(self.max_history_chars)
        history = writer.history(view)
        target = writer.text(prompts.TARGET_RESPONSE, "assistant", response)
        yield None, question(prompts.FAITHFULNESS, (history, target), writer)

    def outcome(self, question: Question, verdict: JsonObject) -> Outcome:  # noqa: ARG002 (a verdict says it all)
        """Score what the label is worth."""
        return labelled(verdict, prompts.FAITHFULNESS_LABELS.get)


def _narrowed(view: JudgeView, counted: set[int]) -> JudgeView:
    """Keep only the calls that count under the parameters `tools` and `failed_calls`."""
    entries = [
        tuple(call for call in entry if call.order in counted) if isinstance(entry, tuple) else entry
        for entry in view.history
    ]
    current = sum(1 for entry in entries[: view.current] if entry != ())
    return JudgeView(history=tuple(entry for entry in entries if entry != ()), current=current, tools=view.tools)
