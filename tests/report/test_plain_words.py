"""States, rules and types of errors as people read them: in pages, terminals, tests and answers to a coding agent."""

from msgspec.structs import replace

from tests.export.scorecards import call_result, scorecard, trajectory_result
from tests.web.html_reader import Html
from tests.web.test_trajectory_pages import page
from toolgauge.config.model import Config
from toolgauge.evaluators.tool_checks import ToolSuccess
from toolgauge.export.redact import Redactor
from toolgauge.mcp_server.run_answers import failure_report
from toolgauge.mcp_server.scored_recordings import LoadedScoring
from toolgauge.model.content import Recorded
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import Difference, NotEvaluated, Scorecard, Scored, Side
from toolgauge.model.trajectory import Message, Trajectory
from toolgauge.report.findings import Report, Row, finding
from toolgauge.report.json_objects import trajectory_object, verdict_objects
from toolgauge.report.junit_and_sarif import junit
from toolgauge.report.markdown import markdown
from toolgauge.report.text import TextWriter
from toolgauge.score.criterion import Criterion, NoReference
from toolgauge.testing.samples import TRACE_ID, sample_call, sample_trajectory

DASH = "\N{EN DASH}"
SHOWING, HIDING = Redactor(show_values=True), Redactor(show_values=False)
UNNAMED = sample_call(0, "pay", arguments=Recorded({"id": 7}), error=CallError(kind="_OTHER", message="card declined"))
WAITING = sample_call(1, "ship", arguments=Recorded({}), state="requested_only")
RUN = sample_trajectory(UNNAMED, WAITING)
CRITERION = Criterion(
    name="checks", evaluator_name="tool_success", evaluator=ToolSuccess(), revision="", reference=NoReference()
)


def card(*outcomes: Scored | NotEvaluated) -> Scorecard:
    results = [call_result(outcome, UNNAMED) for outcome in outcomes]
    return scorecard(*results, trajectory_result(Scored(0.0, "differs", passed=False), "whole"), of=RUN)


def judged(of: Trajectory) -> Scored:
    evaluation = next(ToolSuccess().evaluate(of, None))
    assert evaluation is not None
    assert isinstance(evaluation[1], Scored)
    return evaluation[1]


def page_of(found: Scorecard) -> str:
    return Html(page(found, path=f"/trajectories/{TRACE_ID}")).text


def report(found: Scorecard) -> list[str]:
    """Return the lines of an answer to a coding agent."""
    scoring = LoadedScoring(config=Config(), criteria=(CRITERION,), redactor=SHOWING)
    return [*failure_report("runs", found, scoring, criterion=None, call=None, other_failed=0)[1]]


def test_an_error_without_a_type_is_called_failed():
    outcome = judged(RUN)
    assert outcome.explanation == "`pay` failed"
    inspected = list(TextWriter(SHOWING).trajectory(RUN))
    explained = list(TextWriter(HIDING).explained(card(outcome)))
    answered = report(card(outcome))
    assert "          error: failed: card declined" in inspected
    assert "            error: failed" in explained
    assert "            error: failed: card declined" in answered
    assert "error failed card declined" in page_of(card(outcome))
    assert "_OTHER" not in "".join([*inspected, *explained, *answered, page_of(card(outcome))])


def test_the_answer_that_ignored_a_failure_stands_below_its_call_where_values_are_shown():
    lied = Message(role="assistant", text="It is paid. Mail to ann@example.org.", turn=1)
    other = Message(role="assistant", text="Not this one.", turn=2)
    messages = (*RUN.messages, lied, Message(role="user", text="Thanks", turn=2), other)
    run = replace(RUN, messages=messages)
    ignored = Scored(0.0, "`pay` failed, was never made good", {"ignored": 1.0, "gave_up": 0.0}, passed=False)
    found = scorecard(call_result(ignored, UNNAMED), of=run)
    showing, hiding = TextWriter(SHOWING), TextWriter(HIDING)
    assert list(showing.explained(found))[-1] == "            answer: It is paid. Mail to [email]."
    assert "paid" not in "".join(hiding.explained(found))
    assert hiding.hint is not None
    gave_up = Scored(0.5, "`pay` failed, and the answer admits it", {"ignored": 0.0, "gave_up": 1.0}, passed=False)
    assert "paid" not in "".join(showing.explained(scorecard(call_result(gave_up, UNNAMED), of=run)))


def test_a_call_that_no_tool_ran_was_asked_for_and_did_not_run():
    answered = report(card())
    assert "  turn 2  ship()  asked for, not run  [support]" in list(TextWriter(SHOWING).trajectory(RUN))
    assert "    turn 2  ship()  asked for, not run  [support]" in list(TextWriter(HIDING).explained(card()))
    assert "    turn 2  ship()  asked for, not run  [support]" in answered
    assert f"ship {DASH} asked for, not run" in page_of(card())


def test_programs_read_the_original_words():
    described = str(trajectory_object(RUN))
    assert "'_OTHER'" in described
    assert "'requested_only'" in described
    ungrounded = Scored(0.0, "unseen", differences=(SEEN,), passed=False)
    (explained,) = verdict_objects(scorecard(call_result(ungrounded, UNNAMED), of=RUN), SHOWING, {})
    assert "'rule': 'grounded'" in str(explained["differences"])


SEEN = Difference(where="pay: id", rule="grounded", actual=Side(value=7))


def test_a_value_that_came_from_nowhere_was_not_seen_before():
    found = card(Scored(0.0, "unseen", differences=(SEEN,), passed=False))
    assert "    pay: id (not seen before)" in list(TextWriter(SHOWING).explained(found))
    assert "pay: id (not seen before): got 7" in SHOWING.explain(found.results[0].outcome)
    assert "    pay: id (not seen before)" in report(found)
    assert f"pay: id {DASH} 7 not seen before" in page_of(found)


def test_one_wrong_argument_is_one_row():
    wrong = Difference(
        where="pay", rule="other arguments", expected=Side(value={"id": 6}), actual=Side(value={"id": 7})
    )
    found = card(Scored(0.0, "no call matches", differences=(wrong,), passed=False))
    words = "pay: same tool, other arguments: `id` 7 instead of 6"
    answered = report(found)
    assert f"    {words}" in list(TextWriter(SHOWING).explained(found))
    assert f"    {words}" in answered
    assert "id 7 \N{MULTIPLICATION X} expected 6 refund-arguments" in page_of(found)
    assert "pay same tool, other arguments: `id` 7 instead of 6" in page_of(found)
    row = Row(criterion="c", subject="run", outcome="fail", findings=(finding(SHOWING, found.results[0].outcome),))
    written = Report(title="runs", rows=[row], counts=())
    assert words in junit(written).decode()
    assert "7 instead of 6" in markdown(written)
