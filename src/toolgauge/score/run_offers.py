"""The offer that a call is judged by: that of the agent run that made it.

Agents of one trace have different tools. A manager that is judged by the offer of its worker looks as if it invented each of
its own tools.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from toolgauge.model.observations import ToolDefinition
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import OfferSource, ToolCall, Trajectory
from toolgauge.score.recent_offers import REGISTERED, REMARKS


class Offer(Struct, frozen=True, eq=False):
    """Tools on offer by name; `remark` is added to explanations where the call's own trace does not show them."""

    tools: Mapping[str, ToolDefinition]
    remark: str


class RunOffers:
    """Looks up the offers that a call is judged by.

    Rule: each agent run is judged by its own offer, else by the tools that the configuration registers, never by the offer of
    another run. The offer of the whole trajectory counts where there is one run, and for calls of which no run is known.
    """

    def __init__(self, trajectory: Trajectory) -> None:
        runs = trajectory.runs
        self._by_run: dict[SpanRef, Offer] = {
            run.span: _offer(run.tools_offered, run.offer_from) for run in runs if run.tools_offered is not None
        }
        whole, registered = trajectory.tools_offered, trajectory.registered_tools
        self._whole = () if whole is None else (_offer(whole, trajectory.offer_from),)
        self._registered = (Offer(registered, REGISTERED),) if registered else ()
        self._is_one = len(runs) == 1
        self._has_runs = bool(runs)

    def of(self, call: ToolCall) -> Sequence[Offer]:
        """Return the offers, the one that decides first; the others may complete its schemas."""
        if call.run is None or not self._has_runs:
            return (*self._whole, *self._registered)
        own = self._by_run.get(call.run)
        if own is None:
            return self._registered
        return (own, *self._whole, *self._registered) if self._is_one else (own, *self._registered)


def _offer(tools: Sequence[ToolDefinition], source: OfferSource) -> Offer:
    return Offer({tool.name: tool for tool in reversed(tools)}, REMARKS[source])
