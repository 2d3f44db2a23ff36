"""`OTEL_EXPORTER_OTLP_*` fills what the file leaves out, each alone and with both forms set."""

from pathlib import Path

import pytest

from tests.config.files import loaded, refused, write
from toolgauge.config.model import OtlpExporter

OTLP = "OTEL_EXPORTER_OTLP_"


def destination(*paths: Path, **variables: str) -> OtlpExporter:
    """Load with these variables (without their prefix) and return the only destination."""
    config = loaded(*paths, environment={OTLP + name: value for name, value in variables.items()})
    (exporter,) = config.exporters.otlp
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


def test_the_endpoint_for_traces_is_used_as_it_is_and_wins():
    exporter = destination(ENDPOINT="http://general:4318", TRACES_ENDPOINT="http://traces:9/in")
    assert exporter.url("traces") == "http://traces:9/in"
    assert exporter.url("logs") == "http://general:4318/v1/logs"


def test_the_endpoint_for_traces_alone_tells_where_the_rest_goes_if_its_path_is_the_usual_one():
    usual = destination(TRACES_ENDPOINT="http://c:4318/v1/traces")
    assert usual.url("traces") == "http://c:4318/v1/traces"
    assert usual.url("logs") == "http://c:4318/v1/logs"
    unusual = destination(TRACES_ENDPOINT="http://c:4318/in")
    assert unusual.url("traces") == "http://c:4318/in"
    assert unusual.url("logs") is None


def test_grpc_takes_the_endpoint_for_traces_first():
    assert destination(PROTOCOL="grpc", ENDPOINT="http://a:1").endpoint == "http://a:1"
    assert destination(PROTOCOL="grpc", ENDPOINT="a:1", TRACES_ENDPOINT="b:1").endpoint == "b:1"


def test_protocol_by_either_variable():
    assert destination(ENDPOINT="http://a:1", PROTOCOL="grpc").protocol == "grpc"
    assert destination(ENDPOINT="http://a:1", PROTOCOL="http/protobuf").protocol == "http"
    assert destination(ENDPOINT="http://a:1", PROTOCOL="http/protobuf", TRACES_PROTOCOL="grpc").protocol == "grpc"


def test_headers_are_percent_decoded_and_those_for_traces_win():
    assert destination(ENDPOINT="http://a:1", HEADERS="a=b%20c, authorization=Basic%20eA%3D%3D,").headers == {
        "a": "b c",
        "authorization": "Basic eA==",
    }
    assert destination(ENDPOINT="http://a:1", HEADERS="a=b", TRACES_HEADERS="c=d").headers == {"c": "d"}


def test_compression_and_timeout_in_milliseconds():
    exporter = destination(ENDPOINT="http://a:1", COMPRESSION="none", TIMEOUT="2500")
    assert exporter.compression == "none"
    assert exporter.timeout == 2_500_000_000
    exporter = destination(
        ENDPOINT="http://a:1", COMPRESSION="none", TRACES_COMPRESSION="gzip", TIMEOUT="1", TRACES_TIMEOUT="7"
    )
    assert exporter.compression == "gzip"
    assert exporter.timeout == 7_000_000


def test_the_file_wins_over_the_environment(tmp_path: Path):
    path = write(
        tmp_path / "c.yaml",
        """\
        exporters:
          otlp: {endpoint: "file:1", headers: {from: file}, timeout: 3s}
        """,
    )
    exporter = destination(
        path,
        ENDPOINT="http://env:1",
        HEADERS="from=env,more=env",
        TIMEOUT="9",
        COMPRESSION="none",
        TRACES_ENDPOINT="x:1",
    )
    assert exporter.endpoint == "file:1"
    assert exporter.traces_endpoint is None
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


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("PROTOCOL", "http/json", "`http/json` is not available; allowed: `grpc`, `http/protobuf`"),
        ("TIMEOUT", "10s", "must be a whole number of milliseconds above 0"),
        ("TIMEOUT", "0", "must be a whole number of milliseconds above 0"),
        ("HEADERS", "secret", "must be `name=value` pairs with commas between"),
        ("COMPRESSION", "zstd", "`exporters.otlp.compression` is `zstd`; allowed: `gzip`, `none`"),
        ("CERTIFICATE", "/a.pem", "`exporters.otlp.tls` is not available yet"),
        ("CLIENT_KEY", "/a.pem", "`exporters.otlp.tls` is not available yet"),
    ],
)
def test_a_variable_that_makes_no_sense_is_named(name: str, value: str, complaint: str):
    error = refused(environment={f"{OTLP}ENDPOINT": "http://a:1", OTLP + name: value})
    assert error.message == f"{OTLP}{name}: {complaint}"


def test_an_endpoint_that_is_none_names_its_variable():
    error = refused(environment={f"{OTLP}ENDPOINT": "collector"})
    assert error.message.startswith(f"{OTLP}ENDPOINT: `exporters.otlp.endpoint` must be")


def test_other_variables_of_opentelemetry_are_left_alone():
    assert (
        loaded(environment={"OTEL_SERVICE_NAME": "x", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://m:1"}) == loaded()
    )
