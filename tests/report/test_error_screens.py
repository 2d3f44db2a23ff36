"""Each screen that cuts the text of an error keeps its cause, and masks secrets in it."""

from msgspec.structs import replace

from tests.export.scorecards import call_result, scorecard, trajectory_result
from tests.report.test_plain_words import card, page_of, report
from tests.web.html_reader import Html
from tests.web.test_trajectory_pages import page
from toolgauge.evaluators.tool_checks import ToolSuccess
from toolgauge.export.redact import Redactor
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import Errored, Outcome, Scored
from toolgauge.report.findings import Report, Row, finding
from toolgauge.report.junit_and_sarif import junit
from toolgauge.report.markdown import markdown
from toolgauge.report.terminal import shortened_error
from toolgauge.report.text import TextWriter
from toolgauge.testing.samples import sample_call, sample_trajectory

SHOWING = Redactor(show_values=True)
CAUSE = "card declined by issuer"
MESSAGE = f"ToolInvocationError: {'the step before failed; ' * 200}: {CAUSE}"
FAILED = sample_call(0, "pay", error=CallError(kind="ToolError", message=MESSAGE))
RUN = sample_trajectory(FAILED)
BROKEN = Errored(error_type="RuntimeError", message=MESSAGE)


def outcome() -> Outcome:
    evaluation = next(ToolSuccess().evaluate(RUN, None))
    assert evaluation is not None
    assert isinstance(evaluation[1], Scored)
    return replace(evaluation[1], passed=False)


def reported(found: Outcome) -> Report:
    row = Row(criterion="checks", subject="run", outcome="error", findings=(finding(SHOWING, found),))
    return Report(title="runs", rows=[row], counts=())


def test_the_call_has_it():
    found = scorecard(call_result(outcome(), FAILED), of=RUN)
    lines = list(TextWriter(SHOWING).trajectory(RUN))
    assert any(line.endswith(CAUSE) and len(line) < 300 for line in lines)
    assert CAUSE in Html(page(found, path=f"/trajectories/{RUN.trace_id}")).text


def test_an_evaluation_that_broke_has_it():
    found = card()
    broken = replace(found, results=(trajectory_result(BROKEN),))
    assert CAUSE in page_of(broken)
    assert any(CAUSE in line for line in report(broken))
    assert CAUSE in junit(reported(BROKEN)).decode()
    assert CAUSE in markdown(reported(BROKEN))
    assert finding(SHOWING, BROKEN).explanation.endswith(CAUSE)


def test_secrets_are_masked_before_and_within_the_cause():
    secret = "sk-" + "a1b2" * 8
    shown = SHOWING.error(f"{MESSAGE} for {secret} and ann@example.org", 200)
    assert "a1b2" not in shown
    assert shown.endswith("for [key] and [email]")


def test_control_characters_take_room_and_do_not_reach_the_terminal():
    shown = shortened_error("\x1b[2J" * 200 + f": {CAUSE}", 80)
    assert len(shown) <= 80
    assert "\x1b" not in shown
    assert shown.endswith(CAUSE)
