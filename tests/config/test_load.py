"""Files, overrides and variables become one configuration, or one error that lists everything."""

import os
from pathlib import Path

import pytest

from tests.config.files import loaded, refused, write
from tests.rows import each_row
from toolgauge.score.contracts import Contract


def test_later_files_are_laid_over_earlier_ones_key_by_key(tmp_path: Path):
    first = write(
        tmp_path / "a.yaml", "hold: {timeout: 1s, max_bytes: 1KiB}\ntools: {a: {changes_state: true, polls: true}}\n"
    )
    second = write(tmp_path / "b.yaml", "hold: {timeout: 2s}\ntools: {a: {changes_state: false}}\n")
    config = loaded(first, second)
    assert config.hold.timeout == 2_000_000_000
    assert config.hold.max_bytes == 1024
    assert config.tools == {"a": Contract(changes_state=False, polls=True)}
    assert loaded(second, first).hold.timeout == 1_000_000_000


def test_overrides_win_over_files_and_the_last_one_over_the_others(tmp_path: Path):
    path = write(tmp_path / "a.yaml", "hold: {timeout: 1s}\n")
    assert loaded(path, overrides=("hold.timeout=2s", "hold.timeout=3s")).hold.timeout == 3_000_000_000


@each_row("override", ["hold", "=1", "hold..timeout=1s", ".hold=1", "hold.=1"])
def test_an_override_without_key_or_value_is_refused(override: str):
    assert "is not of the form `a.b=value`" in refused(overrides=(override,)).message


def test_an_override_into_a_list_is_refused(tmp_path: Path):
    path = write(tmp_path / "a.yaml", "exporters: {otlp: [{endpoint: 'a:1'}]}\n")
    error = refused(path, overrides=("exporters.otlp.endpoint=b:1",))
    assert error.message.startswith("`--set exporters.otlp.endpoint`: `otlp` is a list")


def test_variables_are_filled_in_and_typed_like_any_scalar(tmp_path: Path):
    path = write(
        tmp_path / "a.yaml",
        """\
        assemble: {max_open: "${env:OPEN}"}
        metrics:
          max_tools: ${env:TOOLS:-12}
        hold:
          timeout: ${env:SECONDS}s
        exporters:
          otlp: {endpoint: "${env:HOST:-localhost}:9", headers: {price: "$$5", plain: "a$b"}}
        """,
    )
    config = loaded(path, environment={"OPEN": "5", "SECONDS": "7"})
    assert config.assemble.max_open == 5
    assert config.metrics.max_tools == 12
    assert config.hold.timeout == 7_000_000_000
    assert config.exporters.otlp[0].endpoint == "localhost:9"
    assert config.exporters.otlp[0].headers == {"price": "$5", "plain": "a$b"}


@each_row("keys", ["[a.b, a_b]", "[toolgauge.service]", "[le]", "[1a]", "['a b']", f"[{'a' * 129}]"])
def test_a_resource_attribute_that_is_no_label_of_its_own_is_refused(keys: str):
    assert "metrics.resource_attributes" in refused(overrides=(f"metrics.resource_attributes={keys}",)).message


@each_row("keys", ["[model]", "[gen_ai.response.model, gen_ai.response.model]", "[gen_ai.provider.name]"])
def test_a_run_attribute_that_is_unknown_or_a_label_already_is_refused(keys: str):
    overrides = ("metrics.resource_attributes=[gen_ai_provider.name]", f"metrics.run_attributes={keys}")
    assert "metrics.run_attributes" in refused(overrides=overrides).message


def test_a_variable_that_is_not_set_is_an_error_with_its_line(tmp_path: Path):
    path = write(tmp_path / "a.yaml", "\n\nannotate: ${env:HOW}\n")
    error = refused(path)
    assert error.message == f"{path}:3: environment variable `HOW` is not set"
    assert error.hint == "set it, or write `${env:HOW:-default}`"


@each_row("text", ["${HOME}", "${file:/etc/passwd}", "${env:}", "${env:A B}", "${env:A:-${env:B}}", "${"])
def test_what_only_looks_like_a_variable_is_refused(text: str):
    error = refused(overrides=(f"annotate='{text}'",), environment={"B": "both"})
    assert "cannot be filled in" in error.message
    assert error.hint == "write `${env:NAME}` or `${env:NAME:-default}`, and `$${` for the text itself"


def test_a_variable_cannot_add_structure():
    error = refused(overrides=("hold=${env:X}",), environment={"X": "{timeout: 1s}"})
    assert error.message == "--set hold: `hold` must be a mapping of keys to values"


