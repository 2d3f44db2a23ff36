"""The table of metrics about ourselves has a row for each attribute of its section."""

from typing import get_type_hints

import pytest

from toolgauge.model.metrics import MetricRegistry
from toolgauge.selfmetrics import JudgeMetrics, KafkaMetrics, SelfMetrics, StateMetrics, WatchMetrics, WebhookMetrics


@pytest.mark.parametrize(
    "section", [JudgeMetrics, KafkaMetrics, SelfMetrics, StateMetrics, WatchMetrics, WebhookMetrics]
)
def test_each_attribute_is_a_metric_of_its_kind(section: type[SelfMetrics]):
    metrics = section(MetricRegistry())
    kinds = {name: kind for name, kind in get_type_hints(section).items() if name != "section"}
    assert kinds
    assert {name: type(getattr(metrics, name)) for name in kinds} == kinds
