"""What a reload names: keys, never values."""

from pathlib import Path

from toolgauge.config.load import load
from toolgauge.config.model import Config
from toolgauge.service.reload import changed_keys, waits_for_start


def read(text: str, folder: Path) -> Config:
    file = folder / "c.yaml"
    file.write_text(text)
    return load([file], (), {})


def test_nothing_differs_from_itself_wherever_its_criteria_are_written(tmp_path: Path):
    criteria = "criteria: [{name: a, evaluator: tool_success}]\n"
    assert changed_keys(read(criteria, tmp_path), read("\n\n" + criteria, tmp_path)) == ()


def test_keys_are_named_as_deep_as_they_differ(tmp_path: Path):
    new = read(
        "criteria: [{name: a, evaluator: tool_success}]\n"
        "exporters: {otlp: {endpoint: 'localhost:1', headers: {key: secret-value}}, prometheus: null}\n"
        "receivers: {otlp: {protocols: {http: {auth: {token: secret-value}}}}}\n"
        "assemble: {late_memory: {for: 1m}}\n"
        "hold: {timeout: 1s}\n",
        tmp_path,
    )
    assert changed_keys(Config(), new) == (
        "receivers.otlp.protocols.http.auth",
        "exporters.otlp",
        "exporters.prometheus",
        "criteria",
        "assemble.late_memory.for",
        "hold.timeout",
    )
    assert changed_keys(new, new.model_copy(update={"hold": Config().hold})) == ("hold.timeout",)


def test_what_is_bound_or_sized_at_the_start_waits_for_it():
    at_once = ("criteria", "exporters.otlp", "assemble.idle_timeout", "metrics.interval", "judge.model", "log.level")
    later = ("exporters.prometheus.endpoint", "admin", "memory.limit", "metrics.max_tools", "assemble.late_memory.for")
    assert [key for key in at_once if waits_for_start(key)] == []
    assert [key for key in later if not waits_for_start(key)] == []
