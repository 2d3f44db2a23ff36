"""Verdicts of others as the conventions, people, spreadsheets and feedback buttons write them."""

from collections.abc import Mapping

from msgspec.structs import replace

from tests.recognize.support import REF, event, log, span
from tests.rows import each_row
from toolgauge.model.feedback import EVALUATION_EVENT, Feedback, verdict_of
from toolgauge.model.json import Value
from toolgauge.recognize.feedback_reader import feedback_of_record, feedback_of_span

NAME, LABEL, VALUE = "gen_ai.evaluation.name", "gen_ai.evaluation.score.label", "gen_ai.evaluation.score.value"


def given(attributes: Mapping[str, Value], *, trace: str | None = REF.trace_id) -> Feedback | None:
    record = log(EVALUATION_EVENT, attributes=attributes)
    return feedback_of_record(replace(record, ref=None, trace_id=trace))


@each_row(
    ("written", "read"),
    [
        ({LABEL: "pass"}, (True, None)),
        ({LABEL: "thumbs_down", VALUE: 0.0}, (False, 0.0)),
        ({VALUE: 1}, (True, 1)),
        ({LABEL: "helpful", VALUE: 0}, (False, 0)),
        ({LABEL: "relevant", VALUE: 0.7}, (None, 0.7)),
        ({VALUE: float("nan")}, (None, None)),
        ({}, (None, None)),
        ({LABEL: ["pass"], VALUE: True}, (None, None)),
    ],
)
def test_the_label_decides_and_else_the_value(written: Mapping[str, Value], read: tuple[bool | None, float | None]):
    found = given({NAME: "thumbs", **written})
    assert found is not None
    assert (found.passed, found.value) == read
    assert (found.name, found.trace_id, found.conversation_id) == ("thumbs", REF.trace_id, None)


def test_without_a_trace_it_is_about_its_conversation():
    written = {NAME: "thumbs", LABEL: "up", "gen_ai.conversation.id": "c-1"}
    assert given(written, trace=None) == Feedback(name="thumbs", label="up", conversation_id="c-1")
    assert given(written) == Feedback(name="thumbs", label="up", trace_id=REF.trace_id)
    assert given({NAME: "thumbs", LABEL: "up"}, trace=None) is None


@each_row("written", [{LABEL: "up"}, {NAME: 7, LABEL: "up"}, {NAME: "t", LABEL: "up", "error.type": "x"}])
def test_without_a_name_or_with_an_error_it_is_no_verdict(written: Mapping[str, Value]):
    assert given(written) is None


def test_a_span_may_have_verdicts_in_attributes_and_events():
    written = span(
        {NAME: "judge", VALUE: 0.0},
        events=[event("exception", {}), event(EVALUATION_EVENT, {NAME: "thumbs", LABEL: "up"})],
    )
    assert list(feedback_of_span(written)) == [
        Feedback(name="thumbs", label="up", trace_id=REF.trace_id),
        Feedback(name="judge", value=0.0, trace_id=REF.trace_id),
    ]
    assert list(feedback_of_span(span({"gen_ai.operation.name": "chat"}))) == []


def test_one_span_has_no_more_than_a_few_verdicts():
    thumbs = [event(EVALUATION_EVENT, {NAME: "thumbs", LABEL: "up"})]
    assert len(list(feedback_of_span(span({}, events=thumbs * 1000)))) == 20


EVALUATED, ANNOTATED = "evaluations.0.evaluation.", "annotations.3.annotation."
OTHER_TRACE = "f" * 32


def test_openinference_evaluations_and_annotations_are_verdicts():
    written = {
        f"{EVALUATED}name": "relevance",
        f"{EVALUATED}score": 0,
        f"{EVALUATED}annotator_kind": "LLM",
        f"trace.{ANNOTATED}name": "thumbs",
        f"trace.{ANNOTATED}label": "up",
        "error.type": "timeout",
    }
    assert list(feedback_of_span(span(written), OTHER_TRACE)) == [
        Feedback(name="relevance", value=0, trace_id=REF.trace_id),
        Feedback(name="thumbs", label="up", trace_id=REF.trace_id),
    ]


def test_an_evaluator_span_is_about_the_trace_of_its_only_link():
    written = {f"{EVALUATED}name": "relevance", f"{EVALUATED}score": 1, "openinference.span.kind": "EVALUATOR"}
    assert [one.trace_id for one in feedback_of_span(span(written), OTHER_TRACE)] == [OTHER_TRACE]
    assert [one.trace_id for one in feedback_of_span(span(written))] == [REF.trace_id]


def test_the_verdict_on_a_session_is_about_its_conversation():
    written = {f"session.{EVALUATED}name": "coherence", f"session.{EVALUATED}label": "good"}
    assert list(feedback_of_span(span(written))) == []
    assert list(feedback_of_span(span({**written, "session.id": "s-1"}))) == [
        Feedback(name="coherence", label="good", conversation_id="s-1")
    ]


def test_evaluations_of_another_toolgauge_are_no_verdicts():
    written = {f"{EVALUATED}name": "a", f"{EVALUATED}label": "pass", f"{EVALUATED}identifier": "toolgauge:9f86"}
    assert list(feedback_of_span(span(written))) == []


# -- values of labels


@each_row(
    "value", ["passed", " Pass ", "TRUE", "yes", "1", "1.0", 1, 1.0, True, "thumbs up", "thumbs-up", "good", "👍"]
)
def test_is_a_pass(value: str | float):
    assert verdict_of(value) is True


@each_row(
    "value", ["failed", "FAIL", "false", "No", "0", "-1", 0, -1.0, False, "Thumbs Down", "thumbs_down", "bad", "👎"]
)
def test_is_a_failure(value: str | float):
    assert verdict_of(value) is False


@each_row("value", ["", "maybe", "0.5", 0.5, 5, "nan", "inf", float("nan"), "passed" * 10])
def test_is_no_verdict(value: str | float):
    assert verdict_of(value) is None


def test_numbers_pass_from_a_threshold_on():
    assert [verdict_of(value, 4) for value in (5, "4", 3.9, "1", "passed", "-1")] == [
        True,
        True,
        False,
        False,
        True,
        False,
    ]
