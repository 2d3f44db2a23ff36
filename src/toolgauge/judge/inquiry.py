"""Turns an inquiry into outcomes, without I/O: the questions, the decision to ask again, and the outcome of a verdict.

Evaluators and verdicts are not trusted: exceptions become `Errored`, an endless evaluator is cut off, a verdict may be of any size.
Imports neither asyncio nor a provider: commands without a judge load this module, too.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from json import dumps
from typing import Protocol, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from toolgauge import on_demand
from toolgauge.model.errors import EvaluationError
from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject, values_within
from toolgauge.model.judging import Answers, Inquiry, Judged, JudgeEvaluator, Question, reason_in
from toolgauge.model.outcomes import Errored, Level, NotEvaluated, Outcome, Scored
from toolgauge.model.plain_words import with_spaces
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import ToolCall, Trajectory

_MAX_DEPTH = 32
_MAX_PROBLEM = 500


class Reply(Struct, frozen=True, kw_only=True):
    """The answer of a judge; `problem` is why it holds no verdict, `text` is the text that the model wrote, where known.
    Tokens are `None` where not reported; `raw` is the client's own reply, for the next request of the conversation.
    """

    verdict: Json
    problem: str | None = None
    text: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    raw: object = None


class Exchange(Struct, frozen=True, kw_only=True):
    """One reply without a valid verdict, and its problem."""

    reply: Reply
    problem: str


class Request(Struct, frozen=True, kw_only=True):
    """A question, with the exchanges that have led to nothing so far."""

    question: Question
    exchanges: tuple[Exchange, ...] = ()


class Client(Protocol):
    """One way to a judge model; used by one event loop."""

    async def ask(self, request: Request) -> Reply:
        """Send the request once. Raises `JudgeCallError`; anything else it raises is reported by its type alone."""
        ...

    async def close(self) -> None:
        """Close the connections. May be called twice."""


class VerdictForm:
    """The JSON Schema of a verdict; raises an error of the validator where it is wrong."""

    def __init__(self, schema: JsonObject) -> None:
        # Offline: the validator would fetch a schema that the form refers to.
        self._validator = on_demand.jsonschema_rs.Draft202012Validator(schema, offline=True)

    def problem(self, verdict: Json) -> str | None:
        """Return the problem of a verdict, for the judge to read; `None` when it fits."""
        if not isinstance(verdict, dict):
            return "the verdict must be an object"
        if values_within(verdict, _MAX_DEPTH) is None:
            return "the verdict is nested too deeply"
        worst = min(self._validator.iter_errors(verdict), key=lambda error: len(error.instance_path), default=None)
        if worst is None:
            return None
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in worst.instance_path).lstrip(".")
        return f"{path or 'the verdict'}: {worst.message}"[:_MAX_PROBLEM]


MAX_REASKS = 2
_MAX_EMPTY = 20_000
# At level `trajectory` any number of questions may make one outcome; each costs money.
_MAX_QUESTIONS = 1000
_NO_FORM = "the judge gave no verdict of the form that was asked for"
# So much of a rejected answer is searched for secrets, and so much of it is shown.
_MAX_SEARCHED = 8192
_MAX_SHOWN = 200


def questions(inquiry: Inquiry, max_empty: int = _MAX_EMPTY) -> Iterator[tuple[ToolCall | None, Question | Outcome]]:
    """Yield the evaluator's questions and outcomes while it keeps its contract; one that yields only `None` is cut off."""
    if inquiry.settled is not None:
        yield None, inquiry.settled
        return
    is_by_call = inquiry.evaluator.level == "call"
    # Each call is judged once, so that a never-ending evaluator runs out of calls.
    unjudged = {id(call) for call in inquiry.trajectory.calls}
    asked_so_far = empty = 0
    is_open = True
    try:
        for asking in inquiry.evaluator.questions(inquiry.trajectory, inquiry.expected):
            if asking is None:
                empty += 1
                if empty > max_empty:
                    yield _errored("timeout", "the evaluator did not end and was cut off")
                    return
                continue
            call, asked = asking
            asked_so_far += 1
            problem = ""
            if not isinstance(cast("object", asked), Question | Scored | NotEvaluated | Errored):
                problem = "the evaluator yielded something that is neither a question nor an outcome"
            elif not is_by_call:
                if asked_so_far > _MAX_QUESTIONS:
                    problem = f"the evaluator asked more than {_MAX_QUESTIONS} questions"
            elif call is None:
                if isinstance(asked, Question | Scored) or not is_open:
                    problem = "the evaluator judged the trajectory where it declares to judge calls"
                is_open = False
            elif id(call) not in unjudged:
                problem = "the evaluator judged a call twice or one that is not there"
            else:
                unjudged.discard(id(call))
            if problem:
                yield _errored("invalid_outcome", problem)
                return
            yield call, asked
    except Exception as error:  # noqa: BLE001 (plug-ins may raise anything; it becomes an outcome)
        yield _raised(error)


