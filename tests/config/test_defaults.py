"""The default configuration, key for key, and that each key can be set."""

from pathlib import Path

import pytest
import yaml

from tests.config.files import loaded, refused, write
from tests.rows import each_row
from toolgauge.config.load import shown
from toolgauge.config.model import Config
from toolgauge.model.json import Json

# The documented default file.
DEFAULT_FILE = """\
receivers:
  otlp:
    protocols:
      grpc: {endpoint: "localhost:4317", max_recv_msg_size: 64MiB, tls: null, auth: null}
      http: {endpoint: "localhost:4318", max_request_body_size: 64MiB, tls: null, auth: null, cors: null}
inbox: {max_bytes: 64MiB}
exporters:
  otlp: null
  webhook: null
  prometheus: {endpoint: "localhost:9464"}
criteria: []
defaults:
  enabled: true
  scope: trace
  tool_success: true
  tool_contract: true
  known_tool: true
  arguments_schema: true
  grounded_arguments: true
  one_effect: true
  grounded_answer: true
  repeated_calls: true
  error_handling: true
  honest_answer: true
  tool_use: true
  coverage: true
tools: {}
tool_definitions: []
assemble:
  run_end_grace: 6s
  idle_timeout: 30s
  open_idle_timeout: 15m
  conversation_idle_timeout: 10m
  max_duration: 4h
  max_open: 20000
  max_open_bytes: 256MiB
  max_content_bytes: 1MiB
  late_memory: {traces: 100000, for: 10m}
annotate: both
hold: {timeout: 30s, max_bytes: 64MiB}
events: failed
metrics:
  resource_attributes: [service.version, deployment.environment.name]
  run_attributes: []
  max_services: 50
  max_agents: 50
  max_tools: 200
  max_label_sets: 2000
  interval: 15s
redact: {values: hide, patterns: [default]}
watch: {enabled: true, false_alarms_per_week: 1, conversation_idle: 10m, baseline: guarded, baseline_min: null, max_streams: 2000}
trace_url: null
judge: null
web: {endpoint: "localhost:8317", max_trajectories: 500, max_bytes: 32MiB}
admin: {endpoint: "localhost:13133"}
state: {directory: null, sync: normal, max_bytes: 4GiB, when_full: refuse}
memory: {limit: 512MiB}
log: {level: info, format: text}
"""


def test_the_documented_default_file_says_what_holds_without_a_file(tmp_path: Path):
    assert loaded(write(tmp_path / "default.yaml", DEFAULT_FILE)) == loaded() == Config()


def test_print_config_writes_the_default_file_with_its_units():
    written: Json = yaml.safe_load(shown(Config()))
    assert _without_rarer_keys(written, yaml.safe_load(DEFAULT_FILE)) == yaml.safe_load(DEFAULT_FILE)


def _without_rarer_keys(written: Json, wanted: Json) -> Json:
    """Leave out the keys that the default file does not show."""
    if not isinstance(written, dict) or not isinstance(wanted, dict):
        return written
    return {key: _without_rarer_keys(written.get(key), value) for key, value in wanted.items()}


