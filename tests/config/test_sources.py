"""The files of a configuration are found in what is written, whether it is right or not."""

from pathlib import Path

from tests.config.files import write
from toolgauge.config.load import Sources, find_sources


def found(*paths: Path, overrides: tuple[str, ...] = ()) -> Sources:
    return find_sources(paths, overrides, {})


def test_criteria_references_and_definitions_of_tools_are_sources(tmp_path: Path):
    config = write(
        tmp_path / "toolgauge.yaml",
        """\
        criteria: [{name: a, evaluator: tool_call_f1, reference: {file: inline.jsonl, key: case}}]
        criteria_files: ["criteria/*.yaml"]
        tools: [contracts.yaml, {find: {polls: true}}]
        tool_definitions: [tools.json]
        """,
    )
    write(tmp_path / "criteria/one.yaml", "criteria: [{name: b, reference: {file: ../cases.jsonl, key: case}}]")
    write(tmp_path / "criteria/two.yaml", "- {name: c, reference: {file: two.jsonl, key: case}}")
    sources = found(config)
    assert sources.files == (
        config,
        tmp_path / "inline.jsonl",
        tmp_path / "criteria/../cases.jsonl",
        tmp_path / "criteria/two.jsonl",
    )
    assert sources.patterns == (
        str(tmp_path / "criteria/*.yaml"),
        str(tmp_path / "tools.json"),
        str(tmp_path / "contracts.yaml"),
    )
    assert [path.name for path, state in sources.states().items() if state is not None] == [
        "toolgauge.yaml",
        "one.yaml",
        "two.yaml",
    ]


def test_overrides_name_sources_too(tmp_path: Path):
    pattern = str(tmp_path / "*.yaml")
    assert found(overrides=(f"criteria_files=[{pattern}]",)).patterns == (pattern,)
