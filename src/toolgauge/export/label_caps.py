"""Bounds the values of the labels of score metrics.

Names come from clients: one tool name with an id in it would fill the metrics store. A value over a cap becomes `_other` and
is counted. A service that needs a place takes it from the service that has most. Times are those of scorecards.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection
from operator import attrgetter, itemgetter
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
# Of each resource attribute of a service, so many values have series: a release beside its predecessors.
NEWEST_VALUES = 3
# A client that sends a new version with each request gets no more than these.
NEW_VALUES_AN_HOUR = 6
MAX_ERROR_TYPES = 20
_MAX_FOLDED_VALUES = 100
# Labels of the producer and of what was called: service, resource attributes, agent, tool.
Who: TypeAlias = tuple[str, ...]
# A service, and the values of its resource attributes.
Producer: TypeAlias = tuple[str | None, tuple[str | None, ...]]


class LabelSet(Struct, gc=False):
    """Labels of series but their outcomes, counted together or pass ratios would be wrong. No `rule` means tool calls."""

    who: Who
    rule: Labels
    used_ns: int


class _Name(Struct, gc=False):
    label: str
    used_ns: int
    # Labels of the services that have used it.
    services: tuple[str, ...]


class _Shares:
    """How many places each service has to itself."""

    def __init__(self) -> None:
        self._places: Counter[str] = Counter()

    def add(self, service: str, count: int) -> None:
        self._places[service] += count
        if not self._places[service]:
            del self._places[service]

    def largest(self, service: str) -> str | None:
        """Return the service with most places, when it has more than this one would have with one of them."""
        largest, most = max(self._places.items(), key=itemgetter(1), default=("", 0))
        return largest if most > self._places[service] + 1 else None


class _Names:
    """The values of one label that have series, at most `limit`."""

    def __init__(self, label: str, place: int, limit: int) -> None:
        self.label = label
        self.place = place
        self.limit = limit
        self.known: dict[str, _Name] = {}
        self.shares = _Shares()
        # Before this none of them has been idle for long enough.
        self.full_until_ns = 0

    def use(self, key: str, service: str, now_ns: int) -> _Name | None:
        """Note that a service uses the name; `None` when it has no place."""
        known = self.known.get(key)
        if known is None:
            return None
        known.used_ns = max(known.used_ns, now_ns)
        if service not in known.services:
            if len(known.services) == 1:
                self.shares.add(known.services[0], -1)
            known.services = (*known.services, service)
        return known

    def take(self, key: str, service: str, now_ns: int) -> _Name:
        self.shares.add(service, 1)
        taken = self.known[key] = _Name(fit_label(key), now_ns, (service,))
        return taken

    def give_up(self, key: str) -> str:
        """Take the place from a name; return its label."""
        gone = self.known.pop(key)
        if len(gone.services) == 1:
            self.shares.add(gone.services[0], -1)
        return gone.label


class _Newest:
    """The newest values of one resource attribute of one service, by when they were first seen."""

    def __init__(self) -> None:
        self.kept: dict[str, None] = {}
        # Older ones, with when they were last seen.
        self.folded: dict[str, int] = {}
        self.taken_ns: deque[int] = deque(maxlen=NEW_VALUES_AN_HOUR)

    def is_older(self, value: str, now_ns: int) -> bool:
        """Return whether newer values have taken its place; what was not seen for an hour is new again."""
        seen_ns = self.folded.get(value)
        if seen_ns is None or now_ns - seen_ns >= HOUR:
            return False
        self.folded[value] = now_ns
        return True

    def take(self, value: str, now_ns: int) -> str | None:
        """Keep a new value; return the one that it takes the place of."""
        self.taken_ns.append(now_ns)
        self.folded.pop(value, None)
        self.kept[value] = None
        if len(self.kept) <= NEWEST_VALUES:
            return None
        oldest = next(iter(self.kept))
        del self.kept[oldest]
        self.folded[oldest] = now_ns
        if len(self.folded) > _MAX_FOLDED_VALUES:
            del self.folded[next(iter(self.folded))]
        return oldest


class LabelCaps:
    """Decides under which labels something is counted; `on_dropped` gets the label sets that are given up."""

    def __init__(
        self, settings: MetricsSettings, registry: MetricRegistry, on_dropped: Callable[[Collection[LabelSet]], None]
    ) -> None:
        self._keys = settings.resource_attributes
        self._capped = registry.counter(
            "toolgauge.labels.capped",
            "{measurement}",
            "Measurements counted under `_other` because a cap was reached, by what was capped. "
            "Find the client whose names are not a small set, or raise the cap under `metrics`.",
            ("toolgauge.label",),
        )
        self._capped.begin(
            *((label,) for label in (SERVICE, *self._keys, AGENT, TOOL, ERROR_TYPE, LABEL_SETS, TOOL_DEFINITIONS))
        )
        registry.gauge(
            "toolgauge.labels.label_sets",
            "{label_set}",
            "Label sets in use, outcomes not counted; `metrics.max_label_sets` is the cap.",
        ).observe = lambda: {(): len(self._label_sets)}
        after = 1 + len(self._keys)
        self._services = _Names(SERVICE, 0, settings.max_services)
        self._agents = _Names(AGENT, after, settings.max_agents)
        self._tools = _Names(TOOL, after + 1, settings.max_tools)
        self._newest: dict[tuple[str, str], _Newest] = {}
        self._error_types: dict[str, set[str]] = {}
        self._max_label_sets = settings.max_label_sets
        self._label_sets: dict[tuple[Who, Labels], LabelSet] = {}
        self._shares = _Shares()
        self._full_until_ns = 0
        self._on_dropped = on_dropped

    def find(
        self, producer: Producer, agent: str | None, tool: str | None, *, rule: Labels, now_ns: int
    ) -> tuple[Who, LabelSet | None]:
        """Fit the labels; all are `_other`, and there is no label set, when that would be one over the cap."""
        service, resource = producer
        fitted = self._name(self._services, service, "", now_ns)
        who = (
            fitted,
            *(self._value(fitted, at, value, now_ns) for at, value in enumerate(resource)),
            self._name(self._agents, agent, fitted, now_ns),
            self._name(self._tools, tool, fitted, now_ns),
        )
        found = self._label_sets.get((who, rule))
        if found is None:
            if len(self._label_sets) >= self._max_label_sets and not self._give_up_label_set(fitted, now_ns):
                self._capped.add(1, (LABEL_SETS,))
                return tuple((OTHER if label else "") for label in who), None
            found = self._label_sets[who, rule] = LabelSet(who, rule, now_ns)
            self._shares.add(fitted, 1)
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
            if len(known) > MAX_ERROR_TYPES:
                self._capped.add(1, (ERROR_TYPE,))
                return OTHER_ERROR
            known.add(label)
        return label

    def forget(self, is_gone: Callable[[Labels], bool]) -> None:
        """Give up the label sets of rules that are gone."""
        self._drop([found for found in self._label_sets.values() if is_gone(found.rule)])

    def _name(self, names: _Names, raw: str | None, service: str, now_ns: int) -> str:
        if not raw:
            return ""
        # Cut before it is kept: the key must not hold a megabyte of somebody's name.
        key = raw[:MAX_LABEL]
        known = names.use(key, service, now_ns)
        if known is None:
            if len(names.known) >= names.limit and not self._give_up_name(names, service, now_ns):
                self._capped.add(1, (names.label,))
                return OTHER
            known = names.take(key, service, now_ns)
        return known.label

    def _value(self, service: str, at: int, raw: str | None, now_ns: int) -> str:
        if not raw:
            return ""
        value, key = fit_label(raw), self._keys[at]
        newest = self._newest.get((service, key)) or self._newest.setdefault((service, key), _Newest())
        if value in newest.kept:
            return value
        if newest.is_older(value, now_ns):
            return OTHER
        if len(newest.taken_ns) == NEW_VALUES_AN_HOUR and now_ns - newest.taken_ns[0] < HOUR:
            self._capped.add(1, (key,))
            return OTHER
        older = newest.take(value, now_ns)
        if older is not None:
            sets = self._label_sets.values()
            self._drop([found for found in sets if found.who[0] == service and found.who[1 + at] == older])
        return value

    def _give_up_name(self, names: _Names, service: str, now_ns: int) -> bool:
        """Give up a name for one of a service: one that was not used for an hour, or one of the service that has most."""
        largest = names.shares.largest(service)
        if not names.known or (largest is None and now_ns < names.full_until_ns):
            return False
        by_label: dict[str, int] = {}
        for found in self._label_sets.values():
            used = found.who[names.place]
            by_label[used] = max(found.used_ns, by_label.get(used, 0))
        last_ns = {key: max(name.used_ns, by_label.get(name.label, 0)) for key, name in names.known.items()}
        key = min(names.known, key=last_ns.__getitem__)
        if now_ns - last_ns[key] < HOUR:
            names.full_until_ns = last_ns[key] + HOUR
            if largest is None:
                return False
            of_largest = (key for key, name in names.known.items() if name.services == (largest,))
            key = min(of_largest, key=last_ns.__getitem__)
        label = names.give_up(key)
        if names is self._services:
            self._newest = {of: newest for of, newest in self._newest.items() if of[0] != label}
            self._error_types.pop(label, None)
        self._drop([found for found in self._label_sets.values() if found.who[names.place] == label])
        return True

    def _give_up_label_set(self, service: str, now_ns: int) -> bool:
        """Give up a label set for one of a service: one that was not used for an hour, or one of the service that has most."""
        largest = self._shares.largest(service)
        if not self._label_sets or (largest is None and now_ns < self._full_until_ns):
            return False
        oldest = min(self._label_sets.values(), key=attrgetter("used_ns"))
        if now_ns - oldest.used_ns < HOUR:
            self._full_until_ns = oldest.used_ns + HOUR
            if largest is None:
                return False
            of_largest = (found for found in self._label_sets.values() if found.who[0] == largest)
            oldest = min(of_largest, key=attrgetter("used_ns"))
        self._drop([oldest])
        return True

    def _drop(self, gone: Collection[LabelSet]) -> None:
        for found in gone:
            del self._label_sets[found.who, found.rule]
            self._shares.add(found.who[0], -1)
        if gone:
            self._on_dropped(gone)
