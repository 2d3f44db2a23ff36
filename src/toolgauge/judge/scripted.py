"""Answers that are known beforehand: for offline cases, which must come out the same every time.

An answer that does not fit is asked for again, as often as a live judge would be asked.
"""

from collections.abc import Callable, Sequence

from toolgauge.judge.client import Reply
from toolgauge.judge.inquest import conversation
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.judging import Question
from toolgauge.model.outcomes import Errored

_SILENT = Errored(error_type="no_verdict", message="there are no verdicts left to answer with")


def scripted(verdicts: Sequence[Json]) -> Callable[[Question], JsonObject | Errored]:
    """Answer questions with the verdicts, in order; each question takes as many as it is asked."""
    left = iter(verdicts)

    def answer(question: Question) -> JsonObject | Errored:
        talk = conversation(question)
        try:
            next(talk)
            for verdict in left:
                talk.send(Reply(verdict=verdict))
        except StopIteration as ended:
            answered: JsonObject | Errored = ended.value
            return answered
        talk.close()
        return _SILENT

    return answer
