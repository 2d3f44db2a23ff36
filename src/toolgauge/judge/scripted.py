"""Judging with answers that are known beforehand: for offline cases, which must come out the same every time.

An answer that does not fit is asked for again, as often as a live judge would be asked.
"""

from collections.abc import Iterator

from toolgauge.judge.client import Reply
from toolgauge.judge.inquest import asked, concluded, conversation
from toolgauge.model.json import Json
from toolgauge.model.judging import Inquiry, Judged, JudgeEvaluator, Question
from toolgauge.model.outcomes import Errored, Outcome

_SILENT = Errored(error_type="no_verdict", message="the script of the judge has no more verdicts")


def judged_by(verdicts: Iterator[Json], inquiry: Inquiry) -> tuple[Judged, ...]:
    """Answer an inquiry with the next verdicts, as many as it asks for."""
    judged: list[Judged] = []
    for asking in asked(inquiry):
        if asking is None:
            continue
        call, said = asking
        judged.append((call, _answered(verdicts, inquiry.evaluator, said) if isinstance(said, Question) else said))
    return concluded(inquiry, judged)


def _answered(verdicts: Iterator[Json], evaluator: JudgeEvaluator, question: Question) -> Outcome:
    talk = conversation(evaluator, question)
    try:
        next(talk)
        for verdict in verdicts:
            talk.send(Reply(verdict=verdict))
    except StopIteration as ended:
        outcome: Outcome = ended.value
        return outcome
    talk.close()
    return _SILENT
