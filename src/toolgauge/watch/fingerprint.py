"""The models, prompts and tools of a trajectory's runs, and the behaviour of its agent, tools and user, as short texts by property.

A regression is explained by a property that changed with it. No text of a prompt, a schema or a user is kept: only hashes, names,
types and sizes. A property of one tool, or of one library, has its name behind a space.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Literal

from toolgauge.model.content import NotRecorded, Recorded
from toolgauge.model.metrics import MAX_LABEL, MAX_PROPERTY, fit_label, short_hash
from toolgauge.model.names import stable_tool
from toolgauge.model.observations import Tools
from toolgauge.model.records import VERSION
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.watch.offers import Contract, contract_of

INSTRUCTIONS, SCOPE_VERSION = "gen_ai.system_instructions", "otel.scope.version"
TOOL_SCHEMA, TOOL_DESCRIPTION = "toolgauge.tool.schema", "toolgauge.tool.description"
TOOL_ARGUMENTS, TOOL_ERRORS = "toolgauge.tool.arguments", "toolgauge.tool.errors"
MESSAGE_SIZE, MESSAGE_FORM = "toolgauge.user_message.size", "toolgauge.user_message.form"
NO_ERROR = "none"
_UNKNOWN = Contract("", "", "", b"")
# By tool, the most of one conversation; each has up to four properties.
_MAX_TOOLS = 12
_MOST_KEYS = 64
_SIZES = (50, 200, 1000, 5000, 20_000)
_SIGNS = {"code": "```", "link": "://", "markup": "</", "object": '{"', "lines": "\n"}
# None of the Latin alphabets.
_OTHER_LETTER = re.compile("[^\0-\u024f]")
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}


def fingerprint(trajectory: Trajectory) -> dict[str, str]:
    """Return the recorded properties of a trajectory."""
    found, offered = made_with(trajectory), Tools.of(trajectory.tools_offered)
    by_tool: dict[str, list[ToolCall]] = {}
    for call in trajectory.calls:
        by_tool.setdefault(stable_tool(call.name)[:MAX_LABEL], []).append(call)
    for tool in sorted(by_tool)[:_MAX_TOOLS]:
        calls = by_tool[tool]
        definition = calls[0].definition or offered.by_name.get(calls[0].name)
        contract = _UNKNOWN if definition is None else contract_of(definition)
        # The keys of all arguments with their types; `None` where some are unreadable.
        typed, is_readable = set[tuple[str, type]](), True
        for call in calls:
            arguments = call.arguments
            if type(arguments) is Recorded and isinstance(arguments.value, dict):
                typed.update(zip(arguments.value, map(type, arguments.value.values()), strict=True))
            elif type(arguments) is not NotRecorded:
                is_readable = False
        failed = [call.error.kind if call.error is not None else call.state for call in calls if call.has_failed]
        keys = frozenset([(key[:MAX_PROPERTY], kind) for key, kind in typed]) if is_readable else None
        # A set of thousands of keys is not remembered.
        described = _of_tool if keys is None or len(keys) <= _MOST_KEYS else _of_tool.__wrapped__
        errors = _short(failed) if failed else NO_ERROR
        found.update(described(tool, contract.schema, contract.words, keys, errors))
    if (text := _first_text(trajectory, "user")) is not None:
        size = bisect_left(_SIZES, len(text))
        found[MESSAGE_SIZE] = f"at most {_SIZES[size]}" if size < len(_SIZES) else f"above {_SIZES[-1]}"
        # Features that no language has alone.
        text = text[: _SIZES[1]]
        forms = [name for name, sign in _SIGNS.items() if sign in text]
        if not text.isascii() and 2 * len(_OTHER_LETTER.findall(text)) > len(text):
            forms.append("other script")
        found[MESSAGE_FORM] = " ".join(forms) or "plain"
    return found


def made_with(trajectory: Trajectory) -> dict[str, str]:
    """Return the properties of a trajectory that people choose: models, settings, prompts and versions."""
    found = dict(trajectory.properties)
    if version := trajectory.resource.get(VERSION):
        found[VERSION] = fit_label(version)
    for source in trajectory.sources:
        if source.version:
            found[f"{SCOPE_VERSION} {fit_label(source.scope)}"] = source.version[:MAX_PROPERTY]
    if INSTRUCTIONS not in found and (text := _first_text(trajectory, "system")) is not None:
        found[INSTRUCTIONS] = short_hash(text)
    return found


def _first_text(trajectory: Trajectory, role: Literal["system", "user"]) -> str | None:
    return next((message.text for message in trajectory.messages if message.role == role), None)


def joined(earlier: Mapping[str, str], later: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a conversation: the latest, but the errors of any trace, and the user's first message."""
    found = {**earlier, **later}
    kept = [name for name, text in later.items() if text == NO_ERROR and name.startswith(TOOL_ERRORS)]
    for name in (MESSAGE_SIZE, MESSAGE_FORM, *kept):
        if name in earlier:
            found[name] = earlier[name]
    return found


def of_tool(properties: Mapping[str, str], tool: str) -> dict[str, str]:
    """Return the properties that may explain the scores of a tool, without properties of other tools."""
    end = f" {tool}"
    return {
        name: value
        for name, value in properties.items()
        if " " not in name or name.endswith(end) or name.startswith(SCOPE_VERSION)
    }


# The calls of a tool are mostly alike.
@lru_cache(maxsize=4096)
def _of_tool(
    tool: str, schema: str, words: str, keys: frozenset[tuple[str, type]] | None, errors: str
) -> dict[str, str]:
    typed = [f"{key}:{_TYPES.get(kind, 'null')}" for key, kind in keys or ()]
    shape = "unreadable" if keys is None else _short(typed)
    texts = {TOOL_SCHEMA: schema, TOOL_DESCRIPTION: words, TOOL_ARGUMENTS: shape, TOOL_ERRORS: errors}
    return {f"{prop} {fit_label(tool)}": text for prop, text in texts.items() if text or prop == TOOL_ERRORS}


def _short(words: Iterable[str]) -> str:
    text = " ".join(sorted({fit_label(word) for word in words}))
    return text if len(text) <= MAX_PROPERTY else short_hash(text)
