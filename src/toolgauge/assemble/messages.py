"""Puts the messages of a trajectory in order, each once, with the first turn of calls that could know it."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from operator import itemgetter
from typing import TypeAlias

from toolgauge.assemble.calls import Turn
from toolgauge.assemble.node import Node
from toolgauge.assemble.pauses import GLANCES, Pace, in_order, parts
from toolgauge.model.observations import MessageSeen
from toolgauge.model.trajectory import Message

# When, where, and what one role said there.
_Sight: TypeAlias = tuple[int, Node, list[MessageSeen]]
_time: Callable[[_Sight], int] = itemgetter(0)
# So many messages are made without a pause.
_PAUSE_EVERY = 500


def messages_of(nodes: Sequence[Node], turns: Sequence[Turn], pace: Pace) -> Generator[None, None, tuple[Message, ...]]:
    """Return the messages in order of time. `nodes` and `turns` come in order of time too."""
    sights: list[_Sight] = []
    for part in parts([node for node in nodes if node.messages]):
        for node in part:
            sights += _sights(node)
        if pace.due(len(part) // GLANCES):
            yield
    sights = yield from in_order(sights, _time, pace)
    starts = [turn.node.time_ns for turn in turns]
    messages: list[Message] = []
    # Every model call of a run repeats the system prompt and the newest user text, and the run repeats its last
    # answer; a text is new when it differs from what the same role said before it in the same run.
    newest: dict[tuple[str, tuple[str, ...], str], Collection[str]] = {}
    pause_at = _PAUSE_EVERY
    for time_ns, node, together in sights:
        role = together[0].role
        spoken = (node.ref.trace_id, node.agents, role)
        before = newest.get(spoken, ())
        newest[spoken] = texts = dict.fromkeys([seen.text for seen in together])
        turn = bisect_left(starts, time_ns)
        messages += [Message(role=role, text=text, turn=turn) for text in texts if text not in before]
        if len(messages) >= pause_at:
            pause_at = len(messages) + _PAUSE_EVERY
            yield
    return tuple(messages)


def _sights(node: Node) -> Iterable[_Sight]:
    """Return what each role said on a span: what a model reads is there at its start, what it writes at its end."""
    by_role: dict[str, list[MessageSeen]] = {}
    for seen in node.messages:
        by_role.setdefault(seen.role, []).append(seen)
    start_ns = node.time_ns
    end_ns = start_ns + max(0, node.end_ns - node.start_ns)
    return [(end_ns if role == "assistant" else start_ns, node, said) for role, said in by_role.items()]
