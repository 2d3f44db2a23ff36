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
    ordered = sorted(_first_sights(nodes), key=lambda sight: sight[0])
    return tuple(
        Message(role=seen.role, text=seen.text, turn=bisect_left(starts, time_ns)) for time_ns, seen in ordered
    )


def _first_sights(nodes: Sequence[Node]) -> Iterator[tuple[int, MessageSeen]]:
    """Yield each message when it was first there: what a model reads at its start, what it writes at its end.

    Every model call of a run repeats the system prompt and the newest user text; a text is new when it
    differs from the one before it in the same run.
    """
    newest: dict[tuple[str, tuple[str, ...], str], set[str]] = {}
    for node in nodes:
        here: dict[tuple[str, tuple[str, ...], str], set[str]] = {}
        for seen in node.messages:
            spoken = (node.ref.trace_id, node.agents, seen.role)
            texts = here.setdefault(spoken, set())
            if seen.text not in texts and seen.text not in newest.get(spoken, ()):
                yield _time(node, seen), seen
            texts.add(seen.text)
        newest.update(here)


def _time(node: Node, seen: MessageSeen) -> int:
    if seen.role == "assistant":
        return node.time_ns + max(0, node.end_ns - node.start_ns)
    return node.time_ns
