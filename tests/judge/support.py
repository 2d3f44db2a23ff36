"""An evaluator that asks, a client that answers from a list, and a clock in the test's hand."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from tests.score.support import tool_call, trajectory
from toolgauge.judge.inquiry import Reply, Request
from toolgauge.judge.judges import JudgeModel, Judges
from toolgauge.judge.settings import JudgeSettings
from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.judging import Asking, Inquiry, JudgeEvaluator, Question
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.outcomes import Level, Outcome, Scored
from toolgauge.model.trajectory import Trajectory
from toolgauge.selfmetrics import JudgeMetrics
from toolgauge.settings import SECOND

FORM: JsonObject = {
    "type": "object",
    "properties": {"score": {"type": "string", "enum": ["Yes", "No"]}},
    "required": ["score"],
    "additionalProperties": False,
}
YES: JsonObject = {"score": "Yes"}
NO: JsonObject = {"score": "No"}
MAYBE: JsonObject = {"score": "Maybe"}


def question(prompt: str = "Was `find` right?", *notes: str) -> Question:
    return Question(instructions="Judge.", prompt=prompt, form_name="verdict", form=FORM, notes=notes)


class RightTool(BaseModel):
    """Asks about each call whether it was right; tools in `clear` need no judge."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "call"
    clear: tuple[str, ...] = ()

    def questions(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Asking]:
        del expected
        for call in trajectory.calls:
            yield None
            if call.name in self.clear:
                yield call, Scored(value=1.0, explanation="clear", parts={"prechecked": 1.0})
            else:
                yield call, question(f"Was `{call.name}` right?")

    def outcome(self, question: Question, verdict: JsonObject) -> Outcome:
        del question
        return Scored(value=1.0 if verdict["score"] == "Yes" else 0.0, explanation=f"the judge said {verdict['score']}")

    def joined(self, outcomes: Sequence[Outcome]) -> Outcome:
        raise AssertionError(f"not asked for at level call: {outcomes}")


class WholeRun(RightTool):
    """Asks as many questions as there are calls and says how many were answered with yes."""

    level: ClassVar[Level] = "trajectory"

    def joined(self, outcomes: Sequence[Outcome]) -> Outcome:
        values = [outcome.value for outcome in outcomes if isinstance(outcome, Scored)]
        if len(values) < len(outcomes):
            return next(outcome for outcome in outcomes if not isinstance(outcome, Scored))
        return Scored(value=sum(values) / len(values), explanation=f"{len(values)} questions")


def run(*names: str) -> Trajectory:
    return trajectory(*(tool_call(name) for name in names))


def inquiry(evaluator: JudgeEvaluator, of: Trajectory, settled: Outcome | None = None) -> Inquiry:
    return Inquiry(criterion="right", evaluator=evaluator, trajectory=of, expected=None, settled=settled)


Answer: TypeAlias = Reply | Exception | Literal["hang"]


class Script:
    """A client that answers from a list, and with the last entry when the list has ended."""

    def __init__(self, *answers: Json | Answer) -> None:
        self._answers = [one if isinstance(one, Reply | Exception) or one == "hang" else said(one) for one in answers]
        self.requests: list[Request] = []
        self.in_flight = 0
        self.most_in_flight = 0
        # Of each of the ten steps of an answer.
        self.step_s = 0.0
        self.is_closed = False

    async def ask(self, request: Request) -> Reply:
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            for _ in range(10):
                await asyncio.sleep(self.step_s)
            if answer == "hang":
                await asyncio.Event().wait()
            if isinstance(answer, Reply):
                return answer
            raise answer if isinstance(answer, Exception) else AssertionError(answer)
        finally:
            self.in_flight -= 1

    async def close(self) -> None:
        self.is_closed = True


def said(verdict: Json, input_tokens: int | None = 100, output_tokens: int | None = 10) -> Reply:
    return Reply(verdict=verdict, input_tokens=input_tokens, output_tokens=output_tokens)


class Time:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds
        await asyncio.sleep(0)


class Bench:
    """The stage with a scripted client."""

    def __init__(
        self,
        *answers: Json | Answer,
        settings: JudgeSettings | None = None,
        redact: Callable[[str], str] = lambda text: text,
        sleep: Callable[[float], Awaitable[None]] | None = None,
    ) -> None:
        settings = settings or JudgeSettings(model="openai:any", timeout=60 * SECOND)
        self.registry = MetricRegistry()
        self.metrics = JudgeMetrics(self.registry)
        self.client = Script(*answers)
        self.time = Time()
        self.asker = JudgeModel(
            self.client,
            settings,
            self.metrics,
            redact=redact,
            clock=self.time,
            sleep=sleep or self.time.sleep,
        )
        self.judges = Judges(self.client, self.asker, settings, self.metrics)

    async def judged(self, *inquiries: Inquiry) -> list[Outcome]:
        """Judge one trajectory from start to close and return all outcomes in order."""
        await self.judges.start()
        self.judges.put(inquiries[0].trajectory, inquiries)
        await self.judges.drain(60)
        await self.judges.close()
        (answers,) = self.judges.take()
        return [outcome for _, judged in answers.answers for _, outcome in judged]
