"""LangSmith: feedback on runs (`/feedback`), one request each.

LangSmith makes the id of a run from that of the span. Feedback with a known id is a conflict, and is updated then. It has
no sessions of conversations: scores of a conversation go to the root of its last trace.
"""

from collections.abc import Sequence
from urllib.parse import quote

import msgspec

from toolgauge.backends.score_sender import Exchange, Request, Rest
from toolgauge.backends.settings import LangsmithSettings
from toolgauge.export.regression_events import iso_time
from toolgauge.export.score_lines import Score

_NOT_FOUND, _CONFLICT = 404, 409
# The API refuses scores with more decimals.
_DECIMALS = 4


class _Project(msgspec.Struct):
    id: str


def write(scores: Sequence[Score], settings: LangsmithSettings) -> Exchange:
    """Look the project up, then create or update feedback."""
    project: dict[str, object] = {}
    if settings.project is not None:
        answer = yield Request(method="GET", path=f"/sessions?limit=1&name={quote(settings.project, safe='')}")
        found = msgspec.json.decode(answer.body, type=list[_Project])
        if not found:
            return Rest(late=scores)
        project = {"session_id": found[0].id}
    late: list[Score] = []
    on_runs = [score for score in scores if score.span_id is not None]
    for score in on_runs:
        feedback = _feedback(score)
        answer = yield Request(
            path="/feedback", body={**_identity(score), **project, **feedback}, reads=(_NOT_FOUND, _CONFLICT)
        )
        if answer.status == _NOT_FOUND:
            late.append(score)
        elif answer.status == _CONFLICT:
            yield Request(method="PATCH", path=f"/feedback/{score.id}", body=feedback)
    return Rest(late=late, left_out=len(scores) - len(on_runs))


def _identity(score: Score) -> dict[str, object]:
    span_id = score.span_id or ""
    kind = "model" if score.by_judge else "api"
    source = {**score.metadata, "outcome": score.word, "annotator_kind": score.annotator_kind}
    return {
        "id": score.id,
        "run_id": f"00000000-0000-0000-{span_id[:4]}-{span_id[4:]}",
        "key": score.name,
        "feedback_source": {"type": kind, "metadata": source},
        **({"start_time": iso_time(score.start_ns)} if score.start_ns else {}),
    }


def _feedback(score: Score) -> dict[str, object]:
    is_number = score.value is not None
    return {
        "score": round(score.value, _DECIMALS) if score.value is not None else None,
        "value": None if is_number else score.word,
        "comment": score.explanation,
    }
