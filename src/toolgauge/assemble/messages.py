"""Puts the messages of a trajectory in order, each once, with the first turn of calls that could know it."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Sequence
from operator import itemgetter
from typing import Literal, TypeAlias

from toolgauge.assemble.calls import Turn
from toolgauge.assemble.node import Node
from toolgauge.assemble.pauses import Pace, in_order, parts
from toolgauge.model.trajectory import Message

Role: TypeAlias = Literal["system", "user", "assistant"]
# When, where, and what one role said there.
_Sight: TypeAlias = tuple[int, Node, Role, Sequence[str]]
_time: Callable[[_Sight], int] = itemgetter(0)


def messages_of(nodes: Sequence[Node], turns: Sequence[Turn], pace: Pace) -> Generator[None, None, tuple[Message, ...]]:
    """Return the messages in order of time. `nodes` and `turns` come in order of time too."""
    sights: list[_Sight] = []
    for part in parts([node for node in nodes if node.messages]):
        for node in part:
            _see(node, sights)
        pace.left -= len(part)
        if pace.left < 0:
            yield pace.rest()
    sights = yield from in_order(sights, _time, pace)
    starts = [turn.node.time_ns for turn in turns]
    messages: list[Message] = []
    # Every model call of a run repeats the system prompt and the newest user text, and the run repeats its last
    # answer; a text is new when it differs from what the same role said before it in the same run.
    newest: dict[tuple[str, tuple[str, ...], Role], Collection[str]] = {}
    for time_ns, node, role, texts in sights:
        spoken = (node.ref.trace_id, node.branch.agents, role)
        before = newest.get(spoken, ())
        turn = bisect_left(starts, time_ns)
        for text in texts:
            if text not in before:
                messages.append(Message(role=role, text=text, turn=turn))
            pace.left -= 1
            if pace.left < 0:
                yield pace.rest()
        newest[spoken] = texts if len(texts) == 1 else frozenset(texts)
    return tuple(messages)


def _see(node: Node, sights: list[_Sight]) -> None:
    """Add what each role said on a span: what a model reads is there at its start, what it writes at its end."""
    by_role: dict[Role, list[str]] = {}
    for seen in node.messages:
        known = by_role.get(seen.role)
        if known is None:
            by_role[seen.role] = [seen.text]
        else:
            known.append(seen.text)
    for role, texts in by_role.items():
        duration_ns = max(0, node.end_ns - node.start_ns) if role == "assistant" else 0
        said = texts if len(texts) == 1 else list(dict.fromkeys(texts))
        sights.append((node.time_ns + duration_ns, node, role, said))
