"""Puts the messages of a trajectory in order, each once, with the first turn of calls that could know it."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from toolgauge.assemble.calls import Turn
from toolgauge.assemble.node import Node
from toolgauge.model.observations import MessageSeen
from toolgauge.model.trajectory import Message


def messages_of(nodes: Sequence[Node], turns: Sequence[Turn]) -> tuple[Message, ...]:
    """Return the messages in order of time. `nodes` and `turns` come in order of time too."""
    starts = [turn.node.time_ns for turn in turns]
    return tuple(
        Message(role=seen.role, text=seen.text, turn=bisect_left(starts, time_ns))
        for time_ns, seen in _first_sights(nodes)
    )


def _first_sights(nodes: Sequence[Node]) -> Iterator[tuple[int, MessageSeen]]:
    """Yield each message when it was first there.

    Every model call of a run repeats the system prompt and the newest user text, and the run repeats its last
    answer; a text is new when it differs from what the same role said before it in the same run.
    """
    newest: dict[tuple[str, tuple[str, ...], str], set[str]] = {}
    for time_ns, node, together in sorted(_sights(nodes), key=lambda sight: sight[0]):
        spoken = (node.ref.trace_id, node.agents, together[0].role)
        before = newest.get(spoken, ())
        texts: set[str] = set()
        for seen in together:
            if seen.text not in texts and seen.text not in before:
                yield time_ns, seen
            texts.add(seen.text)
        newest[spoken] = texts


def _sights(nodes: Sequence[Node]) -> Iterator[tuple[int, Node, list[MessageSeen]]]:
    """Yield what one role said on one span: what a model reads is there at its start, what it writes at its end."""
    for node in nodes:
        by_role: dict[str, list[MessageSeen]] = {}
        for seen in node.messages:
            by_role.setdefault(seen.role, []).append(seen)
        for role, together in by_role.items():
            duration_ns = max(0, node.end_ns - node.start_ns) if role == "assistant" else 0
            yield node.time_ns + duration_ns, node, together
