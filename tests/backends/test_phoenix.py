"""Scores as annotations of Phoenix."""

from msgspec.structs import replace

from tests.backends.fakes import Asked, Reply, card, in_turn, sending, serving
from tests.export.fakes import until
from tests.export.scorecards import ROOT, TOOL_SPAN, TRACE, passed, scorecard, trajectory, trajectory_result
from toolgauge.backends.settings import PhoenixSettings

SETTINGS = PhoenixSettings(api_key="key-1")
FOUND = Reply(json={"data": []})


def missing(*ids: str) -> Reply:
    return Reply(404, text=f"Spans with IDs {', '.join(ids)} do not exist.")


async def test_a_run_is_annotated_on_its_spans():
    async with serving(in_turn(FOUND)) as phoenix, sending(SETTINGS, phoenix) as out:
        out.put(card())
        assert await out.settled() == {"accepted": 3, "delivered": 3}
        [asked] = phoenix.asked
        assert (asked.method, asked.path, asked.query) == ("POST", "/v1/span_annotations", {"sync": "true"})
        assert asked.headers["authorization"] == "Bearer key-1"
        by_name = {one["name"]: one for one in asked.json["data"]}
        assert by_name["refund-arguments"] == {
            "span_id": TOOL_SPAN.span_id,
            "name": "refund-arguments",
            "annotator_kind": "CODE",
            "result": {"score": 0.25, "label": "fail", "explanation": "`amount` differs"},
            "metadata": {
                "evaluator": "tool_call_args",
                "version": "2",
                "criterion_revision": "9f86d081884c",
                "tool": "issue_refund",
                "agent": "refund-agent",
            },
            "identifier": "9f86d081884c",
        }
        assert by_name["refund-f1"]["span_id"] == ROOT.span_id
        assert by_name["refund-f1"]["result"]["score"] == 0.5
        # An error is a label, and no number.
        assert by_name["judge"]["result"] == {"score": None, "label": "error", "explanation": "took too long"}


async def test_traces_and_sessions_have_annotations_of_their_own():
    of_session = replace(trajectory(), scope="conversation")
    without_root = replace(trajectory_result(passed()), target=None)
    async with serving(in_turn(FOUND)) as phoenix, sending(SETTINGS, phoenix) as out:
        out.put(scorecard(without_root), scorecard(trajectory_result(passed()), of=of_session))
        assert await out.settled() == {"accepted": 2, "delivered": 2}
        assert [asked.path for asked in phoenix.asked] == ["/v1/trace_annotations", "/v1/session_annotations"]
        assert phoenix.asked[0].json["data"][0]["trace_id"] == TRACE
        assert phoenix.asked[1].json["data"][0]["session_id"] == "conv-7"


async def test_a_score_waits_for_its_span_and_holds_up_no_other():
    arrived: set[str] = {ROOT.span_id}

    def answers(asked: Asked) -> Reply:
        ids = {one["span_id"] for one in asked.json["data"]}
        return missing(*sorted(ids - arrived)) if ids - arrived else FOUND

    async with serving(answers) as phoenix, sending(SETTINGS, phoenix) as out:
        out.put(card())
        await until(lambda: out.books.get("delivered") == 2)
        out.put(scorecard(trajectory_result(passed(), "other")))
        await until(lambda: out.books.get("delivered") == 3)
        assert out.destination.waiting == 1
        arrived.add(TOOL_SPAN.span_id)
        assert await out.settled() == {"accepted": 4, "delivered": 4}


async def test_a_score_whose_span_never_arrives_is_dropped_and_counted():
    nobody = in_turn(missing(TOOL_SPAN.span_id, ROOT.span_id))
    async with serving(nobody) as phoenix, sending(SETTINGS, phoenix, late=100_000_000) as out:
        out.put(card())
        assert await out.settled() == {"accepted": 3, "dropped:no_span": 3}
        assert len(phoenix.asked) > 2
