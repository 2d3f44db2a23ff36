"""Files, overrides and variables become one configuration, or one error that lists everything."""

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


def test_a_variable_that_is_not_set_is_an_error_with_its_line(tmp_path: Path):
    path = write(tmp_path / "a.yaml", "\n\nannotate: ${env:HOW}\n")
    error = refused(path)
    assert error.message == f"{path}:3: environment variable `HOW` is not set"
    assert error.hint == "set it, or write `${env:HOW:-default}`"


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


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path):
    assert refused(tmp_path / "none.yaml").message == f"cannot read `{tmp_path}/none.yaml`: No such file or directory"
    assert refused(tmp_path).message == f"cannot read `{tmp_path}`: Is a directory"


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
