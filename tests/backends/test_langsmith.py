"""Feedback of LangSmith."""

from tests.backends.fakes import Asked, Reply, card, sending, serving
from tests.export.scorecards import ROOT, TOOL_SPAN, passed, scorecard, trajectory_result
from toolgauge.backends.settings import LangsmithSettings

PROJECT = "c2e1ab3e-6c9f-4f6b-9b0e-5e6a7a1f0c11"
SETTINGS = LangsmithSettings(api_key="lsv2-1", project="my project")


class Feedback:
    """LangSmith with one project and some runs."""

    def __init__(self, *runs: str) -> None:
        self.runs = set(runs)
        self.by_id: dict[str, dict[str, object]] = {}

    def answer(self, asked: Asked) -> Reply:
        if asked.path == "/sessions":
            return Reply(json=[{"id": PROJECT}] if asked.query["name"] == "my project" else [])
        if asked.method == "PATCH":
            self.by_id[asked.path.rpartition("/")[2]] |= asked.json
        elif asked.json["run_id"] not in self.runs:
            return Reply(404, {"detail": "Run not found"})
        elif asked.json["id"] in self.by_id:
            return Reply(409, {"detail": "Feedback already exists"})
        else:
            self.by_id[asked.json["id"]] = asked.json
        return Reply(json={})


def run(span_id: str) -> str:
    return f"00000000-0000-0000-{span_id[:4]}-{span_id[4:]}"


async def test_feedback_is_on_the_runs_and_updated_when_it_is_sent_again():
    langsmith = Feedback(run(ROOT.span_id), run(TOOL_SPAN.span_id))
    async with serving(langsmith.answer) as backend, sending(SETTINGS, backend) as out:
        out.put(card())
        await out.settled()
        out.put(card(), scorecard(trajectory_result(passed(0.123456), "precise")))
        assert await out.settled() == {"accepted": 7, "delivered": 7}
        assert backend.asked[0].headers["x-api-key"] == "lsv2-1"
        assert len(langsmith.by_id) == 4
        by_key = {one["key"]: one for one in langsmith.by_id.values()}
        of_call = by_key["refund-arguments"]
        assert (of_call["run_id"], of_call["session_id"]) == (run(TOOL_SPAN.span_id), PROJECT)
        assert (of_call["score"], of_call["value"], of_call["comment"]) == (0.25, None, "`amount` differs")
        assert (by_key["judge"]["score"], by_key["judge"]["value"]) == (None, "error")
        assert by_key["precise"]["score"] == 0.1235


async def test_a_limit_of_requests_does_not_hold_a_backlog_up():
    langsmith = Feedback(run(ROOT.span_id))
    asked_since_rest = 0

    def answer(asked: Asked) -> Reply:
        nonlocal asked_since_rest
        asked_since_rest += 1
        if asked_since_rest > 20:
            asked_since_rest = 0
            return Reply(429)
        return langsmith.answer(asked)

    async with serving(answer) as backend, sending(SETTINGS, backend) as out:
        out.put(*(scorecard(trajectory_result(passed(), f"criterion-{number}")) for number in range(60)))
        assert await out.settled() == {"accepted": 60, "delivered": 60}
        assert len(langsmith.by_id) == 60


async def test_feedback_waits_for_its_project():
    langsmith = Feedback()
    missing = SETTINGS.model_copy(update={"project": "other", "late": 50_000_000})
    async with serving(langsmith.answer) as backend, sending(missing, backend) as out:
        out.put(card())
        assert await out.settled() == {"accepted": 3, "dropped:no_span": 3}
