"""Results as people and programs read them."""

from msgspec.structs import replace

from toolgauge.export.redact import Redactor
from toolgauge.model.outcomes import Errored, NotEvaluated, Outcome, Result, Scorecard, Scored
from toolgauge.report.findings import ResultSummary
from toolgauge.report.terminal import Style
from toolgauge.report.text import TextWriter
from toolgauge.score.criterion import Criterion
from toolgauge.service.criteria_factory import make_evaluator
from toolgauge.testing.samples import sample_call, sample_trajectory

CALL = sample_call(0)
REDACTOR = Redactor(show_values=False)


def result(outcome: Outcome, criterion: str = "refunds", *, can_fail: bool = True) -> Result:
    return Result(
        criterion, "r1", "tool_success", "2", "call", "live", outcome, can_fail=can_fail, target=CALL.span, call=CALL
    )


def scorecard(*outcomes: Outcome) -> Scorecard:
    return Scorecard(trajectory=sample_trajectory(CALL), results=tuple(map(result, outcomes)), scored_at_ns=0)


def criterion(name: str = "refunds", *, is_default: bool = False) -> Criterion:
    evaluator = make_evaluator("tool_success", {})
    return Criterion(
        name=name, evaluator_name="tool_success", evaluator=evaluator, revision="r1", is_default=is_default
    )


def test_a_pass_that_cannot_fail_says_so():
    lines = TextWriter(REDACTOR, {"r1": 0.0})
    passed = Scored(0.25, "1 of 4 arguments differ", passed=True)
    assert lines.why(result(passed, can_fail=False)) == "for information: 1 of 4 arguments differ"
    assert lines.why(result(replace(passed, value=1.0))) == "1 of 4 arguments differ"
    assert lines.why(result(replace(passed, passed=False))) == "1 of 4 arguments differ"


def test_hostile_text_does_not_steer_the_terminal():
    lines = TextWriter(REDACTOR, {})
    hostile = "\x1b[2J\u202e\nfail"
    outcomes = (
        Scored(0.5, hostile, passed=True),
        NotEvaluated(reason="no_calls", explanation=hostile),
        Errored(error_type=hostile, message=hostile),
    )
    call = sample_call(0, hostile)
    printed = [lines.result(replace(result(outcome), call=call)) for outcome in outcomes]
    assert all(line.isprintable() for line in printed)


def test_means_are_of_scores_only():
    summary = ResultSummary((criterion(), criterion("default.budget", is_default=True), criterion("other")))
    summary.add(scorecard(Scored(1.0, "fine", passed=True), Scored(0.5, "so so", passed=False)))
    summary.add(scorecard(NotEvaluated(reason="no_calls"), Errored(error_type="ValueError", message="broken")))
    assert list(summary.lines(unmatched=())) == [
        "criterion    pass    fail   error   mean      of  not evaluated",
        "refunds         1       1       1  0.750       2  1 (25 %): no_calls 1",
        "other      no result",
    ]


def test_failures_stand_out_in_the_table():
    summary = ResultSummary((criterion(),))
    summary.add(scorecard(Scored(0.0, "wrong", passed=False)))
    assert "\x1b[31m     1\x1b[0m" in "".join(summary.lines((), Style(colour=True)))
