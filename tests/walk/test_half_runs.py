"""Half a run through the whole pipeline: what is said of it, and what is never said."""

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.walk.support import CORPUS, Walk, attributes
from toolgauge.otlp.request import read_request

# What looks at a call alone, and what looks for a later one that made it good.
OF_CALLS, OF_THE_WHOLE = "default.arguments_schema", "default.tool_success"


def outcomes(walk: Walk, criterion: str) -> list[tuple[object, object]]:
    """The outcomes of a criterion, with the reason of those that are none."""
    found = [attributes(event) for event in walk.events()]
    return sorted(
        (one["toolgauge.outcome"], one.get("toolgauge.not_evaluated.reason"))
        for one in found
        if one["gen_ai.evaluation.name"] == criterion
    )


def pass_unread(walk: Walk, body: bytes) -> None:
    request = read_request("traces", body, walk.now_ns)
    walk.pipeline.admission.admit(request)
    assert walk.pipeline.pass_unread(request, walk.now_ns)


def files(framework: str, scenario: str) -> list[bytes]:
    return [file.read_bytes() for file in sorted((CORPUS / framework).glob(f"{scenario}*.otlp.pb"))]


def test_of_what_was_open_while_requests_passed_unread_calls_seen_whole_are_scored():
    walk = Walk("events=all")
    for body in files("strands", "tool_error"):
        walk.send(body)
    pass_unread(walk, files("mcp-python", "")[0])
    walk.wait(60)
    assert outcomes(walk, OF_CALLS) == [("pass", None)]
    assert outcomes(walk, OF_THE_WHOLE) == [("not_evaluated", "overload")]


def without_run(body: bytes) -> bytes:
    """Leave out the span of the agent's run, as long as that goes on."""
    request = ExportTraceServiceRequest.FromString(body)
    for group in request.resource_spans:
        for scope in group.scope_spans:
            kept = [span for span in scope.spans if attributes(span).get("gen_ai.operation.name") != "invoke_agent"]
            assert len(kept) == len(scope.spans) - 1
            del scope.spans[:]
            scope.spans.extend(kept)
    return request.SerializeToString()


def shut_down(walk: Walk) -> Span:
    walk.pipeline.close(walk.now_ns)
    walk.wait(1)
    (scorecard,) = walk.scorecards()
    return scorecard


def test_a_run_that_is_going_on_at_the_end_says_so_and_only_its_calls_are_scored():
    walk = Walk("events=all")
    walk.send(without_run(files("strands", "tool_error")[0]))
    scorecard = attributes(shut_down(walk))
    assert scorecard["toolgauge.incomplete"] is True
    assert scorecard["toolgauge.incomplete_because"] == (
        "a span that contains others of it had not arrived when it was closed (shutdown)"
    )
    assert outcomes(walk, OF_CALLS) == [("pass", None)]
    assert outcomes(walk, OF_THE_WHOLE) == [("not_evaluated", "incomplete")]


def test_a_run_that_has_ended_is_scored_at_the_end_as_ever():
    walk = Walk("events=all")
    walk.send(files("strands", "tool_error")[0])
    assert "toolgauge.incomplete" not in attributes(shut_down(walk))
    assert outcomes(walk, OF_THE_WHOLE) == [("fail", None)]


def test_what_there_was_no_time_to_read_at_the_end_is_missed():
    walk = Walk("events=all")
    walk.send(files("strands", "tool_error")[0])
    request = read_request("traces", files("mcp-python", "")[0], walk.now_ns)
    walk.pipeline.admission.admit(request)
    walk.pipeline.process_unread(request)
    assert attributes(shut_down(walk))["toolgauge.incomplete"] is True
    assert outcomes(walk, OF_THE_WHOLE) == [("not_evaluated", "overload")]
