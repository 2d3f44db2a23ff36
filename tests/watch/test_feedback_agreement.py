"""What is remembered of verdicts and outcomes, and for how long."""

from tests.score.support import trajectory
from toolgauge.model.feedback import Feedback
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.outcomes import NotEvaluated, Outcome, Result, Scorecard, Scored
from toolgauge.selfmetrics import FeedbackMetrics
from toolgauge.watch.feedback_agreement import FeedbackAgreement

KEEP_NS = 1_000
PASS, FAIL = Scored(1.0, "fine", passed=True), Scored(0.0, "wrong", passed=False)
UNSEEN = NotEvaluated(reason="no_calls")


def trace(number: int) -> str:
    return f"{number:032x}"


class Compared:
    def __init__(self, capacity: int = 100) -> None:
        self.metrics = FeedbackMetrics(MetricRegistry())
        self.agreement = FeedbackAgreement(capacity, KEEP_NS, self.metrics)

    def scored(
        self, number: int, *outcomes: Outcome, at: int, conversation: str | None = None, can_fail: bool = True
    ) -> None:
        judged = trajectory(trace_id=trace(number), conversation_id=conversation)
        results = tuple(
            Result("rule", "r1", "tool_success", "1", "call", "live", outcome, can_fail=can_fail, target=judged.root)
            for outcome in outcomes
        )
        self.agreement.observe(Scorecard(trajectory=judged, results=results, scored_at_ns=at))

    def said(self, passed: bool, at: int, *, number: int | None = None, conversation: str | None = None) -> None:  # noqa: FBT001 (the verdict)
        found = None if number is None else trace(number)
        self.agreement.add(Feedback(name="thumbs", label=passed, trace_id=found, conversation_id=conversation), at)

    @property
    def verdicts(self) -> dict[str, float]:
        return {labels[0]: count for labels, count in self.metrics.verdicts.cells.items() if count}

    @property
    def pairs(self) -> dict[tuple[str, ...], float]:
        return {labels[3:]: count for labels, count in self.metrics.agreement.cells.items() if count}


def test_a_verdict_is_compared_when_nothing_has_come_for_as_long_as_is_remembered():
    compared = Compared()
    compared.scored(1, PASS, at=0)
    compared.said(True, 500, number=1)
    assert compared.agreement.next_due_ns == 1_500
    compared.agreement.tick(1_499)
    assert compared.verdicts == {}
    compared.agreement.tick(1_500)
    assert (compared.verdicts, compared.pairs) == ({"compared": 1}, {("pass", "pass"): 1})
    assert compared.agreement.next_due_ns is None


def test_any_failure_is_a_failure_and_no_score_is_none():
    compared = Compared()
    compared.scored(1, PASS, FAIL, PASS, at=0)
    compared.scored(2, UNSEEN, at=0)
    compared.scored(3, PASS, UNSEEN, at=0)
    for number in (1, 2, 3):
        compared.said(False, 1, number=number)
    compared.agreement.close()
    assert compared.pairs == {("fail", "fail"): 1, ("fail", "not_evaluated"): 1, ("fail", "pass"): 1}


def test_results_of_judges_that_come_later_count_too():
    compared = Compared()
    compared.scored(1, UNSEEN, at=0)
    compared.said(False, 100, number=1)
    compared.scored(1, FAIL, at=900)
    compared.agreement.tick(1_899)
    assert compared.pairs == {}
    compared.agreement.tick(1_900)
    assert compared.pairs == {("fail", "fail"): 1}
