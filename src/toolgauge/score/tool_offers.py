"""The tools on offer that a call is judged by: its agent run's own, or the last recorded ones.

Many producers record the tools in some traces only: the last offer of the same conversation replaces the missing one, else that of the
same service, agents and version within an hour. Rule: in a trajectory of several agent runs, only for a run with the same agent and
the same agents around it. Times are the trajectories' own. Bounded: a forgotten offer replaces none.
"""

from collections.abc import Hashable, Mapping, Sequence
from operator import attrgetter, is_
from typing import TypeAlias

from cachetools import LRUCache
from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.json import Json
from toolgauge.model.observations import ToolDefinition, Tools
from toolgauge.model.records import VERSION, SpanRef
from toolgauge.model.trajectory import OfferSource, Run, ToolCall, Trajectory
from toolgauge.settings import HOUR

# The remark in explanations about an offer from elsewhere.
REMARKS: Mapping[OfferSource, str] = {
    "trace": "",
    "conversation": " (as last recorded in this conversation)",
    "service": " (as last recorded for this service)",
}
# The remark about registered tools.
REGISTERED = " (as registered)"
_MAX_CONVERSATIONS = 5_000
_MAX_SERVICES = 500
_MAX_AGENTS = 8
_MAX_TOOLS = 1_000
# Of agents around a run: as deep as paths of agents go.
_MAX_DEPTH = 32
# Of all offers together.
_MAX_BYTES = 16 * 1024 * 1024
_BYTES_PER_VALUE = 100
_END = attrgetter("end_ns")

_Key: TypeAlias = tuple[Hashable, ...]


# `agents` of a whole are in any order, of a run from the outermost agent to its own.
class _Part(Struct, frozen=True, gc=False):
    """A part of a trajectory that has an offer of its own: a run, or the whole where there are not several."""

    run: SpanRef | None
    agents: tuple[str, ...]
    is_whole: bool
    tools: Tools | None

    def accepts(self, offer: "_Offer") -> bool:
        if not offer.agents:
            return self.is_whole or len(self.agents) == 1
        return self.agents == offer.agents or (offer.is_whole and set(self.agents) <= set(offer.agents))


class _Offer(Struct, frozen=True, gc=False):
    """An offer, and when these agents had it."""

    agents: tuple[str, ...]
    is_whole: bool
    tools_key: _Key
    start_ns: int
    end_ns: int


