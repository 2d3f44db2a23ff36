from msgspec.structs import replace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.export.scorecards import (
    END_NS,
    OTHER_TOOL_SPAN,
    ROOT,
    SCORED_NS,
    TOOL_SPAN,
    TRACE,
    call,
    call_result,
    emitter,
    failed,
    passed,
    plain,
    scorecard,
    shadow,
    trajectory,
    trajectory_result,
)
from tests.rows import each_row
from toolgauge.export.emitter import MAX_EVENTS, MAX_LINKS
from toolgauge.export.results import EmitSettings
from toolgauge.export.settings import AnnotateMode
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.outcomes import Errored, NotEvaluated, Scorecard
from toolgauge.model.records import SpanRef
from toolgauge.selfmetrics import SelfMetrics


def spans(*cards: Scorecard, annotate: AnnotateMode = "both") -> list[Span]:
    found: list[Span] = []
    for outgoing in emitter(EmitSettings(annotate=annotate)).requests(cards):
        assert (outgoing.spans, outgoing.own) == (0, True)
        if outgoing.signal == "traces":
            request = ExportTraceServiceRequest.FromString(outgoing.body)
            assert request.resource_spans[0].scope_spans[0].scope.name == "toolgauge"
            assert plain(request.resource_spans[0].resource.attributes)["service.name"] == "toolgauge"
            found.extend(request.resource_spans[0].scope_spans[0].spans)
    return found


def test_one_scorecard_as_a_span():
    (span,) = spans(
        scorecard(
            call_result(failed(0.25, "`amount` differs")),
            call_result(NotEvaluated(reason="arguments_not_recorded"), call(span=OTHER_TOOL_SPAN)),
            trajectory_result(passed(0.9, "one call too many")),
            trajectory_result(NotEvaluated(reason="no_reference"), criterion="order"),
        )
    )
    assert span.name == "toolgauge.scorecard"
    assert span.trace_id.hex() == TRACE
    assert span.parent_span_id.hex() == ROOT.span_id
    assert len(span.span_id) == 8
    assert span.kind == Span.SPAN_KIND_INTERNAL
    assert span.start_time_unix_nano == span.end_time_unix_nano == END_NS
    assert plain(span.attributes) == {
        "openinference.span.kind": "EVALUATOR",
        "session.id": "conv-7",
        "gen_ai.conversation.id": "conv-7",
        "toolgauge.trajectory.scope": "trace",
        "toolgauge.closed_because": "run_ended",
        "toolgauge.service": "support",
        "toolgauge.eval.refund-f1.score": 0.9,
        "toolgauge.eval.refund-f1.outcome": "pass",
        "toolgauge.eval.refund-f1.explanation": "one call too many",
        "toolgauge.eval.refund-f1.revision": "9f86d081884c",
        "toolgauge.eval.order.outcome": "not_evaluated",
        "toolgauge.eval.order.reason": "no_reference",
        "toolgauge.eval.order.revision": "9f86d081884c",
        "toolgauge.eval.refund-arguments.calls.passed": 0,
        "toolgauge.eval.refund-arguments.calls.failed": 1,
        "toolgauge.eval.refund-arguments.calls.not_evaluated": 1,
        "toolgauge.eval.refund-arguments.calls.error": 0,
        "toolgauge.scored_time_unix_nano": SCORED_NS,
    }
    assert [(link.trace_id.hex(), link.span_id.hex()) for link in span.links] == [
        (TRACE, TOOL_SPAN.span_id),
        (TRACE, OTHER_TOOL_SPAN.span_id),
        (TRACE, ROOT.span_id),
    ]
    assert [event.name for event in span.events] == ["gen_ai.evaluation.result"] * 2
    assert [event.time_unix_nano for event in span.events] == [END_NS] * 2
    assert plain(span.events[0].attributes) == {
        "gen_ai.evaluation.name": "refund-arguments",
        "gen_ai.evaluation.score.value": 0.25,
        "gen_ai.evaluation.score.label": "fail",
        "gen_ai.evaluation.explanation": "`amount` differs",
        "toolgauge.outcome": "fail",
        "toolgauge.level": "call",
        "toolgauge.criterion.revision": "9f86d081884c",
        "toolgauge.evaluator.name": "tool_call_args",
        "toolgauge.evaluator.version": "2",
        "toolgauge.span.end_time_unix_nano": 1_700_000_001_500_000_000,
        "toolgauge.judged.span_id": "00f067aa0ba902b7",
        "toolgauge.service": "support",
        "gen_ai.tool.name": "issue_refund",
        "gen_ai.tool.call.id": "call_1",
        "gen_ai.agent.name": "refund-agent",
        "gen_ai.conversation.id": "conv-7",
    }
    assert plain(span.events[1].attributes)["toolgauge.not_evaluated.reason"] == "arguments_not_recorded"


