"""Which metrics and labels an expression names: enough PromQL to compare the rules and dashboards of `deploy/` with what is served."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.deploy.files import DEPLOY, document
from tests.walk.support import Walk
from toolgauge.export.prometheus import render
from toolgauge.model.metrics import Histogram, Metric, MetricRegistry
from toolgauge.service.process import measure_process

Known: TypeAlias = Mapping[str, frozenset[str]]

# What Prometheus adds to every series, and the series that it makes itself.
OF_TARGETS = frozenset({"job", "instance"})
OF_PROMETHEUS: Known = {"up": OF_TARGETS}

_NAME = r"(?<![\w:.])[a-zA-Z_:][\w:]*"
_SELECTOR = re.compile(rf"({_NAME})?\s*\{{((?:[^}}\"]|\"(?:[^\"\\]|\\.)*\")*)\}}")
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"(?:[^\"\\]|\\.)*\"")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_RANGE = re.compile(r"\[[^\]]*\]")
_FUNCTION = re.compile(rf"{_NAME}\s*(?=\()")
_KEYWORDS = frozenset({"and", "or", "unless", "by", "without", "on", "bool", "offset", "group_left", "group_right"})


@dataclass(frozen=True, slots=True)
class Named:
    """What an expression names: metrics with the labels that they are selected by, and labels to group or match by."""

    selected: tuple[tuple[str, frozenset[str]], ...]
    grouping: frozenset[str]

    @property
    def metrics(self) -> frozenset[str]:
        return frozenset(metric for metric, _ in self.selected)


def named(expression: str) -> Named:
    """Take an expression apart."""
    selected: list[tuple[str, frozenset[str]]] = []

    def select(found: re.Match[str]) -> str:
        if found[1]:
            selected.append((found[1], frozenset(_MATCHER.findall(found[2]))))
        return " "

    rest = _RANGE.sub(" ", _SELECTOR.sub(select, expression))
    grouping = {label.strip() for labels in _GROUPING.findall(rest) for label in labels.split(",") if label.strip()}
    rest = _FUNCTION.sub(" ", _GROUPING.sub(" ", rest))
    bare = (name for name in re.findall(_NAME, rest) if name not in _KEYWORDS)
    selected += [(name, frozenset[str]()) for name in bare]
    return Named(tuple(selected), frozenset(grouping))


def unknown(expression: str, known: Known) -> Iterator[str]:
    """Yield what an expression names and is not there: metrics, and labels that a metric does not have."""
    found = named(expression)
    for metric, labels in found.selected:
        if metric not in known:
            yield metric
            continue
        for label in sorted((labels | found.grouping) - known[metric] - OF_TARGETS):
            yield f"{metric}{{{label}}}"


def recording_rules() -> list[dict[str, Any]]:
    """Read the recording rules of all groups."""
    groups = document(DEPLOY / "prometheus" / "rules.yaml")["groups"]
    return [rule for group in groups for rule in group["rules"]]


def known() -> Known:
    """All that may be asked for: what toolgauge and Prometheus have, and what is recorded, with the labels."""
    registry = Walk().registry
    measure_process(registry)
    recorded: dict[str, set[str]] = defaultdict(set)
    for rule in recording_rules():
        found = named(rule["expr"])
        of_recorded = [recorded[metric] for metric in found.metrics if metric in recorded]
        recorded[rule["record"]] |= found.grouping.union(rule.get("labels", {}), *of_recorded)
    return {**OF_PROMETHEUS, **served(registry), **{name: frozenset(labels) for name, labels in recorded.items()}}


def served(registry: MetricRegistry) -> dict[str, frozenset[str]]:
    """The series that a scrape of this registry can have, by the names that the endpoint gives them, with their labels."""
    always = _written([])
    series = dict.fromkeys(always, frozenset[str]())
    for metric in registry:
        name = next(iter(_written([metric]) - always), None)
        if name is None:  # pushed over OTLP only
            continue
        labels = frozenset(re.sub(r"\W", "_", label) for label in metric.labels)
        if isinstance(metric, Histogram):
            series |= {f"{name}_bucket": labels | {"le"}, f"{name}_sum": labels, f"{name}_count": labels}
        else:
            series[name] = labels
    return series


def _written(metrics: Iterable[Metric]) -> set[str]:
    text, _ = render(metrics, {}, accept="", start_ns=0)
    return set(re.findall(r"(?m)^# TYPE (\S+)", text.decode()))
