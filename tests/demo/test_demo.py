"""What the demo prints of runs: coloured on a terminal, never steered by what spans hold, and within a screen."""

from msgspec.structs import replace
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from toolgauge.demo.demo import heading, run_lines, summary_lines
from toolgauge.export.redact import Redactor
from toolgauge.model.outcomes import Errored, NotEvaluated, Outcome, Result, Scorecard, Scored
from toolgauge.report.terminal import PLAIN, Style
from toolgauge.testing.samples import sample_call, sample_trajectory

HOSTILE = "\x1b[2J\u202e\nfail"
REDACTOR = Redactor(show_values=False)
PAGE = "http://localhost:8317/trajectories/ab12"
PASSED, FAILED = Scored(1.0, "fine", passed=True), Scored(0.0, "wrong", passed=False)


def scorecard(name: str, *outcomes: Outcome) -> Scorecard:
    call = sample_call(0, name)
    results = (
        Result("lookups", "r1", "tool_success", "2", "call", "live", outcome, target=call.span, call=call)
        for outcome in outcomes
    )
    trajectory = replace(sample_trajectory(call), service=name, agents=(name,))
    return Scorecard(trajectory=trajectory, results=tuple(results), scored_at_ns=0)


def dropped(criterion: str, tool: str) -> LogRecord:
    texts = {"gen_ai.evaluation.name": criterion, "gen_ai.tool.name": tool}
    means = {"toolgauge.regression.baseline": 0.97, "toolgauge.regression.current": 0.62}
    attributes = [KeyValue(key=key, value=AnyValue(string_value=text)) for key, text in texts.items()]
    attributes += [KeyValue(key=key, value=AnyValue(double_value=mean)) for key, mean in means.items()]
    return LogRecord(attributes=attributes)


def shown(card: Scorecard, style: Style = PLAIN, url: str = "") -> list[str]:
    return list(run_lines(card, "adk, one", REDACTOR, style, url))


def test_outcomes_have_colours_on_a_terminal():
    printed = "\n".join(shown(scorecard("find", PASSED, FAILED), Style(colour=True)))
    assert "\x1b[32m1 pass\x1b[0m, \x1b[31m1 FAIL\x1b[0m" in printed
    assert "  \x1b[31mFAIL\x1b[0m  lookups: wrong" in printed
    assert "\x1b[1mSummary\x1b[0m" in heading("Summary", Style(colour=True))


def test_a_run_is_one_line_and_one_for_each_thing_that_failed_with_the_address_of_its_page():
    head, failure = ["adk, one: 1 call; 1 pass, 1 FAIL", "  FAIL  lookups: wrong"]
    assert shown(scorecard("find", PASSED, FAILED)) == [head, failure]
    assert shown(scorecard("find", PASSED, FAILED), url=PAGE) == [head, failure, f"  {PAGE}"]
    assert shown(scorecard("find", PASSED), url=PAGE) == ["adk, one: 1 call; 1 pass"]


def test_on_a_terminal_a_run_is_a_link_to_its_page():
    first, failure = shown(scorecard("find", FAILED), Style(colour=True), PAGE)
    assert first.startswith(f"\x1b]8;;{PAGE}\x1b\\\x1b[1madk, one\x1b[0m\x1b]8;;\x1b\\: 1 call; ")
    assert failure.endswith("lookups: wrong")


def test_without_colour_nothing_steers_the_terminal():
    outcomes = (
        Scored(0.0, HOSTILE, passed=False),
        NotEvaluated(reason="no_calls", explanation=HOSTILE),
        Errored(error_type=HOSTILE, message=HOSTILE),
    )
    card = scorecard(HOSTILE, *outcomes)
    lines = [*shown(card, url=HOSTILE), *summary_lines([card], REDACTOR, [dropped(HOSTILE, HOSTILE)])]
    assert all(line.isprintable() for line in lines)


def test_a_failure_takes_one_line_of_a_screen():
    failed = Scored(0.0, "much is wrong, " * 100, passed=False)
    _, line = shown(scorecard("find_order", failed))
    assert len(line) <= 80
    assert line.endswith("…")


def test_the_summary_lists_everything_that_it_counts():
    cards = [
        scorecard("find", PASSED, FAILED, NotEvaluated(reason="no_schema", explanation="none")),
        scorecard("pay", NotEvaluated(reason="no_calls", explanation="no call"), NotEvaluated(reason="no_calls")),
    ]
    regressions = [dropped("default.tool_success", "list_orders"), dropped("lookups", "")]
    assert list(summary_lines(cards, REDACTOR, regressions)) == [
        "2 runs with 2 tool calls; results: 1 pass, 1 FAIL, 3 not evaluated",
        "  FAIL  lookups: wrong",
        "not evaluated, by reason:",
        "   2 no_calls, as lookups: no call",
        "   1 no_schema, as lookups: none",
        "2 alarms (in Prometheus the alert ToolgaugeQualityRegression):",
        "  ALARM  default.tool_success of list_orders fell from 0.97 to 0.62",
        "  ALARM  lookups of all tools fell from 0.97 to 0.62",
    ]
