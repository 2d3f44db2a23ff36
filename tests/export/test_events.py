import math

from msgspec.structs import replace
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

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
from toolgauge.export.emitter import Emitter
from toolgauge.export.redact import Redactor
from toolgauge.export.results import EmitSettings
from toolgauge.export.settings import EventsMode
from toolgauge.model.outcomes import Difference, Errored, NotEvaluated, Outcome, Result, Scorecard, Side


def records(card: Scorecard, by: Emitter | None = None) -> list[LogRecord]:
    requests = (by if by is not None else emitter()).requests([card])
    found: list[LogRecord] = []
    for outgoing in requests:
        assert (outgoing.spans, outgoing.own) == (0, True)
        if outgoing.signal == "logs":
            request = ExportLogsServiceRequest.FromString(outgoing.body)
            found.extend(
                record
                for resource_logs in request.resource_logs
                for scope_logs in resource_logs.scope_logs
                for record in scope_logs.log_records
            )
    return found


def test_version_and_environment_are_attributes():
    of = replace(
        trajectory(call()), resource={"service.version": "1.1", "deployment.environment.name": "prod", "a": "b"}
    )
    (record,) = records(scorecard(call_result(failed()), of=of))
    attributes = plain(record.attributes)
    assert (attributes["service.version"], attributes["deployment.environment.name"]) == ("1.1", "prod")
    assert "a" not in attributes


def body(result: Result) -> str:
    (record,) = records(scorecard(result), emitter(EmitSettings(events="all")))
    return record.body.string_value


@each_row(
    ("result", "text"),
    [
        (call_result(failed(0.25)), "refund-arguments of issue_refund: fail, 0.25 (`amount` differs)"),
        (trajectory_result(passed(0.987)), "refund-f1: pass, 0.99 (all arguments agree)"),
        (
            trajectory_result(NotEvaluated(reason="no_reference", explanation="no known case")),
            "refund-f1: not evaluated, no_reference (no known case)",
        ),
        (trajectory_result(NotEvaluated(reason="no_calls")), "refund-f1: not evaluated, no_calls"),
        (
            call_result(Errored(error_type="ValueError", message="it broke")),
            "refund-arguments of issue_refund: error, ValueError (it broke)",
        ),
    ],
)
def test_the_body_of_an_event_is_a_sentence(result: Result, text: str):
    assert body(result) == text


def test_results_that_differ_in_their_tool_alone_have_each_their_own_body():
    card = scorecard(call_result(failed()), call_result(failed(), call("send_mail", OTHER_TOOL_SPAN)))
    assert [record.body.string_value.split(":")[0] for record in records(card)] == [
        "refund-arguments of issue_refund",
        "refund-arguments of send_mail",
    ]


def test_hostile_text_makes_a_body_of_one_line_and_bounded_length():
    name = "pay\n\x1b[31m\u202e\ud800" + "x" * 5000
    text = body(call_result(failed(0.0, "first\nsecond " + "y" * 5000), call(name)))
    assert text.startswith("refund-arguments of pay \ufffd[31m \ufffdxxx")
    assert " (first second yyy" in text
    assert text.isprintable()
    assert " … yyy" in text
    assert text.endswith("yyy)")
    assert len(text) < 500


@each_row("events", ["scored", "failed", "all"])
def test_a_criterion_that_cannot_fail_has_no_event_for_a_pass(events: EventsMode):
    result = replace(trajectory_result(passed(0.0)), can_fail=False)
    by = emitter(EmitSettings(events=events))
    assert records(scorecard(result), by) == []
    broken = replace(result, outcome=Errored(error_type="ValueError", message="boom"))
    assert len(records(scorecard(broken), by)) == 1


def test_a_failed_call_as_an_event():
    (record,) = records(scorecard(call_result(failed(0.25, "`amount` differs"))))
    assert record.event_name == "gen_ai.evaluation.result"
    assert (record.time_unix_nano, record.observed_time_unix_nano) == (END_NS, SCORED_NS)
    assert record.trace_id.hex() == TRACE
    assert record.span_id.hex() == TOOL_SPAN.span_id
    assert (record.severity_number, record.severity_text) == (SeverityNumber.SEVERITY_NUMBER_WARN, "WARN")
    assert plain(record.attributes) == {
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
        "toolgauge.service": "support",
        "gen_ai.tool.name": "issue_refund",
        "gen_ai.tool.call.id": "call_1",
        "gen_ai.agent.name": "refund-agent",
        "gen_ai.conversation.id": "conv-7",
        # Another process that judges the same call writes the same id.
        "log.record.uid": "49470f4692b71fe80c9a643ad631a0a7",
    }


def test_a_passed_trajectory_as_an_event():
    (record,) = records(scorecard(trajectory_result(passed(1, "all calls agree"))))
    assert record.span_id.hex() == ROOT.span_id
    assert record.severity_number == SeverityNumber.SEVERITY_NUMBER_INFO
    attributes = plain(record.attributes)
    assert attributes["toolgauge.level"] == "trajectory"
    assert (attributes["gen_ai.agent.name"], "gen_ai.tool.name" in attributes) == ("triage", False)
    assert attributes["toolgauge.span.end_time_unix_nano"] == 1_700_000_002_000_000_000
    assert attributes["log.record.uid"] == "9df6df92e6f1ec9ea726a4362dd24e95"


