"""Scores of Langfuse."""

import base64

import pytest
from msgspec.structs import replace
from pydantic import ValidationError

from tests.backends.fakes import Reply, card, in_turn, sending, serving
from tests.export.scorecards import TOOL_SPAN, TRACE, passed, scorecard, trajectory, trajectory_result
from toolgauge.backends.settings import LangfuseSettings

SETTINGS = LangfuseSettings(public_key="pk-lf-1", api_key="sk-lf-1")
TAKEN = Reply(202, {"message": "Accepted"})


async def test_a_run_is_scored_on_trace_observation_and_session():
    of_session = replace(trajectory(), scope="conversation")
    async with serving(in_turn(TAKEN)) as langfuse, sending(SETTINGS, langfuse) as out:
        out.put(card(), scorecard(trajectory_result(passed(), "whole"), of=of_session))
        assert await out.settled() == {"accepted": 4, "delivered": 4}
        [asked] = langfuse.asked
        assert (asked.method, asked.path) == ("POST", "/api/public/scores")
        assert asked.headers["authorization"] == "Basic " + base64.b64encode(b"pk-lf-1:sk-lf-1").decode()
        by_name = {one["name"]: one for one in asked.json}
        of_call = by_name["refund-arguments"]
        assert (of_call["traceId"], of_call["observationId"]) == (TRACE, TOOL_SPAN.span_id)
        assert (of_call["dataType"], of_call["value"], of_call["comment"]) == ("NUMERIC", 0.25, "`amount` differs")
        # The time of the call: an update needs the same id and the same time.
        assert of_call["timestamp"] == "2023-11-14T22:13:20.000Z"
        assert of_call["metadata"]["outcome"] == "fail"
        assert "observationId" not in by_name["refund-f1"]
        assert (by_name["judge"]["dataType"], by_name["judge"]["value"]) == ("CATEGORICAL", "error")
        assert "traceId" not in by_name["whole"]
        assert by_name["whole"]["sessionId"] == "conv-7"


async def test_the_scores_of_a_run_have_the_same_ids_each_time():
    async with serving(in_turn(TAKEN)) as langfuse, sending(SETTINGS, langfuse) as out:
        out.put(card())
        await out.settled()
        out.put(replace(card(), scored_at_ns=1_800_000_000_000_000_000))
        await out.settled()
        first, second = ({one["name"]: (one["id"], one["timestamp"]) for one in asked.json} for asked in langfuse.asked)
        assert first == second
        assert len({identity for identity, _ in first.values()}) == 3


async def test_scores_that_langfuse_rejects_of_a_list_are_counted():
    some = Reply(207, {"accepted": 2, "rejected": 1, "errors": [{"message": "no"}]})
    async with serving(in_turn(some)) as langfuse, sending(SETTINGS, langfuse) as out:
        out.put(card())
        assert await out.settled() == {"accepted": 3, "delivered": 2, "dropped:rejected": 1}


def test_one_key_alone_is_an_error():
    with pytest.raises(ValidationError, match="public_key"):
        LangfuseSettings(api_key="sk-lf-1")