def test_an_unknown_key_is_an_error_with_path_line_and_hint(tmp_path: Path):
    path = write(
        tmp_path / "a.yaml",
        """\
        assemble:
          max_open: 5
          idle_timout: 30s
        """,
    )
    error = refused(path)
    assert error.message == f"{path}:3: unknown key `assemble.idle_timout`"
    assert error.hint == "did you mean `idle_timeout`?"


def test_an_unknown_key_that_resembles_nothing_gets_the_list_of_keys():
    error = refused(overrides=("log.colour=true",))
    assert error.hint == "known: `format`, `level`"


def test_a_pipeline_graph_is_refused_with_the_reason():
    error = refused(overrides=("service={pipelines: {}}",))
    assert error.hint == "toolgauge is one box and has no pipeline graph; see `toolgauge validate --print`"


def test_all_problems_are_reported_together_in_order_of_their_lines(tmp_path: Path):
    path = write(
        tmp_path / "a.yaml",
        """\
        annotate: maybe
        hold: {timeout: 30}
        exporters: {otlp: {endpoint: "a:1", retry: {multiplierr: 2}}}
        assemble:
          max_open: true
          late_memory: {form: 1s}
        """,
    )
    assert refused(path).message.splitlines() == [
        "5 problems in the configuration",
        f"  {path}:1: `annotate` is `maybe`; allowed: `both`, `hold`, `scorecard`, `off`",
        f"  {path}:2: `hold.timeout` must be a duration with a unit, such as `10s`, `200ms` or `1h30m`",
        f"  {path}:3: unknown key `exporters.otlp.retry.multiplierr` (did you mean `multiplier`?)",
        f"  {path}:5: `assemble.max_open` must be a whole number",
        f"  {path}:6: unknown key `assemble.late_memory.form` (did you mean `for`?)",
    ]


def test_the_file_that_is_named_is_the_one_that_is_wrong(tmp_path: Path):
    first = write(tmp_path / "a.yaml", "hold: {timeout: nonsense, max_bytes: 1}\n")
    second = write(tmp_path / "b.yaml", "\nhold: {max_bytes: -1}\n")
    message = refused(first, second).message
    assert f"{first}:1: `hold.timeout`" in message
    assert f"{second}:2: `hold.max_bytes`" in message


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path):
    assert refused(tmp_path / "none.yaml").message == f"cannot read `{tmp_path}/none.yaml`: No such file or directory"
    assert refused(tmp_path).message == f"cannot read `{tmp_path}`: Is a directory"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_named(tmp_path: Path):
    path = write(tmp_path / "a.yaml", "{}")
    path.chmod(0)
    assert refused(path).message == f"cannot read `{path}`: Permission denied"


def test_an_empty_file_changes_nothing(tmp_path: Path):
    assert loaded(write(tmp_path / "a.yaml", "# nothing\n")) == loaded()


def test_a_file_that_is_not_a_mapping_is_refused(tmp_path: Path):
    path = write(tmp_path / "a.yaml", "- a\n")
    assert refused(path).message == f"{path}:1: a configuration must be a mapping of keys to values"


def test_header_values_never_appear_in_an_error():
    error = refused(overrides=("exporters.otlp={endpoint: 'a:1', headers: {authorization: [hunter2]}}",))
    assert "hunter2" not in error.message
    assert error.message.endswith(
        "`exporters.otlp.headers` needs a text for `authorization`: write the value in quotes"
    )


def test_a_header_that_would_change_when_read_as_a_number_must_be_quoted():
    (exporter,) = loaded(overrides=("exporters.otlp={endpoint: 'a:1', headers: {org: 1, zero: 007}}",)).exporters.otlp
    assert exporter.headers == {"org": "1", "zero": "007"}
    assert "write the value in quotes" in refused(overrides=("exporters.otlp.headers.version=1.10",)).message


@each_row("address", ["localhost", "a:b", "a:70000", "http://a:1", "::1:4317", "a b:1", "4317", "null"])
def test_an_address_that_cannot_be_listened_on_is_refused(address: str):
    assert (
        "receivers.otlp.protocols.grpc.endpoint"
        in refused(overrides=(f"receivers.otlp.protocols.grpc.endpoint={address}",)).message
    )


