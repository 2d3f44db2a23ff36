"""`tool_definitions` registers tools from files in the forms that people have them in."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from toolgauge.config.load import load
from toolgauge.config.tool_definitions import load_tool_definitions
from toolgauge.model.errors import ConfigError
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import ToolDefinition

SCHEMA: JsonObject = {"type": "object", "properties": {"order": {"type": "string"}}}


def registered(folder: Path, *globs: str) -> Mapping[str, ToolDefinition]:
    """Register the files of the folder, from a configuration that lies in it."""
    (folder / "toolgauge.yaml").write_text(json.dumps({"tool_definitions": list(globs) or ["tools*"]}))
    return load_tool_definitions(load((folder / "toolgauge.yaml",), (), {}))


def of_file(folder: Path, content: Json | str, name: str = "tools.json") -> Mapping[str, ToolDefinition]:
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return registered(folder)


def problem(folder: Path, content: Json | str, name: str = "tools.json") -> str:
    with pytest.raises(ConfigError) as raised:
        of_file(folder, content, name)
    return raised.value.message.replace(str(folder), "")


OPENAI: Json = [{"type": "function", "function": {"name": "refund", "description": "Pay", "parameters": SCHEMA}}]
FLAT: Json = [{"type": "function", "name": "refund", "description": "Pay", "parameters": SCHEMA, "strict": True}]
ANTHROPIC: Json = [{"name": "refund", "description": "Pay", "input_schema": SCHEMA}]
MCP: Json = {"tools": [{"name": "refund", "description": "Pay", "inputSchema": SCHEMA}]}
ANSWER: Json = {"jsonrpc": "2.0", "id": 1, "result": MCP}


@pytest.mark.parametrize("content", [OPENAI, FLAT, ANTHROPIC, MCP, ANSWER])
def test_lists_of_tools_are_read_as_their_makers_write_them(content: Json, tmp_path: Path):
    assert of_file(tmp_path, content) == {"refund": ToolDefinition(name="refund", description="Pay", parameters=SCHEMA)}


def test_a_tool_may_have_neither_description_nor_schema(tmp_path: Path):
    assert of_file(tmp_path, [{"name": "refund"}]) == {"refund": ToolDefinition(name="refund")}


def test_yaml_is_read_and_its_dollar_signs_stay(tmp_path: Path):
    text = 'tools:\n- name: find\n  parameters:\n    properties: {key: {pattern: "^$$|^${env:HOME}$"}}\n'
    found = of_file(tmp_path, text, "tools.yaml")["find"].parameters
    assert found == {"properties": {"key": {"pattern": "^$$|^${env:HOME}$"}}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "/tools.json: not valid JSON: Input data was truncated"),
        ({"a": 1}, "/tools.json: holds no tools"),
        ({"tools": {}}, "/tools.json: holds no tools"),
        ("1", "/tools.json: holds no tools"),
        ([1], "/tools.json: `[0]` is no tool"),
        ({"tools": [{"name": "a"}, {"title": "b"}]}, "/tools.json: `tools[1]` has no `name`"),
        ([{"name": "a", "parameters": "none"}], "/tools.json: `[0]` has a schema that is no object"),
        (
            [{"name": "a", "parameters": {"properties": {"b": {"type": "str"}}}}],
            "/tools.json: `[0]`: the schema of tool `a` cannot be used: /properties/b/type names no type that JSON has",
        ),
        (
            [{"name": "a", "parameters": {"$ref": "http://example.com/a.json"}}],
            "/tools.json: `[0]`: the schema of tool `a` cannot be used: /$ref leads out of the schema",
        ),
        (
            [{"name": "a", "parameters": {"description": "x" * 300_000}}],
            "/tools.json: `[0]`: the schema of tool `a` cannot be used: it is larger than 256 KiB",
        ),
        ({"swagger": "2.0", "paths": {}}, "/tools.json: holds no tools"),
        (
            [{"name": "a"}, {"name": "a"}],
            "/tools.json: `[1]`: tool `a` is given twice, first at /tools.json, `[0]`",
        ),
        ("[" * 10_000, "/tools.json: the values are nested too deeply"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(content: Json | str, message: str, tmp_path: Path):
    assert problem(tmp_path, content) == message


def test_broken_yaml_is_named_with_its_line(tmp_path: Path):
    assert problem(tmp_path, "tools:\n- [\n", "tools.yaml").startswith("/tools.yaml:3: not valid YAML")


def test_a_glob_without_a_file_is_an_error(tmp_path: Path):
    with pytest.raises(ConfigError, match="no file of tool definitions matches"):
        registered(tmp_path, "gone/*.json")
