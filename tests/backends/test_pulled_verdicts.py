"""Verdicts of people, read from fakes of each backend page by page, and written as labels."""

import asyncio
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from uuid import UUID

import pytest

from tests.backends.fakes import Asked, Json, Reply, in_turn, serving
from tests.export.fakes import until
from tests.walk.support import START_NS, Walk
from tests.walk.test_feedback import verdicts as verdicts_of
from toolgauge.authoring.labels import Labelled, read_labels
from toolgauge.backends.settings import (
    BackendSettings,
    DatadogSettings,
    LangfuseSettings,
    LangsmithSettings,
    MlflowSettings,
    OpikSettings,
    PhoenixSettings,
)
from toolgauge.cli.main import main
from toolgauge.config.load import load
from toolgauge.config.model import FeedbackSettings
from toolgauge.export.label_queues import QUEUED
from toolgauge.model.delivery import Accepted, Answer, Refused, Signal
from toolgauge.model.errors import ConfigError, RecordingError
from toolgauge.model.feedback import Feedback
from toolgauge.service.pulled_verdicts import VerdictPuller, pull

ONE, TWO = "1" * 32, "2" * 32
SINCE_NS = 1_700_000_000_000_000_000
SINCE = "2023-11-14T22:13:20.000Z"
LANGFUSE = LangfuseSettings(public_key="pk", api_key="sk")


async def pulled(settings: BackendSettings, answers: Callable[[Asked], Reply]) -> tuple[list[Feedback], list[Asked]]:
    async with serving(answers) as backend:
        changed = settings.model_copy(update={"endpoint": backend.url})
        return await pull("it", changed, SINCE_NS), backend.asked


async def test_scores_that_people_gave_in_langfuse():
    def score(name: str, **fields: Json) -> Json:
        return {"id": name, "name": name, "source": "ANNOTATION", "timestamp": SINCE, **fields}

    pages = {
        ("ANNOTATION", "1"): [score("thumbs", traceId=ONE, value=1, stringValue="True", dataType="BOOLEAN")],
        ("ANNOTATION", "2"): [
            score("tone", sessionId="s-1", value=0, stringValue="bad"),
            score("stars", traceId=TWO, value=4, observationId="9" * 16),
            score("of a data set", datasetRunId="d", value=1),
        ],
    }

    def answer(asked: Asked) -> Reply:
        wanted = asked.query["source"], asked.query["page"]
        return Reply(json={"data": pages[wanted], "meta": {"page": 1, "totalPages": 2}})

    verdicts, asked = await pulled(LANGFUSE, answer)
    assert verdicts == [
        Feedback(name="thumbs", label="True", value=1.0, trace_id=ONE),
        Feedback(name="tone", label="bad", value=0.0, conversation_id="s-1"),
        Feedback(name="stars", value=4.0, trace_id=TWO),
    ]
    assert [one.passed for one in verdicts[:3]] == [True, False, None]
    assert {one.path for one in asked} == {"/api/public/v2/scores"}
    assert {one.query["fromTimestamp"] for one in asked} == {SINCE}


async def test_feedback_that_people_gave_in_langsmith():
    def feedback(key: str, kind: str, **fields: Json) -> Json:
        return {"key": key, "feedback_source": {"type": kind}, "trace_id": str(UUID(ONE)), **fields}

    def answer(asked: Asked) -> Reply:
        if asked.path == "/sessions":
            return Reply(json=[{"id": "p-1"}])
        if asked.query["offset"] == "0":
            return Reply(json=[feedback("correct", "app", score=True)] * 100)
        return Reply(
            json=[
                feedback("tone", "app", score=None, value="bad"),
                feedback("judge", "model", score=1),
                {**feedback("thumbs", "app", score=0), "trace_id": f"00000000-0000-0000-{'1' * 4}-{'1' * 12}"},
            ]
        )

    verdicts, asked = await pulled(LangsmithSettings(project="mine"), answer)
    assert verdicts == [
        *[Feedback(name="correct", label=True, trace_id=ONE)] * 100,
        Feedback(name="tone", label="bad", trace_id=ONE),
    ]
    assert {one.query.get("session") for one in asked[1:]} == {"p-1"}
    assert {one.query["min_created_at"] for one in asked[1:]} == {SINCE}


