"""The page of what was not evaluated: it counts as the metrics do, and advises as the doctor does."""

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from tests.export.scorecards import trajectory
from tests.recordings.corpus import diagnosed, recordings
from tests.rows import each_row
from tests.watch.support import START, result, scored
from tests.web.streams import Parsed, page, shown
from toolgauge.config.model import Config
from toolgauge.export.score_metrics import ScoreMetrics
from toolgauge.export.settings import MetricsSettings
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.outcomes import MEANINGS, NotEvaluated, Scorecard
from toolgauge.model.trajectory import SpanSource, Trajectory
from toolgauge.recordings.recorded_requests import find_files, read, scorecards
from toolgauge.report.producer_advice import advice
from toolgauge.service.pipeline_factory import offline_pipeline
from toolgauge.web.health_pages import Figures, Gap, GapPages, gaps
from toolgauge.web.pages import Shown

DOCS = Path(__file__).parents[2] / "docs"


def closed(paths: list[str]) -> Iterator[Trajectory]:
    recording = read(find_files(paths), lambda _size: None)
    for scorecard in scorecards(recording, offline_pipeline(Config(), ())):
        yield scorecard.trajectory


async def read_page(over: Shown) -> Parsed:
    html = await page(GapPages, over, "not-evaluated")
    assert html is not None
    return Parsed(html)


def counted() -> MetricRegistry:
    """Count two criteria: one without schemas for two of three calls, one that is always scored."""
    registry = MetricRegistry()
    metrics = ScoreMetrics(MetricsSettings(), registry)
    no_schema = NotEvaluated(reason="no_schema")
    for number in range(3):
        outcome = scored(1.0) if number == 0 else no_schema
        results = (result(outcome, "find_order", "default.arguments_schema"), result(scored(1.0), "find_order"))
        metrics.record(Scorecard(trajectory=trajectory(), results=results, scored_at_ns=START + number))
    return registry


@each_row(
    ("folder", "scenario"),
    [("google-adk", "multi_turn"), ("openai-v2", "*"), ("openinference-crewai", "*"), ("vercel-ai", "*")],
)
def test_the_page_and_the_doctor_agree_on_recorded_traffic(folder: str, scenario: str) -> None:
    paths = recordings(folder, scenario)
    by_doctor = {
        (each.producer.service, each.producer.scope, missing.what.split(" in ")[0], missing.remedy.how)
        for each in diagnosed(paths)
        for missing in each.missing
    }
    by_page = {
        (each.service, each.scope, f"no {missing.name}", one.remedy.how)
        for each in advice(closed(paths))
        for one in each.advice
        for missing in one.missing
    }
    assert by_page == by_doctor


def test_results_are_counted_by_criterion_and_reason() -> None:
    assert list(gaps(Figures.of(counted()))) == [
        Gap(criterion="default.arguments_schema", reason="no_schema", count=2, of=3)
    ]


def test_meanings_of_reasons_are_those_of_the_page_of_outcomes() -> None:
    reasons = (DOCS / "outcomes.md").read_text().partition("\n## Damage in transit\n")[0]
    rows = re.findall(r"^\| (`.+?) \| (.+) \|$", reasons, re.MULTILINE)
    written = {
        reason: re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", meaning)
        for names, meaning in rows
        for reason in re.findall(r"`(\w+)`", names)
    }
    assert written == MEANINGS


async def test_the_page_explains_reasons_and_names_the_switch() -> None:
    over = shown(None, registry=counted())
    for one in closed(recordings("google-adk", "multi_turn")):
        over.store.add(Scorecard(trajectory=one, results=(), scored_at_ns=START))
    found = await read_page(over)
    assert "no_schema the tool was exported without a schema" in found.words
    assert "default.arguments_schema 2 of 3 67 %" in found.words
    assert "gcp.vertex.agent" in found.words
    assert re.search(r"no arguments in (\d+) of \1 kept traject", found.words)
    assert "Do: set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_AND_EVENT" in found.words


async def test_without_anything_the_page_says_so() -> None:
    found = await read_page(shown(None))
    assert "Nothing was left out" in found.words
    assert "No trajectory is kept yet" in found.words


def hostile_trajectory(name: str) -> Trajectory:
    base = trajectory()
    spans = tuple(call.span.span_id for call in base.calls)
    source = SpanSource(service=name, scope=name, dialect="genai", spans=spans, model_calls=1, has_runs=True)
    return replace(base, sources=(source,), messages=(), tools_offered=None, conversation_id=None)


async def test_names_of_producers_stay_text() -> None:
    over = shown(None)
    hostile = "<script>alert(1)</script>"
    judged = (result(scored(1.0), "find_order"),)
    over.store.add(Scorecard(trajectory=hostile_trajectory(hostile), results=judged, scored_at_ns=START))
    found = await read_page(over)
    assert found.count("script") == 1
    assert f"{hostile}: {hostile}" in found.words


def test_conversations_are_not_counted_beside_their_traces() -> None:
    one = hostile_trajectory("s")
    assert advice([one, replace(one, scope="conversation")]) == advice([one])
