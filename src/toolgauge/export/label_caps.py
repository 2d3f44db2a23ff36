"""Bounds the values of the labels of score metrics.

Names come from clients: one tool name with an id in it would fill the metrics store. A value over a cap becomes `_other` and
is counted. A service that needs a place takes it from the service that has most. Times are those of scorecards.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection
from operator import itemgetter
from typing import Generic, TypeAlias, TypeVar

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
# Of each property of runs: several models and prompts are in use at the same time.
NEWEST_RUN_VALUES = 10
# A client that sends a new version with each request gets no more than so many times these.
_AN_HOUR = 2
MAX_ERROR_TYPES = 20
_MAX_FOLDED_VALUES = 100
# Labels of the producer and of what was called: service, attributes of resource and run, agent, tool.
Who: TypeAlias = tuple[str, ...]
# A service, and the values of the attributes of its resource and of the run.
Producer: TypeAlias = tuple[str | None, tuple[str | None, ...]]


class LabelSet(Struct, gc=False):
    """Labels of series but their outcomes, counted together or pass ratios would be wrong. No `rule` means tool calls."""

    who: Who
    rule: Labels
    used_ns: int

    @property
    def services(self) -> tuple[str, ...]:
        """The label of the one service that uses it."""
        return self.who[:1]


class _Name(Struct, gc=False):
    label: str
    used_ns: int
    # Labels of the services that have used it.
    services: tuple[str, ...]


_Key = TypeVar("_Key")
_Kept = TypeVar("_Kept", _Name, LabelSet)


class _Places(Generic[_Key, _Kept]):
    """The names of one label, or the label sets, that have series: at most `limit`."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.known: dict[_Key, _Kept] = {}
        # How many places each service has to itself.
        self._own: Counter[str] = Counter()
        # Before this none of them has been idle for long enough.
        self._full_until_ns = 0

    def take(self, key: _Key, kept: _Kept) -> _Kept:
        """Take a place."""
        self.known[key] = kept
        self.count(kept, 1)
        return kept

    def give_up(self, key: _Key) -> _Kept:
        """Leave a place."""
        gone = self.known.pop(key)
        self.count(gone, -1)
        return gone

    def count(self, kept: _Kept, change: int) -> None:
        """Count a place with its service, if that is the only one that uses it."""
        if len(kept.services) == 1:
            (service,) = kept.services
            self._own[service] += change
            if not self._own[service]:
                del self._own[service]

    def to_give_up(self, service: str, now_ns: int) -> _Key | None:
        """Return what has to leave for one of a service: what was not used for an hour, else one of the service that has most."""
        largest, most = max(self._own.items(), key=itemgetter(1), default=("", 0))
        has_more = most > self._own[service] + 1
        if not self.known or (not has_more and now_ns < self._full_until_ns):
            return None
        oldest = min(self.known, key=lambda key: self.known[key].used_ns)
        used_ns = self.known[oldest].used_ns
        if now_ns - used_ns >= HOUR:
            return oldest
        self._full_until_ns = used_ns + HOUR
        if not has_more:
            return None
        of_largest = [key for key, kept in self.known.items() if kept.services == (largest,)]
        return min(of_largest, key=lambda key: self.known[key].used_ns)


class _Names(_Places[str, _Name]):
    """The values of one label that have series, and its place in `Who`."""

    def __init__(self, label: str, place: int, limit: int) -> None:
        super().__init__(limit)
        self.label = label
        self.place = place