@each_row(
    ("mode", "words"),
    [
        ("scored", ["pass", "fail", "error"]),
        ("failed", ["fail", "error"]),
        ("all", ["pass", "fail", "not_evaluated", "error"]),
    ],
)
def test_each_mode_writes_its_outcomes(mode: EventsMode, words: list[str]):
    card = scorecard(
        call_result(passed()),
        call_result(failed()),
        call_result(NotEvaluated(reason="no_reference")),
        call_result(Errored(error_type="ValueError", message="boom")),
    )
    written = records(card, emitter(EmitSettings(events=mode)))
    assert [plain(record.attributes)["toolgauge.outcome"] for record in written] == words


NO_SCORE = {"toolgauge.outcome": "error", "error.type": "invalid_score"}


@each_row(
    ("outcome", "expected"),
    [
        (
            NotEvaluated(reason="no_reference", explanation="no case with this key"),
            {
                "toolgauge.not_evaluated.reason": "no_reference",
                "gen_ai.evaluation.explanation": "no case with this key",
            },
        ),
        (
            Errored(error_type="ZeroDivisionError", message="it broke"),
            {
                "toolgauge.outcome": "error",
                "error.type": "ZeroDivisionError",
                "gen_ai.evaluation.explanation": "it broke",
            },
        ),
        *((passed(value), NO_SCORE) for value in (math.nan, math.inf, -0.1, 1.1)),
    ],
)
def test_what_is_no_score_says_why_and_has_no_number(outcome: Outcome, expected: dict[str, str]):
    (record,) = records(scorecard(call_result(outcome)), emitter(EmitSettings(events="all")))
    attributes = plain(record.attributes)
    assert attributes.items() >= expected.items()
    assert {"gen_ai.evaluation.score.value", "gen_ai.evaluation.score.label"}.isdisjoint(attributes)


def test_shadow_results_are_marked():
    live, dark = records(scorecard(call_result(passed()), shadow(call_result(passed()))))
    assert "toolgauge.shadow" not in plain(live.attributes)
    assert plain(dark.attributes)["toolgauge.shadow"] is True


def test_calls_that_share_a_span_each_keep_their_own_id():
    first, second = call(), replace(call("look_up"), call_id="call_2", agent=None)
    one, two = records(scorecard(call_result(passed(), first), call_result(passed(), second)))
    assert one.span_id == two.span_id
    assert plain(one.attributes)["gen_ai.tool.call.id"] == "call_1"
    assert plain(two.attributes)["gen_ai.tool.call.id"] == "call_2"
    assert plain(two.attributes)["gen_ai.tool.name"] == "look_up"
    assert "gen_ai.agent.name" not in plain(two.attributes)


def test_what_is_not_known_is_left_out():
    bare = replace(trajectory(), service=None, conversation_id=None, agents=(), end_ns=0, root=None)
    (record,) = records(scorecard(replace(trajectory_result(passed()), target=None), of=bare))
    assert (record.trace_id.hex(), record.span_id) == (TRACE, b"")
    unknown = {"toolgauge.service", "gen_ai.conversation.id", "gen_ai.agent.name", "gen_ai.tool.name"}
    assert plain(record.attributes).keys().isdisjoint({*unknown, "toolgauge.span.end_time_unix_nano"})


def test_a_burst_is_split_into_requests_that_receivers_take():
    card = scorecard(*(call_result(failed(explanation="x" * 1000)) for _ in range(5000)))
    logs = [outgoing for outgoing in emitter().requests([card]) if outgoing.signal == "logs"]
    assert len(logs) > 1
    assert all(len(outgoing.body) < 4 * 1024 * 1024 for outgoing in logs)
    assert len(records(card)) == 5000


# -- ids ------------------------------------------------------------------------------------------------------------------


def uids(*cards: Scorecard) -> list[object]:
    by = emitter(EmitSettings(events="all"))
    return [plain(record.attributes)["log.record.uid"] for card in cards for record in records(card, by)]


def test_a_result_that_is_written_again_has_the_same_id():
    card = scorecard(call_result(failed()), trajectory_result(passed()))
    later = replace(card, scored_at_ns=SCORED_NS + 1)
    assert uids(card) == uids(later)
    assert len({*uids(card)}) == 2


def test_what_differs_has_another_id():
    one = call_result(failed(0.5))
    cards = (
        scorecard(one),
        scorecard(call_result(passed(0.5))),
        scorecard(call_result(failed(0.25))),
        scorecard(call_result(NotEvaluated(reason="no_reference"))),
        scorecard(replace(one, revision="000000000000")),
        scorecard(replace(one, criterion="other")),
        scorecard(shadow(one)),
        scorecard(call_result(failed(0.5), call("other_tool"))),
        scorecard(call_result(failed(0.5), call(span=OTHER_TOOL_SPAN))),
        scorecard(one, of=replace(trajectory(call()), scope="conversation")),
        scorecard(one, of=replace(trajectory(call()), conversation_id="conv-8")),
    )
    assert len({*uids(*cards)}) == len(cards)


def test_calls_that_are_alike_have_ids_of_their_own():
    first = replace(call(), call_id=None)
    second = replace(first, order=1, position=1)
    assert len({*uids(scorecard(call_result(failed(), first), call_result(failed(), second)))}) == 2


def test_values_are_shown_only_where_they_may_be():
    difference = Difference(where="issue_refund: amount", rule="exact", actual=Side(value="to ann@example.com"))
    card = scorecard(call_result(replace(failed(0.0), differences=(difference,))))
    (hidden,) = records(card)
    (shown,) = records(card, emitter(redactor=Redactor(show_values=True)))
    assert hidden.body.string_value == "refund-arguments of issue_refund: fail, 0.00 (`amount` differs)"
    assert plain(hidden.attributes)["gen_ai.evaluation.explanation"] == "`amount` differs"
    for text in (shown.body.string_value, str(plain(shown.attributes)["gen_ai.evaluation.explanation"])):
        assert 'got "to [email]"' in text
