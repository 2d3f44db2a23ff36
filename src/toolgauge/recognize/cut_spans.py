"""Reads spans of which the producer dropped attributes or events beyond a limit, as `droppedAttributesCount` shows.

What is missing may be anything: a tool on offer, a message, an argument with an attribute of its own.
"""

import json
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.observations import CallExecuted, CallRequested, ModelCall, Observation, ToolsOffered
from toolgauge.model.records import Span


def of_cut_span(span: Span, observations: Sequence[Observation]) -> tuple[Observation, ...]:
    """Return what holds all the same: no offer, no answer that is empty, and no arguments that may lack some of them."""
    keys: Iterable[str] = getattr(span.attributes, "unordered", span.attributes)
    last_words = {key.rpartition(".")[2] for key in keys}
    whole: list[Observation] = []
    for seen in observations:
        match seen:
            case ToolsOffered():
                continue
            case ModelCall(ending="empty"):
                whole.append(replace(seen, ending=None))
            case CallRequested(arguments=arguments) | CallExecuted(arguments=arguments):
                whole.append(replace(seen, arguments=_cut(arguments, last_words)))
            case _:
                whole.append(seen)
    return tuple(whole)


def _cut(arguments: Content, last_words: set[str]) -> Content:
    """Return arguments that have one attribute each as cut off; an attribute that holds all of them is whole.

    Some dialects read an empty object where a call has no attribute for its arguments.
    """
    if not isinstance(arguments, Recorded) or not isinstance(arguments.value, dict):
        return arguments
    if not arguments.value:
        return NOT_RECORDED
    is_whole = last_words.isdisjoint(name.rpartition(".")[2] for name in arguments.value)
    return arguments if is_whole else Unparsed(json.dumps(arguments.value), "truncated")
