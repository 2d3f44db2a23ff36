"""`output_judge`: how well does the final answer meet a rubric? Asks a judge."""

from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field

from toolgauge.model.expected import Expected
from toolgauge.model.json import JsonObject
from toolgauge.model.judging import Asking, Question
from toolgauge.model.outcomes import Level, NotEvaluated, Outcome
from toolgauge.model.trajectory import Trajectory
from toolgauge.score import prompts
from toolgauge.score.judged import JudgedByModel, Writer, fraction, question
from toolgauge.score.prompts import final_answer, user_input


class OutputJudge(JudgedByModel):
    """The score of the judge, from 0 to 1."""

    version: ClassVar[str] = prompts.OUTPUT_JUDGE.version
    level: ClassVar[Level] = "trajectory"

    # What the answer is judged by.
    rubric: str = Field(min_length=1)
    # Whether the judge is shown what the user said.
    include_inputs: bool = True
    # Whether the judge is shown the calls that count and their results.
    include_calls: bool = False

    def questions(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Asking]:
        """Yield the question about the final answer."""
        output = final_answer(trajectory)
        if not output:
            yield None, NotEvaluated(reason="no_content", explanation="the final answer was not recorded")
            return
        writer = Writer(self.max_history_chars)
        asked = user_input(trajectory) if self.include_inputs else ""
        sections = [writer.text(prompts.INPUT, "user", asked)] if asked else []
        if self.include_calls:
            sections.append(writer.calls(prompts.TRAJECTORY, self.calls(trajectory)))
        sections.append(writer.text(prompts.OUTPUT, "assistant", output))
        if expected is not None and expected.answer is not None:
            sections.append(writer.text(prompts.EXPECTED_OUTPUT, "assistant", expected.answer.value))
        instructions = prompts.with_rubric(prompts.OUTPUT_JUDGE, self.rubric)
        yield None, question(prompts.OUTPUT_JUDGE, sections, writer, instructions=instructions)

    def outcome(self, question: Question, verdict: JsonObject) -> Outcome:  # noqa: ARG002 (a verdict says it all)
        """Turn the verdict into a score."""
        return fraction(verdict)
