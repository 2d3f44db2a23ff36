"""Traces whose spans went to two toolgauges: what shows it is not judged as a whole, and said."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.captures import Captured
from tests.walk.support import SECOND, START_NS, Walk, attributes
from tests.wire.agent_runs import AgentRun, request
from toolgauge.config.model import Config
from toolgauge.model.trajectory import Trajectory
from toolgauge.recordings.recorded_requests import RecordedRequest, find_files, read, scorecards
from toolgauge.service.pipeline_factory import offline_pipeline


def runs(count: int) -> list[AgentRun]:
    return [AgentRun(number, START_NS - 10 * SECOND, START_NS) for number in range(count)]


def halves(run: AgentRun, seed: int) -> Iterator[list[Span]]:
    """Yield what each of two toolgauges gets where spans are sent anywhere."""
    chance = random.Random(seed)  # noqa: S311 (no secret)
    to_first = {span.span_id for span in run.spans() if chance.random() < 0.5}
    yield [span for span in run.spans() if span.span_id in to_first]
    yield [span for span in run.spans() if span.span_id not in to_first]


def test_whole_traces_raise_no_suspicion():
    walk = Walk()
    for run in runs(60):
        walk.send(request(run.spans()))
    walk.wait(30)
    assert walk.metrics.split_suspected.current()[()] == 0


def test_split_traces_raise_a_suspicion(caplog: pytest.LogCaptureFixture):
    first, second = Walk(), Walk()
    for run in runs(60):
        for walk, spans in zip((first, second), halves(run, run.number), strict=True):
            walk.send(request(spans))
    for walk in (first, second):
        walk.wait(30)
        assert walk.metrics.split_suspected.current()[()] == 1
    # One line of each.
    assert ["`routing_key: traceID`" in warning for warning in caplog.messages] == [True, True]


def test_a_trace_that_shows_it_is_not_judged_as_a_whole():
    walk = Walk("events=all")
    (run,) = runs(1)
    spans = run.spans()
    lost = spans.pop(2)
    assert lost.name == "chat model"
    walk.send(request(spans))
    walk.wait(30)
    outcomes = defaultdict[object, set[object]](set)
    for event in walk.events():
        outcome = attributes(event)
        outcomes[outcome["gen_ai.evaluation.name"]].add(outcome["toolgauge.outcome"])
    assert outcomes["default.run_completed"] == outcomes["default.repeated_calls"] == {"not_evaluated"}


def test_no_recorded_framework_shows_signs_of_a_split_of_its_own(few_captured: Captured):
    """As its spans come, and as they come through a Collector that drops what no dialect reads."""
    whole = [*_recorded(few_captured, lambda _span: True), *_recorded(few_captured, _is_for_a_dialect)]
    assert whole
    assert [(one.service, one.trace_id, one.split_sign) for one in whole if one.split_sign is not None] == []


def _recorded(captured: Captured, passes: Callable[[Span], bool]) -> Iterator[Trajectory]:
    for scenario in captured.scenarios:
        files = [str(file) for file in captured.files(scenario)]
        recording = (_filtered(one, passes) for one in read(find_files(files), lambda _size: None))
        for scorecard in scorecards(recording, offline_pipeline(Config(), ())):
            yield scorecard.trajectory


def _filtered(recorded: RecordedRequest, passes: Callable[[Span], bool]) -> RecordedRequest:
    if recorded.signal != "traces":
        return recorded
    exported = ExportTraceServiceRequest.FromString(recorded.body)
    for group in exported.resource_spans:
        for scope in group.scope_spans:
            kept = [span for span in scope.spans if passes(span)]
            del scope.spans[:]
            scope.spans.extend(kept)
    return replace(recorded, body=exported.SerializeToString())


def _is_for_a_dialect(span: Span) -> bool:
    prefixes = ("gen_ai.", "llm.", "openinference.", "traceloop.", "ai.", "tool.")
    return any(attribute.key.startswith(prefixes) for attribute in span.attributes)
