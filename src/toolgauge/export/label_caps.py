"""Bounds the values of the labels of score metrics.

Names come from clients: one tool name with an id in it would fill the metrics store. The first values have series; a value
over a cap becomes `_other` and is counted, unless there are places that were not used for an hour. Times are those of
scorecards.
"""

from collections.abc import Callable, Collection
from typing import TypeAlias

from msgspec import Struct

from toolgauge.export.results import AGENT, ERROR_TYPE, SERVICE, TOOL
from toolgauge.export.settings import MetricsSettings
from toolgauge.model.metrics import MAX_LABEL, Labels, MetricRegistry, fit_label
from toolgauge.model.observations import OTHER_ERROR
from toolgauge.settings import HOUR

OTHER = "_other"
LABEL_SETS = "label_sets"
TOOL_DEFINITIONS = "tool_definitions"
# Of each attribute of a service's resource and runs: releases, models and prompts that are in use at the same time.
_MAX_VALUES = 10
_MAX_ERROR_TYPES = 20
# Labels of the producer and of what was called: service, attributes of resource and run, agent, tool.
Who: TypeAlias = tuple[str, ...]
# A service, and the values of the attributes of its resource and of the run.
Producer: TypeAlias = tuple[str | None, tuple[str | None, ...]]


class LabelSet(Struct, gc=False):
    """Labels of series but their outcomes, counted together or pass ratios would be wrong. No `rule` means tool calls."""

    who: Who
    rule: Labels
    used_ns: int


class LabelCaps:
    """Decides under which labels something is counted; `on_dropped` gets the label sets that are given up."""

    def __init__(
        self, settings: MetricsSettings, registry: MetricRegistry, on_dropped: Callable[[Collection[LabelSet]], None]
    ) -> None:
        values = (*settings.resource_attributes, *settings.run_attributes)
        # The labels of `Who` in their order, and how many values each may have; attributes for each service.
        self._limits = (
            (SERVICE, settings.max_services),
            *((key, _MAX_VALUES) for key in values),
            (AGENT, settings.max_agents),
            (TOOL, settings.max_tools),
        )
        self._capped = registry.counter(
            "toolgauge.labels.capped",
            "{measurement}",
            "Measurements counted under `_other` because a cap was reached, by what was capped. "
            "Find the client whose names are not a small set, or raise the cap under `metrics`.",
            ("toolgauge.label",),
        )
        labels = [label for label, _ in self._limits]
        self._capped.begin(*((label,) for label in (*labels, ERROR_TYPE, LABEL_SETS, TOOL_DEFINITIONS)))
        registry.gauge(
            "toolgauge.labels.label_sets",
            "{label_set}",
            "Label sets in use, outcomes not counted; `metrics.max_label_sets` is the cap.",
        ).observe = lambda: {(): len(self._label_sets)}
        # The values that have series, by the place of their label and, of attributes, the service.
        self._known: dict[tuple[int, str], set[str]] = {}
        self._error_types: dict[str, set[str]] = {}
        self._label_sets: dict[tuple[Who, Labels], LabelSet] = {}
        self._max_label_sets = settings.max_label_sets
        # Before this, each place has been used within the hour.
        self._idle_from_ns = 0
        self._on_dropped = on_dropped

    def find(
        self, producer: Producer, agent: str | None, tool: str | None, *, rule: Labels, now_ns: int
    ) -> tuple[Who, LabelSet | None]:
        """Fit the labels; all are `_other`, and there is no label set, when that would be one over the cap."""
        service, values = producer
        names = (service, *values, agent, tool)
        who, capped = self._fitted(names)
        is_full = len(self._label_sets) >= self._max_label_sets
        if (capped or (is_full and (who, rule) not in self._label_sets)) and now_ns >= self._idle_from_ns:
            self._sweep(now_ns)
            who, capped = self._fitted(names)
        for label in capped:
            self._capped.add(1, (label,))
        found = self._label_sets.get((who, rule))
        if found is None:
            if len(self._label_sets) >= self._max_label_sets:
                self._capped.add(1, (LABEL_SETS,))
                return tuple((OTHER if label else "") for label in who), None
            found = self._label_sets[who, rule] = LabelSet(who, rule, now_ns)
        found.used_ns = max(found.used_ns, now_ns)
        return who, found

    def count_tool_definitions(self, count: int) -> None:
        """Count tools and definitions that were not compared, as there were too many."""
        self._capped.add(count, (TOOL_DEFINITIONS,))

    def error_type(self, service: str, raw: str) -> str:
        """Fit the type of an error: the first 20 of a service, by its label, then `_OTHER`; empty without one."""
        if not raw:
            return ""
        label, known = fit_label(raw), self._error_types.setdefault(service, {OTHER_ERROR})
        if label not in known:
            if len(known) > _MAX_ERROR_TYPES:
                self._capped.add(1, (ERROR_TYPE,))
                return OTHER_ERROR
            known.add(label)
        return label

    def forget(self, is_gone: Callable[[Labels], bool]) -> None:
        """Give up the label sets of rules that are gone."""
        self._drop([found for found in self._label_sets.values() if is_gone(found.rule)])

    def _fitted(self, names: tuple[str | None, ...]) -> tuple[Who, list[str]]:
        """Fit names, with the labels whose cap was reached."""
        who: list[str] = []
        capped: list[str] = []
        for place, (raw, (label, limit)) in enumerate(zip(names, self._limits, strict=True)):
            value = fit_label(raw[:MAX_LABEL]) if raw else ""
            if value:
                known = self._known.setdefault((place, who[0] if 0 < place < len(names) - 2 else ""), set())
                if value not in known and len(known) >= limit:
                    capped.append(label)
                    value = OTHER
                else:
                    known.add(value)
            who.append(value)
        return tuple(who), capped

    def _sweep(self, now_ns: int) -> None:
        """Give up the label sets that were not used for an hour, and the values that only they had."""
        self._drop([found for found in self._label_sets.values() if now_ns - found.used_ns >= HOUR])
        known: dict[tuple[int, str], set[str]] = {}
        for who in {found.who for found in self._label_sets.values()}:
            for place, value in enumerate(who):
                key = (place, who[0] if 0 < place < len(who) - 2 else "")
                if value in self._known.get(key, ()):
                    known.setdefault(key, set()).add(value)
        self._known = known
        self._idle_from_ns = HOUR + min((found.used_ns for found in self._label_sets.values()), default=now_ns)
        services = known.get((0, ""), ())
        self._error_types = {name: types for name, types in self._error_types.items() if name in services}

    def _drop(self, gone: Collection[LabelSet]) -> None:
        for found in gone:
            del self._label_sets[found.who, found.rule]
        if gone:
            self._on_dropped(gone)
