"""`OTEL_EXPORTER_OTLP_*` fills what the file leaves out."""

from pathlib import Path

import pytest

from tests.config.files import loaded, refused, write
from tests.rows import each_row
from toolgauge.export.settings import DestinationSettings

OTLP = "OTEL_EXPORTER_OTLP_"


def destinations(*paths: Path, **variables: str) -> tuple[DestinationSettings, ...]:
    """Load with these variables (without their prefix)."""
    return loaded(*paths, environment={OTLP + name: value for name, value in variables.items()}).exporters.otlp


def destination(*paths: Path, **variables: str) -> DestinationSettings:
    """Load with these variables (without their prefix) and return the only destination."""
    (exporter,) = destinations(*paths, **variables)
    return exporter


def test_a_destination_appears_with_an_endpoint_and_speaks_http_as_specified():
    exporter = destination(ENDPOINT="http://collector:4318")
    assert exporter.protocol == "http"
    assert exporter.url("traces") == "http://collector:4318/v1/traces"
    assert exporter.url("logs") == "http://collector:4318/v1/logs"
    assert exporter.url("metrics") == "http://collector:4318/v1/metrics"


def test_without_an_endpoint_no_destination_appears():
    environment = {f"{OTLP}PROTOCOL": "grpc", f"{OTLP}HEADERS": "a=b", f"{OTLP}TIMEOUT": "5", f"{OTLP}ENDPOINT": " "}
    assert loaded(environment=environment).exporters.otlp == ()


@pytest.mark.parametrize("base", ["http://c:4318/base", "http://c:4318/base/"])
def test_a_base_with_a_path_is_kept(base: str):
    assert destination(ENDPOINT=base).url("logs") == "http://c:4318/base/v1/logs"


@each_row(("name", "protocol"), [("grpc", "grpc"), ("http/protobuf", "http")])
def test_the_protocol_is_that_of_the_variable(name: str, protocol: str):
    assert destination(ENDPOINT="http://a:1", PROTOCOL=name).protocol == protocol


def test_headers_are_percent_decoded():
    assert destination(ENDPOINT="http://a:1", HEADERS="a=b%20c, authorization=Basic%20eA%3D%3D,").headers == {
        "a": "b c",
        "authorization": "Basic eA==",
    }


def test_compression_and_timeout_in_milliseconds():
    exporter = destination(ENDPOINT="http://a:1", COMPRESSION="none", TIMEOUT="2500")
    assert (exporter.compression, exporter.timeout) == ("none", 2_500_000_000)


def test_the_file_wins_over_the_environment(tmp_path: Path):
    path = write(
        tmp_path / "c.yaml",
        """\
        exporters:
          otlp: {endpoint: "file:1", headers: {from: file}, timeout: 3s}
        """,
    )
    exporter = destination(path, ENDPOINT="http://env:1", HEADERS="from=env,more=env", TIMEOUT="9", COMPRESSION="none")
    assert exporter.endpoint == "file:1"
    assert exporter.protocol == "grpc"
    assert exporter.headers == {"from": "file"}
    assert exporter.timeout == 3_000_000_000
    assert exporter.compression == "none"


def test_a_file_without_endpoint_gets_it_from_the_environment(tmp_path: Path):
    path = write(tmp_path / "c.yaml", "exporters: {otlp: {protocol: grpc, timeout: 3s}}\n")
    exporter = destination(path, ENDPOINT="env:1")
    assert exporter.endpoint == "env:1"
    assert exporter.protocol == "grpc"
    assert exporter.timeout == 3_000_000_000


def test_the_rest_of_the_section_stays(tmp_path: Path):
    path = write(tmp_path / "c.yaml", "exporters: {prometheus: {endpoint: 'localhost:1'}, otlp: null}\n")
    config = loaded(path, environment={f"{OTLP}ENDPOINT": "http://env:1"})
    assert config.exporters.prometheus is not None
    assert config.exporters.prometheus.endpoint == "localhost:1"
    assert config.exporters.otlp[0].endpoint == "http://env:1"


