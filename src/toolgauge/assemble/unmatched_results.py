"""Finds the answer to a call in another trace.

A model client without a span around it gives one trace a model call: the call is in one trace, and what came of it
only in the history of the next. Which of both closes first is chance, so answers are remembered beyond that.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from toolgauge.assemble.cutting import cut
from toolgauge.assemble.weight import contents_of, memory_of
from toolgauge.model.observations import CallAnswered, CallRequested, Reading

_MAX_ANSWERS = 10_000
# Most answers take one or two thousand; names may be anything.
_MAX_BYTES = 32 * 1024 * 1024
# What an answer takes beside its texts: its place in the table, with its key and the trace's id.
_ENTRY_BYTES = 650
# So many characters of a result are kept of each.
_MAX_TEXT = 1024
# No id is longer: some carry a model's thoughts along, a few thousand characters of them.
_MAX_ID = 8192


class _Remembered(Struct, frozen=True, eq=False):
    """An answer, and where it was first seen."""

    start_ns: int
    trace_id: str
    answer: CallAnswered
    size_bytes: int


class UnmatchedResults:
    """The first answer to each call, by service and call id."""

    def __init__(self, max_answers: int = _MAX_ANSWERS, max_bytes: int = _MAX_BYTES) -> None:
        self._max_answers = max_answers
        self._max_bytes = max_bytes
        self._bytes = 0
        self._known: dict[tuple[str | None, str], _Remembered] = {}

    @property
    def size_bytes(self) -> int:
        """About how much memory they take."""
        return self._bytes

    def note(self, reading: Reading) -> None:
        """Remember the answers in the history of a model call that is a trace of its own."""
        if not _is_alone(reading):
            return
        start_ns, trace_id = reading.start_ns, reading.ref.trace_id
        for seen in reading.observations:
            if type(seen) is CallAnswered and seen.call_id is not None and _is_short(seen.call_id, seen.name):
                key = (reading.service, seen.call_id)
                known = self._known.get(key)
                # Every later history repeats it: the first is remembered, whichever arrives first.
                if known is None or (start_ns, trace_id) <= (known.start_ns, known.trace_id):
                    cut_short = cut(seen, _MAX_TEXT)
                    answer = cut_short if isinstance(cut_short, CallAnswered) else seen
                    size = _size_bytes(reading.service, answer)
                    self._known[key] = _Remembered(start_ns, trace_id, answer, size)
                    self._bytes += size - (known.size_bytes if known is not None else 0)
        while len(self._known) > self._max_answers or self._bytes > self._max_bytes:
            self._bytes -= self._known.pop(next(iter(self._known))).size_bytes

    def found(self, closing: Sequence[Reading]) -> Iterator[Reading]:
        """Yield the answers that other traces hold, as log records of the spans that asked."""
        # Nearly always there are none: most model calls are within a trace that has the answers too.
        for reading in filter(_is_alone, closing) if self._known else ():
            answers = tuple(self._answers(reading))
            if answers:
                yield Reading(
                    ref=reading.ref,
                    is_log=True,
                    parent_span_id=None,
                    parent_is_remote=None,
                    start_ns=reading.end_ns,
                    end_ns=reading.end_ns,
                    service=reading.service,
                    scope=reading.scope,
                    dialect=reading.dialect,
                    status="unset",
                    observations=answers,
                    size_bytes=0,
                    resource=reading.resource,
                )

    def _answers(self, asking: Reading) -> Iterator[CallAnswered]:
        for seen in asking.observations:
            known = None
            if type(seen) is CallRequested and seen.call_id is not None:
                known = self._known.get((asking.service, seen.call_id))
            # An id that is used again was answered before: that answer is about another call.
            if known is not None and known.trace_id != asking.ref.trace_id and known.start_ns > asking.start_ns:
                yield known.answer


def _is_alone(reading: Reading) -> bool:
    return reading.parent_span_id is None and not reading.is_log


def _is_short(*names: str | None) -> bool:
    return all(name is None or len(name) <= _MAX_ID for name in names)


def _size_bytes(service: str | None, answer: CallAnswered) -> int:
    names = (service, answer.name)
    return (
        _ENTRY_BYTES + memory_of(contents_of(answer)) + sum([name.__sizeof__() for name in names if name is not None])
    )