@each_row(
    ("key", "value", "read"),
    [
        ("receivers.otlp.protocols.grpc.endpoint", "127.0.0.1:14317", "127.0.0.1:14317"),
        ("receivers.otlp.protocols.grpc.max_recv_msg_size", "4MiB", 4_194_304),
        ("receivers.otlp.protocols.http.endpoint", '"[::1]:14318"', "[::1]:14318"),
        ("receivers.otlp.protocols.http.max_request_body_size", "20MiB", 20_971_520),
        ("inbox.max_bytes", "8MiB", 8_388_608),
        ("exporters.prometheus.endpoint", "localhost:9999", "localhost:9999"),
        ("exporters.prometheus", "null", None),
        ("defaults.enabled", "false", False),
        ("tool_definitions", '["/a/*.json"]', ("/a/*.json",)),
        ("assemble.run_end_grace", "0s", 0),
        ("assemble.idle_timeout", "1m30s", 90_000_000_000),
        ("assemble.open_idle_timeout", "1.5h", 5_400_000_000_000),
        ("assemble.conversation_idle_timeout", "200ms", 200_000_000),
        ("assemble.max_duration", "1h", 3_600_000_000_000),
        ("assemble.max_open", "7", 7),
        ("assemble.max_open_bytes", "1GiB", 1_073_741_824),
        ("assemble.max_content_bytes", "0", 0),
        ("assemble.late_memory.traces", "1", 1),
        ("assemble.late_memory.for", "1s", 1_000_000_000),
        ("annotate", "off", "off"),
        ("annotate", "hold", "hold"),
        ("annotate", "scorecard", "scorecard"),
        ("hold.timeout", "0", 0),
        ("hold.max_bytes", "512KiB", 524_288),
        ("events", "failed", "failed"),
        ("events", "all", "all"),
        ("metrics.resource_attributes", "[]", ()),
        ("metrics.resource_attributes", "[service.version, k8s.cluster.name]", ("service.version", "k8s.cluster.name")),
        ("metrics.run_attributes", "[gen_ai.response.model]", ("gen_ai.response.model",)),
        ("metrics.max_services", "1", 1),
        ("metrics.max_agents", "2", 2),
        ("metrics.max_tools", "3", 3),
        ("metrics.max_label_sets", "4", 4),
        ("metrics.interval", "1s", 1_000_000_000),
        ("redact.values", "show", "show"),
        ("redact.patterns", r"[default, 'CUST-\d+']", ("default", r"CUST-\d+")),
        ("watch.enabled", "false", False),
        ("watch.false_alarms_per_week", "0.25", 0.25),
        ("watch.conversation_idle", "2s", 2_000_000_000),
        ("watch.baseline", "conservative", "conservative"),
        ("watch.baseline_min", "50", 50),
        ("watch.max_streams", "10", 10),
        ("trace_url", "https://traces.example/{trace_id}", "https://traces.example/{trace_id}"),
        ("state.directory", "/var/lib/toolgauge", "/var/lib/toolgauge"),
        ("state.sync", "full", "full"),
        ("state.max_bytes", "64MiB", 64 * 2**20),
        ("state.when_full", "memory", "memory"),
        ("log.level", "debug", "debug"),
        ("log.format", "json", "json"),
    ],
)
def test_every_key_can_be_set(key: str, value: str, read: object):
    config: object = loaded(overrides=(f"{key}={value}",))
    for step in key.split("."):
        config = getattr(config, "for_" if step == "for" else step)
    assert config == read


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [("(", "is not a valid RE2 pattern: missing ): ("), ("x*", "matches the empty text and would mask between all")],
)
def test_a_pattern_to_mask_that_cannot_be_used_is_named(pattern: str, complaint: str):
    error = refused(overrides=(f"redact.patterns=[default, '{pattern}']",))
    assert error.message.startswith(f"--set redact.patterns: `redact.patterns[1]` {complaint}")


def test_a_list_of_one_destination_is_that_destination():
    (exporter,) = loaded(overrides=("exporters.otlp=[{endpoint: 'a:1'}]",)).exporters.otlp
    assert exporter.endpoint == "a:1"


def test_a_section_left_empty_has_its_defaults(tmp_path: Path):
    path = write(tmp_path / "c.yaml", "receivers:\n  otlp:\n    protocols:\n      grpc:\n      http:\nhold:\n")
    assert loaded(path) == Config()


def test_two_webhooks_of_one_name_are_refused():
    error = refused(overrides=("exporters.webhook=[{name: a, url: 'http://x'}, {name: a, url: 'http://y'}]",))
    assert error.message == "--set exporters.webhook: two destinations are called `a`"


@each_row("url", ["localhost:9093", "ftp://me:hidden@x", "http://me:hidden"])
def test_webhook_needs_a_url_and_a_wrong_one_is_not_quoted(url: str):
    error = refused(overrides=(f"exporters.webhook.url={url}",))
    assert "`exporters.webhook" in error.message
    assert "hidden" not in f"{error.message}{error.hint}"


def test_webhook_is_printed_without_what_may_be_secret():
    text = shown(loaded(overrides=("exporters.webhook.url=https://hooks.example/T00/hidden?key=hidden",)))
    assert "url: https://hooks.example/<redacted>" in text
    assert "hidden" not in text


@each_row("url", ["https://traces.example/", "javascript:{trace_id}", "https://a b/{trace_id}"])
def test_trace_url_is_a_url_with_a_place_for_the_id(url: str):
    assert "`trace_url` must be a URL that holds `{trace_id}`" in refused(overrides=(f"trace_url='{url}'",)).message
