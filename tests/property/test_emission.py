"""Whatever scorecards say, the bytes read the same as what the stock classes would have said, one field at a time."""

# pyright: reportUnknownMemberType=false

import re
from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber
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
def test_scorecards_read_as_the_stock_classes_write_them(cards: list[Scorecard]):
    records, spans = emitted(EMITTER, cards)
    assert [(readable(record), without_uid(plain(record.attributes))) for record in records] == [
        (readable(record), plain(record.attributes)) for record in (record_of(c, r) for c in cards for r in c.results)
    ]
    expected = [span_of(card) for card in cards if any(result.enforce == "live" for result in card.results)]
    assert all(len(span.span_id) == 8 for span in spans)
    assert [without_id(span) for span in spans] == expected


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


def without_uid(attributes: Mapping[str, object]) -> dict[str, object]:
    """Return all but the id, which each has."""
    assert re.fullmatch("[0-9a-f]{32}", str(attributes["log.record.uid"]))
    return {key: value for key, value in attributes.items() if key != "log.record.uid"}


def readable(record: LogRecord) -> LogRecord:
    """Return all but the attributes, whose order says nothing."""
    bare = LogRecord()
    bare.CopyFrom(record)
    del bare.attributes[:]
    return bare


def without_id(span: Span) -> Span:
    span.ClearField("span_id")
    return sorted_span(span)


def sorted_span(span: Span) -> Span:
    for holder in (span, *span.events):
        attributes = sorted(holder.attributes, key=lambda attribute: attribute.key)
        del holder.attributes[:]
        holder.attributes.extend(attributes)
    return span


def record_of(card: Scorecard, result: Result) -> LogRecord:
    outcome = result.outcome
    is_good = isinstance(outcome, NotEvaluated) or (isinstance(outcome, Scored) and outcome.passed)
    record = LogRecord(
        time_unix_nano=end_of_run(card),
        observed_time_unix_nano=fitting(card.scored_at_ns),
        severity_number=SeverityNumber.SEVERITY_NUMBER_INFO if is_good else SeverityNumber.SEVERITY_NUMBER_WARN,
        severity_text="INFO" if is_good else "WARN",
        event_name="gen_ai.evaluation.result",
        flags=1,
        trace_id=bytes.fromhex(result.target.trace_id if result.target is not None else card.trajectory.trace_id),
        span_id=bytes.fromhex(result.target.span_id if result.target is not None else ""),
        attributes=attributes_of(card.trajectory, result),
    )
    record.body.string_value = sentence_of(result)
    if result.enforce == "shadow":
        record.attributes.add(key="toolgauge.shadow").value.bool_value = True
    return record


def sentence_of(result: Result) -> str:
    outcome, why = result.outcome, explained(result.outcome)
    if isinstance(outcome, Scored):
        how = f"{word(outcome)}, {outcome.value:.2f}"
    else:
        how = (
            f"not evaluated, {outcome.reason}" if isinstance(outcome, NotEvaluated) else f"error, {outcome.error_type}"
        )
    of = "" if result.call is None else f" of {result.call.name[:80]}"
    written = f"{result.criterion}{of}: {how}" + (f" ({why})" if why else "")
    return "".join(letter if letter.isprintable() else " " for letter in written)


def attributes_of(of: Trajectory, result: Result) -> list[KeyValue]:
    judged = result.call
    agent = judged.agent if judged is not None else next(iter(of.agents), None)
    end_ns = judged.end_ns if judged is not None else of.end_ns
    texts = {
        "gen_ai.evaluation.name": result.criterion,
        "toolgauge.outcome": word(result.outcome),
        "gen_ai.evaluation.score.label": word(result.outcome) if isinstance(result.outcome, Scored) else None,
        "toolgauge.level": result.level,
        "toolgauge.criterion.revision": result.revision,
        "toolgauge.evaluator.name": result.evaluator,
        "toolgauge.evaluator.version": result.version,
        "gen_ai.tool.name": judged.name if judged is not None else None,
        "gen_ai.tool.call.id": judged.call_id if judged is not None else None,
        "gen_ai.agent.name": agent,
        "gen_ai.conversation.id": of.conversation_id,
        "toolgauge.service": of.service,
        "toolgauge.not_evaluated.reason": result.outcome.reason if isinstance(result.outcome, NotEvaluated) else None,
        "error.type": result.outcome.error_type if isinstance(result.outcome, Errored) else None,
        "gen_ai.evaluation.explanation": explained(result.outcome) or None,
    }
    attributes = [text(key, said) for key, said in texts.items() if said is not None]
    if isinstance(result.outcome, Scored):
        attributes.append(
            KeyValue(key="gen_ai.evaluation.score.value", value=AnyValue(double_value=result.outcome.value))
        )
    if end_ns > 0:
        end = AnyValue(int_value=min(end_ns, 2**63 - 1))
        attributes.append(KeyValue(key="toolgauge.span.end_time_unix_nano", value=end))
    return attributes


