"""Observes the habits of agents: the tools of their conversations, the tool called before another one, the number of calls.

The first conversations of an agent show its habits, and later ones its further habits. Each habit is a stream of 0 and 1, watched like
scores. Users want other things at other hours, and so does the use of tools change: each part of a day has a baseline of its own.
Belongs to one thread and does no I/O.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from itertools import chain, repeat
from typing import TypeAlias

import msgspec
from msgspec import Struct, field

from toolgauge.model.regressions import BEFORE, CALLS, UNUSED, USED, USUAL
from toolgauge.settings import HOUR
from toolgauge.watch.open_conversations import Called, Conversation, StreamKey, Tally, Whose
from toolgauge.watch.settings import WatchSettings
from toolgauge.watch.stream import WatchedStream

# Habits are looked for after half of the observations that a baseline needs, within these bounds.
_LEAST_CONVERSATIONS, _MOST_CONVERSATIONS = 20, 500
# All streams share the promise about false alarms: an agent has habits of so many tools.
_MOST_AGENTS, _MOST_TOOLS, _MOST_WATCHED = 200, 32, 8
# The share of conversations with a habit when it is found. Below half of this share, the habit is given up.
_LEAST_SHARE: Mapping[str, float] = {USED: 0.2, UNUSED: 0.2, BEFORE: 0.95, CALLS: 0.95}
# The share of conversations with fewer calls than the usual range, and the share with more.
_OUTSIDE = 0.02
# A part of a day has as many hours as it takes for so many conversations.
_LEAST_IN_PART = 25
_HOURS = (1, 2, 3, 4, 6, 8, 12, 24)
_CRITERIA = {"used": (USED, UNUSED), "before": (BEFORE,), "calls": (CALLS,)}

# Criterion, tool and revision of a stream.
Habit: TypeAlias = tuple[str, str | None, str]
# Held until the first habits are found: people see its observations grow.
_LEARNING: Habit = USUAL, None, "1"


class _Agent(Struct, array_like=True):
    """The habits of an agent, and its conversations since `since_ns`, when habits were last looked for.

    `used` counts conversations by tool, `before` by tool and by tools called before it, `calls` by their number of calls. A part of
    the day has so many `hours`, 0 while that is unknown.
    """

    since_ns: int
    habits: list[Habit] = field(default_factory=lambda: [_LEARNING])
    hours: int = 0
    conversations: int = 0
    used: dict[str, int] = field(default_factory=dict[str, int])
    before: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    calls: dict[int, int] = field(default_factory=dict[int, int])

    def add(self, called: Called) -> None:
        """Count a conversation."""
        self.conversations += 1
        self.calls[called.calls] = self.calls.get(called.calls, 0) + 1
        earlier: list[str] = []
        for tool in called.tools:
            if tool in self.used or len(self.used) < _MOST_TOOLS:
                self.used[tool] = self.used.get(tool, 0) + 1
                before = self.before.setdefault(tool, {})
                for one in earlier:
                    before[one] = before.get(one, 0) + 1
                earlier.append(tool)

    def found(self) -> list[Habit]:
        """Return the habits that the counted conversations show, the most used tools first."""
        number, shares = self.conversations, dict[Habit, float]()
        for tool, uses in sorted(self.used.items(), key=lambda one: -one[1]):
            if uses < _LEAST_SHARE[USED] * number:
                break
            shares[USED, tool, "1"], shares[UNUSED, tool, "1"] = uses / number, 1 - uses / number
            # The last one of several tools that always come before.
            before = self.before[tool]
            for one in sorted(before, key=lambda one: (-before[one], -sum(self.before[one].values())))[:1]:
                shares[BEFORE, tool, one] = before[one] / uses
        counts = [*chain.from_iterable(repeat(count, self.calls[count]) for count in sorted(self.calls))]
        outside = int(_OUTSIDE * number)
        shares[CALLS, None, f"{counts[outside]}-{counts[-1 - outside]}"] = float(counts[-1] > 0)
        return [habit for habit, share in shares.items() if share >= _LEAST_SHARE[habit[0]]]


class Behaviour:
    """Knows the habits of each agent. `changed` and `removed` hold the agents that are not stored as they are."""

    def __init__(self, settings: WatchSettings) -> None:
        kinds = () if settings.behaviour == "off" else settings.behaviour
        self._criteria = frozenset(criterion for kind in kinds for criterion in _CRITERIA[kind])
        self._except = settings.behaviour_except
        # The least recently used first.
        self._agents: dict[Whose, _Agent] = {}
        self.changed: dict[Whose, None] = {}
        self.removed: dict[Whose, None] = {}
        # Streams of habits that were given up, and the first scores of new streams: how many are 1, and their number.
        self.dropped: list[StreamKey] = []
        self.known: dict[StreamKey, tuple[int, int]] = {}

    def observe(
        self, conversation: Conversation, needed: int, streams: Mapping[StreamKey, WatchedStream]
    ) -> dict[StreamKey, Tally]:
        """Return the observations of a conversation by stream; a baseline needs `needed` observations."""
        tallies: dict[StreamKey, Tally] = {}
        hour = conversation.opened_ns // HOUR
        for whose, called in conversation.called.items():
            if not called.is_whole or not self._criteria or self._is_excluded(whose[-1]):
                continue
            # Taken out and put back: the dict stays in the order of use.
            agent = self._agents[whose] = self._agents.pop(whose, None) or _Agent(conversation.opened_ns)
            if len(self._agents) > _MOST_AGENTS:
                self._forget(next(iter(self._agents)))
            self.changed[whose] = None
            # The epoch began on a Thursday.
            part, order = f"{(hour // 24 + 3) % 7 > 4} {hour % 24 // max(agent.hours, 1)}", [*called.tools]
            for habit in agent.habits:
                criterion, tool, revision = habit
                is_used, has_habit = tool in called.tools, True
                if criterion == CALLS:
                    low, _, high = revision.partition("-")
                    has_habit = int(low) <= called.calls <= int(high)
                elif criterion in (USED, UNUSED):
                    has_habit = is_used == (criterion == USED)
                elif tool is not None:
                    if not is_used:
                        continue
                    has_habit = revision in order[: order.index(tool)]
                score = {"" if criterion == BEFORE else part: (float(has_habit), 1)}
                tallies[_key(whose, habit)] = Tally(score, float(has_habit), called.trace_id)
            agent.add(called)
            if agent.conversations >= min(max(needed // 2, _LEAST_CONVERSATIONS), _MOST_CONVERSATIONS):
                self._look(whose, agent, conversation.opened_ns, streams)
        return tallies

    def _look(self, whose: Whose, agent: _Agent, now_ns: int, streams: Mapping[StreamKey, WatchedStream]) -> None:
        """Take up new habits of an agent, and give up habits that it no longer has."""
        for habit in [*agent.habits]:
            key = _key(whose, habit)
            one = streams[key].detector if key in streams else None
            is_known = one is not None and one.state in ("watching", "recovered")
            if habit == _LEARNING or (one and is_known and one.baseline < _LEAST_SHARE[habit[0]] / 2):
                agent.habits.remove(habit)
                self.dropped.append(key)
        has = {habit[:2] for habit in agent.habits}
        tools = {tool for _, tool, _ in agent.habits if tool is not None}
        for habit in agent.found():
            criterion, tool, revision = habit
            is_new = criterion in self._criteria and habit[:2] not in has and not self._is_excluded(tool)
            if is_new and (tool is None or tool in tools or len(tools) < _MOST_WATCHED):
                agent.habits.append(habit)
                tools.update([tool] if tool else [])
                if criterion == BEFORE and tool is not None:
                    self.known[_key(whose, habit)] = agent.before[tool][revision], agent.used[tool]
        hourly = agent.conversations * HOUR / max(now_ns - agent.since_ns, 1)
        hours = agent.hours or next((hours for hours in _HOURS if hours * hourly >= _LEAST_IN_PART), _HOURS[-1])
        self._agents[whose] = _Agent(now_ns, agent.habits, hours)

    def has(self, key: StreamKey) -> bool:
        """Return whether a stream is a habit."""
        agent = self._agents.get(key[:3])
        return agent is not None and (key[4], key[3], key[5]) in agent.habits

    def dump(self, whose: Whose) -> bytes:
        """Write down everything about an agent."""
        return msgspec.msgpack.encode((whose, self._agents[whose]))

    def restore(self, saved: bytes) -> None:
        """Read the result of `dump`, without habits that are not to be watched; raise `MsgspecError` when it is damaged."""
        whose, agent = msgspec.msgpack.decode(saved, type=tuple[Whose, _Agent])
        wanted = {USUAL, *self._criteria} if self._criteria and not self._is_excluded(whose[-1]) else ()
        agent.habits = [one for one in agent.habits if one[0] in wanted and not self._is_excluded(one[1] or "")]
        self._agents[whose] = agent

    def _is_excluded(self, name: str | None) -> bool:
        return any(fnmatchcase(name or "", glob) for glob in self._except)

    def _forget(self, whose: Whose) -> None:
        self.changed.pop(whose, None)
        self.removed[whose] = None
        for habit in self._agents.pop(whose).habits:
            self.dropped.append(_key(whose, habit))
            self.known.pop(self.dropped[-1], None)


def _key(whose: Whose, habit: Habit) -> StreamKey:
    return *whose, habit[1], habit[0], habit[2], "trajectory"
