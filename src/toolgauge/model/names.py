"""Removes parts that change with each run from names, as in `Agent-140234567890`, and compares names of tools.

Streams, metric series and pages are kept by the names of services, agents and tools: with an id in it, each run has its own. Servers,
gateways and providers' limits change how one and the same tool is called: an MCP server's `find_order` is `mcp__crm__find_order`,
`crm.find_order` or `crm-find_order` to the model, with other characters replaced, and cut at 64.
"""

import re
from collections.abc import Callable, Iterable
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


# Names this long are not names.
_LONGEST = 256
# Providers and gateways cut names at 60 to 64 characters.
_LEAST_CUT, _LONGEST_CUT = 56, 64
# So much of a name that was cut is needed to tell it from others.
_LEAST_LEFT, _LEAST_TAIL = 4, 16
# The Gemini CLI leaves out the middle.
_LEFT_OUT = "___"
_BETWEEN, _REPLACED = re.compile(r"[\W_]+"), re.compile(r"[^A-Za-z0-9]+")
# Between the name of a server and that of its tool; a single `_` separates words as well.
_OF_SERVER = re.compile(r"__|[./:-]")
_MCP = re.compile(r"mcp(?![A-Za-z0-9])", re.IGNORECASE)
# At the end of a name that was cut, so that two such names differ.
_HASH = re.compile(r"[^A-Za-z0-9]?(?=[0-9A-Za-z]{0,11}[0-9])[0-9A-Za-z]{4,12}$")


def fold_name(name: str) -> str:
    """Reduce a tool name to what all spellings of it share (`Delegate work` and `delegate_work`)."""
    folded = name.casefold()
    return folded if folded.isalnum() else _BETWEEN.sub("", folded) or name


def is_same_tool(one: str, other: str, *, loosely: bool = False) -> bool:
    """Return whether two names may be of one tool: they differ in spelling, in a server's prefix, or one was cut.

    `loosely`: a single `_` may end a prefix as well (`crm_find_order`), which some evidence beside the names has to show.
    """
    is_replaced = one.isascii() != other.isascii()
    return one == other or _is_same(one, other, _bare if is_replaced else fold_name, loosely=loosely)


def known_as(name: str, offered: Iterable[str]) -> str | None:
    """Return the first tool on offer that is called so by a server, a gateway or a limit; other letters are another tool."""
    return next((one for one in offered if _is_same(name, one, _replaced)), None)


def _bare(name: str) -> str:
    return _REPLACED.sub("", name).casefold()


def _replaced(name: str) -> str:
    return _REPLACED.sub("_", name)


@lru_cache(maxsize=4096)
def _is_same(one: str, other: str, spelled: Callable[[str], str], *, loosely: bool = False) -> bool:
    if not one or not other or len(one) > _LONGEST or len(other) > _LONGEST:
        return False
    if not (one.isascii() or other.isascii()):
        spelled = fold_name
    first, second = spelled(one), spelled(other)
    if first == second:
        return True
    for name, written, tool in ((one, first, second), (other, second, first)):
        if written.endswith(tool) and _is_behind_prefix(name, tool, spelled, loosely=loosely):
            return True
        if _LEAST_CUT <= len(name) <= _LONGEST_CUT and _is_cut(name, tool, spelled):
            return True
    return False


def _is_behind_prefix(name: str, tool: str, spelled: Callable[[str], str], *, loosely: bool) -> bool:
    for between in _BETWEEN.finditer(name):
        if between.start() and spelled(name[between.end() :]) == tool:
            return loosely or _MCP.match(name) is not None or _OF_SERVER.search(between[0]) is not None
    return False


def _is_cut(name: str, tool: str, spelled: Callable[[str], str]) -> bool:
    """Return whether the name is that of the tool, behind a prefix or not, cut to a provider's limit."""
    _, middle, tail = name.rpartition(_LEFT_OUT)
    if middle and len(tail) >= _LEAST_TAIL and tool.endswith(spelled(tail)):
        return True
    hashed = _HASH.search(name)
    for left in (name,) if hashed is None else (name, name[: hashed.start()]):
        for place in (0, *(between.end() for between in _BETWEEN.finditer(left))):
            rest = spelled(left[place:])
            if len(rest) >= _LEAST_LEFT and tool.startswith(rest) and (len(rest) < len(tool) or left is not name):
                return True
    return False
