"""MLflow: assessments of a trace and of its spans (`/api/3.0/mlflow/traces/<id>/assessments`).

Assessments of the trace are looked up first, and an assessment with our id in its metadata is updated. A new one gets an id of ours,
which a server takes once: a request of a process that was killed meanwhile cannot double it.
A conversation has no assessments of its own: its scores go to the trace of its last turn.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from toolgauge.backends.score_sender import Exchange, Reading, Request, Rest, verdict
from toolgauge.backends.settings import MlflowSettings
from toolgauge.export.score_lines import Score
from toolgauge.model.feedback import Feedback

_NOT_FOUND = 404
_ID = "toolgauge_id"
_MASK = "feedback,rationale,metadata"


class _Assessment(msgspec.Struct):
    assessment_id: str
    metadata: Mapping[str, str] = {}


class _TraceInfo(msgspec.Struct):
    assessments: Sequence[_Assessment] = ()


class _Trace(msgspec.Struct):
    trace_info: _TraceInfo


class _Answer(msgspec.Struct):
    trace: _Trace


def write(scores: Sequence[Score]) -> Exchange[Rest]:
    """Look each trace up, then create or update its assessments."""
    late: list[Score] = []
    wanted = [score for score in scores if score.word != "not_evaluated"]
    for trace_id in dict.fromkeys(score.trace_id for score in wanted):
        of_trace = [score for score in wanted if score.trace_id == trace_id]
        path = f"/api/3.0/mlflow/traces/tr-{trace_id}"
        answer = yield Request(method="GET", path=path, reads=(_NOT_FOUND,))
        if answer.status == _NOT_FOUND:
            late += of_trace
            continue
        known = msgspec.json.decode(answer.body, type=_Answer).trace.trace_info.assessments
        by_id = {each.metadata.get(_ID): each.assessment_id for each in known}
        for score in of_trace:
            error = {"error_code": score.reason, "error_message": score.explanation}
            session = {} if score.session_id is None else {"session": score.session_id}
            body: dict[str, Any] = {
                "assessment": {
                    "assessment_name": score.name,
                    "trace_id": f"tr-{score.trace_id}",
                    **({"span_id": score.span_id} if score.level == "call" else {}),
                    "source": {
                        "source_type": "LLM_JUDGE" if score.by_judge else score.annotator_kind,
                        "source_id": f"toolgauge/{score.evaluator}",
                    },
                    "feedback": {"error": error} if score.value is None else {"value": score.value},
                    "rationale": score.explanation,
                    "metadata": {**score.metadata, **session, "outcome": score.word, _ID: score.id},
                }
            }
            assessment_id = by_id.get(score.id)
            body["assessment"]["assessment_id"] = assessment_id or f"a-{score.id.replace('-', '')}"
            if assessment_id is None:
                yield Request(path=f"{path}/assessments", body=body)
            else:
                body["update_mask"] = _MASK
                yield Request(method="PATCH", path=f"{path}/assessments/{assessment_id}", body=body)
    return Rest(late=late, left_out=len(scores) - len(wanted))


class _Source(msgspec.Struct, frozen=True):
    source_type: str = ""


class _Feedback(msgspec.Struct):
    value: object = None


class _Given(msgspec.Struct):
    assessment_name: str = ""
    source: _Source = _Source()
    feedback: _Feedback | None = None
    valid: bool = True
    metadata: Mapping[str, str] | None = None


class _Found(msgspec.Struct):
    trace_id: str
    assessments: Sequence[_Given] = ()


class _Page(msgspec.Struct):
    traces: Sequence[_Found] = ()
    next_page_token: str | None = None


def read(since_ns: int, settings: MlflowSettings) -> Reading:
    """Read assessments of people on traces since a time."""
    verdicts: list[Feedback] = []
    body: dict[str, object] = {
        "locations": [
            {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": each}} for each in settings.experiments
        ],
        "filter": f"trace.timestamp_ms >= {since_ns // 1_000_000}",
        "max_results": 100,
    }
    while True:
        answer = yield Request(path="/api/3.0/mlflow/traces/search", body=body)
        page = msgspec.json.decode(answer.body, type=_Page)
        for trace in page.traces:
            for one in trace.assessments:
                given = None if one.feedback is None else one.feedback.value
                is_ours = _ID in (one.metadata or ())
                if (
                    one.source.source_type == "HUMAN"
                    and one.valid
                    and not is_ours
                    and isinstance(given, str | float | int)
                ):
                    verdicts += verdict(one.assessment_name, given, trace.trace_id.removeprefix("tr-"))
        if not page.next_page_token:
            return verdicts
        body["page_token"] = page.next_page_token
