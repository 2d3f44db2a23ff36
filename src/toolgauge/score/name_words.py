"""What the words of a tool's name show: that it reads, hands over, answers, thinks, waits or asks how far something is."""

import re
from collections.abc import Iterable
from functools import lru_cache

from toolgauge.score.final_answers import ANSWER_NAMES

# What a tool's name begins with when the tool only looks. Everything else may change something.
READING_VERBS = frozenset(
    (
        *("analyze", "browse", "calculate", "check", "compare", "compute", "count", "describe", "estimate", "explain"),
        *("fetch", "filter", "find", "get", "grep", "inspect", "list", "look", "lookup", "peek", "preview", "query"),
        *("read", "retrieve", "search", "show", "summarize", "think", "verify", "view"),
    )
)
# What the name of a tool begins with that hands over to another agent or to a person, ...
_HAND_OFFS = (("handoff",), ("hand", "off"), ("escalate",), ("delegate",))
# ... also in front of the agent's name, which may look like a tool's in a namespace (`transfer_to_billing.eu`).
_HAND_OFFS_TO = tuple((*words, "to") for words in (("transfer",), ("transfer", "back"), *_HAND_OFFS))
# Answering and thinking change nothing outside of the agents: the whole names of such tools. Handing over neither.
NEUTRAL_NAMES = frozenset(
    (
        *ANSWER_NAMES,
        *(("respond",), ("finish",), ("submit",), ("think",), ("plan",), ("calculate",)),
    )
)
# What the name of a tool begins with that waits, ...
_WAITING = (("wait",), ("await",), ("sleep",), ("poll",))
# ... and of one that asks how far something is, where it ends with `status`.
_ASKING = (("get",), ("check",))
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# MCP servers, agents and namespaces stand in front of a tool's own name.
_NAMESPACE = re.compile(r"__|[./:]")
READ_LENGTH = 256
MAX_KNOWN = 1000


def hands_over(name: str) -> bool:
    """Return whether the name of a tool shows that it hands over, or back, to another agent or to a person."""
    own = name_words(name)
    return begins(own, (*_HAND_OFFS, *_HAND_OFFS_TO)) or begins(_split(name[:READ_LENGTH]), _HAND_OFFS_TO)


def waits(name: str) -> bool:
    """Return whether the name of a tool shows that it waits: `wait_for_job`, `sleep`, `pollQueue`."""
    return begins(name_words(name), _WAITING)


def polls(name: str) -> bool:
    """Return whether the name shows a tool to be called again until something is done: one that waits, `get_job_status`."""
    own = name_words(name)
    return begins(own, _WAITING) or (begins(own, _ASKING) and own[-1] == "status")


def begins(words: tuple[str, ...], beginnings: Iterable[tuple[str, ...]]) -> bool:
    """Return whether the words begin with any of these."""
    return any(words[: len(beginning)] == beginning for beginning in beginnings)


def name_words(name: str) -> tuple[str, ...]:
    """Split the name of a tool into lower-case words, without its namespace."""
    return _split(_NAMESPACE.split(name[-READ_LENGTH:])[-1])


# Agents call the same few tools all day long.
@lru_cache(maxsize=MAX_KNOWN)
def _split(text: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(text))
