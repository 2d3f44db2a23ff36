"""Remembers the tools that agents are offered, and finds what changes between their runs.

A run is compared, tool by tool, with the runs of the same service, environment, agent and version, and the first one of a new
version with the version before it. Users may have different tools, versions run side by side, and instances alternate while a
release is rolled out: a definition that was seen is never reported again, and a tool is missing or new only after many runs.
Belongs to one thread and does no I/O.
"""

from collections import Counter
from math import ceil
from typing import TypeAlias

import msgspec
from msgspec import Struct

from toolgauge.model.regressions import ToolChangeKind, ToolDefinitionChange
from toolgauge.settings import HOUR
from toolgauge.watch.offers import Contract, Offer, contract, definition_of, difference

# This many runs in a row without a tool that all runs had, or with a tool that no run had.
RUNS_TO_DECIDE = 20
# The share of runs that have a tool is not believed to be larger than of so many.
_FEWEST_RUNS = 10
_MAX_VERSIONS = 3
# Definitions of one tool. More within an hour are those of single users.
_MAX_KNOWN = 6
MAX_TOOLS_OF_SERVICE = 1000
_MAX_TOOLS = 20_000

# Service, environment and agent.
AgentKey: TypeAlias = tuple[str, str, str]
_Hash: TypeAlias = str | None


class _Known(Struct, array_like=True, gc=False):
    since_ns: int
    form: bytes


class _Seen(Struct, array_like=True, gc=False):
    """A tool in the runs of a version: its definition, the runs with it, and the last of them.

    Before the `first` of them nobody could have it, 0 where that is unknown. `is_new`: none of the runs before had it.
    """

    key: str
    first: int
    runs: int
    last: int
    is_new: bool = False


class _Tool(Struct, array_like=True):
    # By the key of the contract, the oldest first; what a producer left out is filled in from the definition before it.
    known: dict[str, _Known]
    # By version.
    seen: dict[str, _Seen]
    # The key of the last definition without a place.
    refused: str = ""


class _Version(Struct, array_like=True, dict=True):
    """Runs of a version, including the runs (`before`) of the version that it came `after`; `None` for the first version."""

    runs: int
    before: int
    after: str | None
    check_at: int = RUNS_TO_DECIDE
    conversation: str = ""


class _Agent(Struct, array_like=True):
    tools: dict[str, _Tool]
    # The newest last.
    versions: dict[str, _Version]


_NONE: tuple[tuple[Contract, ...], list[_Seen]] = (), []


