"""Whether a reference can belong to a conversation at all: do its values occur anywhere in it?

A reference that was joined to the wrong conversation is otherwise silent: it just scores badly.
"""

from collections.abc import Iterator
from itertools import islice

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.expected import Expected
from toolgauge.model.json import Json
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.equality import Leaf
from toolgauge.score.opened_results import result_parts

# Enough to tell, and a bound for references of any size.
_MAX_VALUES = 200
_MAX_LEAVES = 100_000
# The values of so many references are kept.
_MAX_KNOWN = 256
# Where a value occurs so often only as a part of something else, it is taken for not there.
_MAX_PLACES = 10_000


class ExpectedValues:
    """The argument values of references as text, the same for trajectory after trajectory.

    Without it: 15 % more for a criterion with a reference.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        # By identity; references stay beside their values so that no other can take their place in memory.
        self._known: dict[int, tuple[Expected, tuple[str, ...]]] = {}

    def of(self, expected: Expected) -> tuple[str, ...]:
        """Return the distinct values that can be looked for, the first of them where there are many."""
        known = self._known.get(id(expected))
        if known is not None:
            return known[1]
        values = _expected_values(expected)
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known[id(expected)] = (expected, values)
        return values


class Conversation:
    """What was recorded of a trajectory, written out once for all references that are looked for in it."""

    __slots__ = ("_shares", "_text", "_trajectory", "_values")

    def __init__(self, trajectory: Trajectory, values: ExpectedValues | None = None) -> None:
        self._trajectory = trajectory
        self._values = ExpectedValues() if values is None else values
        self._text: str | None = None
        self._shares: list[tuple[Expected, float | None]] = []

    @property
    def has_messages(self) -> bool:
        """Whether anything but calls was recorded: what users and agents wrote."""
        return any(message.role != "system" for message in self._trajectory.messages)

    def share_of(self, expected: Expected) -> float | None:
        """Return the share of expected argument values that occur in it; `None` if none can be looked for.

        Text is looked for as it is, ignoring case; numbers between characters that do not continue a number. Values
        that may have been in what was cut from long texts, nobody can tell any more, are left out of the share.
        """
        for known, share in self._shares:
            if known is expected:
                return share
        share = self._share_of(expected)
        self._shares.append((expected, share))
        return share

    def _share_of(self, expected: Expected) -> float | None:
        values = self._values.of(expected)
        if not values:
            return None
        if self._text is None:
            self._text = "\n".join(_recorded_texts(self._trajectory))
        if not self._text:
            return None
        seen = unseen = 0
        for value in values:
            is_seen = _occurs(value, self._text) or self._trajectory.left_out.holds(value)
            seen += is_seen is True
            unseen += is_seen is False
        return seen / (seen + unseen) if seen or unseen else None


def _expected_values(expected: Expected) -> tuple[str, ...]:
    found = (leaf for call in expected.calls if call.args for leaf in islice(leaves(call.args), _MAX_LEAVES))
    texts = (_text(leaf) for leaf in found)
    return tuple(islice(dict.fromkeys(text for text in texts if text), _MAX_VALUES))


def _recorded_texts(trajectory: Trajectory) -> list[str]:
    texts = [message.text.casefold() for message in trajectory.messages if message.role != "system"]
    for call in trajectory.calls:
        for content in (call.arguments, call.result):
            if isinstance(content, NotRecorded):
                continue
            # Not `result_leaves`: what is asked of every value of every trajectory goes without a generator.
            stack: list[Json] = [content.value if isinstance(content, Recorded) else content.text]
            if content is call.result:
                stack = [*result_parts(stack[0])]
            left = _MAX_LEAVES
            while stack and left:
                node = stack.pop()
                if isinstance(node, dict):
                    stack += node.values()
                elif isinstance(node, list):
                    stack += node
                else:
                    left -= 1
                    text = node.strip().casefold() if isinstance(node, str) else _text(node)
                    if text:
                        texts.append(text)
    return texts


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


def leaves(value: Json) -> Iterator[Leaf]:
    """Yield the single values within a value."""
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            stack += node.values()
        elif isinstance(node, list):
            stack += node
        else:
            yield node


def _text(leaf: Json) -> str:
    return written(leaf).casefold()


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
    """Return whether a value stands somewhere in a text as it is, and not as a part of a longer word or number."""
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
    """Return whether a word or number goes on past its edge; `outward` are the next two characters beyond it."""
    if not edge.isalnum():
        return False
    if outward[:1].isalnum() or outward[:1] == "_":
        return True
    return edge.isdigit() and outward[:1] in (".", ",") and outward[1:].isdigit()
