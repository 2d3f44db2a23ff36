"""The Markdown of a report: hostile text stays text, and the whole fits where GitHub shows it."""

import re

from tests.report.hostile import UNSEEN, hostile_group, hostile_row, report, row
from toolgauge.model.outcomes import NotEvaluated, Scored
from toolgauge.report.findings import CriterionCounts, GateCheck, Report
from toolgauge.report.markdown import MAX_BYTES, markdown


def test_a_report_has_conditions_a_table_and_the_failures():
    counts = CriterionCounts("refund")
    counts.add(Scored(0.5, "half", passed=False))
    counts.add(NotEvaluated(reason="no_schema"))
    made = Report(
        title="toolgauge replay",
        rows=(row(details="trace 1"), row(subject="case-2", outcome="not_evaluated", findings=(UNSEEN,))),
        counts=(counts, CriterionCounts("typo", is_shadow=True), CriterionCounts("default.x", is_default=True)),
        without_result={"typo": "matched no trajectory"},
        checks=(GateCheck(condition="--fail-on fail", passed=False, sentence="1 result failed"),),
        is_failed=True,
    )
    assert markdown(made) == (
        "### toolgauge replay: failed, 1 failure\n"
        "\n"
        "- **failed**: <code>1 result failed</code>\n"
        "\n"
        "| criterion | pass | fail | error | mean | of | not evaluated |\n"
        "|---|---|---|---|---|---|---|\n"
        "| <code>refund</code> | 0 | **1** | 0 | 0.500 | 1 | 1: <code>no_schema 1</code> |\n"
        "| <code>typo</code> (shadow) | | | | | | <code>matched no trajectory</code> |\n"
        "\n"
        "#### Failures\n"
        "\n"
        "- <code>refund</code>, <code>case-1</code>, <code>trace 1</code>\n"
        "  - fail: <code>pay 0.500&#58; half</code>\n"
        "    - <code>amount&#58; expected 1&#44; got 2</code>\n"
    )


def test_hostile_text_is_code_without_a_character_that_means_anything():
    (line, *_) = [line for line in markdown(report(hostile_row())).splitlines() if line.startswith("- <code>")]
    inside = re.findall(r"<code>(.*?)</code>", line)
    assert len(inside) == 3  # criterion, subject, place
    rows = [line for line in markdown(report(groups=(hostile_group(),))).splitlines() if line.startswith("| 35 runs")]
    assert len(rows) == 1
    inside += re.findall(r"<code>(.*?)</code>", rows[0])
    assert rows[0].count("|") == 9
    assert [text for text in inside if not re.fullmatch(r"(?:[\w .-]|&#\d+;)*", text)] == []


def test_a_report_stays_within_a_comment_and_counts_what_is_left_out():
    rows = [row(subject=f"case-{number}") for number in range(600)]
    text = markdown(report(*rows))
    assert MAX_BYTES - 4096 < len(text.encode()) <= MAX_BYTES == 65_536
    shown = text.count("- <code>refund</code>, ")
    assert text.endswith(f"\n{600 - shown} more failures left out\n")


def test_thousands_of_criteria_leave_room_for_the_failures():
    text = markdown(report(*(row(criterion=f"criterion-{number}") for number in range(1500))))
    assert len(text.encode()) <= MAX_BYTES
    left_out = [int(found) for found in re.findall(r"^(\d+) more \w+ left out$", text, re.MULTILINE)]
    assert len(left_out) == 2
    assert text.count("\n| <code>criterion-") == 1500 - left_out[0] > 100
    assert text.count("\n- <code>criterion-") == 1500 - left_out[1] > 100