@each_row(
    ("name", "value", "complaint"),
    [
        ("PROTOCOL", "http/json", "`http/json` is not available; allowed: `grpc`, `http/protobuf`"),
        ("TIMEOUT", "10s", "must be a whole number of milliseconds above 0"),
        ("TIMEOUT", "0", "must be a whole number of milliseconds above 0"),
        ("HEADERS", "secret", "must be `name=value` pairs with commas between"),
        ("COMPRESSION", "zstd", "`exporters.otlp.compression` is `zstd`; allowed: `gzip`, `none`"),
        ("CLIENT_KEY", "/a.pem", "`exporters.otlp.tls` needs `cert_file` and `key_file` together"),
    ],
)
def test_a_variable_that_makes_no_sense_is_named(name: str, value: str, complaint: str):
    error = refused(environment={f"{OTLP}ENDPOINT": "http://a:1", OTLP + name: value})
    assert error.message == f"{OTLP}{name}: {complaint}"


def test_an_endpoint_that_is_none_names_its_variable():
    error = refused(environment={f"{OTLP}ENDPOINT": "collector"})
    assert error.message.startswith(f"{OTLP}ENDPOINT: `exporters.otlp.endpoint` must be")


def test_other_variables_of_opentelemetry_are_left_alone():
    temporality = {f"{OTLP}METRICS_TEMPORALITY_PREFERENCE": "delta"}
    assert loaded(environment={"OTEL_SERVICE_NAME": "x", "OTEL_TRACES_EXPORTER": "otlp", **temporality}) == loaded()


@each_row("name", ["TRACES_ENDPOINT", "LOGS_HEADERS", "METRICS_INSECURE"])
def test_a_variable_of_one_signal_is_refused_unless_the_file_has_a_list(name: str):
    variables = {f"{OTLP}ENDPOINT": "http://a:1", OTLP + name: "x"}
    error = refused(environment=variables)
    assert error.message == f"{OTLP}{name}: variables of one signal are not read"
    assert f"`signals: [{name.partition('_')[0].lower()}]`" in (error.hint or "")
    assert loaded(overrides=("exporters.otlp=[{endpoint: 'file:1'}]",), environment=variables).exporters.otlp


def test_grpc_without_a_scheme_means_tls_unless_told_otherwise():
    secure = destination(PROTOCOL="grpc", ENDPOINT="a:1")
    assert secure.tls is not None
    assert not secure.tls.insecure
    plain = destination(PROTOCOL="grpc", ENDPOINT="a:1", INSECURE="TRUE")
    assert plain.tls is not None
    assert plain.tls.insecure


def test_a_scheme_decides_before_the_variable():
    assert destination(PROTOCOL="grpc", ENDPOINT="http://a:1").tls is None
    assert destination(PROTOCOL="grpc", ENDPOINT="https://a:1", INSECURE="true").tls is None


def test_certificates_are_files_of_tls():
    tls = destination(ENDPOINT="https://a:1", CERTIFICATE="/ca.pem", CLIENT_KEY="/k", CLIENT_CERTIFICATE="/c").tls
    assert tls is not None
    assert (tls.ca_file, tls.key_file, tls.cert_file) == ("/ca.pem", "/k", "/c")


def test_the_files_tls_is_not_mixed_with_that_of_the_environment(tmp_path: Path):
    path = write(tmp_path / "c.yaml", "exporters: {otlp: {endpoint: 'a:1', tls: {ca_file: /mine.pem}}}\n")
    tls = destination(path, CERTIFICATE="/other.pem", CLIENT_KEY="/k", CLIENT_CERTIFICATE="/c").tls
    assert tls is not None
    assert (tls.ca_file, tls.key_file) == ("/mine.pem", None)


def test_a_truth_value_that_is_none_is_named():
    error = refused(environment={f"{OTLP}PROTOCOL": "grpc", f"{OTLP}ENDPOINT": "a:1", f"{OTLP}INSECURE": "1"})
    assert error.message == f"{OTLP}INSECURE: must be `true` or `false`"
