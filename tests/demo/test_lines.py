"""What the demo prints of a trajectory: coloured on a terminal, and never steered by what spans hold."""

from msgspec.structs import replace

from toolgauge.demo.lines import ScorecardLines, heading
from toolgauge.export.redact import Redactor
from toolgauge.model.outcomes import Errored, NotEvaluated, Outcome, Result, Scorecard, Scored
from toolgauge.offline.terminal import Style
from toolgauge.testing.samples import sample_call, sample_trajectory

HOSTILE = "\x1b[2J\u202e\nfail"
REDACTOR = Redactor(show_values=False)


def scorecard(name: str, *outcomes: Outcome) -> Scorecard:
    call = sample_call(0, name)
    results = (
        Result("lookups", "r1", "tool_success", "2", "call", "live", call.span, call, outcome) for outcome in outcomes
    )
    trajectory = replace(sample_trajectory(call), service=name, agents=(name,))
    return Scorecard(trajectory=trajectory, results=tuple(results), scored_at_ns=0)


def test_outcomes_have_colours_on_a_terminal():
    card = scorecard("find_order", Scored(1.0, "fine", passed=True), Scored(0.0, "wrong", passed=False))
    shown = "\n".join(ScorecardLines(REDACTOR, Style(colour=True)).lines(card, "a framework"))
    assert "\x1b[32mpass         \x1b[0m  lookups: 1 of 2 calls" in shown
    assert "\x1b[31mFAIL         \x1b[0m  lookups: 0.00 in turn 0: wrong" in shown
    assert "\x1b[1mSummary\x1b[0m" in heading("Summary", Style(colour=True))


def test_without_colour_nothing_steers_the_terminal():
    outcomes = (
        Scored(0.0, HOSTILE, passed=False),
        NotEvaluated(reason="no_calls", explanation=HOSTILE),
        Errored(error_type=HOSTILE, message=HOSTILE),
    )
    shown = ScorecardLines(REDACTOR)
    lines = [
        *shown.lines(scorecard(HOSTILE, *outcomes), HOSTILE),
        *shown.failure_lines([scorecard(HOSTILE, *outcomes)]),
    ]
    assert all(line.isprintable() for line in lines)


def test_failures_of_the_summary_take_two_lines_of_a_screen_at_most():
    failed = Scored(0.0, "much is wrong, " * 100, passed=False)
    lines = list(ScorecardLines(REDACTOR).failure_lines([scorecard("find_order", failed)]))
    assert len(lines) == 2
    assert max(map(len, lines)) <= 80
    assert lines[1].endswith("…")
