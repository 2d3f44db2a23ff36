"""Scores in the words of OpenInference."""

import json

from msgspec.structs import replace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.export.scorecards import (
    ROOT,
    TOOL_SPAN,
    call_result,
    emitter,
    failed,
    passed,
    plain,
    scorecard,
    shadow,
    trajectory_result,
)
from toolgauge.export.redact import Redactor
from toolgauge.export.results import Annotations, EmitSettings
from toolgauge.model.outcomes import Errored, NotEvaluated, Scorecard


def evaluations(attributes: dict[str, str | bool | int | float]) -> dict[str, str | bool | int | float]:
    return {key: value for key, value in attributes.items() if "evaluations." in key}


def on_scorecard(card: Scorecard) -> dict[str, str | bool | int | float]:
    (outgoing,) = emitter(EmitSettings(events="failed", annotate_form=("toolgauge", "openinference"))).requests([card])
    return plain(
        ExportTraceServiceRequest.FromString(outgoing.body).resource_spans[0].scope_spans[0].spans[0].attributes
    )


def test_scores_are_written_at_the_next_free_index():
    card = scorecard(
        call_result(failed(0.25), criterion="a"),
        call_result(passed(), criterion="b"),
        call_result(NotEvaluated(reason="no_reference"), criterion="c"),
        call_result(Errored(error_type="ValueError", message="boom"), criterion="d"),
        call_result(passed(1.5), criterion="e"),
        shadow(call_result(passed(), criterion="f")),
        call_result(passed(), criterion="several"),
        call_result(passed(), criterion="several"),
    )
    by = Annotations(Redactor(show_values=False), openinference=True)
    taken = {TOOL_SPAN.span_id: {b"evaluations.0", b"trace.evaluations.1"}}
    written = plain(Span.FromString(by.collect(card, taken)[TOOL_SPAN.span_id]).attributes)
    assert written["toolgauge.eval.a.score"] == 0.25
    found = evaluations(written)
    assert json.loads(str(found.pop("evaluations.1.evaluation.metadata"))) == {
        "evaluator": "tool_call_args",
        "evaluator_version": "2",
    }
    del found["evaluations.2.evaluation.metadata"]
    assert found == {
        "evaluations.1.evaluation.name": "a",
        "evaluations.1.evaluation.label": "fail",
        "evaluations.1.evaluation.score": 0.25,
        "evaluations.1.evaluation.explanation": "`amount` differs",
        "evaluations.1.evaluation.annotator_kind": "CODE",
        "evaluations.1.evaluation.identifier": "toolgauge:9f86d081884c",
        "evaluations.2.evaluation.name": "b",
        "evaluations.2.evaluation.label": "pass",
        "evaluations.2.evaluation.score": 1.0,
        "evaluations.2.evaluation.explanation": "all arguments agree",
        "evaluations.2.evaluation.annotator_kind": "CODE",
        "evaluations.2.evaluation.identifier": "toolgauge:9f86d081884c",
    }


def test_results_of_a_trajectory_are_on_the_root_and_the_scorecard_for_the_trace_or_the_session():
    card = scorecard(trajectory_result(passed(0.9)))
    by = Annotations(Redactor(show_values=False), openinference=True)
    on_root = plain(Span.FromString(by.collect(card)[ROOT.span_id]).attributes)
    assert on_root["trace.evaluations.0.evaluation.score"] == 0.9
    written = on_scorecard(card)
    assert evaluations(written) == evaluations(on_root)
    assert written["gen_ai.operation.name"] == "evaluation"
    conversation = replace(card, trajectory=replace(card.trajectory, scope="conversation"), by_judges=True)
    written = on_scorecard(conversation)
    assert written["session.evaluations.0.evaluation.annotator_kind"] == "LLM"
    assert written["session.id"] == "conv-7"
