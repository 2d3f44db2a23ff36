"""From an inquiry to outcomes, without I/O: what is asked, when it is asked again, and what an answer means.

The stage that asks a live judge and the one that reads its answers from a script run this same code. Evaluators are
plug-ins and trusted with nothing: what they raise becomes `Errored`, and one that never ends is cut off.
"""

from collections.abc import Generator, Iterator, Sequence

from msgspec.structs import replace

from toolgauge.judge.client import Exchange, Reply, Request
from toolgauge.judge.form import Form
from toolgauge.model.json import JsonObject
from toolgauge.model.judging import Inquiry, Judged, JudgeEvaluator, Question
from toolgauge.model.outcomes import Errored, NotEvaluated, Outcome, Scored
from toolgauge.model.trajectory import ToolCall

MAX_REASKS = 2
_MAX_PAUSES = 20_000
# At level `trajectory` any number of questions may make one outcome; somebody pays for each.
_MAX_QUESTIONS = 1000
_INVALID = Errored(error_type="invalid_verdict", message="the judge gave no verdict of the form that was asked for")


def asked(inquiry: Inquiry, max_pauses: int = _MAX_PAUSES) -> Iterator[tuple[ToolCall | None, Question | Outcome]]:
    """Yield what the evaluator yields as far as it keeps its contract.

    Evaluators from the days of pauses yield `None` between questions; one that yields nothing else is cut off.
    """
    if inquiry.settled is not None:
        yield None, inquiry.settled
        return
    targets = _Targets(inquiry)
    pauses = 0
    try:
        for asking in inquiry.evaluator.questions(inquiry.trajectory, inquiry.expected):
            if asking is None:
                pauses += 1
                if pauses > max_pauses:
                    yield _broken("timeout", "the evaluator did not end and was cut off")
                    return
                continue
            call, said = asking
            problem = targets.problem(call, said)
            if problem is not None:
                yield _broken("invalid_outcome", problem)
                return
            yield call, said
    except Exception as error:  # noqa: BLE001 (plug-ins may raise anything; it becomes an outcome)
        yield _broken(type(error).__name__, "the evaluator raised an exception")


def conversation(question: Question) -> Generator[Request, Reply, JsonObject | Errored]:
    """Yield what to send and take what came back, until there is a verdict or there were too many that are none."""
    try:
        form = Form(question.form)
        exchanges: tuple[Exchange, ...] = ()
        while True:
            reply = yield Request(question=question, exchanges=exchanges)
            problem = reply.problem or form.problem(reply.verdict)
            if problem is None and isinstance(reply.verdict, dict):
                return reply.verdict
            if len(exchanges) == MAX_REASKS:
                return _INVALID
            exchanges += (Exchange(reply=reply, problem=problem or "the verdict must be an object"),)
    except Exception as error:  # noqa: BLE001 (plug-ins may raise anything; it becomes an outcome)
        return Errored(error_type=type(error).__name__, message="the question asks for a form that cannot be checked")


def meaning(evaluator: JudgeEvaluator, question: Question, verdict: JsonObject) -> Outcome:
    """Say what a verdict means; whatever the evaluator raises becomes an outcome."""
    try:
        return _noted(evaluator.outcome(question, verdict), question)
    except Exception as error:  # noqa: BLE001 (plug-ins may raise anything; it becomes an outcome)
        return _broken(type(error).__name__, "the evaluator raised an exception")[1]


def concluded(inquiry: Inquiry, judged: Sequence[Judged]) -> tuple[Judged, ...]:
    """Make the set of outcomes of an inquiry from what came of its questions."""
    if inquiry.evaluator.level == "call" or inquiry.settled is not None or not judged:
        return tuple(judged)
    try:
        return ((None, inquiry.evaluator.joined([outcome for _, outcome in judged])),)
    except Exception as error:  # noqa: BLE001 (plug-ins may raise anything; it becomes an outcome)
        return (_broken(type(error).__name__, "the evaluator raised an exception"),)


class _Targets:
    """Sees that each call is judged once, so that a never-ending evaluator runs out of calls."""

    def __init__(self, inquiry: Inquiry) -> None:
        self._is_by_call = inquiry.evaluator.level == "call"
        self._calls = {id(call) for call in inquiry.trajectory.calls}
        self._left = _MAX_QUESTIONS
        self._is_open = True

    def problem(self, call: ToolCall | None, said: object) -> str | None:
        if not isinstance(said, Question | Scored | NotEvaluated | Errored):
            return "the evaluator yielded something that is neither a question nor an outcome"
        if not self._is_by_call:
            self._left -= 1
            return None if self._left >= 0 else f"the evaluator asked more than {_MAX_QUESTIONS} questions"
        if call is None:
            return self._problem_without_call(said)
        if id(call) not in self._calls:
            return "the evaluator judged a call twice or one that is not there"
        self._calls.discard(id(call))
        return None

    def _problem_without_call(self, said: object) -> str | None:
        if isinstance(said, Question | Scored) or not self._is_open:
            return "the evaluator judged the trajectory where it declares to judge calls"
        self._is_open = False
        return None


def _broken(error_type: str, message: str) -> Judged:
    # The message of an exception may quote argument values, so only its type is kept.
    return None, Errored(error_type=error_type, message=message)


def _noted(outcome: Outcome, question: Question) -> Outcome:
    """Say what the question says of itself, where the evaluator has not."""
    if not isinstance(outcome, Scored):
        return outcome
    missing = [note for note in question.notes if note not in outcome.explanation]
    return replace(outcome, explanation="; ".join((outcome.explanation, *missing))) if missing else outcome