def test_calls_are_counted_by_criterion_and_those_that_passed_have_no_event():
    three = [call(span=SpanRef(TRACE, f"{number:016x}")) for number in (1, 2, 3)]
    (span,) = spans(
        scorecard(
            *(call_result(passed(), one, "known") for one in three),
            call_result(passed(), three[0], "arguments"),
            call_result(failed(), three[1], "arguments"),
            call_result(Errored(error_type="ValueError", message="boom"), three[2], "arguments"),
            shadow(call_result(failed(), three[0], "tried")),
        )
    )
    assert {key: value for key, value in plain(span.attributes).items() if ".calls." in key} == {
        "toolgauge.eval.known.calls.passed": 3,
        "toolgauge.eval.known.calls.failed": 0,
        "toolgauge.eval.known.calls.not_evaluated": 0,
        "toolgauge.eval.known.calls.error": 0,
        "toolgauge.eval.arguments.calls.passed": 1,
        "toolgauge.eval.arguments.calls.failed": 1,
        "toolgauge.eval.arguments.calls.not_evaluated": 0,
        "toolgauge.eval.arguments.calls.error": 1,
    }
    judged = [plain(event.attributes) for event in span.events]
    assert [(event["toolgauge.outcome"], event["toolgauge.judged.span_id"]) for event in judged] == [
        ("fail", f"{2:016x}"),
        ("error", f"{3:016x}"),
    ]
    assert [link.span_id.hex() for link in span.links] == [f"{number:016x}" for number in (1, 2, 3)]


def test_a_repeat_is_a_duplicate_and_not_a_second_span():
    card = scorecard(call_result(passed()))
    again = replace(card, scored_at_ns=SCORED_NS + 1)
    one, two = spans(card, again)
    # Another process that scores the same run writes the same id.
    assert one.span_id.hex() == two.span_id.hex() == "cf3b1ae3695f3f86"


def test_what_says_something_else_is_another_span():
    one = call_result(passed())
    cards = (
        scorecard(one),
        replace(scorecard(one), by_judges=True),
        scorecard(call_result(failed(0.5))),
        scorecard(call_result(failed(0.25, "`amount` differs"))),
        scorecard(call_result(failed(0.25, "`currency` differs"))),
        scorecard(replace(one, revision="000000000000")),
        scorecard(call_result(passed(), criterion="other")),
        scorecard(call_result(passed(), call(span=OTHER_TOOL_SPAN))),
        scorecard(one, trajectory_result(passed(0.9))),
        scorecard(one, trajectory_result(passed(0.8))),
        scorecard(one, of=replace(trajectory(call()), closed_because="shutdown")),
        scorecard(one, of=replace(trajectory(call()), scope="conversation")),
        scorecard(one, of=replace(trajectory(call()), scope="conversation", conversation_id="conv-8")),
        scorecard(one, of=replace(trajectory(call()), trace_id="4bf92f3577b34da6a3ce929d0e0e4736")),
        scorecard(replace(one, revision="\ud800")),
    )
    ids = {span.span_id for span in spans(*cards)}
    assert len(ids) == len(cards)
    assert {len(span_id) for span_id in ids} == {8}
    assert bytes(8) not in ids


def test_a_root_in_another_trace_is_no_parent():
    earlier = SpanRef("4bf92f3577b34da6a3ce929d0e0e4736", "b7ad6b7169203331")
    conversation = replace(trajectory(call()), scope="conversation", root=earlier)
    (span,) = spans(scorecard(call_result(passed()), of=conversation))
    assert span.trace_id.hex() == TRACE
    assert span.parent_span_id == b""


def test_shadow_results_stay_off_the_span():
    assert spans(scorecard(shadow(call_result(failed())), shadow(trajectory_result(failed())))) == []
    (span,) = spans(scorecard(shadow(call_result(failed())), trajectory_result(passed())))
    assert list(span.events) == []
    assert [link.span_id.hex() for link in span.links] == [ROOT.span_id]


@each_row(("annotate", "written"), [("both", 1), ("scorecard", 1), ("hold", 0), ("off", 0)])
def test_the_span_is_written_where_it_is_asked_for(annotate: AnnotateMode, written: int):
    assert len(spans(scorecard(call_result(passed())), annotate=annotate)) == written


def test_judged_spans_are_counted_as_reached_by_the_scorecard():
    registry = MetricRegistry()
    selfmetrics = SelfMetrics(registry)
    card = scorecard(call_result(passed()), call_result(passed(), criterion="b"), trajectory_result(passed()))
    list(emitter(registry=registry, selfmetrics=selfmetrics).requests([card]))
    assert selfmetrics.annotations.value(("scorecard",)) == 2


def test_a_very_long_run_is_cut_and_says_so():
    results = [
        call_result(failed(), call(span=SpanRef(TRACE, f"{number:016x}"))) for number in range(1, MAX_EVENTS + 251)
    ]
    (span,) = spans(scorecard(*results))
    assert (len(span.events), span.dropped_events_count) == (MAX_EVENTS, 250)
    assert (len(span.links), span.dropped_links_count) == (MAX_LINKS, 250)


def test_events_of_hostile_size_are_cut_before_the_span_is_too_large():
    results = [
        call_result(failed(explanation="\U0001f600" * 1000), call("\U0001f600" * 256, SpanRef(TRACE, f"{number:016x}")))
        for number in range(1, MAX_EVENTS + 1)
    ]
    (span,) = spans(scorecard(*results))
    assert 1_000_000 < span.ByteSize() < 1_200_000
    assert len(span.events) + span.dropped_events_count == MAX_EVENTS
