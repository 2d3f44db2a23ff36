"""Reads which tools were on offer from the spans that show it: those of a run, or of a whole trajectory.

Every model call of a run repeats the offer, mostly as the very same object; a definition may be complete on some of them only.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import TypeAlias

from msgspec.structs import replace

from toolgauge.assemble.node import Node
from toolgauge.model.observations import ToolDefinition

# When tools were on offer, and which.
Offer: TypeAlias = tuple[int, tuple[ToolDefinition, ...]]


def new_offers(offering: Sequence[Node]) -> list[Offer]:
    """Return what was on offer, and when, without the repetitions: every model call of a run has the offer again."""
    index: list[Offer] = []
    newest: tuple[ToolDefinition, ...] | None = None
    for node in offering:
        for offer in node.offers:
            if offer.tools != newest:
                newest = offer.tools
                index.append((node.time_ns, newest))
    return index


def tools_of(offers: Sequence[Offer]) -> tuple[ToolDefinition, ...] | None:
    """Return all tools on offer, each once, with the first description and schema that was recorded."""
    tools: dict[str, ToolDefinition] = {}
    for _, offered in offers:
        for tool in offered:
            known = tools.get(tool.name)
            tools[tool.name] = tool if known is None else _complete(known, tool)
    return tuple(tools.values()) if offers else None


def offer_turns(offers: Sequence[Offer], turns_ns: Sequence[int]) -> dict[str, int]:
    """Return the first turn of calls that could know of each tool."""
    first: dict[str, int] = {}
    for time_ns, offered in offers:
        turn = bisect_left(turns_ns, time_ns)
        for tool in offered:
            first.setdefault(tool.name, turn)
    return first


def _complete(known: ToolDefinition, other: ToolDefinition) -> ToolDefinition:
    if known.description is not None and known.parameters is not None:
        return known
    return replace(
        known,
        description=known.description if known.description is not None else other.description,
        parameters=known.parameters if known.parameters is not None else other.parameters,
    )
