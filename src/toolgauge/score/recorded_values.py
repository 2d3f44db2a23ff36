"""The values that a trajectory recorded: in content blocks of MCP servers, in all its texts, and without transient ones.

Rule for equal results: they differ only in times, durations, counters, request ids, the order of keys and of lists of records. A
value is one of these by its form (`350 ms`, `attempt 3`) or its name (`elapsed_ms`, `trace_id`). A result that holds nothing
else was asked for because of it, and is compared as it is.
"""

import re
from collections.abc import Hashable, Iterator, Mapping
from itertools import islice

from cachetools import LRUCache

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, Leaf, canonical, is_large, leaves
from toolgauge.model.mcp_results import block_value, mcp_result
from toolgauge.model.trajectory import Trajectory
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
        *("invocation", "invocations", "iteration", "offset", "page", "polls", "queries", "query", "request"),
        *("requests", "retries", "retry", "seq", "sequence", "tick", "ticks", "tries", "uses", "view", "views"),
        *("visit", "visits"),
    )
)
_COUNTS = frozenset(("count", "no", "num", "number"))
# ... and the word before `id` in that of a request.
_REQUESTS = frozenset(
    ("call", "correlation", "execution", "invocation", "query", "req", "request", "response", "span", "trace")
)
_IDS = frozenset(
    ("cursor", "etag", "nextcursor", "nextpagetoken", "nonce", "pagetoken", "requestid", "traceid", "spanid")
)
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
_LONGEST_RESULT, _MAX_CONTENTS, _MOST = 20_000, 500, 2 / 3
_RESULT_WORD, _DIGIT = re.compile(r"[^\W_]+"), re.compile(r"\d")
_PAGES = re.compile(
    r"(?:^|[_\W])(?:next|more|pages?|scroll|poll|refresh|continue|screen|screenshot|snapshot)(?:$|[_\W])|(?<=[a-z])(?:Next|More|Page)",
    re.ASCII,
)
# Seconds since 1970 in 2001 and in 2128, and their smaller units.
_EPOCH_BEGINS, _EPOCH_ENDS = 1_000_000_000, 5_000_000_000
_EPOCH_UNITS = (1, 10**3, 10**6, 10**9)
_TIME = ("time",)
# The mark in place of removed parts: no character of any text.
_MARK = "\uffff"
_CONTENT = re.compile(r"[0-9A-Za-z\x80-\ufffe]")


def lasting(result: Json) -> int:
    """Return a hash that is equal for results with the same lasting values.

    Works without recursion, because spans decide how deep results are.
    """
    nodes: list[Json] = []
    left = [result]
    while left:
        node = left.pop()
        nodes.append(node)
        if isinstance(node, dict):
            left += [member for name, member in node.items() if not is_passing(name, member)]
        elif isinstance(node, list):
            left += node
    known: dict[int, int] = {}
    has_more = False
    for node in reversed(nodes):
        key = _key(node, known)
        has_more = has_more or not (key == _TIME or (isinstance(node, list | dict) and node))
        # Not of the key itself: -1 and -2 have the same hash.
        known[id(node)] = hash(repr(key))
    return known[id(result)] if has_more else hash(repr(canonical(result)))


class Contents:
    """What the results of identical calls held so far."""

    # Rule: a result is new content where it holds a number or an id that none before it had, or where most of its words are new. In calls
    # without arguments, and of tools that page or scroll, whatever differs is new.
    def __init__(self) -> None:
        self.hashes: set[int] = set()
        self._words: set[str] = set()

    def add(self, result: Content, content: int, call: tuple[str, Content]) -> bool:
        """Add a result, the hash of which is `content`; return whether it is new content. `call` are name and arguments."""
        texts = (
            without_passing(written(leaf)[:_LONGEST_RESULT]) for leaf in islice(result_leaves(result), _MAX_LEAVES)
        )
        words = {word for text in texts for word in _RESULT_WORD.findall(text.casefold())}
        new, name, arguments = words - self._words, *call
        is_page = _PAGES.search(name) is not None or (isinstance(arguments, Recorded) and not arguments.value)
        has_new = is_page or len(new) >= len(words) * _MOST or any(map(_DIGIT.search, new))
        is_new = content not in self.hashes and has_new
        if len(self.hashes) < _MAX_CONTENTS:
            self.hashes.add(content)
            self._words |= new
        return is_new


def _key(node: Json, known: Mapping[int, int]) -> Hashable:
    if isinstance(node, dict):
        return "object", *sorted(
            (name, known[id(member)]) for name, member in node.items() if not is_passing(name, member)
        )
    if isinstance(node, list):
        numbers = [known[id(member)] for member in node]
        # Records have no order of their own: a store returns them as it finds them.
        is_records = all(isinstance(member, dict) for member in node)
        return ("records", *sorted(numbers)) if is_records else ("list", *numbers)
    if isinstance(node, str):
        left = without_passing(node)
        return ("text", left) if _CONTENT.search(left) or _MARK not in left else _TIME
    return _TIME if is_epoch(node) else canonical(float(node) if type(node) is int and not is_large(node) else node)


def is_epoch(value: Json) -> bool:
    """Return whether a number is a point in time."""
    return isinstance(value, int | float) and any(
        _EPOCH_BEGINS * unit <= value < _EPOCH_ENDS * unit for unit in _EPOCH_UNITS
    )


def without_passing(text: str) -> str:
    """Put a mark in place of the parts of a text that change by themselves."""
    return _PASSING.removed_from(text, _MARK.encode())


def is_passing(name: str, member: Json) -> bool:
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


