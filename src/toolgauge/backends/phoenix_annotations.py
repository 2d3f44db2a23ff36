"""Arize Phoenix: annotations of spans, traces and sessions, in its REST API (`/v1/span_annotations` and its siblings).

An annotation is overwritten by one of the same target, name and identifier. With `sync=true` the request is refused whole
while Phoenix lacks a target, and the answer names the missing ones.
"""

from collections.abc import Sequence
from urllib.parse import quote, urlencode

import msgspec

from toolgauge.backends.score_sender import Exchange, Reading, Request, Rest, verdict
from toolgauge.backends.settings import PhoenixSettings
from toolgauge.export.regression_events import iso_time
from toolgauge.export.score_lines import Score
from toolgauge.model.feedback import OWN_IDENTIFIER, Feedback

_NOT_FOUND = 404
# Traces of one page, and ids of one request: URLs and answers stay small.
_TRACES, _IDS = 50, 100


def write(scores: Sequence[Score]) -> Exchange[Rest]:
    """Annotate the targets that Phoenix has."""
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


class _Result(msgspec.Struct):
    label: str | None = None
    score: float | None = None


class _Given(msgspec.Struct):
    name: str
    annotator_kind: str
    result: _Result | None = None
    span_id: str | None = None
    trace_id: str | None = None
    identifier: str | None = None


class _Annotations(msgspec.Struct):
    data: Sequence[_Given]
    next_cursor: str | None = None


class _Span(msgspec.Struct):
    span_id: str


class _Trace(msgspec.Struct):
    trace_id: str
    spans: Sequence[_Span] | None = None


class _Traces(msgspec.Struct):
    data: Sequence[_Trace]
    next_cursor: str | None = None


def read(since_ns: int, settings: PhoenixSettings) -> Reading:
    """Read annotations of people on traces since a time and on their spans."""
    verdicts: list[Feedback] = []
    project = f"/v1/projects/{quote(settings.project, safe='')}"
    query: dict[str, object] = {"start_time": iso_time(since_ns), "include_spans": "true", "limit": _TRACES}
    while True:
        answer = yield Request(method="GET", path=f"{project}/traces?{urlencode(query)}")
        page = msgspec.json.decode(answer.body, type=_Traces)
        of_spans = {span.span_id: trace.trace_id for trace in page.data for span in trace.spans or ()}
        of_traces = {trace.trace_id: trace.trace_id for trace in page.data}
        for kind, targets in (("trace", of_traces), ("span", of_spans)):
            ids = list(targets)
            for first in range(0, len(ids), _IDS):
                some = ids[first : first + _IDS]
                given = yield from _annotations(f"{project}/{kind}_annotations", f"{kind}_ids", some)
                for one in given:
                    is_ours = (one.identifier or "").startswith(OWN_IDENTIFIER)
                    if one.result is not None and one.annotator_kind == "HUMAN" and not is_ours:
                        trace_id = targets.get(one.span_id or one.trace_id or "")
                        verdicts += verdict(one.name, one.result.score, trace_id, label=one.result.label)
        if page.next_cursor is None:
            return verdicts
        query["cursor"] = page.next_cursor


def _annotations(path: str, key: str, ids: Sequence[str]) -> Exchange[list[_Given]]:
    found: list[_Given] = []
    query: dict[str, object] = {key: ids, "limit": 1000}
    while True:
        answer = yield Request(method="GET", path=f"{path}?{urlencode(query, doseq=True)}", reads=(_NOT_FOUND,))
        # Without any annotation of these.
        page = _Annotations([]) if answer.status == _NOT_FOUND else msgspec.json.decode(answer.body, type=_Annotations)
        found += page.data
        if page.next_cursor is None:
            return found
        query["cursor"] = page.next_cursor
