"""Arize Phoenix: annotations of spans, traces and sessions, in its REST API (`/v1/span_annotations` and its siblings).

An annotation is overwritten by one of the same target, name and identifier. With `sync=true` the request is refused whole
while Phoenix lacks a target, and the answer names those that it lacks.
"""

from collections.abc import Sequence

from toolgauge.backends.score_sender import Exchange, Request, Rest
from toolgauge.export.score_lines import Score

_NOT_FOUND = 404


def write(scores: Sequence[Score]) -> Exchange:
    """Annotate the targets that are there."""
    late: list[Score] = []
    for kind in ("span", "trace", "session"):
        left = [score for score in scores if _target(score)[0] == kind]
        while left:
            body = {"data": [_annotation(score) for score in left]}
            answer = yield Request(path=f"/v1/{kind}_annotations?sync=true", body=body, reads=(_NOT_FOUND,))
            if answer.status != _NOT_FOUND:
                break
            text = answer.body.decode(errors="replace")
            missing = [score for score in left if _target(score)[1] in text] or left
            late += missing
            left = [score for score in left if score not in missing]
    return Rest(late=late)


def _target(score: Score) -> tuple[str, str]:
    if score.is_of_session:
        return "session", score.session_id or ""
    return ("trace", score.trace_id) if score.span_id is None else ("span", score.span_id)


def _annotation(score: Score) -> dict[str, object]:
    kind, target = _target(score)
    return {
        f"{kind}_id": target,
        "name": score.name,
        "annotator_kind": score.annotator_kind,
        "result": {"score": score.value, "label": score.word, "explanation": score.explanation or None},
        "metadata": score.metadata,
        "identifier": score.identifier,
    }
