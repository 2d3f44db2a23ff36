"""`trajectory_judge`: how well do the calls meet a rubric? Asks a judge."""

from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field

from toolgauge.model.expected import Expected
from toolgauge.model.json import JsonObject
from toolgauge.model.judging import Asking, Question
from toolgauge.model.outcomes import Level, Outcome
from toolgauge.model.trajectory import Trajectory
from toolgauge.score import prompts
from toolgauge.score.judged import JudgedByModel, Writer, fraction, question
from toolgauge.score.prompts import final_answer, user_input
from toolgauge.score.selection import hidden_calls


class TrajectoryJudge(JudgedByModel):
    """The score of the judge, from 0 to 1."""

    version: ClassVar[str] = prompts.TRAJECTORY_JUDGE.version
    level: ClassVar[Level] = "trajectory"

    # What the calls are judged by.
    rubric: str = Field(min_length=1)
    # What the tools do and what is normal here, in words.
    description: str | None = None
    # Whether the judge is shown what the user said.
    include_inputs: bool = True

    def questions(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Asking]:
        """Yield the question about the trajectory; that no call was made can be right, so it is asked too."""
        if trajectory.hidden_turns:
            yield None, hidden_calls(trajectory)
            return
        writer = Writer(self.max_history_chars)
        sections = self._sections(trajectory, expected, writer)
        instructions = prompts.with_rubric(prompts.TRAJECTORY_JUDGE, self.rubric, self.description)
        yield None, question(prompts.TRAJECTORY_JUDGE, sections, writer, instructions=instructions)

    def _sections(self, trajectory: Trajectory, expected: Expected | None, writer: Writer) -> list[str]:
        asked = user_input(trajectory) if self.include_inputs else ""
        output = final_answer(trajectory)
        sections = [writer.text(prompts.INPUT, "user", asked)] if asked else []
        sections += [writer.text(prompts.OUTPUT, "assistant", output)] if output else []
        if expected is not None and expected.answer is not None:
            sections.append(writer.text(prompts.EXPECTED_OUTPUT, "assistant", expected.answer.value))
        sections.append(writer.calls(prompts.TRAJECTORY, self.calls(trajectory)))
        wanted = self.expected_calls(expected.calls, trajectory) if expected is not None else ()
        return [*sections, writer.expected_calls(wanted)] if wanted else sections

    def outcome(self, question: Question, verdict: JsonObject) -> Outcome:  # noqa: ARG002 (a verdict says it all)
        """Turn the verdict into a score."""
        return fraction(verdict)
