"""Registered tools (`tool_definitions`), for traffic that does not record the tools on offer.

A file is a list of tools as OpenAI, Anthropic or MCP write it, in JSON or YAML. A tool registered twice is an error.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from toolgauge.config.model import Config
from toolgauge.config.parse import files_matching, parse_yaml, read_file
from toolgauge.config.problems import Node, PathStep, Place, Problem, config_error, nearest, plain, spelled, written
from toolgauge.model.errors import ConfigError, SchemaError
from toolgauge.model.json import Json
from toolgauge.model.observations import ToolDefinition
from toolgauge.recognize.definitions import is_repeatable
from toolgauge.score.schema_reader import SchemaReader, schema_text

_LARGEST_FILE = 16 * 2**20
_MAX_TOOLS = 10_000
_SCHEMAS = ("parameters", "input_schema", "inputSchema")


def load_tool_definitions(config: Config) -> Mapping[str, ToolDefinition]:
    """Read the registered tools by their names. Raises ConfigError with every problem found."""
    tools: dict[str, ToolDefinition] = {}
    problems: list[Problem] = []
    first: dict[str, str] = {}
    names = [
        name
        for pattern in config.tool_definitions
        for name in files_matching(pattern, "file of tool definitions", "tool_definitions")
    ]
    # A file that several globs match is read once.
    for path in dict.fromkeys(map(Path, names)):
        try:
            root = parsed(path)
            for steps, listed in listed_tools(plain(root)):
                tool = _tool(listed, spelled(steps))
                problems += _tool_problems(root, steps, tool, first)
                tools[tool.name] = tool
                if len(tools) > _MAX_TOOLS:
                    raise ConfigError(f"more than {_MAX_TOOLS} tools are registered")
        except ConfigError as error:
            # The YAML parser names the line itself.
            place, _, message = error.message.partition(": ")
            is_placed = place.startswith(f"{path}:")
            problem = (Place(place), message) if is_placed else (Place(str(path)), error.message)
            problems.append(Problem(*problem, error.hint))
        except RecursionError:
            problems.append(Problem(Place(str(path)), "the values are nested too deeply"))
    if problems:
        raise config_error(problems)
    return tools


def _tool_problems(
    root: Node, steps: Sequence[PathStep], tool: ToolDefinition, first: dict[str, str]
) -> Iterator[Problem]:
    place = nearest(root, steps).place
    where = f"`{spelled(steps)}`" if steps else "the file"
    at = str(place) if place.line is not None else f"{place}, {where}"
    before = first.setdefault(tool.name, at)
    if before != at:
        yield Problem(place, f"{where}: tool `{tool.name[:80]}` is given twice, first at {before}")
    unusable = f"{where}: the schema of tool `{tool.name[:80]}` cannot be used"
    try:
        if tool.parameters is not None:
            schema_text(tool.parameters)
            SchemaReader(tool.parameters)
    except SchemaError as error:
        yield Problem(place, f"{unusable}: {error}")
    except RecursionError:
        yield Problem(place, f"{unusable}: it is nested too deeply")


def parsed(path: Path) -> Node:
    """Read a file of JSON or YAML. Raises `ConfigError`."""
    text = read_file(path)
    if len(text) > _LARGEST_FILE:
        raise ConfigError(f"is larger than {_LARGEST_FILE // 2**20} MiB")
    if path.suffix.lower() in (".yaml", ".yml"):
        # Dollar signs are part of schemas, and nothing of the environment belongs in them.
        return parse_yaml(text, str(path), None)
    try:
        return written(msgspec.json.decode(text.removeprefix(b"\xef\xbb\xbf")), Place(str(path)))
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ConfigError(f"not valid JSON: {error}", hint="the name of a YAML file must end in `.yaml`") from error


def listed_tools(document: Json) -> Iterator[tuple[tuple[PathStep, ...], Json]]:
    """Yield the tools of a list as written, with their places. Raises `ConfigError` where there is none."""
    steps: tuple[PathStep, ...] = ()
    listed = document
    if isinstance(document, dict):
        result = document.get("result")
        is_answer = isinstance(result, dict) and "jsonrpc" in document
        steps = ("result", "tools") if is_answer else ("tools",)
        listed = result.get("tools") if is_answer and isinstance(result, dict) else document.get("tools")
    if not isinstance(listed, list):
        is_openapi = isinstance(document, dict) and ("openapi" in document or "swagger" in document)
        raise ConfigError(
            "holds no tools",
            hint="convert OpenAPI 3 with `examples/openapi_tools.py`"
            if is_openapi
            else "it must be a list of tools, an object with `tools`, or an answer to MCP's `tools/list`",
        )
    for number, tool in enumerate(listed):
        yield (*steps, number), tool


def _tool(tool: Json, where: str) -> ToolDefinition:
    if not isinstance(tool, dict):
        raise ConfigError(f"`{where}` is no tool")
    function = tool.get("function")
    of_tool = function if isinstance(function, dict) else tool
    name, description = of_tool.get("name"), of_tool.get("description")
    if not isinstance(name, str) or not name:
        raise ConfigError(f"`{where}` has no `name`")
    schema = next((of_tool[key] for key in _SCHEMAS if of_tool.get(key) is not None), None)
    if schema is not None and not isinstance(schema, dict):
        raise ConfigError(f"`{where}` has a schema that is no object")
    description = description if isinstance(description, str) else None
    return ToolDefinition(name=name, description=description, parameters=schema, is_repeatable=is_repeatable(of_tool))
