"""What is asked, when it is asked again, and what an answer means: without a judge."""

from collections.abc import Iterator

import pytest

from tests.judge.support import FORM, MAYBE, NO, YES, RightTool, WholeRun, inquiry, question, run
from tests.rows import each_row
from toolgauge.judge.inquiry import VerdictForm, dialogue, outcome_of, outcomes_of, questions, scripted
from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.judging import Asking, Question
from toolgauge.model.outcomes import Errored, NotEvaluated, Outcome, Scored
from toolgauge.model.trajectory import Trajectory


def test_a_verdict_that_does_not_fit_is_asked_for_again_and_the_next_one_counts():
    answer = scripted([MAYBE, YES, NO])
    assert [answer(question()), answer(question())] == [YES, NO]


def test_three_verdicts_that_do_not_fit_are_an_error_and_the_fourth_is_never_asked_for():
    answer = scripted([NO, MAYBE, MAYBE, MAYBE, YES])
    said = [answer(question()) for _ in range(3)]
    unfit = Errored(
        error_type="invalid_verdict",
        message='verdict 4 has not the form that was asked for: score: "Maybe" is not one of "Yes" or "No"',
    )
    assert said == [NO, unfit, YES]


def test_a_script_that_has_ended_is_an_error_of_its_own():
    answer = scripted([YES])
    assert [answer(question()), answer(question())] == [
        YES,
        Errored(error_type="no_verdict", message="no answer for the judge is left in `verdicts`"),
    ]


@each_row(
    ("verdict", "problem"),
    [
        ("Yes", "the verdict must be an object"),
        ({}, 'the verdict: "score" is a required property'),
        (MAYBE, 'score: "Maybe" is not one of "Yes" or "No"'),
        ({"score": "Yes", "bribe": 1}, "the verdict: Additional properties are not allowed ('bribe' was unexpected)"),
        (YES, None),
    ],
)
def test_a_judge_is_plainly_claimed_what_is_wrong_with_its_verdict(verdict: Json, problem: str | None):
    assert VerdictForm(FORM).problem(verdict) == problem


def test_a_verdict_nested_beyond_reason_is_refused_and_not_followed():
    verdict: Json = {}
    for _ in range(10_000):
        verdict = {"score": verdict}
    assert VerdictForm(FORM).problem(verdict) == "the verdict is nested too deeply"
    while verdict:  # taken apart here: freeing it in one go would recurse
        verdict = verdict["score"] if isinstance(verdict, dict) else None


def test_a_form_never_fetches_what_it_refers_to():
    talk = dialogue(
        Question(instructions="", prompt="", form_name="v", form={"$ref": "http://127.0.0.1:1/schema.json"})
    )
    with pytest.raises(StopIteration) as ended:
        next(talk)
    assert isinstance(ended.value.value, Errored)


def test_notes_of_a_question_stand_in_the_explanation_once():
    asked_with_notes = question("?", "history was cut", "the judge said Yes")
    outcome = outcome_of(RightTool(), asked_with_notes, YES)
    assert outcome == Scored(value=1.0, explanation="the judge said Yes; history was cut")


def test_a_settled_inquiry_asks_nothing():
    settled = NotEvaluated(reason="sampled_out")
    assert list(questions(inquiry(RightTool(), run("find"), settled))) == [(None, settled)]


def test_questions_of_a_trajectory_make_one_outcome():
    of = inquiry(WholeRun(), run("find", "buy"))
    judged = [(call, outcome_of(of.evaluator, question(), verdict)) for call, verdict in ((None, YES), (None, NO))]
    assert outcomes_of(of, judged) == ((None, Scored(value=0.5, explanation="2 questions")),)


class Faulty(RightTool):
    """Breaks its contract in the way that is asked for."""

    how: str

    def questions(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Asking]:
        del expected
        (first, *_) = trajectory.calls
        yield first, question()
        match self.how:
            case "raises":
                raise KeyError("a secret of the span")
            case "twice":
                yield first, question()
            case "stranger":
                yield run("other").calls[0], question()
            case "trajectory":
                yield None, question()
            case "nonsense":
                yield None, "nonsense"  # pyright: ignore[reportReturnType] - what a plug-in may do
            case _:
                while True:
                    yield None

    def outcome(self, question: Question, verdict: JsonObject) -> Outcome:
        raise KeyError("a secret of the span", question, verdict)


@each_row(
    ("how", "error"),
    [
        ("raises", "KeyError"),
        ("twice", "invalid_outcome"),
        ("stranger", "invalid_outcome"),
        ("trajectory", "invalid_outcome"),
        ("nonsense", "invalid_outcome"),
        ("for ever", "timeout"),
    ],
)
def test_what_an_evaluator_asked_before_it_broke_stays(how: str, error: str):
    (_, first), (target, last) = questions(inquiry(Faulty(how=how), run("find")), max_empty=10)
    assert isinstance(first, Question)
    assert target is None
    assert isinstance(last, Errored)
    assert last.error_type == error
    assert "secret" not in last.message


def test_an_evaluator_that_cannot_read_a_verdict_costs_that_outcome():
    outcome = outcome_of(Faulty(how="raises"), question(), YES)
    assert outcome == Errored(error_type="KeyError", message="the evaluator raised an exception")
