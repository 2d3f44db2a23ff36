"""External evaluations of Datadog."""

from msgspec.structs import replace

from tests.backends.fakes import Reply, card, in_turn, sending, serving
from tests.export.scorecards import TOOL_SPAN, TRACE, passed, scorecard, trajectory_result
from toolgauge.backends.settings import DatadogSettings

TAKEN = Reply(202, {"data": {}})


async def test_a_run_is_evaluated_on_its_spans_by_decimal_ids():
    async with serving(in_turn(TAKEN)) as datadog, sending(DatadogSettings(api_key="dd-1"), datadog) as out:
        out.put(card())
        assert await out.settled() == {"accepted": 3, "delivered": 3}
        [asked] = datadog.asked
        assert asked.path == "/api/intake/llm-obs/v2/eval-metric"
        assert asked.headers["dd-api-key"] == "dd-1"
        assert asked.json["data"]["type"] == "evaluation_metric"
        by_label = {one["label"]: one for one in asked.json["data"]["attributes"]["metrics"]}
        of_call = by_label["refund_arguments"]
        span = {"span_id": str(int(TOOL_SPAN.span_id, 16)), "trace_id": str(int(TRACE, 16))}
        assert of_call["join_on"] == {"span": span}
        assert (of_call["metric_type"], of_call["score_value"], of_call["assessment"]) == ("score", 0.25, "fail")
        assert (of_call["ml_app"], of_call["eval_scope"]) == ("support", "span")
        assert "source:otel" in of_call["tags"]
        assert by_label["refund_f1"]["eval_scope"] == "trace"
        assert (by_label["judge"]["metric_type"], by_label["judge"]["categorical_value"]) == ("categorical", "error")


async def test_a_run_without_a_root_has_no_place_there():
    without_root = replace(trajectory_result(passed()), target=None)
    async with serving(in_turn(TAKEN)) as datadog, sending(DatadogSettings(ml_app="shop"), datadog) as out:
        out.put(scorecard(without_root))
        assert await out.settled() == {"accepted": 1, "left_out": 1}
        assert not datadog.asked
