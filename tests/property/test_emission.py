"""Whatever scorecards say, the bytes read the same as what the stock classes would have said, one field at a time."""

# pyright: reportUnknownMemberType=false

import re

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.export.scorecards import TRACE, call, call_result, emitter, plain, trajectory
from toolgauge.export.emitter import Emitter
from toolgauge.export.results import EmitSettings
from toolgauge.model.outcomes import Errored, NotEvaluated, Outcome, Result, Scorecard, Scored
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall, Trajectory

OTHER_TRACE = "f" * 32
# What passes unchanged: what is cut and replaced has tests of its own.
TEXT = st.text(alphabet=st.characters(codec="utf-8", exclude_categories=("Cc",)), max_size=40) | st.sampled_from(
    ["", "x" * 127, "x" * 128, "\u00e9" * 64, "\U0001f600" * 200, "list_files"]
)
ID = st.integers(min_value=0, max_value=3).map(lambda number: f"{number:016x}")
REF = st.builds(SpanRef, trace_id=st.sampled_from([TRACE, OTHER_TRACE]), span_id=ID)
TIME = st.integers(min_value=-(2**64), max_value=2**65) | st.sampled_from([0, 1, 2**63 - 1, 2**63])
OUTCOME = (
    st.builds(
        Scored,
        value=st.floats(min_value=0, max_value=1) | st.sampled_from([0, 1]),
        explanation=TEXT,
        passed=st.booleans(),
    )
    | st.builds(NotEvaluated, reason=st.sampled_from(["no_reference", "truncated"]), explanation=TEXT)
    | st.builds(Errored, error_type=st.sampled_from(["ValueError", "timeout"]), message=TEXT)
)


@st.composite
def scorecards(draw: st.DrawFn) -> Scorecard:
    calls = [
        replace(
            call(draw(TEXT), draw(REF)),
            call_id=draw(st.none() | TEXT),
            agent=draw(st.none() | TEXT),
            end_ns=draw(TIME),
        )
        for _ in range(draw(st.integers(min_value=0, max_value=4)))
    ]
    of = replace(
        trajectory(*calls),
        scope=draw(st.sampled_from(["trace", "conversation"])),
        service=draw(st.none() | TEXT),
        conversation_id=draw(st.none() | TEXT),
        agents=tuple(draw(st.lists(TEXT, max_size=2))),
        root=draw(st.none() | REF),
        end_ns=draw(TIME),
    )
    results = tuple(
        draw(result_of(of, judged)) for judged in draw(st.lists(st.sampled_from([None, *calls]), max_size=8))
    )
    return Scorecard(trajectory=of, results=results, scored_at_ns=draw(TIME))


@st.composite
def result_of(draw: st.DrawFn, of: Trajectory, judged: ToolCall | None) -> Result:
    return replace(
        call_result(draw(OUTCOME), criterion=draw(st.sampled_from(["a", "b.c-d", "e" * 64]))),
        revision=draw(st.sampled_from(["1", "2"])),
        version=draw(st.sampled_from(["1", "2"])),
        level="trajectory" if judged is None else "call",
        enforce=draw(st.sampled_from(["live", "live", "shadow"])),
        call=judged,
        target=of.root if judged is None else judged.span,
    )


# One for all examples, so that what one of them left in memory meets the others.
EMITTER = emitter(EmitSettings(events="all"))


@given(cards=st.lists(scorecards(), max_size=3))
def test_every_result_is_a_record_and_every_card_with_a_live_one_a_span(cards: list[Scorecard]):
    records, spans = emitted(EMITTER, cards)
    of_results = [(card, result) for card in cards for result in card.results]
    for record, (card, result) in zip(records, of_results, strict=True):
        judged, of = result.call, card.trajectory
        target = result.target or SpanRef(of.trace_id, "")
        assert (record.trace_id.hex(), record.span_id.hex()) == (target.trace_id, target.span_id)
        assert (record.time_unix_nano, record.observed_time_unix_nano) == (end_of_run(card), fitting(card.scored_at_ns))
        is_good = isinstance(result.outcome, NotEvaluated) or (
            isinstance(result.outcome, Scored) and result.outcome.passed
        )
        assert record.severity_text == ("INFO" if is_good else "WARN")
        attributes = plain(record.attributes)
        assert re.fullmatch("[0-9a-f]{32}", str(attributes["log.record.uid"]))
        assert attributes.get("toolgauge.shadow", False) is (result.enforce == "shadow")
        score = result.outcome.value if isinstance(result.outcome, Scored) else None
        for key, value in {
            "gen_ai.evaluation.name": result.criterion,
            "gen_ai.evaluation.score.value": score,
            "gen_ai.evaluation.explanation": explained(result.outcome) or None,
            "toolgauge.criterion.revision": result.revision,
            "gen_ai.tool.name": judged.name if judged is not None else None,
            "gen_ai.tool.call.id": judged.call_id if judged is not None else None,
            "gen_ai.agent.name": judged.agent if judged is not None else next(iter(of.agents), None),
            "gen_ai.conversation.id": of.conversation_id,
            "toolgauge.service": of.service,
        }.items():
            assert attributes.get(key) == value
    live = [card for card in cards if any(result.enforce == "live" for result in card.results)]
    assert all(len(span.span_id) == 8 for span in spans)
    assert [(span.trace_id.hex(), span.end_time_unix_nano) for span in spans] == [
        (card.trajectory.trace_id, end_of_run(card)) for card in live
    ]


def emitted(by: Emitter, cards: list[Scorecard]) -> tuple[list[LogRecord], list[Span]]:
    records: list[LogRecord] = []
    spans: list[Span] = []
    for outgoing in by.requests(cards):
        if outgoing.signal == "logs":
            (logs,) = ExportLogsServiceRequest.FromString(outgoing.body).resource_logs
            records.extend(logs.scope_logs[0].log_records)
        else:
            (traces,) = ExportTraceServiceRequest.FromString(outgoing.body).resource_spans
            spans.extend(traces.scope_spans[0].spans)
    return records, spans


def explained(outcome: Outcome) -> str:
    return outcome.message if isinstance(outcome, Errored) else outcome.explanation


def end_of_run(card: Scorecard) -> int:
    end_ns = card.trajectory.end_ns
    return fitting(end_ns if end_ns > 0 else card.scored_at_ns)


def fitting(time_ns: int) -> int:
    return min(max(time_ns, 0), 2**64 - 1)
