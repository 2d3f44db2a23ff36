"""What the run of a trajectory was made with, and how its agent, its tools and its user behaved, as short texts by property.

A regression is explained by a property that changed with it. No text of a prompt, a schema or a user is kept: only hashes, names,
types and sizes. A property of one tool, or of one library, has its name behind a space.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType

import msgspec

from toolgauge.model.content import NotRecorded, Recorded
from toolgauge.model.json import Json
from toolgauge.model.metrics import MAX_PROPERTY, fit_label, short_hash
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.records import VERSION
from toolgauge.model.trajectory import ToolCall, Trajectory

INSTRUCTIONS, SCOPE_VERSION = "gen_ai.system_instructions", "otel.scope.version"
TOOL_SCHEMA, TOOL_DESCRIPTION = "toolgauge.tool.schema", "toolgauge.tool.description"
TOOL_ARGUMENTS, TOOL_ERRORS = "toolgauge.tool.arguments", "toolgauge.tool.errors"
MESSAGE_SIZE, MESSAGE_FORM = "toolgauge.user_message.size", "toolgauge.user_message.form"
NO_ERROR = "none"
# By tool, the most of one conversation; each has up to four properties.
_MAX_TOOLS = 12
_SIZES = (50, 200, 1000, 5000, 20_000)
_MAX_DEPTH = 32
_NAMES = ("properties", "$defs", "definitions")
_WORDS = ("description", "title", "$schema", "examples")
_TYPES: Mapping[type, str] = MappingProxyType(
    {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}
)


def fingerprint(trajectory: Trajectory) -> dict[str, str]:
    """Return the properties of a trajectory; what was not recorded is absent."""
    found = dict(trajectory.properties)
    if version := trajectory.resource.get(VERSION):
        found[VERSION] = fit_label(version)
    for source in trajectory.sources:
        if source.version:
            found[f"{SCOPE_VERSION} {fit_label(source.scope)}"] = source.version[:MAX_PROPERTY]
    by_tool: dict[str, list[ToolCall]] = {}
    for call in trajectory.calls:
        by_tool.setdefault(call.name, []).append(call)
    offered = {tool.name: tool for tool in trajectory.tools_offered or ()}
    for name, calls in sorted(by_tool.items())[:_MAX_TOOLS]:
        definition = calls[0].definition or offered.get(name)
        for prop, value in _of_tool(calls, definition):
            found[f"{prop} {fit_label(name)}"] = value if len(value) <= MAX_PROPERTY else short_hash(value)
    texts = {message.role: message.text for message in reversed(trajectory.messages)}
    if "system" in texts:
        found.setdefault(INSTRUCTIONS, short_hash(texts["system"]))
    text = texts.get("user")
    if text is not None:
        found[MESSAGE_SIZE] = next((f"at most {size}" for size in _SIZES if len(text) <= size), f"above {_SIZES[-1]}")
        found[MESSAGE_FORM] = _form(text[: _SIZES[-2]])
    return found


def joined(earlier: Mapping[str, str], later: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a conversation: the latest, but the errors of any trace, and the user's first message."""
    kept = {MESSAGE_SIZE, MESSAGE_FORM} & earlier.keys()
    kept.update(name for name in earlier if name.startswith(TOOL_ERRORS) and later.get(name) == NO_ERROR)
    return {**earlier, **later, **{name: earlier[name] for name in kept}}


def concerns(name: str, tool: str | None) -> bool:
    """Return whether a property may explain the scores of a tool, or of all tools (`None`)."""
    return tool is None or " " not in name or name.endswith(f" {tool}") or name.startswith(SCOPE_VERSION)


def _of_tool(calls: Iterable[ToolCall], definition: ToolDefinition | None) -> Iterator[tuple[str, str]]:
    if definition is not None:
        schema, description = _hashes(_Same(definition))
        if schema:
            yield TOOL_SCHEMA, schema
        if description:
            yield TOOL_DESCRIPTION, description
    shapes: set[str] = set()
    kinds: set[str] = set()
    for call in calls:
        if isinstance(call.arguments, Recorded) and isinstance(call.arguments.value, dict):
            shapes.update([f"{key}:{_TYPES.get(type(value), 'null')}" for key, value in call.arguments.value.items()])
        elif not isinstance(call.arguments, NotRecorded):
            shapes.add("unreadable")
        if call.has_failed:
            kinds.add(fit_label(call.error.kind) if call.error is not None else call.state)
    if shapes:
        yield TOOL_ARGUMENTS, " ".join(sorted(map(fit_label, shapes)))
    yield TOOL_ERRORS, " ".join(sorted(kinds)) or NO_ERROR


class _Same:
    """A definition compared by identity: agents repeat one object with each run."""

    __slots__ = ("definition",)

    def __init__(self, definition: ToolDefinition) -> None:
        self.definition = definition

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.definition is self.definition

    def __hash__(self) -> int:
        return id(self.definition)


# Without it, writing each schema canonically takes as long as all else here.
@lru_cache(maxsize=512)
def _hashes(same: _Same) -> tuple[str, str]:
    definition = same.definition
    schema = definition.parameters
    written = "" if schema is None else msgspec.json.encode(_canonical(schema, 0), order="deterministic").decode()
    return written and short_hash(written), short_hash(definition.description) if definition.description else ""


def _canonical(schema: Json, depth: int) -> Json:
    """Leave out the words of a schema, and the order of its keys and required names."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(schema, list):
        return [_canonical(each, depth + 1) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Json] = {}
    for key, value in schema.items():
        if key in _NAMES and isinstance(value, dict):
            found[key] = {name: _canonical(each, depth + 1) for name, each in value.items()}
        elif key in ("required", "enum") and isinstance(value, list):
            found[key] = sorted(value, key=repr)
        elif key not in _WORDS:
            found[key] = _canonical(value, depth + 1)
    return found


def _form(text: str) -> str:
    """Describe a text by features that no language has alone."""
    signs = (("code", "```"), ("link", "://"), ("markup", "</"), ("object", '{"'), ("lines", "\n"))
    found = [name for name, sign in signs if sign in text]
    if not text.isascii() and 2 * sum([letter > "\u024f" for letter in text]) > len(text):
        found.append("other script")
    return " ".join(found) or "plain"