class RecentOffers:
    """Remembers offers and fills them in where a trajectory has none."""

    def __init__(self) -> None:
        # Tools that several offers share are kept once.
        self._tools: LRUCache[_Key, Tools] = LRUCache(_MAX_BYTES, lambda tools: tools.once(_weight))
        self._by_conversation: LRUCache[_Key, tuple[_Offer, ...]] = LRUCache(_MAX_CONVERSATIONS)
        self._by_service: LRUCache[_Key, _Offer] = LRUCache(_MAX_SERVICES)

    def completed(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory with its missing offers filled in; remember its own."""
        parts = _parts(trajectory)
        # The offer of half a run may lack tools.
        if trajectory.incomplete is None:
            # Runs of the same agents with different offers say nothing: any of them may be another agent.
            offers: dict[tuple[str, ...], set[tuple[str, ...] | None]] = {}
            for part in parts if len(parts) > 1 else ():
                offers.setdefault(part.agents, set()).add(None if part.tools is None else part.tools.names)
            for part in parts:
                is_clear = len(parts) == 1 or len(offers[part.agents]) == 1
                # A model call without tools says little about others.
                if part.tools and is_clear and len(part.tools) <= _MAX_TOOLS:
                    self._remember(trajectory, part, part.tools)
        if not self._tools:
            return trajectory
        found = {part.run: found for part in parts if part.tools is None and (found := self._found(trajectory, part))}
        if not found:
            return trajectory
        runs = list(trajectory.runs)
        for place, run in enumerate(runs):
            if run.span in found:
                tools_offered, source = found[run.span]
                runs[place] = replace(run, tools_offered=tools_offered, offer_from=source)
        if trajectory.tools_offered is not None:
            return replace(trajectory, runs=tuple(runs))
        whole, source = next(iter(found.values()))
        if len(found) > 1 or len(whole.by_name) < len(whole):
            tools = {tool.name: tool for offered, _ in reversed(found.values()) for tool in reversed(offered)}
            whole = Tools(reversed(tools.values()))
        return replace(trajectory, runs=tuple(runs), tools_offered=whole, offer_from=source)

    def _found(self, trajectory: Trajectory, part: _Part) -> tuple[Tools, OfferSource] | None:
        if trajectory.conversation_id is not None:
            known = self._by_conversation.get(_key(trajectory, trajectory.conversation_id), ())
            offers = [offer for offer in known if part.accepts(offer)]
            tools = self._tools.get(max(offers, key=_END).tools_key) if offers else None
            if tools is not None:
                return tools, "conversation"
        offer = None if trajectory.service is None else self._by_service.get(_key(trajectory, part.agents))
        tools = None if offer is None else self._tools.get(offer.tools_key)
        if offer is None or tools is None:
            return None
        apart_ns = max(trajectory.start_ns - offer.end_ns, offer.start_ns - trajectory.end_ns)
        return (tools, "service") if apart_ns <= HOUR else None

    def _remember(self, trajectory: Trajectory, part: _Part, tools: Tools) -> None:
        # By hash: each conversation has a key, which would keep the names of a thousand tools.
        tools_key = _key(trajectory, hash(tools.names))
        known = self._tools.get(tools_key)
        # The newest definitions count. A look at every schema of every trajectory would cost more than judging its calls.
        if known is not tools and (known is None or not all(map(is_, known, tools))):
            try:
                self._tools[tools_key] = tools
            except ValueError:  # they are larger than all offers together may be
                return
        offer = _Offer(part.agents, part.is_whole, tools_key, trajectory.start_ns, trajectory.end_ns)
        if trajectory.conversation_id is not None:
            key = _key(trajectory, trajectory.conversation_id)
            others = {one.agents: one for one in self._by_conversation.get(key, ())}
            latest = max(offer, others.pop(offer.agents, offer), key=_END)
            self._by_conversation[key] = (*others.values(), latest)[-_MAX_AGENTS:]
        if trajectory.service is not None:
            key = _key(trajectory, part.agents)
            self._by_service[key] = max(offer, self._by_service.get(key, offer), key=_END)


def _parts(trajectory: Trajectory) -> list[_Part]:
    runs = trajectory.runs
    if len(runs) <= 1:
        run, tools = runs[0].span if runs else None, trajectory.tools_offered
        return [_Part(run, trajectory.agents, is_whole=True, tools=None if tools is None else Tools.of(tools))]
    by_span = {run.span: run for run in runs}
    parts: list[_Part] = []
    for run in runs:
        # From its own agent to the outermost; "" stands for one without a name.
        agents: list[str] = []
        at: Run | None = run
        while at is not None and len(agents) < _MAX_DEPTH:
            agents.append(at.agent or "")
            at = None if at.above is None else by_span.get(at.above)
        tools = None if run.tools_offered is None else Tools.of(run.tools_offered)
        parts.append(_Part(run.span, tuple(reversed(agents)), is_whole=False, tools=tools))
    return parts


def _key(trajectory: Trajectory, *of: Hashable) -> _Key:
    return trajectory.service, trajectory.resource.get(VERSION), *of


def _weight(tools: Tools) -> int:
    """Estimate the memory of an offer, hardly further than the bound."""
    size = 0
    level: list[Json] = [part for tool in tools for part in (tool.name, tool.description, tool.parameters)]
    while level and size <= _MAX_BYTES:
        size += _BYTES_PER_VALUE * len(level)
        inner: list[Json] = []
        for value in level:
            if type(value) is str:
                size += len(value)
            elif type(value) is dict:
                inner += (*value, *value.values())
            elif type(value) is list:
                inner += value
        level = inner
    return size


class Offer(Struct, frozen=True, eq=False, gc=False):
    """Tools on offer by name; `remark` is added to explanations where the call's own trace does not show them."""

    tools: Mapping[str, ToolDefinition]
    remark: str


# Rule: each agent run is judged by its own offer, else by registered tools, never by the offer of another run. The offer of the
# whole trajectory counts where there is one run, and for calls of which no run is known.
class RunOffers:
    """Looks up the offers that a call is judged by."""

    def __init__(self, trajectory: Trajectory) -> None:
        runs = trajectory.runs
        self._by_run: dict[SpanRef, Offer] = {
            run.span: Offer(Tools.of(run.tools_offered).by_name, REMARKS[run.offer_from])
            for run in runs
            if run.tools_offered is not None
        }
        whole, registered = trajectory.tools_offered, trajectory.registered_tools
        self._registered = (Offer(registered, REGISTERED),) if registered else ()
        self._all = self._registered
        if whole is not None:
            self._all = (Offer(Tools.of(whole).by_name, REMARKS[trajectory.offer_from]), *self._registered)
        self._runs = len(runs)

    def of(self, call: ToolCall) -> Sequence[Offer]:
        """Return the offers: the first decides, the others may complete its schemas."""
        if call.run is None or not self._runs:
            return self._all
        own = self._by_run.get(call.run)
        return self._registered if own is None else (own, *(self._all if self._runs == 1 else self._registered))
