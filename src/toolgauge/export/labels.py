"""Label values of the score metrics, cleaned and capped.

Tool, agent and service names come from clients: without caps one hostile or careless client (a tool name with
an id in it) fills the metrics store. What is over a cap becomes `_other` and is counted.
"""

from collections.abc import Callable
from typing import TypeAlias

from toolgauge.export import names
from toolgauge.export.emit_settings import EmitSettings
from toolgauge.export.fit import MAX_LABEL, fit_label
from toolgauge.model.metrics import Counter, Labels, MetricRegistry

Who: TypeAlias = tuple[str, str, str]
LABEL_SETS = "label_sets"


class CappedNames:
    """The first `limit` distinct values of one label; all others are `_other`."""

    def __init__(self, label: str, limit: int, capped: Counter) -> None:
        self._label = label
        self._limit = limit
        self._capped = capped
        self._known: dict[str, str] = {}

    def fit(self, raw: str | None) -> str:
        """Clean and cap a value; empty when it is not known."""
        if not raw:
            return ""
        # Cut before it is kept: the key must not hold a megabyte of somebody's name.
        key = raw[:MAX_LABEL]
        known = self._known.get(key)
        if known is not None:
            return known
        if len(self._known) >= self._limit:
            self._capped.add(1, (self._label,))
            return names.OTHER
        known = self._known[key] = fit_label(key)
        return known


class LabelCaps:
    """Decides under which service, agent and tool something is counted."""

    def __init__(self, settings: EmitSettings, registry: MetricRegistry) -> None:
        self._capped = registry.counter(
            "toolgauge.labels.capped",
            "{measurement}",
            "Measurements counted under `_other` because a cap was reached, by what was capped. "
            "Find the client whose names are not a small set, or raise the cap under `metrics`.",
            ("label",),
        )
        registry.gauge(
            "toolgauge.labels.label_sets",
            "{label_set}",
            "Label sets in use, outcomes not counted; `metrics.max_label_sets` is the cap.",
        ).observe = lambda: {(): len(self._label_sets)}
        self._services = CappedNames(names.SERVICE, settings.max_services, self._capped)
        self._agents = CappedNames(names.AGENT, settings.max_agents, self._capped)
        self._tools = CappedNames(names.TOOL, settings.max_tools, self._capped)
        self._max_label_sets = settings.max_label_sets
        self._label_sets: set[tuple[Who, Labels]] = set()

    def who(self, service: str | None, agent: str | None, tool: str | None, stream: Labels = ()) -> Who:
        """Fit the three names; all are `_other` when they would begin a label set over the cap.

        `stream` is what else tells label sets apart. Outcomes are no part of it: all outcomes of a
        stream must be counted in the same place, or its pass ratio is wrong.
        """
        fitted = (self._services.fit(service), self._agents.fit(agent), self._tools.fit(tool))
        label_set = (fitted, stream)
        if label_set in self._label_sets:
            return fitted
        if len(self._label_sets) < self._max_label_sets:
            self._label_sets.add(label_set)
            return fitted
        self._capped.add(1, (LABEL_SETS,))
        service_label, agent_label, tool_label = fitted
        return (_folded(service_label), _folded(agent_label), _folded(tool_label))

    def are_kept(self, who: Who, stream: Labels = ()) -> bool:
        """Tell that nothing of what `who` returned was capped: the same will be returned again, and nothing counted."""
        return names.OTHER not in who and (who, stream) in self._label_sets

    def forget(self, is_gone: Callable[[Labels], bool]) -> None:
        """Give back the label sets of streams that are gone."""
        self._label_sets = {label_set for label_set in self._label_sets if not is_gone(label_set[1])}


def _folded(label: str) -> str:
    # An absent label stays absent: `_other` would make a tool of it.
    return names.OTHER if label else ""
