"""Tells the run of a managed agent, which is a call of the agent above it, from a run that a program started.

smolagents writes no tool span for such a call, only the managed agent's own run.
"""

import re

from toolgauge.model.content import NOT_RECORDED, Content, Recorded
from toolgauge.model.json import JsonObject
from toolgauge.model.observations import CallExecuted
from toolgauge.model.records import Span
from toolgauge.recognize.openinference.tools import INPUT, OUTPUT, span_error
from toolgauge.recognize.values import as_object, as_str, content, result

# The manager's task is put into this prompt before the agent runs.
_MANAGED = re.compile(r"You're a helpful agent named '([^'\n]{1,256})'\.\s")
_TASK = re.compile(r"\n---\nTask:\n(.*?)\n---\n", re.DOTALL)


def managed_agent_call(span: Span) -> CallExecuted | None:
    """Return the call that the run of a managed agent is, `None` for any other run."""
    read = content(span.attributes.get(INPUT))
    given = as_object(read.value) if isinstance(read, Recorded) else {}
    prompt = as_str(given.get("task")) or ""
    managed = _MANAGED.match(prompt)
    if managed is None:
        return None
    return CallExecuted(
        name=managed[1],
        arguments=_arguments(prompt, given),
        result=result(span.attributes.get(OUTPUT)),
        error=span_error(span),
    )


def _arguments(prompt: str, given: JsonObject) -> Content:
    task = _TASK.search(prompt)
    if task is None:
        return NOT_RECORDED
    arguments: JsonObject = {"task": task[1]}
    if given.get("additional_args"):
        arguments["additional_args"] = given["additional_args"]
    return Recorded(arguments)
