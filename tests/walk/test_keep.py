"""Traces that are kept by their scores, through the whole pipeline."""

# pyright: reportUnknownMemberType=false

from hashlib import blake2b
from typing import Literal

import pytest
from msgspec.structs import replace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from tests.export.scorecards import call, call_result, failed, passed, scorecard, trajectory
from tests.walk.support import CORPUS, MemoryJournal, Walk
from tests.walk.test_half_runs import pass_unread
from toolgauge.export.settings import KeepSettings
from toolgauge.otlp.encode import NEVER, sampling_of
from toolgauge.otlp.request import read_request

PASSED, FAILED = ((CORPUS / "pydantic-ai" / f"{name}.otlp.pb").read_bytes() for name in ("one_call", "tool_error"))
TENTH = KeepSettings(passed=0.1)


def again(body: bytes, number: int) -> bytes:
    """A recorded run with ids of its own."""
    request = ExportTraceServiceRequest.FromString(body)
    trace_id = blake2b(number.to_bytes(8, "big"), digest_size=16).digest()
    for group in request.resource_spans:
        for scope in group.scope_spans:
            for span in scope.spans:
                span.trace_id = trace_id
                for attribute in span.attributes:
                    if attribute.key == "gen_ai.conversation.id":
                        attribute.value.string_value = f"conversation {number}"
    return request.SerializeToString()


def trace_of(body: bytes) -> str:
    return ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans[0].trace_id.hex()


def weight(span: Span) -> float:
    threshold, _ = sampling_of(span.SerializeToString())
    return NEVER / (NEVER - (threshold or 0))


def stream(walk: Walk, runs: int) -> dict[bytes, bool]:
    """Send recorded runs, of which one in 25 fails; return which failed."""
    failing: dict[bytes, bool] = {}
    for number in range(runs):
        body = again(FAILED if number % 25 == 0 else PASSED, number)
        failing[bytes.fromhex(trace_of(body))] = number % 25 == 0
        walk.send(body)
    walk.wait(60)
    return failing


def test_weighted_means_of_what_is_kept_are_those_of_all_runs():
    walk = Walk(keep=TENTH)
    failing = stream(walk, 400)
    kept = {span.trace_id: weight(span) for span in walk.arrived()}
    assert {one for one, fails in failing.items() if fails} <= kept.keys()
    assert 40 < len(kept) < 80
    of_failing = sum(each for trace, each in kept.items() if failing[trace])
    mean = of_failing / sum(kept.values())
    assert abs((1 - mean) - 0.96) < 0.01 * 0.96
    assert abs(sum(kept.values()) - 400) < 100
    books = walk.books()
    assert (books["received"], books["balance"], books["dropped"]) == (4 * 384 + 3 * 16, 0, 4 * (400 - len(kept)))


@pytest.mark.parametrize(("scorecards", "sent"), [("kept", 2), ("all", 50)])
def test_metrics_are_of_all_runs_and_scorecards_and_events_of_the_chosen_ones(
    scorecards: Literal["kept", "all"], sent: int
):
    walks = [Walk("events=all"), Walk("events=all", keep=KeepSettings(passed=0.0, scorecards=scorecards))]
    for walk in walks:
        stream(walk, 50)
    whole, kept = walks
    traces = {span.trace_id for span in kept.arrived()}
    assert (len(kept.arrived()), len(traces)) == (2 * 3, 2)
    assert (len(whole.scorecards()), len(kept.scorecards())) == (50, sent)
    assert len({record.trace_id for record in whole.events()}) == 50
    assert len({record.trace_id for record in kept.events()}) == sent
    assert traces <= {span.trace_id for span in kept.scorecards()}
    assert _scores(kept) == _scores(whole)


def _scores(walk: Walk) -> dict[str, object]:
    return {
        metric.name: {labels: getattr(cell, "counts", cell) for labels, cell in metric.cells.items()}
        for metric in walk.registry
        if metric.name.startswith("toolgauge.evaluation")
    }


def test_a_trace_without_an_agent_goes_by_its_own_share():
    walk = Walk(keep=KeepSettings(passed=1.0, not_agent=0.0))
    span = Span(trace_id=b"1" * 16, span_id=b"2" * 8, name="GET /", start_time_unix_nano=1, end_time_unix_nano=2)
    scopes = [ScopeSpans(spans=[span])]
    walk.send(ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=scopes)]).SerializeToString())
    walk.wait(60)
    assert (walk.arrived(), walk.books()["dropped"], walk.books()["balance"]) == ([], 1, 0)


def test_runs_that_pass_unread_are_kept_whatever_the_share_of_traces_without_an_agent():
    walk = Walk(keep=KeepSettings(passed=0.0, not_agent=0.0))
    pass_unread(walk, again(FAILED, 1))
    request = read_request("traces", again(FAILED, 2), walk.now_ns, sender="a connection")
    walk.pipeline.admission.admit(request)
    walk.pipeline.process_unread(request)
    walk.wait(60)
    assert len(walk.arrived()) == 2 * 3


def test_what_judges_have_found_holds_after_a_restart():
    journal = MemoryJournal()
    before = Walk(keep=KeepSettings(passed=0.0), journal=journal)
    keep = before.bag.keep
    assert keep is not None
    run = replace(trajectory(call()), trace_id=trace_of(PASSED))
    for card in (
        scorecard(call_result(passed()), of=run),
        replace(scorecard(call_result(failed()), of=run), by_judges=True),
    ):
        keep.decide(replace(card, awaits_judges=not card.by_judges), ())
        before.pipeline.egress.scorecards.append(card)
        before.pipeline.flush()
    later = Walk(keep=KeepSettings(passed=0.0), journal=journal)
    later.recover()
    later.send(PASSED)
    later.wait(60)
    assert len(later.arrived()) == 4


def test_a_process_that_was_killed_loses_nothing_of_what_waits():
    journal = MemoryJournal()
    Walk(keep=TENTH, journal=journal).send(FAILED)
    later = Walk(keep=TENTH, journal=journal)
    later.recover()
    assert later.arrived() == []
    later.wait(60)
    assert len(later.arrived()) == 3
    assert journal.left() == []


def test_what_comes_after_a_restart_follows_the_decision_of_the_process_before():
    journal = MemoryJournal()
    before = Walk(keep=KeepSettings(passed=0.0), journal=journal)
    before.send(PASSED)
    before.wait(60)
    later = Walk(keep=KeepSettings(passed=0.0), journal=journal)
    later.recover()
    later.send(PASSED)
    later.wait(60)
    assert (before.arrived(), later.arrived(), later.books()["dropped"], journal.left()) == ([], [], 4, [])
