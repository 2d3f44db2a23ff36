"""Assessments of MLflow."""

from tests.backends.fakes import Asked, Reply, card, sending, serving
from tests.export.scorecards import TOOL_SPAN, TRACE
from toolgauge.backends.settings import MlflowSettings

PATH = f"/api/3.0/mlflow/traces/tr-{TRACE}"


class Tracking:
    """MLflow with one trace: it makes ids itself, and keeps what it is given."""

    def __init__(self) -> None:
        self.assessments: dict[str, dict[str, object]] = {}

    def answer(self, asked: Asked) -> Reply:
        if asked.method == "GET":
            return Reply(json={"trace": {"trace_info": {"assessments": [*self.assessments.values()]}}})
        given = asked.json["assessment"]
        if asked.method == "PATCH":
            assert asked.json["update_mask"] == "feedback,rationale,metadata"
            self.assessments[asked.path.rpartition("/")[2]] |= given
        else:
            key = f"a-{len(self.assessments)}"
            self.assessments[key] = {**given, "assessment_id": key}
        return Reply(json={"assessment": given})


async def test_a_run_is_assessed_once_however_often_it_is_sent():
    tracking = Tracking()
    async with serving(tracking.answer) as mlflow, sending(MlflowSettings(api_key="t"), mlflow) as out:
        out.put(card())
        await out.settled()
        out.put(card())
        assert await out.settled() == {"accepted": 6, "delivered": 6}
        assert mlflow.asked[0].path == PATH
        assert mlflow.asked[0].headers["authorization"] == "Bearer t"
        assert len(tracking.assessments) == 3
        by_name = {one["assessment_name"]: one for one in tracking.assessments.values()}
        of_call = by_name["refund-arguments"]
        assert of_call["span_id"] == TOOL_SPAN.span_id
        assert of_call["feedback"] == {"value": 0.25}
        assert of_call["source"] == {"source_type": "CODE", "source_id": "toolgauge/tool_call_args"}
        assert "span_id" not in by_name["refund-f1"]
        assert by_name["judge"]["feedback"] == {"error": {"error_code": "Timeout", "error_message": "took too long"}}


async def test_what_was_not_evaluated_is_left_out():
    tracking = Tracking()
    async with serving(tracking.answer) as mlflow, sending(MlflowSettings(), mlflow, results="all") as out:
        out.put(card())
        assert await out.settled() == {"accepted": 5, "delivered": 4, "left_out": 1}
