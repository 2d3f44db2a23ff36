"""`OTEL_EXPORTER_OTLP_*` fills what the file leaves out, each alone and with both forms set."""

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


def traces(*paths: Path, **variables: str) -> DestinationSettings:
    """Load with these variables and return the destination of the traces, which others do not share."""
    (exporter,) = (each for each in destinations(*paths, **variables) if "traces" in each.signals)
    assert exporter.signals == ("traces",)
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


def test_grpc_takes_the_endpoint_for_traces_first():
    assert destination(PROTOCOL="grpc", ENDPOINT="http://a:1").endpoint == "http://a:1"
    assert traces(PROTOCOL="grpc", ENDPOINT="a:1", TRACES_ENDPOINT="b:1").endpoint == "b:1"


def test_compression_and_timeout_in_milliseconds():
    exporter = destination(ENDPOINT="http://a:1", COMPRESSION="none", TIMEOUT="2500")
    assert exporter.compression == "none"
    assert exporter.timeout == 2_500_000_000
    exporter = traces(
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
    assert loaded(environment={"OTEL_SERVICE_NAME": "x", "OTEL_TRACES_EXPORTER": "otlp"}) == loaded()


def test_signals_that_are_sent_the_same_way_share_a_destination():
    found = destinations(ENDPOINT="http://a:1", LOGS_COMPRESSION="none")
    assert {each.signals: each.compression for each in found} == {("traces", "metrics"): "gzip", ("logs",): "none"}


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


def test_a_truth_value_that_is_none_is_named():
    error = refused(environment={f"{OTLP}PROTOCOL": "grpc", f"{OTLP}ENDPOINT": "a:1", f"{OTLP}INSECURE": "1"})
    assert error.message == f"{OTLP}INSECURE: must be `true` or `false`"
