"""Puts the messages of a trajectory in order, each once, with the first turn of calls that could know it."""

from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import TypeAlias

from toolgauge.assemble.calls import Turn
from toolgauge.assemble.node import Node
from toolgauge.assemble.pauses import GLANCES, Pace, in_order, parts
from toolgauge.model.observations import MessageSeen
from toolgauge.model.trajectory import Message

# When, where, and what one role said there.
_Sight: TypeAlias = tuple[int, Node, list[MessageSeen]]
# So many messages are made without a pause.
_PAUSE_EVERY = 500


def messages_of(nodes: Sequence[Node], turns: Sequence[Turn], pace: Pace) -> Generator[None, None, tuple[Message, ...]]:
    """Return the messages in order of time. `nodes` and `turns` come in order of time too."""
    sights: list[_Sight] = []
    for part in parts([node for node in nodes if node.messages]):
        sights += _sights(part)
        if pace.due(len(part) // GLANCES):
            yield
    sights = yield from in_order(sights, lambda sight: sight[0], pace)
    starts = [turn.node.time_ns for turn in turns]
    messages: list[Message] = []
    for count, (time_ns, seen) in enumerate(_first_sights(sights), 1):
        messages.append(Message(role=seen.role, text=seen.text, turn=bisect_left(starts, time_ns)))
        if count % _PAUSE_EVERY == 0:
            yield
    return tuple(messages)


def _first_sights(sights: Iterable[_Sight]) -> Iterator[tuple[int, MessageSeen]]:
    """Yield each message when it was first there.

    Every model call of a run repeats the system prompt and the newest user text, and the run repeats its last
    answer; a text is new when it differs from what the same role said before it in the same run.
    """
    newest: dict[tuple[str, tuple[str, ...], str], set[str]] = {}
    for time_ns, node, together in sights:
        spoken = (node.ref.trace_id, node.agents, together[0].role)
        before = newest.get(spoken, ())
        texts: set[str] = set()
        for seen in together:
            if seen.text not in texts and seen.text not in before:
                yield time_ns, seen
            texts.add(seen.text)
        newest[spoken] = texts


def _sights(nodes: Sequence[Node]) -> Iterator[_Sight]:
    """Yield what one role said on one span: what a model reads is there at its start, what it writes at its end."""
    for node in nodes:
        by_role: dict[str, list[MessageSeen]] = {}
        for seen in node.messages:
            by_role.setdefault(seen.role, []).append(seen)
        for role, together in by_role.items():
            duration_ns = max(0, node.end_ns - node.start_ns) if role == "assistant" else 0
            yield node.time_ns + duration_ns, node, together