class ToolContracts:
    """Finds changes of tools. `changed` and `removed` hold the keys of agents that are not stored as they are."""

    def __init__(self) -> None:
        # The least recently used first.
        self._agents: dict[AgentKey, _Agent] = {}
        self._tools: Counter[str] = Counter()
        self._changes: list[ToolDefinitionChange] = []
        self._capped = 0
        self.changed: dict[AgentKey, None] = {}
        self.removed: dict[AgentKey, None] = {}

    def take(self) -> tuple[list[ToolDefinitionChange], int]:
        """Return the changes since the last call, and how many tools or definitions were not compared because of a cap."""
        taken = self._changes, self._capped
        self._changes, self._capped = [], 0
        return taken

    def add(self, offer: Offer, now_ns: int) -> None:
        """Compare what a run was offered."""
        whose = offer.service, offer.environment, offer.agent
        agent = self._agents.pop(whose, None)
        if agent is None:
            if self._tools[offer.service] >= MAX_TOOLS_OF_SERVICE:
                self._capped += len(offer.tools)
                return
            agent = _Agent({}, {})
        # Taken out and put back: the dict stays in the order of use.
        self._agents[whose] = agent
        version = agent.versions.get(offer.version) or self._begun(agent, offer)
        # Runs of one conversation have the tools of one user.
        is_counted = offer.is_whole and (not offer.conversation or offer.conversation != version.conversation)
        version.conversation = offer.conversation
        version.runs += is_counted
        runs = version.runs
        # Another run with the tools of the last one is only counted.
        kept: dict[str, tuple[tuple[Contract, ...], list[_Seen]]] = vars(version)
        tools, found = kept.get("last", _NONE)
        if tools != offer.tools:
            keys = [each.key for each in offer.tools]
            found = list[_Seen]()
            for each, key in zip(offer.tools, keys, strict=True):
                tool = agent.tools.get(each.tool)
                seen = None if tool is None else tool.seen.get(offer.version)
                if seen is None or seen.key != key:
                    seen = self._compared(agent, version, offer, each, is_counted=is_counted, now_ns=now_ns)
                if seen is not None:
                    found.append(seen)
            kept["last"] = (offer.tools, found) if [seen.key for seen in found] == keys else _NONE
        for seen in found:
            seen.runs += is_counted
            seen.last = runs
        if runs >= version.check_at:
            kept.clear()
            self._check(agent, version, offer, now_ns)

    def _compared(
        self, agent: _Agent, version: _Version, offer: Offer, new: Contract, *, is_counted: bool, now_ns: int
    ) -> _Seen | None:
        """Report how a definition differs from the one before it; return where its runs are counted, `None` without a place."""
        tool = agent.tools.get(new.tool)
        # Too large to be compared.
        self._capped += not new.form
        self.changed[offer.service, offer.environment, offer.agent] = None
        if tool is None:
            if not self._has_room(offer.service):
                self._capped += 1
                return None
            tool = agent.tools[new.tool] = _Tool({new.key: _Known(now_ns, new.form)}, {})
        seen = tool.seen.get(offer.version)
        if seen is None:
            first = version.runs - is_counted
            is_added = False
            if version.after is not None and version.runs - version.before <= RUNS_TO_DECIDE:
                # The version before it may have it since then.
                is_added = version.after not in tool.seen
                if is_added:
                    self._report(offer, new.tool, "added", None, new.schema or None, None, now_ns)
            is_new = not is_added and first >= RUNS_TO_DECIDE
            seen = _Seen(next(reversed(tool.known)), first if is_new or is_added else 0, 0, 0, is_new=is_new)
            tool.seen[offer.version] = seen
            version.check_at = min(version.check_at, version.runs + RUNS_TO_DECIDE)
        if new.lacks_only(seen.key):
            return seen
        if new.key not in tool.known:
            old, found = definition_of(tool.known[seen.key].form), definition_of(new.form)
            change = difference(old, found)
            if not _make_room(tool, new.key, now_ns):
                self._capped += change is not None
                return seen
            if change is not None:
                kind, place = change
                before = contract(new.tool, *old)
                hashes = (before.words, new.words) if kind == "wording" else (before.schema, new.schema)
                self._report(offer, new.tool, kind, *hashes, place, now_ns)
            whole = contract(new.tool, old[0] if found[0] is None else found[0], found[1] or old[1])
            tool.known[new.key] = _Known(now_ns, whole.form)
        seen.key = new.key
        return seen

    def _check(self, agent: _Agent, version: _Version, offer: Offer, now_ns: int) -> None:
        """Report tools that all recent runs lack, or have and did not have before."""
        runs = version.runs
        version.check_at = runs + RUNS_TO_DECIDE
        self.changed[offer.service, offer.environment, offer.agent] = None
        for name, tool in [*agent.tools.items()]:
            seen = tool.seen.get(offer.version)
            if seen is None:
                continue
            if seen.is_new and runs - seen.first >= RUNS_TO_DECIDE:
                seen.is_new = False
                if seen.runs < runs - seen.first:
                    seen.first = 0
                else:
                    newest = contract(name, *definition_of(tool.known[seen.key].form))
                    self._report(offer, name, "added", None, newest.schema or None, None, now_ns)
            # A tool that few runs have is missing after more of them.
            least = _FEWEST_RUNS if version.after is None else 1
            needed = ceil(RUNS_TO_DECIDE * max(seen.last - seen.first, least) / max(seen.runs, 1))
            if runs - seen.last < needed:
                version.check_at = min(version.check_at, seen.last + needed)
                continue
            newest = contract(name, *definition_of(tool.known[seen.key].form))
            self._report(offer, name, "removed", newest.schema or None, None, None, now_ns)
            self._forget(agent, offer.service, name, offer.version)

    def _report(
        self, offer: Offer, tool: str, kind: ToolChangeKind, old: _Hash, new: _Hash, path: str | None, now_ns: int
    ) -> None:
        change = ToolDefinitionChange(
            time_ns=now_ns,
            service=offer.service,
            environment=offer.environment,
            agent=offer.agent,
            version=offer.version,
            tool=tool,
            kind=kind,
            old_hash=old,
            new_hash=new,
            path=path,
        )
        self._changes.append(change)

    def _begun(self, agent: _Agent, offer: Offer) -> _Version:
        """Begin a version with the tools of the newest one."""
        newest = next(reversed(agent.versions), None)
        runs = 0 if newest is None else agent.versions[newest].runs
        version = _Version(runs, runs, newest, check_at=runs + RUNS_TO_DECIDE)
        agent.versions[offer.version] = version
        oldest = next(iter(agent.versions)) if len(agent.versions) > _MAX_VERSIONS else None
        if oldest is not None:
            del agent.versions[oldest]
        for name, tool in [*agent.tools.items()]:
            if newest is not None and (seen := tool.seen.get(newest)) is not None:
                tool.seen[offer.version] = _Seen(seen.key, seen.first, seen.runs, runs)
            if oldest is not None:
                self._forget(agent, offer.service, name, oldest)
        return version

    def _forget(self, agent: _Agent, service: str, name: str, version: str) -> None:
        """Forget a tool of a version."""
        tool = agent.tools[name]
        tool.seen.pop(version, None)
        if not tool.seen:
            del agent.tools[name]
            self._tools[service] -= 1

    def _has_room(self, service: str) -> bool:
        """Count one more tool of a service, which may take the place of agents that were not seen for long."""
        if self._tools[service] >= MAX_TOOLS_OF_SERVICE:
            return False
        self._tools[service] += 1
        while self._tools.total() > _MAX_TOOLS and len(self._agents) > 1:
            whose = next(iter(self._agents))
            gone = self._agents.pop(whose)
            self._tools[whose[0]] -= len(gone.tools)
            if not self._tools[whose[0]]:
                del self._tools[whose[0]]
            self._capped += len(gone.tools)
            self.changed.pop(whose, None)
            self.removed[whose] = None
        return True

    def dump(self, whose: AgentKey) -> bytes:
        """Write down everything about an agent."""
        return msgspec.msgpack.encode((whose, self._agents[whose]))

    def restore(self, saved: bytes) -> None:
        """Read what `dump` wrote; raise `ValueError` when it is damaged."""
        whose, agent = msgspec.msgpack.decode(saved, type=tuple[AgentKey, _Agent])
        if any(seen.key not in tool.known for tool in agent.tools.values() for seen in tool.seen.values()):
            raise ValueError("the definitions of tools are damaged")
        self._agents[whose] = agent
        self._tools[whose[0]] += len(agent.tools)


def _make_room(tool: _Tool, key: str, now_ns: int) -> bool:
    """Forget the oldest definition where there are many; False where all of them are new, or others still come and go."""
    if len(tool.known) < _MAX_KNOWN:
        return True
    oldest = next(iter(tool.known.values()))
    if now_ns - oldest.since_ns < HOUR:
        if key != tool.refused:
            tool.refused, oldest.since_ns = key, now_ns
        return False
    used = {seen.key for seen in tool.seen.values()}
    del tool.known[next(key for key in tool.known if key not in used)]
    return True
