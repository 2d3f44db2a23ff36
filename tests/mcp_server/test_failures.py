"""A client asks why a run failed, and is answered from recordings of real frameworks."""

from pathlib import Path

import pytest

from tests.mcp_server.support import CORPUS, SHOWN, Called, client, text_of, write_runs

SEQUENCE = CORPUS / "openinference-langgraph"
TRACE = "7eabeccfb1a92e956d7b86c8164360e8"
REFUNDS = """
- name: refunds
  evaluator: tool_call_args
  pass_at: 0.8
  tools: [refund_order]
  expected: [{name: refund_order, args: {order_id: A-1001, amount: 40.0, reason: arrived damaged}}]
"""


@pytest.fixture
def criteria(tmp_path: Path) -> Path:
    path = tmp_path / "criteria.yaml"
    path.write_text(REFUNDS)
    return path


async def test_the_answer_has_criterion_argument_expected_and_actual(criteria: Path):
    async with client(SEQUENCE, criteria=criteria, overrides=SHOWN) as asked:
        answer = await asked.call_tool("explain_failure", {"trajectory": TRACE})
    found = answer.structured_content
    assert found["why"] == "refunds 0.67 (passes at 0.8): refund_order: amount: expected 40.0, got 42.5"
    (verdict,) = found["verdicts"]
    assert (verdict["criterion"], verdict["outcome"], verdict["requirement"]) == ("refunds", "fail", "passes at 0.8")
    assert verdict["differences"] == [
        {"where": "refund_order: amount", "rule": "exact", "expected": "40.0", "actual": "42.5"}
    ]
    assert [(call["number"], call["name"]) for call in found["calls"]] == [
        (1, "find_customer"),
        (2, "list_orders"),
        (3, "refund_order"),
    ]
    assert "amount=42.5" in found["calls"][2]["arguments"]
    lines = text_of(answer).splitlines()
    assert lines[0] == f"why: {found['why']}"
    assert "      expected 40.0" in lines


async def test_values_are_hidden_by_default_and_secrets_always(criteria: Path):
    async with client(SEQUENCE, criteria=criteria) as asked:
        hidden = await asked.call_tool("explain_failure", {"trajectory": TRACE})
    async with client(SEQUENCE, criteria=criteria, overrides=SHOWN) as asked:
        shown = await asked.call_tool("explain_failure", {"trajectory": TRACE})
    text = f"{text_of(hidden)} {hidden.structured_content}"
    assert "42.5" not in text
    assert "arrived damaged" not in text
    assert "    refund_order: amount (exact)\n      expected a number\n      got      a number" in text_of(hidden)
    assert "--set redact.values=show" in text_of(hidden)
    assert "42.5" in text_of(shown)
    assert "[email]" in text_of(shown)
    assert "@" not in f"{text_of(shown)} {shown.structured_content}"


async def test_names_that_are_addresses_or_keys_are_masked(tmp_path: Path):
    calls = [Called(tool="sk-0123456789abcdefghijkl", arguments={"ann@example.com": 1}, error="bob@example.com")]
    runs = write_runs(tmp_path / "runs.jsonl", [calls], service="shop of eve@example.com")
    async with client(runs) as asked:
        listed = await asked.call_tool("list_trajectories")
        answer = await asked.call_tool("explain_failure")
    text = f"{text_of(listed)} {listed.structured_content} {text_of(answer)} {answer.structured_content}"
    assert "shop of [email]" in text
    assert "@" not in text
    assert "sk-0123" not in text


async def test_without_an_id_the_newest_run_that_failed_is_explained():
    async with client(CORPUS / "pydantic-ai") as asked:
        listed = await asked.call_tool("list_trajectories", {"outcome": "failed"})
        answer = await asked.call_tool("explain_failure")
    failed = listed.structured_content["trajectories"]
    assert answer.structured_content["trajectory"]["id"] == failed[0]["id"]
    assert answer.structured_content["other_failed"] == len(failed) - 1 == 2
    assert max(one["started"] for one in failed) == failed[0]["started"]
