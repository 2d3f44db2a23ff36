"""What a reload names: keys, never values."""

from pathlib import Path

from toolgauge.config.load import load
from toolgauge.config.model import Config
from toolgauge.service.reload import changed_keys


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
