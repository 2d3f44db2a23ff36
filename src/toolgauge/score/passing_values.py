"""Compares results without the values that change by themselves: times, durations, counters, request ids and order.

Rule: two results are the same when they differ only in points in time and clock times, durations, counters, ids of requests,
the order of keys and the order of lists of records. A value counts as one of these by its form (`2026-01-31T09:30:00Z`,
`350 ms`, 1767225600, `attempt 3`) or by its name (`elapsed_ms`, `requestCount`, `trace_id`). A result with nothing else in
it was asked for because of that value, so it is compared as it is.
"""

import re
from collections.abc import Hashable, Iterable, Mapping

from toolgauge.model.json import Json
from toolgauge.score.equality import canonical, tagged
from toolgauge.score.patterns import Pattern

_LONGEST_NAME = 64
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# The last word of the name of a time or a duration, ...
_TIMES = frozenset(
    (
        *("age", "clock", "datetime", "duration", "elapsed", "epoch", "hours", "latency", "microseconds", "millis"),
        *("milliseconds", "minutes", "ms", "nanoseconds", "now", "ns", "sec", "seconds", "secs", "time", "timestamp"),
        *("took", "ts", "ttl", "uptime", "us", "utc"),
    )
)
# ... of a counter, also where `count`, `number` or `no` follows, ...
_COUNTERS = frozenset(
    (
        *("access", "accesses", "attempt", "attempts", "call", "calls", "count", "counter", "hit", "hits"),
        *("invocation", "invocations", "iteration", "polls", "queries", "query", "request"),
        *("requests", "retries", "retry", "seq", "sequence", "tick", "ticks", "tries", "uses", "view", "views"),
        *("visit", "visits"),
    )
)
_COUNTS = frozenset(("count", "no", "num", "number"))
# ... and the word before `id` in that of a request.
_REQUESTS = frozenset(
    ("call", "correlation", "execution", "invocation", "query", "req", "request", "response", "span", "trace")
)
_IDS = frozenset(("etag", "nonce", "requestid", "traceid", "spanid"))
_UNITS = "|".join(
    (
        *("ns", "us", "\u00b5s", "ms", "s", "secs?", "seconds?", "mins?", "minutes?", "hrs?", "hours?"),
        *("nanoseconds?", "microseconds?", "milliseconds?"),
    )
)
_CLOCK = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?(?: ?[ap]m\b)?"
_PASSING = Pattern(
    "(?i)"
    + "|".join(
        (
            # A point in time or a clock time.
            rf"\b(?:\d{{4}}-\d\d-\d\d[T ])?{_CLOCK}",
            # A duration.
            rf"\b\d+(?:\.\d+)? ?(?:{_UNITS})\b",
            # The id of a request.
            r"\b(?:call|correlation|invocation|req|request|response|span|trace)[ _-]?id\b[^\w]{0,4}[\w-]+",
            r"\breq[_-][\w-]+",
            # A counter.
            r"\b(?:attempt|call|counter|hit|query|request|retry|seq|sequence|try|view|visit)s?"
            r"(?: (?:no\.?|number|count))?[ :=#]{1,3}\d+\b",
            r"\b\d+ (?:attempts|calls|hits|queries|requests|retries|tries|views|visits)\b",
        )
    )
)
# Seconds since 1970 in 2001 and in 2128, and what else producers count them in.
_EPOCH_BEGINS, _EPOCH_ENDS = 1_000_000_000, 5_000_000_000
_EPOCH_UNITS = (1, 10**3, 10**6, 10**9)
_TIME = ("time",)
# Stands for what was removed: no character of any text.
_MARK = "\uffff"
_CONTENT = re.compile(r"[0-9A-Za-z\x80-\ufffe]")


class LastingValues:
    """Gives each result a number, and the same one to results that differ only in what changes by itself."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def number(self, result: Json) -> int:
        """Return the number of a result. Works without recursion, because spans decide how deep results are."""
        nodes: list[Json] = []
        left = [result]
        while left:
            node = left.pop()
            nodes.append(node)
            left += _members(node)
        known: dict[int, int] = {}
        has_more = False
        for node in reversed(nodes):
            key = _key(node, known)
            has_more = has_more or not (key == _TIME or isinstance(node, list | dict))
            known[id(node)] = self._numbered(key)
        return known[id(result)] if has_more else self._numbered(("whole", canonical(result)))

    def _numbered(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _members(node: Json) -> Iterable[Json]:
    if isinstance(node, dict):
        return [member for name, member in node.items() if not _is_passing(name, member)]
    return node if isinstance(node, list) else ()


def _key(node: Json, known: Mapping[int, int]) -> Hashable:
    if isinstance(node, dict):
        members = ((name, known[id(member)]) for name, member in node.items() if not _is_passing(name, member))
        return "object", frozenset(members)
    if isinstance(node, list):
        numbers = [known[id(member)] for member in node]
        # Records have no order of their own: a store returns them as it finds them.
        is_records = all(isinstance(member, dict) for member in node)
        return ("records", *sorted(numbers)) if is_records else ("list", *numbers)
    if isinstance(node, str):
        left = _PASSING.removed_from(node, _MARK.encode())
        return ("text", left) if _CONTENT.search(left) or _MARK not in left else _TIME
    is_time = isinstance(node, int | float) and any(
        _EPOCH_BEGINS * unit <= node < _EPOCH_ENDS * unit for unit in _EPOCH_UNITS
    )
    return _TIME if is_time else tuple(tagged(node))


def _is_passing(name: str, member: Json) -> bool:
    """Return whether the name shows that the value changes by itself; containers are looked into instead."""
    if isinstance(member, list | dict) or len(name) > _LONGEST_NAME:
        return False
    words = [word.lower() for word in _WORD.findall(name)]
    last, before = words[-1:], words[-2:-1]
    joined = "".join(words)
    if joined in _IDS or (last == ["id"] and not _REQUESTS.isdisjoint(before)):
        return True
    if isinstance(member, bool) or member is None:
        return False
    if not _TIMES.isdisjoint(last):
        return True
    counted = before if before and not _COUNTS.isdisjoint(last) else last
    is_counter = not _COUNTERS.isdisjoint(counted) or "ratelimit" in joined
    return is_counter and not isinstance(member, str)
