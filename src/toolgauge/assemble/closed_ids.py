"""A bounded memory of what was closed: closed is closed, whatever comes late."""

from collections import OrderedDict


class ClosedIds:
    """Remembers ids for `keep_ns` after they were last heard of, and never more than `capacity` of them."""

    def __init__(self, capacity: int, keep_ns: int) -> None:
        self._capacity = capacity
        self._keep_ns = keep_ns
        # Closed at, heard of at; the least recently heard of first.
        self._closed: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def add(self, closed_id: str, now_ns: int) -> None:
        """Remember that something was closed."""
        self._forget(now_ns)
        self._closed[closed_id] = (now_ns, now_ns)
        self._closed.move_to_end(closed_id)
        while len(self._closed) > self._capacity:
            self._closed.popitem(last=False)

    def remove(self, closed_id: str) -> None:
        """Forget that something was closed."""
        self._closed.pop(closed_id, None)

    def holds(self, closed_id: str, now_ns: int) -> bool:
        """Tell whether it is known to be closed."""
        entry = self._closed.get(closed_id)
        return entry is not None and now_ns - entry[1] <= self._keep_ns

    def late_by_ns(self, closed_id: str, now_ns: int) -> int | None:
        """Return how long ago it was closed, and remember it on: who is late once may be late again."""
        if not self.holds(closed_id, now_ns):
            return None
        closed_ns = self._closed[closed_id][0]
        self._closed[closed_id] = (closed_ns, now_ns)
        self._closed.move_to_end(closed_id)
        return now_ns - closed_ns

    def _forget(self, now_ns: int) -> None:
        while self._closed:
            oldest = next(iter(self._closed))
            if self.holds(oldest, now_ns):
                return
            del self._closed[oldest]