def result_value(result: Json) -> Json:
    """Return the value in a result: structured content, else the value of a single block, else the list of the values."""
    found = mcp_result(result)
    if found is None:
        return result
    values = list(map(block_value, found.blocks))
    content = values[0] if len(values) == 1 else values
    structured = found.structured
    if structured is None or structured == content:
        return content
    # Rule: FastMCP's `{"result": ...}` is a wrapper around a value that is not an object, or is in the blocks too.
    inner = structured["result"] if isinstance(structured, dict) and list(structured) == ["result"] else structured
    return inner if not isinstance(inner, dict) or inner == content else structured


def result_parts(result: Json) -> tuple[Json, ...]:
    """Return all values in a result, to be searched one by one; a result without content blocks is its own part."""
    found = mcp_result(result)
    if found is None:
        return (result,)
    values = list(map(block_value, found.blocks))
    return tuple(values) if found.structured is None or found.structured in values else (*values, found.structured)


# Enough to tell, and a bound for references of any size.
_MAX_VALUES = 200
_MAX_LEAVES = 100_000
# The values of so many references are kept.
_MAX_KNOWN = 256
# Where a value occurs so often only as a part of something else, it is taken for not there.
_MAX_PLACES = 10_000


class ExpectedValues:
    """The argument values of references as text. Without it: 15 % more for a criterion with a reference."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        # By identity; references stay beside their values so that no other can take their place in memory.
        self._known: LRUCache[int, tuple[Expected, tuple[str, ...]]] = LRUCache(_MAX_KNOWN)

    def of(self, expected: Expected) -> tuple[str, ...]:
        """Return the distinct values that can be looked for, the first of them where there are many."""
        known = self._known.get(id(expected))
        if known is not None:
            return known[1]
        found = (leaf for call in expected.calls if call.args for leaf in islice(leaves(call.args), _MAX_LEAVES))
        texts = (written(leaf).casefold() for leaf in found)
        values = tuple(islice(dict.fromkeys(text for text in texts if text), _MAX_VALUES))
        self._known[id(expected)] = (expected, values)
        return values


class Conversation:
    """The recorded texts of a trajectory, written out once for all references that may match."""

    __slots__ = ("_text", "_trajectory", "_values")

    def __init__(self, trajectory: Trajectory, values: ExpectedValues | None = None) -> None:
        self._trajectory = trajectory
        self._values = ExpectedValues() if values is None else values
        self._text: str | None = None

    @property
    def has_messages(self) -> bool:
        """Whether anything but calls was recorded: what users and agents wrote."""
        return any(message.role != "system" for message in self._trajectory.messages)

    def share_of(self, expected: Expected) -> float | None:
        """Return the share of expected argument values that occur in it; `None` if none can be looked for."""
        # Text is looked for as it is, ignoring case; numbers between characters that do not continue a number. Values that may have been
        # in the cut parts of long texts are left out of the share.
        values = self._values.of(expected)
        if values and self._text is None:
            texts = [message.text for message in self._trajectory.messages if message.role != "system"]
            for call in self._trajectory.calls:
                for content in (call.arguments, call.result):
                    found = map(written, islice(result_leaves(content), _MAX_LEAVES))
                    texts += filter(None, found)
            self._text = "\n".join(texts).casefold()
        seen = unseen = 0
        for value in values if self._text else ():
            is_seen = _occurs(value, self._text or "") or self._trajectory.left_out.holds(value)
            seen += is_seen is True
            unseen += is_seen is False
        return seen / (seen + unseen) if seen or unseen else None


def result_leaves(result: Content) -> Iterator[Leaf]:
    """Yield the single values of a result."""
    match result:
        case Recorded(value=value):
            for part in result_parts(value):
                yield from leaves(part)
        case Unparsed(text=text):
            yield text
        case NotRecorded():
            return


def written(leaf: Json) -> str:
    """Write a leaf as people would; "" for values that any conversation may have (true, false, null)."""
    if isinstance(leaf, str):
        return leaf.strip()
    if leaf is None or isinstance(leaf, bool) or not isinstance(leaf, int | float):
        return ""
    is_whole = isinstance(leaf, float) and leaf.is_integer()
    try:
        return str(int(leaf) if is_whole else leaf)
    except ValueError:
        # Python refuses to write out integers of thousands of digits.
        return ""


def _occurs(value: str, conversation: str) -> bool:
    start = conversation.find(value)
    if start >= 0 and not value[0].isdigit() and not value[-1].isdigit():
        return True
    while start >= 0:
        end = start + len(value)
        before = conversation[start - 1 : start] if start else ""
        # `20` does not occur in `1201`; text may begin and end anywhere.
        if not (value[0].isdigit() and before.isdigit()) and not (
            value[-1].isdigit() and conversation[end : end + 1].isdigit()
        ):
            return True
        start = conversation.find(value, end)
    return False


def occurs_alone(value: str, text: str) -> bool:
    """Return whether a text holds a value as it is, and not as a part of a longer word or number."""
    start = text.find(value)
    for _ in range(_MAX_PLACES):
        if start < 0:
            return False
        end = start + len(value)
        if not _continues(text[max(0, start - 2) : start][::-1], value[0]) and not _continues(
            text[end : end + 2], value[-1]
        ):
            return True
        start = text.find(value, start + 1)
    return False


def _continues(outward: str, edge: str) -> bool:
    """Return whether a word or number continues past its edge; `outward` are the next two characters beyond."""
    if not edge.isalnum():
        return False
    if outward[:1].isalnum() or outward[:1] == "_":
        return True
    return edge.isdigit() and outward[:1] in (".", ",") and outward[1:].isdigit()