@each_row(
    ("override", "complaint"),
    [
        ("exporters.otlp={}", "`exporters.otlp` needs an `endpoint`, such as `localhost:4317`"),
        ("exporters.otlp={endpoint: collector}", "`exporters.otlp.endpoint` must be `host:port`"),
        ("exporters.otlp={endpoint: 'ftp://a:1'}", "`exporters.otlp.endpoint` must be `host:port` or a URL"),
        ("exporters.otlp={endpoint: 'http://a:x'}", "`exporters.otlp.endpoint` "),
        ("exporters.otlp={endpoint: 'a:1', protocol: http}", "`exporters.otlp` needs URLs for `protocol: http`"),
        ("exporters.otlp={endpoint: 'a:1', protocol: udp}", "`exporters.otlp.protocol` is `udp`; allowed: `grpc`"),
        ("exporters.otlp={endpoint: 'a:1', compression: zstd}", "allowed: `gzip`, `none`"),
        ("exporters.otlp={endpoint: 'a:1', retry: {multiplier: 0}}", "`exporters.otlp.retry.multiplier` must be"),
        ("exporters.otlp=5", "`exporters.otlp` must be a mapping of keys to values"),
        ("criteria=5", "`criteria` must be a list"),
        ("criteria_files=a.yaml", "`criteria_files` must be a list"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_its_path(override: str, complaint: str):
    assert complaint in refused(overrides=(override,)).message


@each_row("written", ["HTTPS://collector:4317", "Https://collector:4317", " https://collector:4317 "])
def test_https_means_tls_however_it_is_written(written: str):
    (exporter,) = loaded(overrides=(f"exporters.otlp={{endpoint: '{written}'}}",)).exporters.otlp
    assert exporter.endpoint == "https://collector:4317"


def test_a_password_that_breaks_a_url_is_not_told():
    error = refused(overrides=("exporters.otlp={endpoint: 'http://user:hunt/er2@collector:4317'}",))
    assert "`exporters.otlp.endpoint` must be `host:port` or a URL" in error.message
    assert "hunt" not in error.message


def test_a_destination_that_is_our_own_receiver_is_refused(tmp_path: Path):
    path = write(tmp_path / "a.yaml", "exporters:\n  otlp:\n    endpoint: 127.0.0.1:4317\n")
    error = refused(path)
    assert error.message == (
        f"{path}:3: `exporters.otlp` sends to `127.0.0.1:4317`, "
        "which is our own `receivers.otlp.protocols.grpc.endpoint`"
    )
    receiver = "receivers.otlp.protocols.http={endpoint: '0.0.0.0:7000', insecure: true}"
    assert "our own" in refused(overrides=(receiver, "exporters.otlp.endpoint=localhost:7000")).message
    assert loaded(overrides=(receiver, "exporters.otlp.endpoint=elsewhere:7000")).exporters.otlp


def test_two_listeners_on_one_address_are_refused_but_not_on_port_zero():
    grpc, http = "receivers.otlp.protocols.grpc.endpoint", "receivers.otlp.protocols.http.endpoint"
    error = refused(overrides=(f"{http}=127.0.0.1:4317",))
    assert error.message == f"--set {http}: `{http}` is `127.0.0.1:4317`, where `{grpc}` listens already"
    assert loaded(overrides=(f"{grpc}=localhost:0", f"{http}=localhost:0", "exporters.prometheus.endpoint=localhost:0"))


def test_urls_of_a_destination_follow_its_protocol():
    (http,) = loaded(overrides=("exporters.otlp={endpoint: 'http://c:4318/base/', protocol: http}",)).exporters.otlp
    assert http.url("traces") == "http://c:4318/base/v1/traces"
    assert http.url("metrics") == "http://c:4318/base/v1/metrics"
    (grpc,) = loaded(overrides=("exporters.otlp={endpoint: 'c:4317'}",)).exporters.otlp
    assert grpc.url("logs") == "c:4317"


def test_a_size_without_a_unit_is_refused_where_it_stands(tmp_path: Path):
    path = write(tmp_path / "a.yaml", "hold:\n  max_bytes: 64\n")
    error = refused(path)
    assert error.message.startswith(f"{path}:2: `hold.max_bytes` must be a size with a unit")
    assert error.hint == "write `64MiB`?"


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("genai", "`genai` is an installed dialect"),
        ("My-Framework", "`My-Framework` is no name of a dialect"),
    ],
)
def test_a_dialect_of_the_configuration_has_a_name_of_its_own(name: str, complaint: str):
    assert (
        complaint
        in refused(overrides=(f"dialects={{{name}: {{spans: [{{match: {{a: b}}, reads: agent_run}}]}}}}",)).message
    )
