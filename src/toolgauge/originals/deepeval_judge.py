"""`ArgumentCorrectness` of deepeval 4.3.1: one request about all calls, scored by the share of `yes` among its verdicts.

The original asks a second time for a summary in words, which counts for nothing and is left out. The prompt is our own.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from toolgauge.model.expected import Expected
from toolgauge.model.json import JsonObject
from toolgauge.model.judging import Asking, Question
from toolgauge.model.outcomes import Difference, Level, Outcome, Scored, Side
from toolgauge.model.trajectory import Trajectory
from toolgauge.score import prompts
from toolgauge.score.judge_view import user_input
from toolgauge.score.judged import only, question, unusable
from toolgauge.score.questions import DEFAULT_HISTORY_CHARS, Writer


class ArgumentCorrectness(BaseModel):
    """The share of calls whose arguments the judge finds correct, among those it gave a verdict on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: ClassVar[str] = prompts.DEEPEVAL_ARGUMENT_CORRECTNESS.version
    level: ClassVar[Level] = "trajectory"

    threshold: float = 0.5
    # Anything below 1 is 0.
    strict_mode: bool = False
    max_history_chars: int = Field(default=DEFAULT_HISTORY_CHARS, ge=1000, le=10_000_000)

    def questions(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Asking]:  # noqa: ARG002 (no reference needed)
        """Yield the question about all calls; without calls the original says 1."""
        if not trajectory.calls:
            yield None, self._scored(1.0, "no call to judge")
            return
        writer = Writer(self.max_history_chars)
        asked = writer.text(prompts.INPUT, "user", user_input(trajectory) or prompts.NOT_RECORDED)
        calls = writer.calls(prompts.TRAJECTORY, trajectory.calls)
        yield None, question(prompts.DEEPEVAL_ARGUMENT_CORRECTNESS, (asked, calls), writer)

    def outcome(self, question: Question, verdict: JsonObject) -> Outcome:  # noqa: ARG002 (a verdict says it all)
        """Score the share of `yes`, whatever the number of verdicts."""
        verdicts = verdict.get("verdicts")
        if not isinstance(verdicts, list):
            return unusable()
        said = [one.get("verdict") for one in verdicts if isinstance(one, dict)]
        score = said.count("yes") / len(said) if said else 1.0
        # Wart of the original: verdicts that are missing count for nothing.
        return self._scored(
            score,
            f"the judge says yes to {said.count('yes')} of {len(said)} calls",
            Difference(where="verdicts", rule="judge", actual=Side(value=verdicts)),
        )

    def joined(self, outcomes: Sequence[Outcome]) -> Outcome:
        """Return the only outcome."""
        return only(outcomes)

    def original(self, outcome: Scored) -> JsonObject:
        """Return what the original says besides its score."""
        return {"passed": bool(outcome.parts["passed"])}

    def _scored(self, score: float, explanation: str, *differences: Difference) -> Scored:
        value = 0.0 if self.strict_mode and score < 1 else score
        passed = value >= (1.0 if self.strict_mode else self.threshold)
        return Scored(value=value, explanation=explanation, parts={"passed": float(passed)}, differences=differences)