def dialogue(question: Question, redact: Callable[[str], str] = str) -> Generator[Request, Reply, JsonObject | Errored]:
    """Yield requests and take replies until a verdict fits its form; `redact` masks secrets in a rejected answer."""
    try:
        form = VerdictForm(question.form)
        exchanges: tuple[Exchange, ...] = ()
        while True:
            reply = yield Request(question=question, exchanges=exchanges)
            problem = reply.problem or form.problem(reply.verdict)
            if problem is None and isinstance(reply.verdict, dict):
                return reply.verdict
            problem = problem or "the verdict must be an object"
            if len(exchanges) == MAX_REASKS:
                # The error shows the last rejected answer: on one line, without secrets, and cut.
                text = reply.text if reply.text is not None else dumps(reply.verdict, ensure_ascii=False)
                answer = _shown(reason_in(text[:_MAX_SEARCHED]), redact)
                answered = f"it answered: {answer}" if answer else "its answer was empty"
                message = f"{_NO_FORM} ({_shown(problem, redact)}); {answered}"
                return Errored(error_type="invalid_verdict", message=message)
            exchanges += (Exchange(reply=reply, problem=problem),)
    except Exception as error:  # noqa: BLE001 (plug-ins may raise anything; it becomes an outcome)
        return Errored(error_type=type(error).__name__, message="the question asks for a form that cannot be checked")


def _shown(text: str, redact: Callable[[str], str]) -> str:
    # Secrets are masked before the text is cut: half of one would not be recognized.
    shown = redact(" ".join(with_spaces(text[:_MAX_SEARCHED]).split()))
    return shown if len(shown) <= _MAX_SHOWN else f"{shown[: _MAX_SHOWN - 3]}..."


def outcome_of(evaluator: JudgeEvaluator, question: Question, verdict: JsonObject) -> Outcome:
    """Return the outcome of a verdict; an exception of the evaluator becomes an outcome, too."""
    try:
        outcome = evaluator.outcome(question, verdict)
        if not isinstance(outcome, Scored):
            return outcome
        missing = [note for note in question.notes if note not in outcome.explanation]
        return replace(outcome, explanation="; ".join((outcome.explanation, *missing))) if missing else outcome
    except Exception as error:  # noqa: BLE001 (plug-ins may raise anything; it becomes an outcome)
        return _raised(error)[1]


def outcomes_of(inquiry: Inquiry, judged: Sequence[Judged]) -> tuple[Judged, ...]:
    """Make the outcomes of an inquiry from the outcomes of its questions."""
    if inquiry.evaluator.level == "call" or inquiry.settled is not None or not judged:
        return tuple(judged)
    try:
        return ((None, inquiry.evaluator.joined([outcome for _, outcome in judged])),)
    except Exception as error:  # noqa: BLE001 (plug-ins may raise anything; it becomes an outcome)
        return (_raised(error),)


class DisabledJudges:
    """Implements `model.judging.Judging` without asking: answers with `judge_budget` at once; `explanation` gives the reason."""

    def __init__(self, explanation: str) -> None:
        self._outcome = NotEvaluated(reason="judge_budget", explanation=explanation)
        self._done: list[Answers] = []

    def put(self, trajectory: Trajectory, inquiries: tuple[Inquiry, ...]) -> None:
        """Answer the inquiries."""
        self._done.append(settled(trajectory, inquiries, self._outcome))

    def take(self) -> list[Answers]:
        """Return the answers since the last time."""
        done, self._done = self._done, []
        return done


def settled(trajectory: Trajectory, inquiries: Sequence[Inquiry], outcome: Outcome) -> Answers:
    """Answer all unsettled inquiries with the same outcome."""
    answers = tuple((inquiry, ((None, inquiry.settled or outcome),)) for inquiry in inquiries)
    return Answers(trajectory=trajectory, answers=answers)


def _raised(error: Exception) -> Judged:
    if isinstance(error, EvaluationError):
        return _errored(error.error_type, error.message)
    return _errored(type(error).__name__, "the evaluator raised an exception")


def _errored(error_type: str, message: str) -> Judged:
    # The message of an exception may quote argument values, so only its type is kept.
    return None, Errored(error_type=error_type, message=message)


# A verdict that fits the question's form, or why there is none.
Answer: TypeAlias = Callable[[Question], JsonObject | Errored]


class ScriptedEvaluator:
    """A judge evaluator whose questions `answer` answers, without a model."""

    def __init__(self, evaluator: JudgeEvaluator, answer: Answer) -> None:
        self._evaluator = evaluator
        self._answer = answer
        self.version: str = evaluator.version
        self.level: Level = evaluator.level

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        """Ask and yield what the answers mean."""
        outcomes: list[Outcome] = []
        for asking in self._evaluator.questions(trajectory, expected):
            if asking is None:
                continue
            call, asked = asking
            if isinstance(asked, Question):
                verdict = self._answer(asked)
                outcome = verdict if isinstance(verdict, Errored) else self._evaluator.outcome(asked, verdict)
            else:
                outcome = asked
            if self.level == "call":
                yield call, outcome
            else:
                outcomes.append(outcome)
        if self.level == "trajectory":
            yield None, self._evaluator.joined(outcomes)


def scripted(verdicts: Sequence[Json]) -> Answer:
    """Answer questions with the verdicts, in order; each question takes as many as it is asked."""
    left = enumerate(verdicts, 1)

    def answer(question: Question) -> JsonObject | Errored:
        exchange = dialogue(question)
        unfit: Errored | None = None
        try:
            next(exchange)
            for number, verdict in left:
                problem = VerdictForm(question.form).problem(verdict)
                # The problem may be quoted here: its reader has written the verdict.
                message = f"verdict {number} has not the form that was asked for: {problem}"
                unfit = None if problem is None else Errored(error_type="invalid_verdict", message=message)
                exchange.send(Reply(verdict=verdict))
        except StopIteration as ended:
            answered: JsonObject | Errored = ended.value
            return unfit or answered
        exchange.close()
        return unfit or Errored(error_type="no_verdict", message="no answer for the judge is left in `verdicts`")

    return answer
