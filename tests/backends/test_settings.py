"""Backends in the configuration: lists, names, keys from the environment, reloads and workers."""

from pathlib import Path

import pytest

from tests.backends.fakes import KEY
from tests.rows import each_row
from toolgauge.backends.score_sender import ScoreDestination
from toolgauge.backends.vendors import backend_destination
from toolgauge.config.load import load, shown
from toolgauge.config.model import Config, backends
from toolgauge.model.errors import ConfigError
from toolgauge.model.metrics import MetricRegistry
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.destinations import announced_destinations, destination_names, make_outbox, renewed_destinations
from toolgauge.service.pipeline_factory import emit_settings
from toolgauge.service.reload import waits_for_start
from toolgauge.service.workers.worker_service import share
from toolgauge.settings import MIB

TWO = "exporters.phoenix=[{api_key: '${env:PHOENIX_API_KEY}'}, {endpoint: 'http://other:6006/', results: failed}]"


def configured(*overrides: str) -> Config:
    return load((), overrides, {"PHOENIX_API_KEY": KEY})


def test_a_section_is_one_backend_or_a_list_and_its_key_stays_hidden():
    config = configured(TWO, "exporters.opik={project: agents}")
    named = backends(config.exporters)
    assert [*named] == ["phoenix", "phoenix/2", "opik"]
    assert named["phoenix"].api_key == KEY
    assert named["phoenix/2"].endpoint == "http://other:6006"
    assert KEY not in shown(config)
    assert KEY not in repr(config)
    # A leaf that forwards no spans is still one.
    assert destination_names(config) == []
    assert announced_destinations(config)[0] == "`phoenix` at http://localhost:6006 (scores)"
    assert len(emit_settings(config).scores) == 3


@each_row(
    ("override", "words"),
    [
        ("exporters.phoenix.endpoint=phoenix:6006", "needs a URL"),
        ("exporters.langfuse={api_key: sk}", "public_key"),
        ("exporters.mlflow=[{name: a}, {name: a}]", "two destinations are called `a`"),
        ("exporters.datadog={results: some}", "results"),
        ("exporters.opik={api_key: a, api_key_file: b}", "has both"),
    ],
)
def test_what_cannot_be_meant_is_an_error(override: str, words: str):
    with pytest.raises(ConfigError, match=words):
        configured(override)


def test_a_key_in_a_file_is_read_when_the_destination_is_made(tmp_path: Path):
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    [langsmith] = configured(f"exporters.langsmith.api_key_file={file}").exporters.langsmith
    assert langsmith.with_key.authorization == {"x-api-key": KEY}
    file.unlink()
    with pytest.raises(ConfigError, match="cannot read the token file"):
        backend_destination("langsmith", langsmith, SelfMetrics(MetricRegistry()), "toolgauge/1")


async def test_a_reload_replaces_the_backends_that_changed_and_no_other():
    metrics = SelfMetrics(MetricRegistry())
    before = make_outbox(configured(TWO, "exporters.otlp.endpoint=localhost:1"), metrics, hop_id="h")
    changed = configured(TWO.replace("failed", "all"), "exporters.otlp.endpoint=localhost:1", "exporters.mlflow={}")
    after = renewed_destinations(changed, metrics, before.destinations, hop_id="h")
    assert [each.name for each in after] == ["otlp", "phoenix", "phoenix/2", "mlflow"]
    assert [each in before.destinations for each in after] == [True, True, False, False]
    gone = renewed_destinations(configured("exporters.otlp.endpoint=localhost:1"), metrics, after, hop_id="h")
    assert [each.name for each in gone] == ["otlp"]
    assert not waits_for_start("exporters.phoenix.results")
    assert not any(isinstance(each, ScoreDestination) for each in gone)


def test_workers_share_the_queue_of_a_backend():
    kept = "exporters.otlp={endpoint: collector:4317, keep: {passed: 0.1}}"
    config = share(configured("exporters.phoenix.queue.num_consumers=4", kept), 1, 4)
    [phoenix] = config.exporters.phoenix
    assert (phoenix.queue.max_bytes, phoenix.queue.num_consumers) == (4 * MIB, 1)
    [otlp] = config.exporters.otlp
    assert otlp.keep is not None
    assert (otlp.keep.max_bytes, otlp.keep.passed) == (16 * MIB, 0.1)
