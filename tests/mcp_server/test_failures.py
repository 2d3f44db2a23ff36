"""A client asks why a run failed, and is answered from recordings of real frameworks."""

from pathlib import Path

import pytest

from tests.mcp_server.support import CORPUS, SHOWN, Called, client, error_of, text_of, trace_id, write_runs

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


async def test_what_was_not_observed_comes_with_its_remedy():
    async with client(CORPUS / "google-adk" / "content_off.otlp.pb") as asked:
        answer = await asked.call_tool("explain_failure", {"trajectory": "feeac3"})
    found = answer.structured_content
    assert found["why"].startswith("it did not fail: ")
    assert {gap["reason"] for gap in found["not_evaluated"]} >= {"arguments_not_recorded"}
    switches = [switch for remedy in found["remedies"] for switch in remedy["switches"]]
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in " ".join(switches)


async def test_one_criterion_is_explained_alone(criteria: Path):
    async with client(SEQUENCE, criteria=criteria) as asked:
        answer = await asked.call_tool("explain_failure", {"criterion": "default.tool_success"})
        unknown = await asked.call_tool("explain_failure", {"criterion": "refund"})
    assert {one["criterion"] for one in answer.structured_content["verdicts"]} == {"default.tool_success"}
    assert error_of(unknown) == ["error: no criterion called `refund`", "hint: did you mean `refunds`?"]


async def test_an_unknown_id_is_answered_with_the_nearest_ones(tmp_path: Path):
    runs = write_runs(tmp_path / "runs.jsonl", [[Called(tool="find", arguments={})]] * 12)
    async with client(runs) as asked:
        unknown = await asked.call_tool("explain_failure", {"trajectory": f"{trace_id(3)[:-1]}f"})
        several = await asked.call_tool("explain_failure", {"trajectory": "0000"})
        unnamed = await asked.call_tool("explain_failure")
        found = await asked.call_tool("explain_failure", {"trajectory": trace_id(3).upper()})
    error, hint = error_of(unknown)
    assert error == f"error: no trajectory `{trace_id(3)[:-1]}f` in the recording"
    assert hint.startswith("hint: there is `0000000")
    assert error_of(several)[0] == "error: `0000` matches 12 trajectories"
    assert error_of(unnamed)[0] == "error: no trajectory of 12 failed"
    assert found.structured_content["trace_id"] == trace_id(3)


async def test_a_call_far_down_a_long_run_is_shown_with_its_failure(tmp_path: Path):
    calls = [Called(tool="step", arguments={"number": number}) for number in range(300)]
    calls[250] = Called(tool="pay", arguments={"number": 250}, error="Timeout")
    runs = write_runs(tmp_path / "runs.jsonl", [calls])
    async with client(runs, overrides=SHOWN) as asked:
        answer = await asked.call_tool("explain_failure")
        beginning = await asked.call_tool("explain_failure", {"call": 1})
    assert not answer.is_error, text_of(answer)
    found = answer.structured_content
    assert (found["calls_total"], found["first_call"]) == (300, 241)
    assert (251, "pay") in {(call["number"], call["name"]) for call in found["calls"]}
    assert found["verdicts"][0]["call"] == 251
    assert beginning.structured_content["first_call"] == 1


async def test_values_of_the_failing_call_are_followed_back_to_the_user(criteria: Path):
    async with client(SEQUENCE, criteria=criteria, overrides=SHOWN) as asked:
        answer = await asked.call_tool("explain_failure", {"trajectory": TRACE})
    async with client(SEQUENCE, criteria=criteria) as asked:
        hidden = await asked.call_tool("explain_failure", {"trajectory": TRACE})
    chain = (
        "from the result of call 2 `list_orders`, whose `customer_id` is from the result of call 1 `find_customer`, "
    )
    calls = answer.structured_content["calls"]
    assert [len(call["value_origins"]) for call in calls] == [0, 0, 3]
    assert calls[2]["value_origins"][0].startswith(f'`order_id` "A-1001" is {chain}')
    assert f'            `order_id` "A-1001" is {chain}' in text_of(answer)
    assert f"            `order_id` is {chain}" in text_of(hidden)