async def test_assessments_of_people_in_mlflow():
    def given(name: str, value: Json, source: str = "HUMAN", **fields: Json) -> Json:
        return {"assessment_name": name, "source": {"source_type": source}, "feedback": {"value": value}, **fields}

    first = {
        "trace_id": f"tr-{ONE}",
        "assessments": [
            given("correct", False),
            given("correct", True, "LLM_JUDGE"),
            given("old", True, valid=False),
            given(QUEUED, 0.1, "CODE"),
            # Given in the web view, and sent by us.
            given("verdict", 0.0, metadata={"toolgauge_id": "1"}),
        ],
    }
    expectation = {"assessment_name": "answer", "source": {"source_type": "HUMAN"}, "expectation": {"value": "42"}}
    second = {"trace_id": f"tr-{TWO}", "assessments": [given("tone", "good"), given("tags", ["a"]), expectation]}
    pages = in_turn(Reply(json={"traces": [first], "next_page_token": "page-2"}), Reply(json={"traces": [second]}))
    verdicts, asked = await pulled(MlflowSettings(experiments=("3", "4")), pages)
    assert verdicts == [
        Feedback(name="correct", label=False, trace_id=ONE),
        Feedback(name="tone", label="good", trace_id=TWO),
    ]
    assert [one["mlflow_experiment"]["experiment_id"] for one in asked[0].json["locations"]] == ["3", "4"]
    assert asked[0].json["filter"] == f"trace.timestamp_ms >= {SINCE_NS // 1_000_000}"
    assert "page-2" in asked[1].json.values()


async def test_annotations_of_people_in_phoenix_on_traces_and_spans():
    def annotation(name: str, kind: str = "HUMAN", **fields: Json) -> Json:
        result = {"label": fields.pop("label", None), "score": fields.pop("score", None), "explanation": None}
        return {"name": name, "annotator_kind": kind, "result": result, **fields}

    def answer(asked: Asked) -> Reply:
        if asked.path == "/v1/projects/mine/traces":
            second = "cursor" in asked.query
            spans = [{"span_id": "b" * 16}] if second else [{"span_id": "a" * 16}]
            return Reply(
                json={
                    "data": [{"trace_id": TWO if second else ONE, "spans": spans}],
                    "next_cursor": None if second else "c",
                }
            )
        if asked.query.get("span_ids") == "b" * 16:
            return Reply(404)
        if asked.path.endswith("span_annotations"):
            return Reply(json={"data": [annotation("tone", label="bad", span_id="a" * 16)], "next_cursor": None})
        trace = asked.query["trace_ids"]
        found = [annotation("correct", score=1.0, trace_id=trace), annotation("judge", "LLM", score=0, trace_id=trace)]
        if trace == ONE:
            found.append(annotation(QUEUED, "CODE", label="pass", score=0.25, trace_id=trace))
            # Given in the web view, and sent by us.
            found.append(annotation("verdict", score=0.0, trace_id=trace, identifier="toolgauge:verdict"))
        return Reply(json={"data": found, "next_cursor": None})

    verdicts, _ = await pulled(PhoenixSettings(project="mine"), answer)
    assert verdicts == [
        Feedback(name="correct", value=1.0, trace_id=ONE),
        Feedback(name="tone", label="bad", trace_id=ONE),
        Feedback(name="correct", value=1.0, trace_id=TWO),
    ]


async def test_scores_that_people_gave_in_opik_need_a_mark_or_a_thread():
    def score(name: str, value: float, source: str = "ui", **fields: Json) -> Json:
        return {"name": name, "value": value, "source": source, **fields}

    marked = [
        score("correct", 0.0, category_name="wrong"),
        score(QUEUED, 0.5, "sdk", reason=f"drawn; trace {ONE}", category_name="pass"),
    ]
    traces = [
        {"id": "a", "feedback_scores": marked},
        {"id": "b", "feedback_scores": [score("correct", 1.0)], "thread_id": "c-1"},
        {"id": "c", "feedback_scores": [score("correct", 1.0)]},
        {"id": "d", "feedback_scores": [score("correct", 1.0, "online_scoring")], "thread_id": "c-2"},
        {"id": "e"},
    ]
    pages = in_turn(Reply(json={"content": traces}), Reply(json={"content": []}))
    verdicts, asked = await pulled(OpikSettings(project="mine"), pages)
    assert verdicts == [
        Feedback(name="correct", label="wrong", value=0.0, trace_id=ONE),
        Feedback(name="correct", value=1.0, conversation_id="c-1"),
    ]
    assert asked[0].query["from_time"] == SINCE


