"""`replay` as people run it: what it says at the end."""

from pathlib import Path

from tests.cli.command import run

HEALTHY = str(Path(__file__).parent.parent / "corpus" / "pydantic-ai" / "one_call.otlp.pb")
CRITERIA = """
- {name: other-service, evaluator: tool_success, when: {service: "no-such-*"}}
- {name: other-tool, evaluator: tool_success, tools: ["no_such_*"]}
- {name: all-calls, evaluator: tool_success}
"""


def test_criteria_that_judged_nothing_are_named_at_the_end(tmp_path: Path):
    criteria = tmp_path / "criteria.yaml"
    criteria.write_text(CRITERIA)
    ended = run("replay", "--json", "--criteria", str(criteria), HEALTHY)
    assert ended.code == 0
    assert ended.err.splitlines() == [
        "warning: criterion `other-service` matched no trajectory: look at `when` and `scope`",
        "warning: criterion `other-tool` found no call of its `tools`: look at `tools`",
        "results: 7 pass, 3 not_evaluated; criteria without a match: 2",
    ]


def test_without_such_criteria_there_is_no_warning():
    ended = run("replay", HEALTHY)
    assert (ended.code, ended.err) == (0, "results: 6 pass, 2 not_evaluated\n")
