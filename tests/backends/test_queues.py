"""Drawn runs in the annotation queues of backends, or marked where there are none."""

import pytest
from pydantic import ValidationError

from tests.backends.fakes import Asked, Reply, Sending, card, in_turn, sending, serving
from tests.export.scorecards import ROOT, TRACE, emitter
from toolgauge.backends.opik_feedback_scores import opik_id
from toolgauge.backends.settings import (
    BackendSettings,
    LangfuseSettings,
    LangsmithSettings,
    OpikSettings,
    PhoenixSettings,
)
from toolgauge.config.load import load
from toolgauge.export.label_queues import QUEUED
from toolgauge.export.results import EmitSettings, ScoreFilter
from toolgauge.export.settings import LabelQueue
from toolgauge.model.errors import ConfigError

# Takes no score but marks.
NO_SCORES = ("none",)


def put(out: Sending, *queues: LabelQueue) -> None:
    settings = EmitSettings(annotate="off", scores=(ScoreFilter(criteria=NO_SCORES),), queues=queues)
    for outgoing in emitter(settings).requests([card()]):
        if outgoing.signal == "scores":
            out.destination.put(outgoing)


async def asked_of(settings: BackendSettings, answers: Reply, queue: str | None = "q 1") -> list[Asked]:
    async with serving(in_turn(answers)) as backend, sending(settings, backend, criteria=NO_SCORES) as out:
        put(out, LabelQueue(to=settings.vendor, queue=queue), LabelQueue(to="another"))
        books = await out.settled()
        assert books == {"accepted": 2, "left_out": 1, "delivered": 1}
        return backend.asked


async def test_a_failed_run_comes_into_a_queue_of_langfuse():
    mark, item = await asked_of(LangfuseSettings(public_key="p", api_key="s"), Reply(json={}))
    assert [(one["name"], one["value"]) for one in mark.json] == [(QUEUED, 1.0)]
    assert (item.path, item.json) == (
        "/api/public/annotation-queues/q 1/items",
        {"objectId": TRACE, "objectType": "TRACE"},
    )


async def test_a_failed_run_comes_into_a_queue_of_langsmith():
    run_id = f"00000000-0000-0000-{ROOT.span_id[:4]}-{ROOT.span_id[4:]}"
    feedback, item = await asked_of(LangsmithSettings(), Reply(json={}))
    assert (feedback.json["key"], feedback.json["score"], feedback.json["run_id"]) == (QUEUED, 1.0, run_id)
    assert (item.path, item.json) == ("/annotation-queues/q 1/runs", [run_id])
    *_, item = await asked_of(LangsmithSettings(project="mine"), Reply(json=[{"id": "p-1"}]))
    assert item.path == "/annotation-queues/q 1/runs/by-key"
    assert item.json == [{"run_id": run_id, "session_id": "p-1", "start_time": "2023-11-14T22:13:20.000Z"}]


async def test_a_failed_run_comes_into_a_queue_of_opik():
    known = opik_id(TRACE, bytes(6))
    *_, mark, item = await asked_of(OpikSettings(), Reply(json={"content": [{"id": known}]}))
    assert [(one["name"], one["reason"][-32:]) for one in mark.json["scores"]] == [(QUEUED, TRACE)]
    assert (item.path, item.json) == ("/v1/private/annotation-queues/q 1/items/add", {"ids": [known]})


async def test_without_a_queue_the_run_is_marked():
    (mark,) = await asked_of(PhoenixSettings(), Reply(json={"data": []}), queue=None)
    assert [(one["name"], one["span_id"]) for one in mark.json["data"]] == [(QUEUED, ROOT.span_id)]


async def test_a_queue_that_is_not_there_is_counted():
    async with (
        serving(lambda asked: Reply(404 if "queues" in asked.path else 200)) as langfuse,
        sending(LangfuseSettings(public_key="p", api_key="s"), langfuse, criteria=NO_SCORES) as out,
    ):
        put(out, LabelQueue(to="langfuse", queue="gone"))
        assert await out.settled() == {"accepted": 1, "dropped:rejected": 1}


def test_a_queue_needs_its_backend():
    with pytest.raises(ConfigError, match="no backend in `exporters`"):
        load((), ("queues=[{to: phoenix}]",), {})
    config = load((), ("queues=[{to: phoenix, when: all, share: 0.1}]", "exporters.phoenix={}"), {})
    assert config.queues == (LabelQueue(to="phoenix", when="all", share=0.1),)
    with pytest.raises(ValidationError):
        LabelQueue(to="phoenix", share=0)