async def test_a_busy_backend_is_asked_again_and_a_refusal_is_an_error():
    empty = Reply(json={"data": [], "meta": {"totalPages": 0}})
    verdicts, (first, second, *_) = await pulled(LANGFUSE, in_turn(Reply(429, headers={"Retry-After": "1"}), empty))
    assert verdicts == []
    assert second.at_s - first.at_s >= 1
    with pytest.raises(RecordingError, match="http_401"):
        await pulled(LANGFUSE, in_turn(Reply(401)))
    with pytest.raises(ConfigError, match="datadog"):
        await pulled(DatadogSettings(), in_turn(empty))


class Taken:
    """A consumer that keeps what it is given; the first request is refused."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    async def consume(self, signal: Signal, body: bytes, sender: str | None) -> Answer:
        assert (signal, sender) == ("logs", None)
        self.asked.append(body)
        return Accepted() if len(self.asked) > 1 else Refused("full")


async def test_new_verdicts_become_events_once_and_those_from_before_the_start_never():
    before, after = given("correct", True), given("correct", False)
    kept = [{"trace_id": f"tr-{ONE}", "assessments": [before]}]

    def answer(_asked: Asked) -> Reply:
        if len(mlflow.asked) == 2:
            kept.append({"trace_id": f"tr-{TWO}", "assessments": [after]})
            kept.append({"trace_id": "tr-of no form", "assessments": [after]})
            return Reply(503)
        return Reply(json={"traces": kept})

    consumer, walk = Taken(), Walk()
    async with serving(answer) as mlflow:
        config = load((), (f"exporters.mlflow.endpoint={mlflow.url}", "feedback.pull=10s"), {})
        quick = config.model_copy(update={"feedback": FeedbackSettings.model_construct(pull=10_000_000)})
        puller = VerdictPuller(quick, consumer, lambda: START_NS)
        await puller.start()
        await until(lambda: len(mlflow.asked) > 8)
        await puller.stop(0)
    assert len(consumer.asked) == 2
    walk.send(consumer.asked[1], "logs")
    walk.wait(11 * 60)
    assert verdicts_of(walk) == {"unmatched": 1}


async def run(*arguments: str) -> tuple[int, str, str]:
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = await asyncio.to_thread(main, ["check", "--labels", *arguments])
    return code, out.getvalue(), err.getvalue()


async def test_verdicts_become_a_file_of_labels(tmp_path: Path):
    traces = [
        {"trace_id": f"tr-{ONE}", "assessments": [given("correct", True), given("tone", "bad")]},
        {"trace_id": f"tr-{TWO}", "assessments": [given("correct", False), given("stars", 4)]},
    ]
    file = tmp_path / "labels.csv"
    async with serving(in_turn(Reply(json={"traces": traces}))) as mlflow:
        options = ("mlflow:", "--set", f"exporters.mlflow.endpoint={mlflow.url}")
        code, out, err = await run(*options, "--since", "30d", "--label-name", "correct", "-o", str(file))
        assert (code, out) == (0, "")
        assert err == "labels of `mlflow` (`correct` 2, `stars` 1, `tone` 1): 1 passed, 1 failed\n"
        assert file.read_text() == f"trace_id,conversation_id,verdict\n{ONE},,passed\n{TWO},,failed\n"
        assert read_labels(file).verdicts[Labelled(is_conversation=False, id=ONE)] is True
        code, out, err = await run(*options, "--label-pass-at", "5")
        assert out == f"trace_id,conversation_id,verdict\n{TWO},,failed\n"
        assert "1 with different verdicts, left out" in err
        assert (await run(*options, "--label-name", "other"))[0] == 1
        assert (await run(*options, "--since", "soon"))[0] == 2
    code, _, err = await run("phoenix:")
    assert code == 2
    assert "there is no backend `phoenix`" in err


def given(name: str, value: Json) -> Json:
    return {"assessment_name": name, "source": {"source_type": "HUMAN"}, "feedback": {"value": value}}
