"""Annotations of GitHub: one command a line, escaped, ten at most."""

from tests.report.hostile import hostile_group, hostile_row, report, row
from toolgauge.report.findings import GateCheck
from toolgauge.report.markdown import annotations

CHECK = GateCheck(condition="--fail-on fail", passed=False, sentence="1 result failed")
PASSED = GateCheck(condition="--fail-on error", passed=True, sentence="no result is `error`")


def test_failures_are_errors_where_they_decide_and_warnings_elsewhere():
    found = list(annotations(report(row(details="trace 1"), checks=(PASSED, CHECK), is_failed=True)))
    assert found == [
        "::error title=--fail-on fail::1 result failed",
        "::error title=refund%3A case-1::trace 1%0Apay 0.500: half%0A  amount: expected 1, got 2",
    ]
    assert list(annotations(report(row()))) == [
        "::warning title=refund%3A case-1::pay 0.500: half%0A  amount: expected 1, got 2"
    ]


def test_at_most_ten_are_written_and_the_last_counts_the_rest():
    assert len(list(annotations(report(*[row()] * 10)))) == 10
    many = list(annotations(report(*[row()] * 11, is_failed=True)))
    assert len(many) == 10
    assert many[-1] == "::error title=toolgauge replay::2 more failures, in the log and the reports"


def test_hostile_text_stays_on_the_line_of_its_command():
    (kind,) = annotations(report(groups=(hostile_group(),)))
    assert kind.isprintable()
    (found,) = annotations(report(hostile_row()))
    assert len(found.splitlines()) == 1
    assert found.isprintable()
    _, _, properties = found.partition(" ")
    assert properties.partition("::")[0].count(",") == 2
