"""Answers that are known beforehand: for offline cases, which must come out the same every time.

An answer that does not fit is asked for again, as often as a live judge would be asked.
"""

from collections.abc import Callable, Sequence

from toolgauge.judge.client import Reply
from toolgauge.judge.form import Form
from toolgauge.judge.inquest import conversation
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.judging import Question
from toolgauge.model.outcomes import Errored

_SILENT = Errored(error_type="no_verdict", message="there are no verdicts left to answer with")


def scripted(verdicts: Sequence[Json]) -> Callable[[Question], JsonObject | Errored]:
    """Answer questions with the verdicts, in order; each question takes as many as it is asked."""
    left = enumerate(verdicts, 1)

    def answer(question: Question) -> JsonObject | Errored:
        talk = conversation(question)
        unfit: Errored | None = None
        try:
            next(talk)
            for number, verdict in left:
                unfit = _unfit(question, number, verdict)
                talk.send(Reply(verdict=verdict))
        except StopIteration as ended:
            answered: JsonObject | Errored = ended.value
            return unfit or answered
        talk.close()
        return unfit or _SILENT

    return answer


def _unfit(question: Question, number: int, verdict: Json) -> Errored | None:
    """Say which verdict does not fit and why; here that may be quoted: who reads it has written it."""
    problem = Form(question.form).problem(verdict)
    if problem is None:
        return None
    message = f"verdict {number} has not the form that was asked for: {problem}"
    return Errored(error_type="invalid_verdict", message=message)
