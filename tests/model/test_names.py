"""A name keeps what is the same in each run, and loses what is not."""

from tests.rows import each_row
from toolgauge.model.names import stable_name, stable_tool


@each_row(
    ("name", "kept"),
    [
        ("a338025ade30c2a3", ""),
        ("1a2b3c4d", ""),
        ("550e8400-e29b-41d4-a716-446655440000", ""),
        ("0x7f3a2b1c", ""),
        ("12345", ""),
        ("Agent-140234567890", "Agent"),
        ("agent_00000007", "agent"),
        ("<Agent object at 0x7f3a2b1c>", "Agent object at"),
        ("run 20250514153000", "run"),
        ("mcp__550e8400-e29b-41d4-a716-446655440000__search", "mcp__search"),
    ],
)
def test_ids_are_no_part_of_a_name(name: str, kept: str):
    assert stable_name(name) == kept


@each_row(
    "name",
    [
        *(
            "refund-agent",
            "refund-agent-2",
            "Agent Smith (v2)",
            "deadbeef",
            "iso27001_auditor",
            "/root",
            "x86asm64",
            "",
        ),
        *("claude-sonnet-4-20250514", "gpt-4o-2024-08-06", "unknown_service:python", "agent_1234"),
    ],
)
def test_other_names_stay_as_they_are(name: str):
    assert stable_name(name) == name


def test_a_tool_without_a_name_of_its_own_counts_among_the_others():
    assert stable_tool("a338025ade30c2a3") == "_other"
