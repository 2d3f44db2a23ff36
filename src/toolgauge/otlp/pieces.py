"""Joins pieces of bytes, however many.

`join` itself takes eighty bytes of memory for each piece, and lets no other thread work until all are joined: two-byte
pieces of a request of 64 MiB would take gigabytes.
"""

from collections.abc import Sequence

from toolgauge.otlp.messages import Repeated

# More than nearly everything has; joined in a fraction of a millisecond.
AT_ONCE = 4096


def joined(pieces: Sequence[bytes] | Repeated[bytes]) -> bytes:
    """Return what `b"".join` returns."""
    count = len(pieces)
    if count <= AT_ONCE:
        return b"".join(pieces)
    return b"".join([b"".join(pieces[first : first + AT_ONCE]) for first in range(0, count, AT_ONCE)])
