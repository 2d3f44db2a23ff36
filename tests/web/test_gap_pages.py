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
from toolgauge.recognize.shortfalls import advice
from toolgauge.recordings.recorded_requests import find_files, read, scorecards
from toolgauge.service.pipeline_factory import offline_pipeline
from toolgauge.web.health_pages import not_evaluated
from toolgauge.web.pages import PageContent

DOCS = Path(__file__).parents[2] / "docs"


def closed(paths: list[str]) -> Iterator[Trajectory]:
    recording = read(find_files(paths), lambda _size: None)
    for scorecard in scorecards(recording, offline_pipeline(Config(), ())):
        yield scorecard.trajectory


async def read_page(over: PageContent) -> Parsed:
    html = await page(not_evaluated, over, "not-evaluated")
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
        (each.producer.service, each.producer.scope, f"no {missing.name}", remedy.how)
        for each in advice(closed(paths))
        for remedy, group in each.missing.items()
        for missing in group
    }
    assert by_page == by_doctor


def test_meanings_of_reasons_are_those_of_the_page_of_outcomes() -> None:
    reasons = (DOCS / "outcomes.md").read_text().partition("\n## Damage in transit\n")[0]
    rows = re.findall(r"^\| (`.+?) \| (.+) \|$", reasons, re.MULTILINE)
    written = {
        reason: re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", meaning)
        for names, meaning in rows
        for reason in re.findall(r"`(\w+)`", names)
    }
    assert written == MEANINGS


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
