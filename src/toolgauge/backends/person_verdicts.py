"""Verdicts of people that a backend keeps, as its vendor module reads them page by page."""

import re
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from toolgauge.backends.score_sender import Exchange


class PersonVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict of a person on a run, or the mark of a queued run. Without a trace it is about a conversation."""

    name: str
    label: str | bool | None = None
    value: float | None = None
    trace_id: str | None = None
    conversation_id: str | None = None


_TRACE = re.compile(r"\btrace ([0-9a-f]{32})\b")


def trace_of_mark(explanation: str) -> str | None:
    """Return the trace that the mark of a queued run names."""
    found = _TRACE.search(explanation)
    return None if found is None else found[1]


Reading: TypeAlias = Exchange[list[PersonVerdict]]
_Given: TypeAlias = str | float | bool | None


def verdict(
    name: str, given: _Given, trace_id: str | None, conversation_id: str | None = None, label: str | None = None
) -> Iterator[PersonVerdict]:
    """Yield the verdict of a value that is a number or a word; none where it is about neither trace nor conversation."""
    if not trace_id and not conversation_id:
        return
    value = float(given) if isinstance(given, int | float) and not isinstance(given, bool) else None
    word = given if isinstance(given, str | bool) else None
    yield PersonVerdict(
        name=name,
        label=label or word,
        value=value,
        trace_id=trace_id or None,
        conversation_id=None if trace_id else conversation_id,
    )
