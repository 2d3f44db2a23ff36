"""A report as JUnit XML, as GitHub, GitLab and Jenkins read it: one test case for each trajectory and criterion.

Readers drop test cases with the same `classname` and `name`, so names are counted. Control characters become escapes.
"""

from collections import Counter, defaultdict
from xml.etree import ElementTree as ET

from toolgauge.report.findings import Finding, Report, Row
from toolgauge.report.run_failures import group_line
from toolgauge.report.terminal import printable, shortened

_GATE = "gate"
_MAX_NAME = 200
_MAX_KINDS = 50
_MAX_MESSAGE = 300


def junit(report: Report) -> bytes:
    """Write the report."""
    root = ET.Element("testsuites", name=printable(report.title))
    by_criterion: defaultdict[str, list[Row]] = defaultdict(list)
    for row in report.rows:
        by_criterion[row.criterion].append(row)
    for criterion, rows in by_criterion.items():
        suite = _suite(root, criterion)
        if kinds := [group for group in report.groups if group.kind.criterion == criterion]:
            properties = ET.SubElement(suite, "properties")
            for number, group in enumerate(kinds[:_MAX_KINDS], 1):
                name = f"kind of failure {number}"
                ET.SubElement(properties, "property", name=name, value=printable(group_line(group)))
        names = Counter[str]()
        for row in rows:
            name = shortened(row.subject, _MAX_NAME)
            names[name] += 1
            _case(suite, row, name if names[name] == 1 else f"{name} ({names[name]})")
        _count(suite)
    if report.checks:
        suite = _suite(root, _GATE)
        for check in report.checks:
            case = ET.SubElement(suite, "testcase", classname=_GATE, name=printable(check.condition))
            if not check.passed:
                text = printable(check.sentence)
                ET.SubElement(case, "failure", message=text, type=_GATE).text = text
        _count(suite)
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    ET.indent(root)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _suite(root: ET.Element, name: str) -> ET.Element:
    return ET.SubElement(root, "testsuite", name=shortened(name, _MAX_NAME))


def _case(suite: ET.Element, row: Row, name: str) -> None:
    case = ET.SubElement(suite, "testcase", classname=shortened(row.criterion, _MAX_NAME), name=name)
    if row.place is not None:
        case.set("file", printable(row.place[0]))
        case.set("line", str(row.place[1]))
    lines = [row.details] if row.details else []
    for finding in row.problems:
        lines.append(f"{finding.outcome} {finding.sentence}")
        lines += (f"  {difference}" for difference in finding.differences)
    if row.passes:
        lines.append(f"passed: {row.passes}")
    text = "\n".join(map(printable, lines))
    match row.outcome:
        case "pass" if row.findings:
            ET.SubElement(case, "system-out").text = text
        case "pass":
            pass
        case "not_evaluated":
            ET.SubElement(case, "skipped", message=_message(row.problems[0])).text = text
        case word if row.exempt:
            message = f"{word}, and not enforced ({row.exempt}): {_message(row.problems[0])}"
            ET.SubElement(case, "skipped", message=message).text = text
        case "fail":
            ET.SubElement(case, "failure", message=_message(row.problems[0]), type="fail").text = text
        case "error":
            kind = printable(row.problems[0].reason) or "error"
            ET.SubElement(case, "error", message=_message(row.problems[0]), type=kind).text = text


def _message(finding: Finding) -> str:
    return shortened(finding.sentence_of(_MAX_MESSAGE), _MAX_MESSAGE)


def _count(suite: ET.Element) -> None:
    suite.set("tests", str(len(suite.findall("testcase"))))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
