"""Which tools were last on offer, for trajectories whose own spans do not show it.

Many producers record the tools with the first model call of a conversation, or in some of their traces only. The last offer
of the same conversation stands in, else that of the same service, agents and version within an hour. Times are those of
the trajectories, so that an older one that closes late replaces nothing. Bounded in all it keeps: where an offer had to be
forgotten, nothing stands in.
"""

from collections.abc import Hashable, Mapping, MutableMapping
from operator import is_
from typing import TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.json import Json
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.records import VERSION
from toolgauge.model.trajectory import OfferSource, Trajectory
from toolgauge.settings import HOUR

# What explanations add about an offer from elsewhere.
REMARKS: Mapping[OfferSource, str] = {
    "trace": "",
    "conversation": " (as last recorded in this conversation)",
    "service": " (as last recorded for this service)",
}
# What they add where registered tools stand in.
REGISTERED = " (as registered)"
_MAX_CONVERSATIONS = 5_000
_MAX_SERVICES = 500
_MAX_AGENTS = 8
_MAX_TOOLS = 1_000
# Of all offers together. Each is kept once for all that had it.
_MAX_BYTES = 16 * 1024 * 1024
_BYTES_PER_VALUE = 100

_Tools: TypeAlias = tuple[ToolDefinition, ...]
_Key: TypeAlias = tuple[Hashable, ...]


class _Shared(Struct):
    """An offer that many refer to; without tools once it had to be forgotten."""

    tools: _Tools | None
    size_bytes: int


class _Offer(Struct, frozen=True):
    """An offer, and when these agents had it."""

    agents: tuple[str, ...]
    shared: _Shared
    start_ns: int
    end_ns: int


class RecentOffers:
    """Remembers offers and fills them in where a trajectory has none."""

    def __init__(self) -> None:
        # All in order of use, the oldest first.
        self._shared: dict[_Key, _Shared] = {}
        self._by_conversation: dict[_Key, tuple[_Offer, ...]] = {}
        self._by_service: dict[_Key, _Offer] = {}
        self._size_bytes = 0

    def completed(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory with an offer, if any can stand in; remember the one that it has."""
        if trajectory.tools_offered is not None:
            # The offer of half a run may lack tools.
            if trajectory.incomplete is None:
                self._remember(trajectory, trajectory.tools_offered)
            return trajectory
        if not trajectory.calls:
            return trajectory
        tools = self._of_conversation(trajectory)
        if tools is not None:
            return replace(trajectory, tools_offered=tools, offer_from="conversation")
        tools = self._of_service(trajectory)
        return trajectory if tools is None else replace(trajectory, tools_offered=tools, offer_from="service")

    def _remember(self, trajectory: Trajectory, tools: _Tools) -> None:
        # A model call without tools says little about others.
        shared = self._kept(trajectory, tools) if 0 < len(tools) <= _MAX_TOOLS else None
        if shared is None:
            return
        offer = _Offer(trajectory.agents, shared, trajectory.start_ns, trajectory.end_ns)
        if trajectory.conversation_id is not None:
            key = _conversation_key(trajectory)
            known = {one.agents: one for one in self._by_conversation.get(key, ())}
            latest = _latest(offer, known.pop(offer.agents, None))
            _put(self._by_conversation, key, (*known.values(), latest)[-_MAX_AGENTS:], _MAX_CONVERSATIONS)
        if trajectory.service is not None:
            key = _service_key(trajectory)
            _put(self._by_service, key, _latest(offer, self._by_service.get(key)), _MAX_SERVICES)

    def _kept(self, trajectory: Trajectory, tools: _Tools) -> _Shared | None:
        """Keep the tools, once for all that offer the same names; the newest definitions count."""
        key = (trajectory.service, trajectory.resource.get(VERSION), *[tool.name for tool in tools])
        shared = self._shared.pop(key, None) or _Shared(None, 0)
        # A look at every schema of every trajectory would cost more than judging its calls.
        if shared.tools is None or not all(map(is_, shared.tools, tools)):
            self._size_bytes -= shared.size_bytes
            shared.tools, shared.size_bytes = tools, _weight(tools)
            self._size_bytes += shared.size_bytes
        self._shared[key] = shared
        while self._size_bytes > _MAX_BYTES:
            oldest = self._shared.pop(next(iter(self._shared)))
            self._size_bytes -= oldest.size_bytes
            oldest.tools, oldest.size_bytes = None, 0
        return shared if shared.size_bytes else None

    def _of_conversation(self, trajectory: Trajectory) -> _Tools | None:
        if trajectory.conversation_id is None:
            return None
        # What other agents had on offer says nothing about these.
        offers = [
            offer
            for offer in self._by_conversation.get(_conversation_key(trajectory), ())
            if not offer.agents or set(trajectory.agents) <= set(offer.agents)
        ]
        return max(offers, key=lambda offer: offer.end_ns).shared.tools if offers else None

    def _of_service(self, trajectory: Trajectory) -> _Tools | None:
        offer = None if trajectory.service is None else self._by_service.get(_service_key(trajectory))
        if offer is None:
            return None
        apart_ns = max(trajectory.start_ns - offer.end_ns, offer.start_ns - trajectory.end_ns)
        return offer.shared.tools if apart_ns <= HOUR else None


def _conversation_key(trajectory: Trajectory) -> _Key:
    return trajectory.service, trajectory.resource.get(VERSION), trajectory.conversation_id


def _service_key(trajectory: Trajectory) -> _Key:
    return trajectory.service, trajectory.resource.get(VERSION), trajectory.agents


def _latest(offer: _Offer, known: _Offer | None) -> _Offer:
    return known if known is not None and known.end_ns > offer.end_ns else offer


_Kept = TypeVar("_Kept")


def _put(kept: MutableMapping[_Key, _Kept], key: _Key, value: _Kept, most: int) -> None:
    """Make the entry the newest, and drop the oldest beyond the bound."""
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]


def _weight(tools: _Tools) -> int:
    """Estimate the memory of an offer, no further than the bound."""
    size = 0
    left: list[Json] = [text for tool in tools for text in (tool.name, tool.description, tool.parameters)]
    while left and size <= _MAX_BYTES:
        value = left.pop()
        size += _BYTES_PER_VALUE
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, dict):
            left += [*value, *value.values()]
        elif isinstance(value, list):
            left += value
    return size