def span_of(card: Scorecard) -> Span:
    of = card.trajectory
    live = [result for result in card.results if result.enforce == "live"]
    span = Span(
        trace_id=bytes.fromhex(of.trace_id),
        name="toolgauge.scorecard",
        kind=Span.SPAN_KIND_INTERNAL,
        flags=0x301,
        start_time_unix_nano=end_of_run(card),
        end_time_unix_nano=end_of_run(card),
        attributes=[
            text("openinference.span.kind", "EVALUATOR"),
            text("toolgauge.trajectory.scope", of.scope),
            text("toolgauge.closed_because", of.closed_because),
            KeyValue(
                key="toolgauge.scored_time_unix_nano",
                value=AnyValue(int_value=min(max(card.scored_at_ns, 0), 2**63 - 1)),
            ),
        ],
    )
    if of.root is not None and of.root.trace_id == of.trace_id:
        span.parent_span_id = bytes.fromhex(of.root.span_id)
    if of.service is not None:
        span.attributes.append(text("toolgauge.service", of.service))
    if of.conversation_id is not None:
        span.attributes.append(text("gen_ai.conversation.id", of.conversation_id))
        span.attributes.append(text("session.id", of.conversation_id))
    of_criterion = Counter(result.criterion for result in live if result.call is None)
    span.attributes.extend(counts_of_calls(live))
    for result in live:
        if result.call is not None:
            if word(result.outcome) == "pass":
                continue
            event = span.events.add(name="gen_ai.evaluation.result", time_unix_nano=end_of_run(card))
            event.attributes.extend(attributes_of(of, result))
            event.attributes.append(text("toolgauge.judged.span_id", result.call.span.span_id))
        elif of_criterion[result.criterion] == 1:
            span.attributes.extend(said_of_run(result))
    for target in dict.fromkeys(result.target for result in live if result.target is not None):
        span.links.add(trace_id=bytes.fromhex(target.trace_id), span_id=bytes.fromhex(target.span_id))
    return sorted_span(span)


def counts_of_calls(live: list[Result]) -> list[KeyValue]:
    of_call = Counter((result.criterion, word(result.outcome)) for result in live if result.call is not None)
    names = {"passed": "pass", "failed": "fail", "not_evaluated": "not_evaluated", "error": "error"}
    return [
        KeyValue(key=f"toolgauge.eval.{criterion}.calls.{name}", value=AnyValue(int_value=of_call[criterion, outcome]))
        for criterion in {criterion for criterion, _ in of_call}
        for name, outcome in names.items()
    ]


def said_of_run(result: Result) -> list[KeyValue]:
    begin = f"toolgauge.eval.{result.criterion}"
    attributes = [text(f"{begin}.outcome", word(result.outcome)), text(f"{begin}.revision", result.revision)]
    if isinstance(result.outcome, Scored):
        attributes.append(KeyValue(key=f"{begin}.score", value=AnyValue(double_value=result.outcome.value)))
    if isinstance(result.outcome, NotEvaluated):
        attributes.append(text(f"{begin}.reason", result.outcome.reason))
    if explained(result.outcome):
        attributes.append(text(f"{begin}.explanation", explained(result.outcome)))
    return attributes


def explained(outcome: Outcome) -> str:
    return outcome.message if isinstance(outcome, Errored) else outcome.explanation


def word(outcome: Outcome) -> str:
    if isinstance(outcome, Scored):
        return "pass" if outcome.passed else "fail"
    return "not_evaluated" if isinstance(outcome, NotEvaluated) else "error"


def text(key: str, said: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=said))


def end_of_run(card: Scorecard) -> int:
    end_ns = card.trajectory.end_ns
    return fitting(end_ns if end_ns > 0 else card.scored_at_ns)


def fitting(time_ns: int) -> int:
    return min(max(time_ns, 0), 2**64 - 1)
