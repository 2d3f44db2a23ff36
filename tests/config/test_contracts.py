"""Contracts of tools, in the configuration and in files, and the keys that they take the place of."""

from pathlib import Path

from tests.config.files import loaded, refused, write
from tests.rows import each_row
from toolgauge.score.contracts import Contract
from toolgauge.service.criteria_factory import load_for_replay


def test_contracts_are_read_from_files_and_later_ones_win_key_by_key(tmp_path: Path):
    write(tmp_path / "more/a.yaml", "refund: {polls: true, idempotent: true}\nfind: {hands_over: false}\n")
    write(tmp_path / "more/b.yaml", "tools: {refund: {idempotent: false}}\ncriteria: []\n")
    path = write(tmp_path / "toolgauge.yaml", "tools: [more/a.yaml, more/b.yaml, {find: {polls: false}}]\n")
    assert loaded(path).tools == {
        "refund": Contract(polls=True, idempotent=False),
        "find": Contract(hands_over=False, polls=False),
    }
    assert loaded(write(tmp_path / "one.yaml", "tools: more/b.yaml\n")).tools == {"refund": Contract(idempotent=False)}


def test_the_default_criterion_is_there_where_a_contract_judges_calls_and_changes_with_it(tmp_path: Path):
    def revisions(tools: str) -> list[str]:
        path = write(tmp_path / "toolgauge.yaml", f"tools: {{pay: {tools}}}\n")
        _, criteria = load_for_replay([str(path)], [], [], {})
        return [one.revision for one in criteria if one.name == "default.tool_contract"]

    assert revisions("{polls: true}") == []
    assert len(revisions("{personal: to}")) == 1
    assert revisions("{personal: to}") != revisions("{personal: mail}")


@each_row(
    ("text", "message"),
    [
        ("tools: {pay: {chages_state: true}}", "unknown key `tools.pay.chages_state`"),
        ("tools: {pay: {requires: {calls: a}}}", "unknown key `tools.pay.requires.calls`"),
        ("tools: {pay: {result: {type: 3}}}", "`tools.pay` has a schema `result` that cannot be used"),
        ("tools: [missing.yaml]", "missing.yaml"),
        ("tools: 3", "`tools` must be a mapping"),
    ],
)
def test_what_is_wrong_with_a_contract_is_an_error_with_its_place(tmp_path: Path, text: str, message: str):
    assert message in refused(write(tmp_path / "a.yaml", text)).message
