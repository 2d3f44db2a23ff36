"""When something may become due: a heap with entries that are moved lazily.

Every span moves the due time of its trace; looking at 20,000 open traces on each tick, or moving heap
entries on each span, would cost more than assembling.
"""

from collections.abc import Callable
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from itertools import islice

_ID_BYTES = 16
# Looking for the front of a table passes over all that was taken from there: so much of it is taken at a time.
_AT_A_TIME = 16


class ClosedIds:
    """Remembers ids for `keep_ns` after they were last heard of, and never more than `capacity` of them."""

    def __init__(self, capacity: int, keep_ns: int) -> None:
        self._capacity = capacity
        self._keep_ns = keep_ns
        # Closed at, and for what came late, closed at and heard of at; the least recently heard of first.
        self._closed: dict[bytes, int | tuple[int, int]] = {}
        self._forget_at_ns: int | None = None

    def add(self, closed_id: str, now_ns: int) -> None:
        """Remember that something was closed."""
        self._forget(now_ns)
        key = _compact(closed_id)
        self._closed.pop(key, None)
        self._closed[key] = now_ns
        if len(self._closed) > self._capacity:
            for oldest in list(islice(self._closed, self._capacity // _AT_A_TIME + 1)):
                del self._closed[oldest]

    def restore(self, closed_id: str, closed_ns: int, now_ns: int) -> None:
        """Remember on from now what an earlier process closed."""
        self.add(closed_id, now_ns)
        self._closed[_compact(closed_id)] = (closed_ns, now_ns)

    def remove(self, closed_id: str) -> None:
        """Forget that something was closed."""
        self._closed.pop(_compact(closed_id), None)

    def holds(self, closed_id: str, now_ns: int) -> bool:
        """Return whether it is known to be closed."""
        entry = self._closed.get(_compact(closed_id)) if self._closed else None
        return entry is not None and now_ns - _heard_ns(entry) <= self._keep_ns

    def late_by_ns(self, closed_id: str, now_ns: int) -> int | None:
        """Return how long ago it was closed, and remember it on: who is late once may be late again."""
        if not self.holds(closed_id, now_ns):
            return None
        key = _compact(closed_id)
        entry = self._closed.pop(key)
        closed_ns = entry if isinstance(entry, int) else entry[0]
        self._closed[key] = (closed_ns, now_ns)
        return now_ns - closed_ns

    def _forget(self, now_ns: int) -> None:
        if self._forget_at_ns is not None and now_ns < self._forget_at_ns:
            return
        expired: list[bytes] = []
        oldest_ns = now_ns
        for key, entry in self._closed.items():
            heard_ns = _heard_ns(entry)
            if now_ns - heard_ns <= self._keep_ns:
                oldest_ns = heard_ns
                break
            expired.append(key)
        for key in expired:
            del self._closed[key]
        self._forget_at_ns = max(oldest_ns + self._keep_ns, now_ns + self._keep_ns // _AT_A_TIME) + 1


def _heard_ns(entry: int | tuple[int, int]) -> int:
    return entry if isinstance(entry, int) else entry[1]


def _compact(closed_id: str) -> bytes:
    """Return 16 bytes that stand for the id: a trace id's own, else a digest."""
    if len(closed_id) == 2 * _ID_BYTES:
        try:
            raw = bytes.fromhex(closed_id)
        except ValueError:
            raw = b""
        # Conversations choose their ids: letters in capitals are another id.
        if raw.hex() == closed_id:
            return raw
    return blake2b(closed_id.encode("utf-8", "surrogatepass"), digest_size=_ID_BYTES).digest()


_MOSTLY_STALE = 4
_ALLOWED_STALE = 1000


class Schedule:
    """Keys by the time at which they are due; `due_of` returns the true time of a key, `None` when it is gone.

    Of keys that are due at the same moment the one that was noted first comes first: turns of a conversation that arrive together
    close in their order.
    """

    def __init__(self, due_of: Callable[[str], int | None]) -> None:
        self._due_of = due_of
        self._heap: list[tuple[int, int, str]] = []
        # The entry in the heap that counts for a key, which is never later than the true time, and the key's number.
        self._entry: dict[str, tuple[int, int]] = {}
        self._notes = 0

    def note(self, key: str, due_ns: int) -> None:
        """Note that a key may be due at this time; a later time than noted before is ignored."""
        entry = self._entry.get(key)
        if entry is None:
            self._notes += 1
        if entry is None or due_ns < entry[0]:
            self._note(key, due_ns, self._notes if entry is None else entry[1])

    def _note(self, key: str, due_ns: int, number: int) -> None:
        self._entry[key] = (due_ns, number)
        heappush(self._heap, (due_ns, number, key))
        if len(self._heap) > _MOSTLY_STALE * len(self._entry) + _ALLOWED_STALE:
            self._drop_stale()

    def next_due_ns(self) -> int | None:
        """Return when the first key is due."""
        while self._heap:
            entry_ns, number, key = self._heap[0]
            if self._entry.get(key) != (entry_ns, number):
                heappop(self._heap)
                continue
            due_ns = self._due_of(key)
            if due_ns is not None and due_ns <= entry_ns:
                return due_ns
            heappop(self._heap)
            del self._entry[key]
            if due_ns is not None:
                self._note(key, due_ns, number)
        return None

    def pop_due(self, now_ns: int) -> str | None:
        """Take away the first key if it is due."""
        due_ns = self.next_due_ns()
        if due_ns is None or due_ns > now_ns:
            return None
        key = heappop(self._heap)[2]
        del self._entry[key]
        return key

    def forget(self, key: str) -> None:
        """Drop a key; its entry in the heap goes when its time comes, or when too many such entries wait."""
        self._entry.pop(key, None)

    def _drop_stale(self) -> None:
        # A trace that ended waits no longer for the parent it lacked, but the time of that wait is in the heap.
        self._heap = [(*entry, key) for key, entry in self._entry.items()]
        heapify(self._heap)
