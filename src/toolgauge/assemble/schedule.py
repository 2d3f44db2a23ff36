"""When something may become due: a heap with entries that are moved lazily.

Every span moves the due time of its trace; looking at 20,000 open traces on each tick, or moving heap
entries on each span, would cost more than assembling.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush

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
