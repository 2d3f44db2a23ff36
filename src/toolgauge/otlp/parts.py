"""One request -> one part for each worker: all spans of a trace are for the same worker.

A request that is for one worker goes on byte for byte, and nothing of it is copied. With conversation ids, the first request with
spans of a trace decides: it goes to the worker of the conversation that one of these spans shows, else to the worker of the trace
id. Later spans follow it, also those that show a conversation only then.
"""

import re
from collections.abc import Iterable, Sequence
from zlib import crc32

from msgspec import Struct

from toolgauge.model.delivery import Signal
from toolgauge.otlp.by_trace import Item, copied_items, trace_id_of
from toolgauge.otlp.envelope import encode_spans

# Beyond them the oldest are forgotten: their later spans go by trace id.
_MAX_TRACES = 100_000
# Keys and ids of up to 125 bytes, which are written with lengths of one byte.
_LONGEST = 125


class Part(Struct, frozen=True):
    """What of a request one worker is to have; `items` counts its spans or log records."""

    worker: int
    body: bytes
    items: int


class Divider:
    """Divides requests between `workers`. `conversation_keys` are the attributes that hold a conversation's id, the best first.

    Without keys, traces go by their ids alone. Belongs to one thread.
    """

    def __init__(self, workers: int, conversation_keys: Sequence[str] = ()) -> None:
        self._workers = workers
        self._searches = tuple(re.compile(_written_key(key), re.DOTALL).search for key in conversation_keys)
        # The worker of each trace that goes by its conversation, the oldest first.
        self._of_trace: dict[str, int] = {}

    @property
    def remembers(self) -> bool:
        """Whether traces go by conversations, and where they go is remembered: requests are divided on one thread then."""
        return bool(self._searches)

    def adopt(self, conversation_keys: Sequence[str]) -> None:
        """Go by these keys from here on; traces that are known stay where they are."""
        self._searches = tuple(re.compile(_written_key(key), re.DOTALL).search for key in conversation_keys)

    def divide(self, signal: Signal, body: bytes) -> list[Part]:
        """Return the parts of a request; raise `DecodeError` when its envelope is broken.

        Log records without a trace id go to one worker, and so do metrics.
        """
        if signal == "metrics":
            return [Part(0, body, 0)]
        items = [(trace_id_of(signal, item[1]), item) for item in copied_items(body)]
        if self._searches:
            self._remember_conversations(items)
        by_worker: dict[int, list[Item]] = {}
        of_trace: dict[str | None, int] = {}
        for trace_id, item in items:
            worker = of_trace.get(trace_id)
            if worker is None:
                worker = of_trace[trace_id] = self.worker_of(trace_id)
            by_worker.setdefault(worker, []).append(item)
        if len(by_worker) <= 1:
            return [Part(worker, body, len(items)) for worker in by_worker or (0,)]
        return [Part(worker, encode_spans(of), len(of)) for worker, of in by_worker.items()]

    def worker_of(self, trace_id: str | None) -> int:
        """Return which worker has the trace with this id, `None` for what belongs to no trace."""
        if trace_id is None:
            return 0
        known = self._of_trace.get(trace_id)
        return self._worker_by(trace_id.encode()) if known is None else known

    def _worker_by(self, key: bytes) -> int:
        return crc32(key) % self._workers

    def _remember_conversations(self, items: Iterable[tuple[str | None, Item]]) -> None:
        """Decide where traces go that this request brings."""
        begun: dict[str, bytes | None] = {}
        of_resource: dict[tuple[bytes, ...], bytes | None] = {}
        for trace_id, (around, raw) in items:
            if trace_id is None or trace_id in self._of_trace or begun.get(trace_id) is not None:
                continue
            found = self._conversation(raw)
            if found is None:
                if around.resource not in of_resource:
                    of_resource[around.resource] = self._conversation(b"".join(around.resource))
                found = of_resource[around.resource]
            begun[trace_id] = found
        for trace_id, conversation in begun.items():
            self._of_trace[trace_id] = self._worker_by(trace_id.encode() if conversation is None else conversation)
        while len(self._of_trace) > _MAX_TRACES:
            del self._of_trace[next(iter(self._of_trace))]

    def _conversation(self, raw: bytes) -> bytes | None:
        for search in self._searches:
            found = search(raw)
            if found is not None:
                start, size = found.end(), found[1][0]
                return raw[start : start + size]
        return None


def _written_key(key: str) -> bytes:
    """Write the pattern of an attribute with this key and a text that is not empty, whose length is the group."""
    written = key.encode()
    return b"\n" + re.escape(bytes((len(written),)) + written) + b"\x12[\x03-\x7f]\n([\x01-\x7d])"
