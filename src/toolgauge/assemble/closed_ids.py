"""A bounded memory of what was closed: closed is closed, whatever comes late.

There are a hundred thousand of them, so each is kept as 16 bytes and a time.
"""

from hashlib import blake2b
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
