"""Langfuse: scores of traces, observations and sessions (`/api/public/scores`, a list of them in one request).

A score is overwritten by one of the same id and timestamp. Langfuse takes scores of spans that it does not have yet.
"""

from collections.abc import Sequence

import msgspec

from toolgauge.backends.score_sender import Exchange, Request, Rest
from toolgauge.export.regression_events import iso_time
from toolgauge.export.score_lines import Score


class _Results(msgspec.Struct):
    """The answer to a list of which some were refused (207); an accepted list has no such member."""

    rejected: int = 0


_results = msgspec.json.Decoder(_Results)


def write(scores: Sequence[Score]) -> Exchange:
    """Write all scores at once."""
    answer = yield Request(path="/api/public/scores", body=[_score(score) for score in scores])
    try:
        rejected = _results.decode(answer.body).rejected
    except msgspec.DecodeError:
        rejected = 0
    return Rest(rejected=min(rejected, len(scores)))


def _score(score: Score) -> dict[str, object]:
    if score.is_of_session:
        target = {"sessionId": score.session_id}
    elif score.level == "call":
        target = {"traceId": score.trace_id, "observationId": score.span_id}
    else:
        target = {"traceId": score.trace_id}
    is_number = score.value is not None
    return {
        "id": score.id,
        **target,
        "name": score.name,
        "dataType": "NUMERIC" if is_number else "CATEGORICAL",
        "value": score.value if is_number else score.word,
        "comment": score.explanation or None,
        "metadata": {**score.metadata, "outcome": score.word, "annotator_kind": score.annotator_kind},
        "timestamp": iso_time(score.judged_ns),
    }
