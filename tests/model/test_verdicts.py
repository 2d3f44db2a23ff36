"""Calls with equal findings share one verdict, whatever their ids and the words of their outcomes."""

import math

from msgspec.structs import replace

from tests.export.scorecards import call, call_result, failed, passed, scorecard, trajectory_result
from toolgauge.model.outcomes import Errored, NotEvaluated, Scored
from toolgauge.model.records import SpanRef


def test_calls_of_one_tool_with_equal_findings_share_a_verdict():
    first, second, other = call("pay"), call("pay", SpanRef("0" * 31 + "1", "1" * 16)), call("refund")
    card = scorecard(
        *(call_result(passed(), one, criterion) for criterion in ("a", "b") for one in (first, second, other))
    )
    pays, alike, refund = card.subjects
    assert pays.verdict is alike.verdict
    assert refund.verdict is not pays.verdict
    assert [[subject.call for subject in subjects] for subjects in card.verdicts.values()] == [[first, second], [other]]
    assert [result.criterion for result in alike.results] == ["a", "b"]
    assert scorecard(call_result(passed(), other, "a"), call_result(passed(), other, "b")).subjects[0].verdict is (
        refund.verdict
    )


def test_words_make_no_other_verdict_and_a_revision_does():
    one = call_result(failed(0.25, "`amount` differs"))
    same, later = replace(one, outcome=failed(0.25, "`reason` differs")), replace(one, revision="000000000000")
    found, again, revised = (scorecard(result).subjects[0].verdict for result in (one, same, later))
    assert found is again
    assert revised is not found


def test_a_finding_has_the_outcome_without_its_words():
    outcomes = (
        passed(0.75),
        NotEvaluated(reason="redacted"),
        Errored(error_type="E", message="m"),
        Scored(math.nan, "not a number", passed=True),
    )
    card = scorecard(*(trajectory_result(outcome) for outcome in outcomes))
    (subject,) = card.subjects
    assert (subject.verdict.agent, subject.verdict.tool) == ("triage", None)
    assert [(finding.word, finding.reason, finding.value) for finding in subject.verdict.findings] == [
        ("pass", "", 0.75),
        ("not_evaluated", "redacted", None),
        ("error", "", None),
        ("error", "", None),
    ]