class _Newest:
    """The newest values of one attribute of one service, at most `limit`, by when they were first seen."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.kept: dict[str, None] = {}
        # Older ones, with when they were last seen.
        self.folded: dict[str, int] = {}
        self.taken_ns: deque[int] = deque(maxlen=_AN_HOUR * limit)

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
        if len(self.kept) <= self.limit:
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
        self._keys = (*settings.resource_attributes, *settings.run_attributes)
        self._limits = [NEWEST_VALUES] * len(settings.resource_attributes) + [NEWEST_RUN_VALUES] * len(
            settings.run_attributes
        )
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
        ).observe = lambda: {(): len(self._label_sets.known)}
        after = 1 + len(self._keys)
        self._services = _Names(SERVICE, 0, settings.max_services)
        self._agents = _Names(AGENT, after, settings.max_agents)
        self._tools = _Names(TOOL, after + 1, settings.max_tools)
        self._newest: dict[tuple[str, str], _Newest] = {}
        self._error_types: dict[str, set[str]] = {}
        self._label_sets: _Places[tuple[Who, Labels], LabelSet] = _Places(settings.max_label_sets)
        self._on_dropped = on_dropped

    def find(
        self, producer: Producer, agent: str | None, tool: str | None, *, rule: Labels, now_ns: int
    ) -> tuple[Who, LabelSet | None]:
        """Fit the labels; all are `_other`, and there is no label set, when that would be one over the cap."""
        service, values = producer
        fitted = self._name(self._services, service, "", now_ns)
        who = (
            fitted,
            *(self._value(fitted, at, value, now_ns) for at, value in enumerate(values)),
            self._name(self._agents, agent, fitted, now_ns),
            self._name(self._tools, tool, fitted, now_ns),
        )
        sets = self._label_sets
        found = sets.known.get((who, rule))
        if found is None:
            if len(sets.known) >= sets.limit:
                key = sets.to_give_up(fitted, now_ns)
                if key is None:
                    self._capped.add(1, (LABEL_SETS,))
                    return tuple((OTHER if label else "") for label in who), None
                self._drop([sets.known[key]])
            found = sets.take((who, rule), LabelSet(who, rule, now_ns))
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
        self._drop([found for found in self._label_sets.known.values() if is_gone(found.rule)])

    def _name(self, names: _Names, raw: str | None, service: str, now_ns: int) -> str:
        if not raw:
            return ""
        # Cut before it is kept: the key must not hold a megabyte of somebody's name.
        key = raw[:MAX_LABEL]
        known = names.known.get(key)
        if known is None:
            if len(names.known) >= names.limit and not self._give_up_name(names, service, now_ns):
                self._capped.add(1, (names.label,))
                return OTHER
            return names.take(key, _Name(fit_label(key), now_ns, (service,))).label
        known.used_ns = max(known.used_ns, now_ns)
        if service not in known.services:
            names.count(known, -1)
            known.services = (*known.services, service)
        return known.label

    def _value(self, service: str, at: int, raw: str | None, now_ns: int) -> str:
        if not raw:
            return ""
        value, key = fit_label(raw), self._keys[at]
        newest = self._newest.get((service, key)) or self._newest.setdefault((service, key), _Newest(self._limits[at]))
        if value in newest.kept:
            return value
        if newest.is_older(value, now_ns):
            return OTHER
        if len(newest.taken_ns) == newest.taken_ns.maxlen and now_ns - newest.taken_ns[0] < HOUR:
            self._capped.add(1, (key,))
            return OTHER
        older = newest.take(value, now_ns)
        if older is not None:
            sets = self._label_sets.known.values()
            self._drop([found for found in sets if found.who[0] == service and found.who[1 + at] == older])
        return value

    def _give_up_name(self, names: _Names, service: str, now_ns: int) -> bool:
        key = names.to_give_up(service, now_ns)
        if key is None:
            return False
        label = names.give_up(key).label
        if names is self._services:
            self._newest = {of: newest for of, newest in self._newest.items() if of[0] != label}
            self._error_types.pop(label, None)
        self._drop([found for found in self._label_sets.known.values() if found.who[names.place] == label])
        return True

    def _drop(self, gone: Collection[LabelSet]) -> None:
        for found in gone:
            self._label_sets.give_up((found.who, found.rule))
        if gone:
            self._on_dropped(gone)
