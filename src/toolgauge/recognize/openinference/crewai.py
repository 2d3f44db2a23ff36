"""Reads what CrewAI's spans say beside the calls: the names that its tools have for a model, and the tools on offer."""

import re
import unicodedata
from collections.abc import Iterator

from toolgauge.model.content import Recorded
from toolgauge.model.json import Value
from toolgauge.model.observations import MessageSeen, ToolDefinition
from toolgauge.recognize.values import as_list, as_object, as_str, content

_DESCRIBED_NAME = re.compile(r"Tool Name: ([^\n]{1,256})\n")
_TOOL_REPR = re.compile(r"name='([^'\\]{1,256})' ")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_QUOTES = re.compile(r"['\"]")
_NOT_WORD = re.compile(r"[^a-z0-9]+")


def called_name(title: str, description: Value) -> str:
    """Return the name by which a model calls the tool that a span shows by its title."""
    told = _DESCRIBED_NAME.match(description) if isinstance(description, str) else None
    if told is not None:
        return told[1]
    return model_name(title) if " " in title else title


def model_name(title: str) -> str:
    """Derive the name for a model as CrewAI does: `Delegate work to coworker` is `delegate_work_to_coworker`."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    return _NOT_WORD.sub("_", _QUOTES.sub("", _CAMEL.sub("_", plain).lower())).strip("_")


def offered_tools(given: Value) -> tuple[ToolDefinition, ...]:
    """Read the tools of a task, each by its title and by its name for a model: releases differ in what they call."""
    read = content(given)
    tools = as_list(as_object(read.value).get("tools")) if isinstance(read, Recorded) else []
    titles = [found[1] for tool in tools if isinstance(tool, str) and (found := _TOOL_REPR.match(tool))]
    if len(titles) < len(tools):
        return ()
    names = dict.fromkeys(name for title in titles for name in (model_name(title), title))
    return tuple(ToolDefinition(name=name) for name in names if name)


def task_texts(tasks: Value) -> Iterator[MessageSeen]:
    """Read the tasks of a crew, the nearest thing to a user's text that CrewAI records."""
    read = content(tasks)
    for task in as_list(read.value) if isinstance(read, Recorded) else []:
        if text := as_str(as_object(task).get("description")):
            yield MessageSeen(role="user", text=text)
