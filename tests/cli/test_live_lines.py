"""Results as they come in: one line a trajectory, not too many, and nothing of what spans would do to a terminal."""

import re
from collections.abc import Callable
from typing import Literal

import pytest
from msgspec.structs import replace

from tests.export.scorecards import call, call_result, failed, passed, scorecard, shadow, trajectory, trajectory_result
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.cli.live_lines import LINES_PER_SECOND, LiveLines
from toolgauge.export.redact import Redactor
from toolgauge.model.outcomes import Difference, Errored, NotEvaluated, Scorecard, Scored, Side
from toolgauge.report.terminal import PLAIN, Style
from toolgauge.settings import MINUTE, SECOND

UNSEEN = NotEvaluated(reason="no_reference")


class Screen:
    """What was written, with the escapes of colours if there are any; takes nothing while it is full."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.is_full = False

    def write(self, make: Callable[[], str]) -> bool:
        if self.is_full:
            return False
        self.lines.extend(make().split("\n"))
        return True

    def results(self) -> list[str]:
        return [line for line in self.lines if "first seen" not in line]


def on(
    screen: Screen,
    printed: Literal["failed", "all"] = "all",
    *,
    show_values: bool = False,
    style: Style = PLAIN,
    columns: int = 10_000,
) -> LiveLines:
    return LiveLines(printed, Redactor(show_values), screen.write, style, width=lambda: columns)


def shown(card: Scorecard, *, show_values: bool = False, style: Style = PLAIN, columns: int = 10_000) -> str:
    screen = Screen()
    on(screen, show_values=show_values, style=style, columns=columns).show(card)
    (line,) = screen.results()
    return line


def test_a_line_has_the_time_the_verdict_where_it_came_from_and_the_trace():
    made = replace(
        trajectory(call()),
        service="shop",
        resource={"service.version": "1.4"},
        agents=("support", "refunds"),
        trace_id="ab12",
    )
    line = shown(scorecard(call_result(failed(0.25)), of=made))
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d  FAIL   shop 1\.4  support \+1  1 call  "
        r"refund-arguments 0\.25 of \S+: `amount` differs  ab12",
        line,
    )


WHOLE = "ab12cd34" + 24 * "0"
PAGE = f"http://localhost:8317/trajectories/{WHOLE}"


def linked(style: Style) -> str:
    screen = Screen()
    lines = on(screen, style=style)
    lines.page_url = lambda shown: f"http://localhost:8317/trajectories/{shown.trace_id}"
    lines.show(scorecard(call_result(failed()), of=replace(trajectory(call()), trace_id=WHOLE)))
    return screen.lines[-1]


HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\n\u202eevil\u2066\x9b31m\ud800" + "x" * 10_000


def test_what_spans_hold_does_nothing_to_a_terminal():
    judged = replace(call(), name=HOSTILE, dialect="genai")
    made = replace(
        trajectory(judged), service=HOSTILE, resource={"service.version": HOSTILE}, agents=(HOSTILE,), trace_id=HOSTILE
    )
    screen = Screen()
    lines = on(screen)
    lines.show(scorecard(call_result(failed(0.2, HOSTILE), judged), of=made))
    lines.show(scorecard(call_result(Errored(error_type=HOSTILE, message=HOSTILE), judged), of=made))
    lines.summary()
    assert all(line.isprintable() for line in screen.lines)
    assert max(map(len, screen.lines)) < 700
    first, *_ = screen.lines
    assert "first seen: service \\x1b]0;owned" in first


DIFFERS = Difference(where="issue_refund.amount", rule="exact", expected=Side(value="AAA"), actual=Side(value="BBB"))


@pytest.mark.parametrize("show_values", [False, True])
def test_values_are_shown_only_where_they_may_be(*, show_values: bool):
    outcome = Scored(value=0.0, explanation="`amount` differs", differences=(DIFFERS,), passed=False)
    line = shown(scorecard(call_result(outcome)), show_values=show_values)
    assert ("BBB" in line) is show_values


@pytest.mark.parametrize("printed", ["all", "failed"])
def test_no_more_lines_a_second_than_somebody_can_read_and_the_others_are_counted(printed: Literal["failed", "all"]):
    screen = Screen()
    lines = on(screen, printed)
    for _ in range(50):
        lines.show(scorecard(call_result(failed())))
    for _ in range(1000):
        lines.show(scorecard(call_result(passed())))
    assert len(screen.lines) == LINES_PER_SECOND
    lines.tick()
    *_, last = screen.lines
    # One line is that of the service and the dialect.
    assert last == (
        "… and 31 more, 31 of them failed" if printed == "failed" else "… and 1,031 more, 31 of them failed"
    )
    lines.tick()
    assert screen.lines[-1] == last
    for _ in range(30):
        lines.show(scorecard(call_result(failed())))
    assert len(screen.lines) == 2 * LINES_PER_SECOND + 1


def test_first_spans_are_announced_before_their_results_and_not_after():
    screen = Screen()
    lines = on(screen)
    lines.announce_first(
        0, AssembleSettings(run_end_grace=SECOND, idle_timeout=20 * SECOND, open_idle_timeout=5 * MINUTE)
    )
    (line,) = screen.lines
    assert line.endswith(
        "  first spans of a run have arrived; its results come 1s after the end of its root agent span, "
        "or without one 20s after its last span (5m while a parent span is missing)"
    )

    lines.show(scorecard(call_result(passed())))
    lines.announce_first(0, AssembleSettings())
    assert sum("first spans" in line for line in screen.lines) == 1


def test_a_sender_that_makes_up_names_ends_the_announcements_and_not_the_lines():
    screen = Screen()
    lines = on(screen)
    for number in range(3000):
        lines.show(scorecard(call_result(passed()), of=replace(trajectory(call()), service=f"s{number}")))
        lines.tick()
    assert sum("first seen" in line for line in screen.lines) == 1000
    assert len(screen.results()) == 3000


def test_judges_answer_on_a_line_of_their_own_and_the_trajectory_counts_once():
    screen = Screen()
    lines = on(screen)
    card = scorecard(call_result(passed()))
    lines.show(card)
    lines.show(replace(card, by_judges=True))
    assert "  judged  " in screen.lines[-1]
    lines.summary()
    assert "1 trajectory, 1 tool call" in screen.lines


def test_the_summary_has_the_totals_then_the_criteria_with_the_most_failures_first():
    screen = Screen()
    lines = on(screen, "failed")
    for _ in range(3):
        lines.show(scorecard(call_result(passed(), criterion="good"), trajectory_result(UNSEEN, criterion="unseen")))
    lines.show(scorecard(call_result(failed(), criterion="refunds"), shadow(call_result(failed(), criterion="new"))))
    lines.show(scorecard(call_result(Errored(error_type="E", message=""), criterion="broken")))
    before = len(screen.lines)
    lines.summary()
    totals, *table = screen.lines[before:]
    assert totals == "5 trajectories, 6 tool calls"
    assert [re.split(r"  +", line) for line in table] == [
        ["criterion", "pass", "fail", "error", "not evaluated"],
        ["broken", "0", "0", "1", "0"],
        ["new (shadow)", "0", "1", "0", "0"],
        ["refunds", "0", "1", "0", "0"],
        ["good", "3", "0", "0", "0"],
        ["unseen", "0", "0", "0", "3 (100 %): no_reference 3"],
    ]
