"""Verdicts of others, as they arrive beside recorded traffic, compared with what the default criteria find."""

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from tests.walk.shapes import request, run, tool
from tests.walk.support import CORPUS, Walk, attributes, key_value
from toolgauge.model.metrics import Counter

EVENT = "gen_ai.evaluation.result"
MINUTE_S = 60
# `default.tool_success` passes on it, and `default.error_handling` has nothing to judge.
FRAMEWORK, SCENARIO = "pydantic-ai", "one_call"


def trace_id() -> bytes:
    recorded = ExportTraceServiceRequest.FromString((CORPUS / FRAMEWORK / f"{SCENARIO}.otlp.pb").read_bytes())
    return recorded.resource_spans[0].scope_spans[0].spans[0].trace_id


def verdict(
    label: str,
    *,
    name: str = "thumbs",
    trace: bytes | None = None,
    conversation: str | None = None,
    scope: str = "feedback-api",
) -> bytes:
    """Make a request of one event; without a trace it names a conversation."""
    record = LogRecord(event_name=EVENT, time_unix_nano=1)
    if trace is not None:
        record.trace_id = trace
    attributes = {"gen_ai.evaluation.name": name, "gen_ai.evaluation.score.label": label}
    if conversation is not None:
        attributes["gen_ai.conversation.id"] = conversation
    record.attributes.extend(key_value(key, value) for key, value in attributes.items())
    sent = ExportLogsServiceRequest()
    group = sent.resource_logs.add().scope_logs.add(scope=InstrumentationScope(name=scope))
    group.log_records.append(record)
    return sent.SerializeToString()


def cells(walk: Walk, name: str) -> dict[tuple[str, ...], float]:
    (counter,) = (metric for metric in walk.registry if metric.name == name)
    assert isinstance(counter, Counter)
    return dict(counter.cells)


def verdicts(walk: Walk) -> dict[str, float]:
    """What became of verdicts, without what did not happen."""
    return {labels[0]: count for labels, count in cells(walk, "toolgauge.feedback").items() if count}


def agreement(walk: Walk, criterion: str) -> dict[tuple[str, ...], float]:
    """By name, verdict and outcome."""
    found = cells(walk, "toolgauge.feedback.agreement")
    return {labels[2:]: count for labels, count in found.items() if labels[0] == criterion and count}


def test_a_verdict_that_comes_after_the_run_was_scored_is_compared_once():
    walk = Walk()
    walk.send_folder(FRAMEWORK, SCENARIO)
    walk.wait(MINUTE_S)
    walk.send(verdict("thumbs down", trace=trace_id()), "logs")
    walk.send(verdict("down", trace=trace_id()), "logs")
    walk.wait(11 * MINUTE_S)
    assert verdicts(walk) == {"compared": 1}
    assert agreement(walk, "default.tool_success") == {("thumbs", "fail", "pass"): 1}
    assert agreement(walk, "default.error_handling") == {("thumbs", "fail", "not_evaluated"): 1}


def test_a_verdict_that_comes_before_the_run_is_scored_waits_for_it():
    walk = Walk()
    walk.send(verdict("good", trace=trace_id()), "logs")
    walk.send_folder(FRAMEWORK, SCENARIO)
    walk.wait(MINUTE_S)
    assert verdicts(walk) == {}
    walk.wait(11 * MINUTE_S)
    assert agreement(walk, "default.tool_success") == {("thumbs", "pass", "pass"): 1}


def test_different_verdicts_on_a_run_are_compared_with_nothing():
    walk = Walk()
    walk.send_folder(FRAMEWORK, SCENARIO)
    for label in ("up", "down", "up"):
        walk.send(verdict(label, trace=trace_id()), "logs")
    walk.wait(12 * MINUTE_S)
    assert verdicts(walk) == {"contradicted": 1}
    assert agreement(walk, "default.tool_success") == {}


def test_what_has_no_scores_or_no_verdict_is_counted():
    walk = Walk()
    walk.send(verdict("up", trace=bytes(range(16))), "logs")
    walk.send(verdict("so-so", trace=trace_id()), "logs")
    walk.wait(11 * MINUTE_S)
    assert verdicts(walk) == {"unmatched": 1, "unread": 1}


def test_our_own_events_are_no_verdicts():
    walk = Walk()
    walk.send_folder(FRAMEWORK, SCENARIO)
    walk.send(verdict("fail", trace=trace_id(), scope="toolgauge"), "logs")
    walk.wait(12 * MINUTE_S)
    assert verdicts(walk) == {}


def test_a_conversation_is_compared_with_all_that_was_found_in_it():
    walk = Walk()
    for number, failure in enumerate(("", "_OTHER", "")):
        walk.send(turn(number, failure))
        walk.wait(MINUTE_S)
    walk.send(verdict("down", conversation="c-1"), "logs")
    walk.wait(11 * MINUTE_S)
    assert agreement(walk, "default.tool_success") == {("thumbs", "fail", "fail"): 1}


def test_verdicts_that_wait_are_compared_at_the_end():
    walk = Walk()
    walk.send_folder(FRAMEWORK, SCENARIO)
    walk.send(verdict("up", trace=trace_id()), "logs")
    walk.pipeline.close(walk.now_ns)
    walk.wait(1)
    assert verdicts(walk) == {"compared": 1}


def turn(number: int, failure: str) -> bytes:
    """Make one turn of conversation `c-1`: an agent's run with one call."""
    trace = f"t{number}"
    call = tool("lookup", trace=trace, more={"error.type": failure} if failure else {})
    return request(call, run(trace=trace, conversation="c-1")).SerializeToString()


FORMS = "annotate_form=[toolgauge, openinference]"


def test_an_evaluation_of_others_is_compared_and_kept_beside_ours():
    recorded = ExportTraceServiceRequest.FromString((CORPUS / FRAMEWORK / f"{SCENARIO}.otlp.pb").read_bytes())
    for group in recorded.resource_spans[0].scope_spans:
        for span in group.spans:
            span.attributes.append(key_value("evaluations.0.evaluation.name", "relevance"))
            span.attributes.append(key_value("evaluations.0.evaluation.label", "good"))
    walk = Walk(FORMS)
    walk.send(recorded.SerializeToString())
    walk.wait(12 * MINUTE_S)
    assert agreement(walk, "default.tool_success") == {("relevance", "pass", "pass"): 1}
    tools = [one for one in map(attributes, walk.arrived()) if "toolgauge.eval.default.tool_success.outcome" in one]
    assert tools
    assert {one["evaluations.0.evaluation.name"] for one in tools} == {"relevance"}
    assert {str(one["evaluations.1.evaluation.identifier"])[:10] for one in tools} == {"toolgauge:"}
