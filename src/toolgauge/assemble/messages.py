"""Puts the messages of a trajectory in order, each once, with the first turn of calls that could know it."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import itemgetter
from typing import Literal, TypeAlias

from toolgauge.assemble.node import Node
from toolgauge.model.trajectory import Message

Role: TypeAlias = Literal["system", "user", "assistant"]
# What each role said last in one run.
_Newest: TypeAlias = dict[Role, Collection[str]]
# When, in which run, and what one role said there.
_Sight: TypeAlias = tuple[int, _Newest, Role, list[str]]
_time: Callable[[_Sight], int] = itemgetter(0)


def messages_of(speaking: Sequence[Node], turns_ns: Sequence[int]) -> tuple[Message, ...]:
    """Return the messages in order of time. `speaking` nodes, and the turns that began at `turns_ns`, come in that order too."""
    sights: list[_Sight] = []
    by_run: dict[tuple[str, tuple[str, ...]], _Newest] = {}
    _see(speaking, by_run, sights)
    messages: list[Message] = []
    # Every model call of a run repeats the system prompt and the newest user text, and the run repeats its last
    # answer; a text is new when it differs from what the same role said before it in the same run.
    for time_ns, newest, role, texts in sorted(sights, key=_time):
        before = newest.get(role, ())
        if texts == before:
            continue
        turn = bisect_left(turns_ns, time_ns)
        distinct = dict.fromkeys(texts) if len(texts) > 1 else texts
        messages += [Message(role, text, turn) for text in distinct if text not in before]
        newest[role] = texts if len(texts) == 1 else frozenset(texts)
    return tuple(messages)


def _see(nodes: Iterable[Node], by_run: dict[tuple[str, tuple[str, ...]], _Newest], sights: list[_Sight]) -> None:
    """Add what each role said on each span: what a model reads is there at its start, what it writes at its end."""
    for node in nodes:
        newest = by_run.setdefault((node.ref.trace_id, node.branch.agents), {})
        by_role: dict[Role, list[str]] = {}
        for seen in node.messages:
            role = seen.role
            if role in by_role:
                by_role[role].append(seen.text)
            else:
                by_role[role] = texts = [seen.text]
                sights.append((node.until_ns if role == "assistant" else node.time_ns, newest, role, texts))
