"""What `receivers.kafka` accepts, and what of it is an error before anything starts."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.rows import each_row
from toolgauge.config.load import load
from toolgauge.model.errors import ConfigError
from toolgauge.receive.settings import KafkaReceiverSettings
from toolgauge.service.configuration import load_configuration
from toolgauge.service.service import check_messages


def test_the_names_of_the_collector_are_understood(tmp_path: Path):
    file = tmp_path / "config.yaml"
    file.write_text("receivers: {kafka: {brokers: ['kafka:9092'], topics: {logs: null}, group_instance_id: pod-0}}")
    settings = load([file], [], {}).receivers.kafka
    assert settings is not None
    assert (settings.group_id, settings.initial_offset, settings.group_instance_id) == ("toolgauge", "latest", "pod-0")
    assert settings.signals == {"otlp_spans": "traces"}


@each_row(
    ("written", "problem"),
    [
        ({"topics": {"traces": None, "logs": None}}, "reads nothing"),
        ({"topics": {"traces": "one", "logs": "one"}}, "one topic for two signals"),
        ({"session_timeout": "2s"}, "`heartbeat_interval` below its `session_timeout`"),
        ({"initial_offset": "middle"}, "'latest' or 'earliest'"),
    ],
)
def test_what_cannot_be_is_refused(written: dict[str, object], problem: str):
    with pytest.raises(ValidationError, match=problem):
        KafkaReceiverSettings.model_validate(written)


def test_conversations_cannot_be_read_from_partitions_of_traces(tmp_path: Path):
    file = tmp_path / "config.yaml"
    file.write_text(
        "receivers: {kafka: {}}\n"
        "criteria: [{name: talk, evaluator: repeated_calls, scope: conversation}]\n"
        "defaults: {enabled: false}\n"
    )
    config, criteria = load_configuration([str(file)], [])
    with pytest.raises(ConfigError, match=r"`talk` has `scope: conversation`, which `receivers.kafka` cannot serve"):
        check_messages(config, criteria)
