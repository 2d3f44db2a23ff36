"""JUnit XML: what readers count, and that hostile text stays XML."""

from xml.etree import ElementTree as ET

from tests.report.hostile import BROKEN, FAILED, UNSEEN, hostile_group, hostile_row, report, row
from toolgauge.report.findings import GateCheck, Row
from toolgauge.report.junit_and_sarif import junit


def cases(*rows: Row) -> list[ET.Element]:
    return list(ET.fromstring(junit(report(*rows))).iter("testcase"))  # noqa: S314 - our own


def test_each_outcome_has_its_element():
    failed, broken, unseen, passed = cases(
        row(passes=2, findings=(UNSEEN, FAILED), details="trace 1 of shop"),
        row(subject="case-2", outcome="error", findings=(BROKEN,)),
        row(subject="case-3", outcome="not_evaluated", findings=(UNSEEN,)),
        row(subject="case-4", outcome="pass", findings=(), passes=3),
    )
    assert (failed.get("classname"), failed.get("name")) == ("refund", "case-1")
    assert [(child.tag, child.attrib) for child in failed] == [
        ("failure", {"message": "pay 0.500: half", "type": "fail"})
    ]
    assert failed[0].text == (
        "trace 1 of shop\n"
        "fail pay 0.500: half\n"
        "  amount: expected 1, got 2\n"
        "not_evaluated pay no_schema: no schema was offered\n"
        "passed: 2"
    )
    assert [(child.tag, child.attrib) for child in broken] == [
        ("error", {"message": "timeout: took too long", "type": "timeout"})
    ]
    assert [(child.tag, child.get("message")) for child in unseen] == [
        ("skipped", "pay no_schema: no schema was offered")
    ]
    assert list(passed) == []
    one, *others = cases(row(outcome="pass", passes=1, findings=(UNSEEN,)), row(), row())
    assert [(child.tag, child.text) for child in one] == [
        ("system-out", "not_evaluated pay no_schema: no schema was offered\npassed: 1")
    ]
    assert [case.get("name") for case in others] == ["case-1 (2)", "case-1 (3)"]


def test_totals_count_the_cases_of_all_suites():
    check = GateCheck(condition="--fail-on fail", passed=False, sentence="1 result `fail`: `refund` 1")
    root = ET.fromstring(junit(report(row(), row(criterion="other"), checks=(check,))))  # noqa: S314 - our own
    assert [(suite.get("name"), suite.get("tests"), suite.get("failures")) for suite in root] == [
        ("refund", "1", "1"),
        ("other", "1", "1"),
        ("gate", "1", "1"),
    ]
    assert root.attrib == {"name": "toolgauge replay", "tests": "3", "failures": "3", "errors": "0", "skipped": "0"}


def test_hostile_text_is_valid_xml_and_shown():
    (case,) = cases(hostile_row())
    shown = r"<img src=x onerror=1> @team #1 [a](http://e.example) | `x` ::error::y\n\x00\x1b[31m\ud800\ufffe]]>&amp;"
    assert (case.get("name"), case.get("classname"), case.get("file")) == (shown, shown, shown)
    assert (case[0].text or "").splitlines()[2] == f"  {shown}"
    root = ET.fromstring(junit(report(hostile_row(), groups=(hostile_group(),))))  # noqa: S314 - our own
    (kind,) = root.iter("property")
    assert (kind.get("value") or "").endswith(f": {shown}")
