"""LangSmith: feedback on runs (`/feedback`), one request each.

LangSmith makes the id of a run from that of the span. Feedback with a known id is a conflict, and is updated then. It has
no sessions of conversations: scores of a conversation go to the root of its last trace.
"""

from collections.abc import Sequence
from urllib.parse import quote, urlencode

import msgspec

from toolgauge.backends.score_sender import Exchange, Reading, Request, Rest, verdict
from toolgauge.backends.settings import LangsmithSettings
from toolgauge.export.regression_events import iso_time
from toolgauge.export.score_lines import Score
from toolgauge.model.feedback import Feedback

_NOT_FOUND, _CONFLICT = 404, 409
# The API refuses scores with more decimals.
_DECIMALS = 4
_MOST = 100


class _Project(msgspec.Struct):
    id: str


def write(scores: Sequence[Score], settings: LangsmithSettings) -> Exchange[Rest]:
    """Look the project up, then create or update feedback."""
    project: dict[str, object] = {}
    if settings.project is not None:
        session_id = yield from _session_id(settings.project)
        if session_id is None:
            return Rest(late=scores)
        project = {"session_id": session_id}
    late: list[Score] = []
    on_runs = [score for score in scores if score.span_id is not None]
    for score in on_runs:
        is_number = score.value is not None
        feedback = {
            "score": round(score.value, _DECIMALS) if score.value is not None else None,
            "value": None if is_number else score.word,
            "comment": score.explanation,
        }
        metadata = {**score.metadata, "outcome": score.word, "annotator_kind": score.annotator_kind}
        identity = {
            "id": score.id,
            "run_id": _run_id(score),
            "key": score.name,
            "feedback_source": {"type": "model" if score.by_judge else "api", "metadata": metadata},
        }
        answer = yield Request(
            path="/feedback", body={**identity, **project, **feedback}, reads=(_NOT_FOUND, _CONFLICT)
        )
        if answer.status == _NOT_FOUND:
            late.append(score)
        elif answer.status == _CONFLICT:
            yield Request(method="PATCH", path=f"/feedback/{score.id}", body=feedback)
    queued = [score for score in on_runs if score.queue and score not in late]
    rejected = 0
    for score in queued:
        path = f"/annotation-queues/{quote(score.queue, safe='')}/runs"
        key = {"run_id": _run_id(score), **project, "start_time": iso_time(score.judged_ns)}
        by_key = Request(path=f"{path}/by-key", body=[key], reads=(_NOT_FOUND,))
        answer = yield by_key if project else Request(path=path, body=[key["run_id"]], reads=(_NOT_FOUND,))
        rejected += answer.status == _NOT_FOUND
    return Rest(late=late, left_out=len(scores) - len(on_runs), rejected=rejected)


def _session_id(project: str) -> Exchange[str | None]:
    answer = yield Request(method="GET", path=f"/sessions?limit=1&name={quote(project, safe='')}")
    found = msgspec.json.decode(answer.body, type=list[_Project])
    return found[0].id if found else None


class _Source(msgspec.Struct, frozen=True):
    type: str = ""


class _Kept(msgspec.Struct):
    key: str
    score: float | bool | None = None
    value: object = None
    trace_id: str | None = None
    feedback_source: _Source | None = None


def read(since_ns: int, settings: LangsmithSettings) -> Reading:
    """Read feedback that people gave in the application since a time."""
    session: dict[str, str] = {}
    if settings.project is not None:
        session_id = yield from _session_id(settings.project)
        if session_id is None:
            return []
        session = {"session": session_id}
    verdicts: list[Feedback] = []
    offset, count = 0, _MOST
    while count == _MOST:
        query = {"source": "app", **session, "min_created_at": iso_time(since_ns), "limit": _MOST, "offset": offset}
        answer = yield Request(method="GET", path=f"/feedback?{urlencode(query)}")
        page = msgspec.json.decode(answer.body, type=list[_Kept])
        offset, count = offset + len(page), len(page)
        for one in page:
            if one.feedback_source is not None and one.feedback_source.type == "app":
                label = one.value if isinstance(one.value, str) else None
                # The id of a trace has the same 16 bytes; one that begins with zeros is of a span.
                plain = (one.trace_id or "").replace("-", "")
                verdicts += verdict(one.key, one.score, None if plain.startswith("0" * 16) else plain, label=label)
    return verdicts


def _run_id(score: Score) -> str:
    span_id = score.span_id or ""
    return f"00000000-0000-0000-{span_id[:4]}-{span_id[4:]}"
