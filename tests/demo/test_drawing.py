"""Conversations that are drawn from the packaged recordings."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.walk.support import Walk
from toolgauge.demo.sample_sender import HEALTHY, WORSE, Release, drawn, healthy_recordings, recordings, spans
from toolgauge.model.metrics import Histogram

NOW_NS = 1_800_000_000_000_000_000
AS_RECORDED = Release(version="1.0", failures=0)
SEQUENCE = [recording for recording in recordings() if recording.scenario == "sequence"]


def requests(release: Release, count: int, seed: int = 1) -> list[ExportTraceServiceRequest]:
    bodies = islice(drawn(recordings(), release, seed=seed, clock=lambda: NOW_NS), count)
    return [ExportTraceServiceRequest.FromString(body) for body in bodies]


def text(span: Span, key: str) -> str | None:
    return next((entry.value.string_value for entry in span.attributes if entry.key == key), None)


def tool_calls(release: Release, count: int) -> Iterator[Span]:
    """Calls of the one recorded run whose calls never failed."""
    for body in islice(drawn(SEQUENCE, release, seed=1, clock=lambda: NOW_NS), count):
        for span in spans(ExportTraceServiceRequest.FromString(body)):
            if text(span, "tool.name"):
                yield span


def failure_shares(release: Release) -> dict[str, float]:
    calls, failed = Counter[str](), Counter[str]()
    for span in tool_calls(release, 500):
        calls[span.name] += 1
        failed[span.name] += span.status.code == Status.STATUS_CODE_ERROR
    return {name: failed[name] / count for name, count in calls.items()}


def test_the_same_seed_draws_the_same_conversations():
    assert requests(WORSE, 20) == requests(WORSE, 20)
    assert requests(WORSE, 20) != requests(WORSE, 20, seed=2)


def test_every_conversation_is_one_request_with_a_trace_of_its_own():
    traces = [{span.trace_id for span in spans(request)} for request in requests(HEALTHY, 100)]
    assert {len(trace) for trace in traces} == {1}
    assert len(set[bytes]().union(*traces)) == 100


def test_no_two_conversations_share_a_conversation_id():
    named = [
        {text(span, "gen_ai.conversation.id") for span in spans(request)} - {None} for request in requests(HEALTHY, 60)
    ]
    assert {len(names) for names in named} == {0, 1}
    assert len(set[str | None]().union(*named)) == sum(map(bool, named))


def test_the_newest_span_of_a_conversation_ends_when_it_is_drawn():
    for request in requests(HEALTHY, 20):
        assert max(span.end_time_unix_nano for span in spans(request)) == NOW_NS


def test_every_resource_has_the_version_of_the_release():
    for request in requests(WORSE, 20):
        for group in request.resource_spans:
            versions = [
                entry.value.string_value for entry in group.resource.attributes if entry.key == "service.version"
            ]
            assert versions == ["1.1"]


def test_nothing_but_ids_times_and_version_changes_where_a_release_adds_no_failures():
    (recording,) = SEQUENCE
    recorded = [span for body in recording.requests for span in spans(ExportTraceServiceRequest.FromString(body))]
    (body,) = islice(drawn(SEQUENCE, AS_RECORDED, seed=1, clock=lambda: NOW_NS), 1)
    copies = list(spans(ExportTraceServiceRequest.FromString(body)))
    assert [span.attributes for span in copies] == [span.attributes for span in recorded]
    assert [(span.span_id, span.parent_span_id) for span in copies] == [
        (span.span_id, span.parent_span_id) for span in recorded
    ]


def test_a_worse_release_fails_more_often_at_one_tool():
    healthy, worse = failure_shares(HEALTHY), failure_shares(WORSE)
    assert set(healthy) == set(worse) == {"find_customer", "list_orders", "refund_order"}
    assert max(healthy.values()) < 0.05
    assert 0.3 < worse["list_orders"] < 0.4
    assert max(worse["find_customer"], worse["refund_order"]) < 0.05


def test_no_call_of_a_healthy_release_fails_but_for_those_that_it_makes_fail():
    walk = Walk()
    for recording in healthy_recordings():
        for body in recording.requests:
            walk.send(body)
    walk.wait(60)
    judged = [outcome for outcome in outcomes(walk) if outcome[0] in ("default.tool_success", "default.known_tool")]
    assert Counter(word for _, word in judged) == {"pass": len(judged)}
    assert len(judged) > 20


def outcomes(walk: Walk) -> Iterator[tuple[str, str]]:
    (evaluations,) = (metric for metric in walk.registry if metric.name == "toolgauge.evaluations")
    assert not isinstance(evaluations, Histogram)
    for labels, count in evaluations.current().items():
        named = dict(zip(evaluations.labels, labels, strict=True))
        yield from [(named["gen_ai.evaluation.name"], named["toolgauge.outcome"])] * int(count)


def test_a_failed_call_has_an_error_and_no_output():
    for span in tool_calls(Release(version="2", failures=1), 3):
        assert text(span, "output.value") is None
        assert text(span, "error.type") == "TimeoutError"
