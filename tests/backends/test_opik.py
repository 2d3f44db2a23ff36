"""Feedback scores of Opik."""

import json

from msgspec.structs import replace

from tests.backends.fakes import Asked, Reply, card, sending, serving
from tests.export.fakes import until
from tests.export.scorecards import TOOL_SPAN, TRACE, passed, scorecard, trajectory, trajectory_result
from toolgauge.backends.opik_feedback_scores import opik_id
from toolgauge.backends.settings import OpikSettings

SETTINGS = OpikSettings(api_key="opik-1", workspace="team", project="agents")
# The time of the first span that Opik saw, which only Opik knows.
TIME = bytes.fromhex("018bcfe56864")


class Opik:
    """Opik with one trace."""

    def __init__(self) -> None:
        self.traces = [opik_id(TRACE, TIME)]

    def answer(self, asked: Asked) -> Reply:
        if asked.method != "GET":
            return Reply(204)
        [condition] = json.loads(asked.query["filters"])
        assert (condition["field"], condition["operator"]) == ("id", "ends_with")
        found = [{"id": trace} for trace in self.traces if trace.endswith(condition["value"])]
        return Reply(json={"page": 1, "size": len(found), "content": found})


async def test_a_run_is_scored_on_trace_span_and_thread():
    of_session = replace(trajectory(), scope="conversation")
    async with serving(Opik().answer) as opik, sending(SETTINGS, opik) as out:
        out.put(card(), scorecard(trajectory_result(passed(), "whole"), of=of_session))
        # An error is no number, and Opik has no label without one.
        assert await out.settled() == {"accepted": 4, "delivered": 3, "left_out": 1}
        search, *written = opik.asked
        assert (search.path, search.query["project_name"]) == ("/v1/private/traces", "agents")
        assert (search.headers["authorization"], search.headers["comet-workspace"]) == ("opik-1", "team")
        by_path = {asked.path: asked.json["scores"] for asked in written}
        assert by_path["/v1/private/traces/feedback-scores"][0]["id"] == opik_id(TRACE, TIME)
        assert by_path["/v1/private/spans/feedback-scores"] == [
            {
                "id": opik_id(TOOL_SPAN.span_id, TIME),
                "project_name": "agents",
                "name": "refund-arguments",
                "value": 0.25,
                "category_name": "fail",
                "reason": "`amount` differs",
                "source": "sdk",
            }
        ]
        assert by_path["/v1/private/traces/threads/feedback-scores"][0]["thread_id"] == "conv-7"


def test_ids_are_those_of_opik():
    # A version 7 UUID: time, and ten bytes of SHA-256 of the id.
    assert opik_id("00f067aa0ba902b7", TIME) == "018bcfe5-6864-79a1-8e17-2e40dc859aed"


async def test_scores_wait_for_their_trace():
    backend = Opik()
    known, backend.traces = backend.traces, []
    async with serving(backend.answer) as opik, sending(SETTINGS, opik) as out:
        out.put(card())
        await until(lambda: len(opik.asked) > 1)
        backend.traces = known
        assert await out.settled() == {"accepted": 3, "delivered": 2, "left_out": 1}
