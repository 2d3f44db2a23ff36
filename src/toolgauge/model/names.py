"""Names without the parts that are made anew for each run, such as `Agent-140234567890`.

Streams, metric series and pages are kept by the names of services, agents and tools: with an id in it, each run has its own.
"""

import re
from functools import lru_cache

from toolgauge.model.metrics import MAX_LABEL

_DATE = r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])(?!\d)"
_ID = re.compile(
    r"[\s#@:/._-]*(?:"
    r"(?<![0-9a-z])[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}(?![0-9a-z])"
    r"|(?<![0-9a-z])0x[0-9a-f]{4,}(?![0-9a-z])"
    # Hexadecimal: digits and letters mixed, or it may be a word.
    r"|(?<![0-9a-z])(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}(?![0-9a-z])"
    rf"|(?<!\d)(?!{_DATE})(?:(?<![a-z])\d{{5,}}|\d{{7,}})(?![0-9a-z])"
    r")",
    re.IGNORECASE,
)
_EDGES = " #@:/._-()[]{}<>"
_UNNAMED = "_other"


@lru_cache(4096)
def stable_name(name: str) -> str:
    """Return a name without UUIDs, addresses, hexadecimal ids and long counters; "" where nothing else is in it."""
    cut = name[:MAX_LABEL]
    if _ID.search(cut) is None:
        return name
    return _ID.sub("", cut).strip(_EDGES)


def stable_tool(name: str) -> str:
    """Return the name under which a tool is counted; a call needs its whole name, which its definition has."""
    return stable_name(name) or _UNNAMED
