"""Measures the texts of records in which a limit may have cut JSON.

Arrives: each JSON text that lacks its end, as it is read, and then its record. Leaves: the sizes of all long texts of the record,
also of those that no dialect reads. Several that end at one length reveal an unusual limit. Other records are not measured.
"""

import threading
from collections.abc import Iterator, Mapping
from itertools import islice

from toolgauge.model.damaged_json import SHORTEST_LIMIT, TextSize, extent, text_size
from toolgauge.model.json import Value
from toolgauge.model.records import LogRecord, Record

_MAX_TEXTS = 100
_MAX_TEXT = 1 << 17


class _Seen(threading.local):
    """Counts, for each thread, the texts that lack their end."""

    texts = 0


_seen = _Seen()


def look_for_cut(text: str) -> None:
    """Count a text if it is JSON that lacks its end."""
    if SHORTEST_LIMIT <= len(text) <= _MAX_TEXT and text[:1] in ("{", "[") and extent(text.rstrip()) == "cut":
        _seen.texts += 1


def look_at_ends(value: Value) -> None:
    """Count a text that is not read otherwise and has a first bracket without a last one."""
    if isinstance(value, str) and value[:1] in ("{", "[") and value.rstrip()[-1:] not in ("}", "]"):
        _seen.texts += 1


def cut_texts_seen() -> int:
    """Return how many texts that lack their end this thread has read."""
    return _seen.texts


def text_sizes(record: Record) -> tuple[TextSize, ...]:
    """Return the sizes of all long texts of a record, each of them once."""
    texts = (text for text in _texts(record) if SHORTEST_LIMIT <= len(text) <= _MAX_TEXT)
    return tuple(dict.fromkeys(text_size(text) for text in islice(texts, _MAX_TEXTS)))


def _texts(record: Record) -> Iterator[str]:
    yield from _texts_in(record.attributes)
    if isinstance(record, LogRecord):
        if isinstance(record.body, str):
            yield record.body
        return
    for event in record.events:
        yield from _texts_in(event.attributes)


def _texts_in(attributes: Mapping[str, Value]) -> Iterator[str]:
    # A limit cuts each text of a list by itself.
    for value in attributes.values():
        for one in value if isinstance(value, list) else (value,):
            if isinstance(one, str):
                yield one
