"""Langfuse: scores of traces, observations and sessions (`/api/public/scores`, a list of them in one request).

A score is overwritten by one of the same id and timestamp. Langfuse takes scores of spans that it does not have yet.
"""

from collections.abc import Sequence
from urllib.parse import quote, urlencode

import msgspec

from toolgauge.backends.score_sender import Exchange, Reading, Request, Rest, verdict
from toolgauge.export.regression_events import iso_time
from toolgauge.export.score_lines import Score
from toolgauge.model.feedback import Feedback

# The annotation queue does not exist.
_NOT_FOUND = 404


class _Results(msgspec.Struct):
    """The answer to a list of which some were refused (207); an accepted list has no such member."""

    rejected: int = 0


_results = msgspec.json.Decoder(_Results)


def write(scores: Sequence[Score]) -> Exchange[Rest]:
    """Write all scores at once."""
    answer = yield Request(path="/api/public/scores", body=[_score(score) for score in scores])
    try:
        rejected = _results.decode(answer.body).rejected
    except msgspec.DecodeError:
        rejected = 0
    for score in scores:
        if score.queue:
            target = (score.session_id, "SESSION") if score.is_of_session else (score.trace_id, "TRACE")
            item = {"objectId": target[0], "objectType": target[1]}
            path = f"/api/public/annotation-queues/{quote(score.queue, safe='')}/items"
            answer = yield Request(path=path, body=item, reads=(_NOT_FOUND,))
            rejected += answer.status == _NOT_FOUND
    return Rest(rejected=min(rejected, len(scores)))


class _Kept(msgspec.Struct, rename="camel"):
    name: str
    source: str
    value: float | str | None = None
    string_value: str | None = None
    trace_id: str | None = None
    session_id: str | None = None


class _Meta(msgspec.Struct, rename="camel"):
    total_pages: int


class _Page(msgspec.Struct):
    data: Sequence[_Kept]
    meta: _Meta


_page = msgspec.json.Decoder(_Page)


def read(since_ns: int) -> Reading:
    """Read scores that people gave since a time."""
    verdicts: list[Feedback] = []
    number, pages = 1, 1
    while number <= pages:
        since = iso_time(since_ns)
        query = urlencode({"source": "ANNOTATION", "fromTimestamp": since, "limit": 100, "page": number})
        answer = yield Request(method="GET", path=f"/api/public/v2/scores?{query}")
        page = _page.decode(answer.body)
        number, pages = number + 1, page.meta.total_pages
        for one in page.data:
            if one.source == "ANNOTATION":
                verdicts += verdict(one.name, one.value, one.trace_id, one.session_id, one.string_value)
    return verdicts


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
