"""The results that `check` prints: on a terminal, in a pipe, and at the end."""

import json
import re
from pathlib import Path

import pytest

from tests.captures import CORPUS
from tests.cli.command import on_screen, run, run_on_terminal, unbroken
from tests.recordings.recordings import GOOD, START_NS, WORSE, written

ROOT = Path(__file__).parent.parent
HEALTHY = str(ROOT / "corpus" / "pydantic-ai" / "one_call.otlp.pb")
REFUND = [
    str(file)
    for file in sorted((ROOT.parent / "src/toolgauge/demo/traffic").glob("openinference-langgraph.sequence.*"))
]
CRITERIA = """
- {name: other-service, evaluator: tool_success, when: {service: "no-such-*"}}
- {name: other-tool, evaluator: tool_success, tools: ["no_such_*"]}
- {name: all-calls, evaluator: tool_success}
"""
REFUNDS = """
- name: refunds
  evaluator: tool_call_args
  enforce: shadow
  pass_at: 0.5
  tools: [refund_order]
  expected: [{name: refund_order, args: {order_id: A-1001, amount: 40.0, reason: arrived damaged}}]
- name: lookups
  evaluator: tool_call_args
  tools: [find_customer]
  expected: [{name: find_customer, args: {email: eve@example.com}}]
"""
VALUES = "(refund_order: amount (exact): expected 40.0, got 42.5)"


@pytest.fixture
def criteria(tmp_path: Path) -> str:
    (tmp_path / "criteria.yaml").write_text(CRITERIA)
    return str(tmp_path / "criteria.yaml")


@pytest.fixture
def refunds(tmp_path: Path) -> str:
    (tmp_path / "refunds.yaml").write_text(REFUNDS)
    return str(tmp_path / "refunds.yaml")


def test_criteria_that_judged_nothing_are_named_at_the_end(criteria: str):
    ended = run("check", "--fail-on", "nothing", "--criteria", criteria, HEALTHY)
    assert ended.code == 0
    assert ended.err.splitlines() == [
        "warning: criterion `other-service` matched no trajectory: look at `when.service: no-such-*`",
        "warning: criterion `other-tool` found no call of its `tools`: look at `tools`",
        "results: 8 pass, 6 not_evaluated; criteria without a match: 2",
    ]
    assert "other-service               matched nothing" in ended.out.splitlines()


def test_an_object_names_producer_agent_tool_and_time_behind_the_documented_keys(refunds: str):
    objects = [
        json.loads(line)
        for line in run("check", "--fail-on", "nothing", "--json", "--criteria", refunds, *REFUND).out.splitlines()
    ]
    called = next(each for each in objects if each["tool"] == "refund_order")
    judged = next(each for each in objects if each["criterion"] == "refunds")
    assert list(called) == [
        *(
            "trace_id",
            "conversation_id",
            "span_id",
            "criterion",
            "revision",
            "evaluator",
            "version",
            "level",
            "outcome",
        ),
        *("value", "reason", "explanation"),
        *("enforce", "service", "environment", "service_version", "agent", "tool", "time"),
    ]
    assert (called["version"], called["service_version"], called["environment"]) == ("5", None, None)
    assert (called["enforce"], called["service"], called["agent"]) == ("live", "shop-assistant", "shop_agent")
    assert (judged["enforce"], judged["agent"], judged["tool"]) == ("shadow", "shop_agent", None)
    assert called["time"] < judged["time"]


def test_a_terminal_shows_values_unless_the_configuration_hides_them(refunds: str):
    shown = unbroken(
        run_on_terminal("check", "--fail-on", "nothing", "--criteria", refunds, *REFUND).out.replace("\r\n", "\n")
    )
    hidden = run_on_terminal(
        "check", "--fail-on", "nothing", "--criteria", refunds, "--set", "redact.values=hide", *REFUND
    ).out
    printed = run_on_terminal("check", "--fail-on", "nothing", "--json", "--criteria", refunds, *REFUND).out
    assert (VALUES in shown, VALUES in hidden, VALUES in printed) == (True, False, False)
    assert "@example.com" not in shown


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_the_progress_bar_is_never_among_the_lines(arguments: tuple[str, ...]):
    piped = run("check", "--fail-on", "nothing", *arguments, *REFUND)
    sent = run_on_terminal("check", "--fail-on", "nothing", *arguments, *REFUND, environment={"NO_COLOR": "1"}).out
    assert "reading  [" in sent
    assert on_screen(sent) == [*piped.out.splitlines(), *piped.err.splitlines(), ""]


def test_a_drop_is_announced_once_beside_the_results(tmp_path: Path):
    file = written(tmp_path / "recorded.otlp", GOOD, 250, seed=1)
    assert "regression: " not in run("check", str(file)).err
    written(file, WORSE, 60, seed=2, start_ns=START_NS + 10**14)
    ended = run("check", "--fail-on", "nothing", str(file), "--json")
    announced = [line for line in unbroken(ended.err).splitlines() if line.startswith("regression: ")]
    (first,) = (line for line in announced if not line.startswith("regression: in the same incident, "))
    assert first == announced[0]
    change = "; `service.version` changed from `1.0` to `1.1` at "
    assert any("`default.tool_success` of `list_orders` fell from " in line and change in line for line in announced)


@pytest.mark.parametrize("words", [(), ("--calls",), ("--criterion", "default.tool_success"), ("--firings",)])
def test_lines_fit_a_screen_and_say_no_word_twice(words: tuple[str, ...]):
    folders = (str(CORPUS / folder) for folder in ("google-adk", "openinference-agno", "pydantic-ai", "vercel-ai"))
    ended = run("check", *words, *folders, "--set", "redact.values=show")
    lines = f"{ended.out}\n{ended.err}".split("\n")
    assert len(lines) > 10
    # Tables are as wide as their cells.
    assert [line for line in lines if len(line) > 100 and "--firings" not in words] == []
    assert [line for line in lines if re.search(r"\b([A-Za-z]{2,}) +\1\b", line)] == []
    assert "--firings" in words or re.search(r"\b[0-9a-f]{32}\b", ended.out) is None
