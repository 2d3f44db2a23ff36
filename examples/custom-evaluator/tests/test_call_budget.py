"""The evaluator keeps toolgauge's contract and says what it should."""

from msgspec.structs import replace
from toolgauge_evaluator_call_budget import CallBudget

from toolgauge.model.outcomes import NotEvaluated, Scored
from toolgauge.testing.evaluators import check_evaluator
from toolgauge.testing.samples import sample_call, sample_trajectory


def test_the_contract_is_kept():
    check_evaluator(CallBudget())
    check_evaluator(CallBudget(max_calls=1))


def test_a_run_over_the_budget_scores_the_share_within_it():
    run = sample_trajectory(*(sample_call(order) for order in range(4)))
    (evaluation,) = CallBudget(max_calls=3).evaluate(run, None)
    assert evaluation is not None
    call, outcome = evaluation
    assert call is None
    assert isinstance(outcome, Scored)
    assert outcome.value == 0.75


def test_a_run_without_calls_is_not_scored():
    assert list(CallBudget().evaluate(sample_trajectory(), None)) == [
        (None, NotEvaluated(reason="no_calls", explanation="no call to judge"))
    ]


def test_of_calls_that_were_not_seen_only_too_many_are_certain():
    run = replace(sample_trajectory(*(sample_call(order) for order in range(2))), hidden_turns=1)
    cut = replace(run, hidden_turns=0, closed_because="max_open")
    for unseen, reason in ((run, "no_content"), (cut, "incomplete")):
        assert list(CallBudget(max_calls=2).evaluate(unseen, None)) == [
            (None, NotEvaluated(reason=reason, explanation="not all calls were seen"))
        ]
        assert list(CallBudget(max_calls=1).evaluate(unseen, None)) == list(
            CallBudget(max_calls=1).evaluate(sample_trajectory(*run.calls), None)
        )
