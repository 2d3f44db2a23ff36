"""`check --criterion` as people run it, on a recorded run of a real framework."""

import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from tests.cli.command import Ended, unbroken
from toolgauge.cli.main import main

ROOT = Path(__file__).parent.parent.parent
REFUND = [
    str(file) for file in sorted((ROOT / "src/toolgauge/demo/traffic").glob("openinference-langgraph.sequence.*"))
]
RETRY = str(ROOT / "src/toolgauge/demo/traffic/openinference-crewai.retry.otlp.pb")
TRACE = "7eabeccfb1a92e956d7b86c8164360e8"
CRITERIA = """
- name: refunds
  evaluator: tool_call_args
  pass_at: 0.8
  tools: [refund_order]
  expected: [{name: refund_order, args: {order_id: A-1001, amount: 40.0, reason: arrived damaged}}]
- name: lookups
  evaluator: tool_call_args
  tools: [find_customer]
  expected: [{name: find_customer, args: {email: eve@example.com}}]
- {name: choice, evaluator: tool_selection_accuracy}
- {name: elsewhere, evaluator: tool_success, when: {service: "no-such-*"}}
"""
FROM_ORDERS = (
    "from the result of call 2 `list_orders`, whose `customer_id` is from the result of call 1 `find_customer`, whose "
    "`email` is from the user"
)
WITH_VALUES = ("--set", "redact.values=show")


def run(*arguments: str) -> Ended:
    """Run in this process: most of the time a process takes is its start."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main(["check", "--fail-on", "nothing", "--criterion", *arguments])
    return Ended(code, unbroken(out.getvalue()), err.getvalue())


@pytest.fixture
def criteria(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "criteria.yaml").write_text(CRITERIA)
    return "--criteria", str(tmp_path / "criteria.yaml")


def test_expected_and_actual_values_stand_beside_each_other(criteria: tuple[str, str]):
    ended = run("refunds", *REFUND, *criteria, *WITH_VALUES)
    assert ended.code == 0
    assert ended.out.splitlines() == [
        f"trace {TRACE[:8]} of shop-assistant (closed: run_ended)",
        "  fail          0.667 (passes at 0.8)        trajectory  arguments are as expected in 0 of 1 expected calls; "
        "refund_order: amount differs (number, exact)",
        "    refund_order: amount (exact)",
        "      expected 40.0",
        "      got      42.5",
        '    turn 1  find_customer(email="[email]")  executed  [shop_agent]',
        '            result: {"customer_id": 7731, "name": "Zoë Müller", "tier": "gold"}',
        "    turn 2  list_orders(customer_id=7731, limit=1)  executed  [shop_agent]",
        '            result: [{"order_id": "A-1001", "total": 42.5}]',
        '    turn 3  refund_order(order_id="A-1001", amount=42.5, reason="arrived damaged")  executed [shop_agent]',
        '            result: {"refund_id": "R-A-1001", "status": "accepted", "amount": 42.5}',
        f'            `order_id` "A-1001" is {FROM_ORDERS}',
        f"            `amount` 42.5 is {FROM_ORDERS}",
        '            `reason` "arrived damaged" is from the user',
    ]
    assert ended.err == "verdicts of `refunds` (tool_call_args, passes at 0.8): 1 fail\n"


def test_only_failures_are_shown_when_asked_for(criteria: tuple[str, str]):
    passed = run("default.tool_success", *REFUND, "--failed")
    failed = run("refunds", *REFUND, *criteria, "--failed")
    assert (passed.out, passed.err) == ("", "verdicts of `default.tool_success` (tool_success, passes at 1): 3 pass\n")
    assert failed.out.startswith(f"trace {TRACE[:8]} ")


def test_a_criterion_that_is_not_there_is_misuse():
    ended = run("default.tool_sucess", RETRY)
    assert ended.code == 2
    assert ended.err.splitlines() == [
        "error: no criterion called `default.tool_sucess`",
        "hint: did you mean `default.tool_success`?",
    ]


def test_an_object_names_what_differs_and_the_calls(criteria: tuple[str, str]):
    hidden, shown = (json.loads(run("refunds", *REFUND, *criteria, "--json", *more).out) for more in ((), WITH_VALUES))
    assert hidden["differences"] == [
        {"where": "refund_order: amount", "rule": "exact", "expected": "a number", "actual": "a number"}
    ]
    assert shown["differences"] == [
        {"where": "refund_order: amount", "rule": "exact", "expected": "40.0", "actual": "42.5"}
    ]
    assert [call["name"] for call in hidden["calls"]] == ["find_customer", "list_orders", "refund_order"]
    assert hidden["calls"][2]["argument_names"] == ["order_id", "amount", "reason"]
    assert "arguments" not in hidden["calls"][2]
    assert shown["calls"][2]["arguments"] == 'order_id="A-1001", amount=42.5, reason="arrived damaged"'
