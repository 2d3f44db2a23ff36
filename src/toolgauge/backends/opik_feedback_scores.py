"""Opik: feedback scores of traces, spans and threads (`/v1/private/.../feedback-scores`).

Opik derives the id of a trace from the OpenTelemetry one and from the earliest span that it saw first: the trace is looked
up by the part that is known, and the ids of its spans follow. A score is overwritten by one of the same name.
"""

import hashlib
import uuid
from collections.abc import Sequence
from urllib.parse import quote, urlencode

import msgspec

from toolgauge.backends.score_sender import Exchange, Reading, Request, Rest, trace_of_mark, verdict
from toolgauge.backends.settings import OpikSettings
from toolgauge.export.label_queues import QUEUED
from toolgauge.export.regression_events import iso_time
from toolgauge.export.score_lines import Score
from toolgauge.model.feedback import Feedback

_PRIVATE = "/v1/private"
_HASHED_BYTES = 10
# A thread takes scores once it is inactive.
_NOT_YET = (404, 409)


class _Trace(msgspec.Struct):
    id: str


class _Page(msgspec.Struct):
    content: Sequence[_Trace]


def write(scores: Sequence[Score], settings: OpikSettings) -> Exchange[Rest]:
    """Look the traces up, then write scores of traces, spans and threads."""
    late: list[Score] = []
    items: dict[str, list[tuple[Score, dict[str, object]]]] = {"traces": [], "spans": [], "traces/threads": []}
    numbers = [score for score in scores if score.value is not None]
    found: dict[str, str | None] = {}
    for score in numbers:
        if score.is_of_session:
            items["traces/threads"].append((score, {"thread_id": score.session_id}))
            continue
        if score.trace_id not in found:
            known = opik_id(score.trace_id, bytes(6)).split("-", 2)[2]
            filters = [{"field": "id", "operator": "ends_with", "value": known}]
            query = {"project_name": settings.project, "size": 1, "filters": msgspec.json.encode(filters).decode()}
            answer = yield Request(method="GET", path=f"{_PRIVATE}/traces?{urlencode(query)}")
            page = msgspec.json.decode(answer.body, type=_Page).content
            found[score.trace_id] = page[0].id if page else None
        trace_id = found[score.trace_id]
        if trace_id is None:
            late.append(score)
        elif score.level == "call" and score.span_id is not None:
            items["spans"].append((score, {"id": opik_id(score.span_id, uuid.UUID(trace_id).bytes[:6])}))
        else:
            items["traces"].append((score, {"id": trace_id}))
    for kind, of_kind in items.items():
        if of_kind:
            written = [
                {
                    **target,
                    "project_name": settings.project,
                    "name": score.name,
                    "value": score.value,
                    "category_name": score.word,
                    "reason": score.explanation,
                    "source": "sdk",
                }
                for score, target in of_kind
            ]
            path, body = f"{_PRIVATE}/{kind}/feedback-scores", {"scores": written}
            answer = yield Request(method="PUT", path=path, body=body, reads=_NOT_YET)
            late += [score for score, _ in of_kind] if answer.status in _NOT_YET else []
    rejected = 0
    for score in numbers:
        # Threads have other ids in queues.
        if score.queue and score not in late and not score.is_of_session:
            path = f"{_PRIVATE}/annotation-queues/{quote(score.queue, safe='')}/items/add"
            answer = yield Request(path=path, body={"ids": [found[score.trace_id]]}, reads=_NOT_YET)
            rejected += answer.status in _NOT_YET
    return Rest(late=late, left_out=len(scores) - len(numbers), rejected=rejected)


def opik_id(otel_id: str, time: bytes) -> str:
    """Make a UUIDv7 of 6 bytes of time and the hash of a span's or trace's id."""
    hashed = bytearray(hashlib.sha256(bytes.fromhex(otel_id)).digest()[:_HASHED_BYTES])
    hashed[0] = hashed[0] & 0x0F | 0x70
    hashed[2] = hashed[2] & 0x3F | 0x80
    return str(uuid.UUID(bytes=time + bytes(hashed)))


class _Given(msgspec.Struct):
    name: str
    value: float
    category_name: str | None = None
    reason: str | None = None
    source: str = ""


class _Found(msgspec.Struct):
    feedback_scores: Sequence[_Given] | None = None
    thread_id: str | None = None


class _FoundPage(msgspec.Struct):
    content: Sequence[_Found]


def read(since_ns: int, settings: OpikSettings) -> Reading:
    """Read scores that people gave in the application on traces since a time.

    Opik does not keep the OpenTelemetry id of a trace: the mark of a queued run has it, else the thread has to do.
    """
    verdicts: list[Feedback] = []
    query: dict[str, object] = {"project_name": settings.project, "from_time": iso_time(since_ns), "size": 100}
    query |= {"truncate": "true", "exclude": '["input","output","metadata"]'}
    number = 1
    while True:
        answer = yield Request(method="GET", path=f"{_PRIVATE}/traces?{urlencode({**query, 'page': number})}")
        page = msgspec.json.decode(answer.body, type=_FoundPage).content
        if not page:
            return verdicts
        number += 1
        for trace in page:
            given = trace.feedback_scores or ()
            trace_id = next((trace_of_mark(one.reason or "") for one in given if one.name == QUEUED), None)
            for one in given:
                if one.source == "ui":
                    verdicts += verdict(one.name, one.value, trace_id, trace.thread_id, one.category_name)
