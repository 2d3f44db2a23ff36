"""A person's verdict on a run as a score of each backend."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.backends.fakes import Asked, Json, Reply, in_turn, sending, serving
from tests.backends.test_mlflow import Tracking
from tests.export.scorecards import ROOT, TRACE, trajectory
from toolgauge.backends.settings import (
    BackendSettings,
    DatadogSettings,
    LangfuseSettings,
    LangsmithSettings,
    MlflowSettings,
    OpikSettings,
    PhoenixSettings,
)
from toolgauge.export.score_lines import person_score

GIVEN_NS = 1_800_000_000_000_000_000
OPIK_PAGE = Reply(json={"content": [{"id": "01945e9c-8000-7000-8000-000000000000"}]})


def of_phoenix(asked: Asked) -> Json:
    [one] = asked.json["data"]
    result = one["result"]
    return one["span_id"], one["name"], one["annotator_kind"], result["score"], result["explanation"]


def of_langfuse(asked: Asked) -> Json:
    [one] = asked.json
    return one["traceId"], one["name"], one["metadata"]["annotator_kind"], one["value"], one["comment"]


def of_langsmith(asked: Asked) -> Json:
    one = asked.json
    kind = one["feedback_source"]["metadata"]["annotator_kind"]
    return one["run_id"][-17:].replace("-", ""), one["key"], kind, one["score"], one["comment"]


def of_mlflow(asked: Asked) -> Json:
    one = asked.json["assessment"]
    kind = one["source"]["source_type"]
    return one["trace_id"], one["assessment_name"], kind, one["feedback"]["value"], one["rationale"]


def of_opik(asked: Asked) -> Json:
    [one] = asked.json["scores"]
    return "found", one["name"], "HUMAN", one["value"], one["reason"]


def of_datadog(asked: Asked) -> Json:
    [one] = asked.json["data"]["attributes"]["metrics"]
    span = f"{int(one['join_on']['span']['span_id']):016x}"
    return span, one["label"], one["metadata"]["annotator_kind"], one["score_value"], one["reasoning"]


@pytest.mark.parametrize(
    ("settings", "answers", "read", "target"),
    [
        (PhoenixSettings(), in_turn(Reply(json={"data": []})), of_phoenix, ROOT.span_id),
        (LangfuseSettings(public_key="pk", api_key="sk"), in_turn(Reply(json=[])), of_langfuse, TRACE),
        (LangsmithSettings(project=None, api_key="k"), in_turn(Reply(json={})), of_langsmith, ROOT.span_id),
        (MlflowSettings(), Tracking().answer, of_mlflow, f"tr-{TRACE}"),
        (OpikSettings(), in_turn(OPIK_PAGE), of_opik, "found"),
        (DatadogSettings(api_key="k"), in_turn(Reply(202)), of_datadog, ROOT.span_id),
    ],
    ids=["phoenix", "langfuse", "langsmith", "mlflow", "opik", "datadog"],
)
async def test_a_verdict_is_a_score_by_a_human_also_where_passes_are_left_out(
    settings: BackendSettings, answers: Callable[[Asked], Reply], read: Callable[[Asked], Json], target: str
):
    async with serving(answers) as backend, sending(settings, backend, results="failed") as out:
        out.destination.put(person_score(trajectory(), "as it should be", GIVEN_NS, is_good=True))
        assert await out.settled() == {"accepted": 1, "delivered": 1}
        assert read(backend.asked[-1]) == (target, "verdict", "HUMAN", 1.0, "as it should be")


async def test_a_verdict_on_a_conversation_is_on_its_session():
    run = replace(trajectory(), scope="conversation")
    async with serving(in_turn(Reply(json={"data": []}))) as phoenix, sending(PhoenixSettings(), phoenix) as out:
        out.destination.put(person_score(run, "", GIVEN_NS, is_good=False))
        await out.settled()
        [asked] = phoenix.asked
        assert asked.path == "/v1/session_annotations"
        [one] = asked.json["data"]
        assert (one["session_id"], one["result"]["score"]) == ("conv-7", 0.0)
