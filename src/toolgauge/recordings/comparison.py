"""Two versions are compared: observations and a question come in, all that can be answered goes out."""

from collections.abc import Sequence
from dataclasses import dataclass

from toolgauge.recordings.conversation_means import Observed
from toolgauge.recordings.verdict import Answer, Judged, Question, answer_of, judge_streams
from toolgauge.recordings.versions import ChangedCriterion, Filters, Versions, pair_streams


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All streams of the compared versions with their verdicts, and one answer."""

    question: Question
    versions: tuple[Versions, ...]
    streams: tuple[Judged, ...]
    changed: tuple[ChangedCriterion, ...]
    answer: Answer


def compare(observed: Observed, versions: Sequence[Versions], filters: Filters, question: Question) -> Comparison:
    """Compare the streams of two versions of each service."""
    pairings, changed = pair_streams(observed, versions, filters)
    judged = judge_streams(pairings, question)
    return Comparison(
        question=question, versions=tuple(versions), streams=judged, changed=changed, answer=answer_of(judged)
    )
