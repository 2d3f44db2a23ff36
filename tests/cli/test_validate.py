"""`validate`, with `--print` and `--components`, as processes."""

import json
from pathlib import Path

from tests.certificates import certificates
from tests.cli.command import run
from tests.config.files import write


def test_a_valid_configuration_is_reported_on_stdout(tmp_path: Path):
    write(tmp_path / "criteria" / "a.yaml", "- {name: tools-exist, evaluator: known_tool}\n")
    write(tmp_path / "c.yaml", "criteria_files: ['criteria/*.yaml']\n")
    ended = run("validate", "--config", "c.yaml", cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert "tools-exist" in ended.out


SECURED = """\
receivers:
  otlp:
    protocols:
      grpc: {tls: {cert_file: server.pem, key_file: server.key}}
      http: {auth: {filename: tokens}}
exporters:
  otlp: {endpoint: "https://collector:4317", tls: {ca_file: ca.pem}}
  webhook: {url: "https://hooks", tls: {ca_file: hooks.pem}}
"""


def test_files_that_are_not_on_this_machine_are_a_warning_that_names_file_and_section(tmp_path: Path):
    write(tmp_path / "c.yaml", SECURED)
    ended = run("validate", "--config", "c.yaml", cwd=tmp_path)
    assert ended.err.splitlines() == [
        "warning: `receivers.otlp.protocols.grpc.tls`: cannot read the TLS file `server.pem`: no such file or directory",
        "warning: `receivers.otlp.protocols.http.auth`: cannot read the token file `tokens`: no such file or directory",
        "warning: `exporters.otlp.tls`: cannot read the TLS file `ca.pem`: no such file or directory",
        "warning: `exporters.webhook.tls`: cannot read the TLS file `hooks.pem`: no such file or directory",
    ]
    assert (ended.code, ended.out.startswith("the configuration is valid")) == (0, True)
    assert run("validate", "--strict", "--config", "c.yaml", cwd=tmp_path).code == 1


def test_a_certificate_of_another_key_is_plainly_claimed_by_validate_as_by_serve(tmp_path: Path):
    made = certificates(tmp_path)
    (tmp_path / "tokens").write_text("s3cret\n")
    (tmp_path / "hooks.pem").write_bytes(made.ca_file.read_bytes())
    write(tmp_path / "c.yaml", SECURED)
    assert run("validate", "--strict", "--config", "c.yaml", cwd=tmp_path).err == ""
    made.server_key.write_bytes(made.client_key.read_bytes())
    said = "`receivers.otlp.protocols.grpc.tls`: cannot use `server.pem`, `server.key` for TLS: key values mismatch\n"
    validated = run("validate", "--strict", "--config", "c.yaml", cwd=tmp_path)
    assert (validated.code, validated.err) == (1, "warning: " + said)
    served = run("serve", "--config", "c.yaml", cwd=tmp_path)
    assert (served.code, served.err) == (1, "error: " + said)


def test_grpc_that_is_to_refuse_tls_1_2_is_bad_configuration(tmp_path: Path):
    write(tmp_path / "c.yaml", SECURED.replace("key_file: server.key", 'key_file: server.key, min_version: "1.3"'))
    ended = run("validate", "--config", "c.yaml", cwd=tmp_path)
    assert (ended.code, "cannot refuse TLS 1.2 over gRPC" in ended.err) == (2, True)


def test_a_wrong_key_of_the_configuration_hides_no_wrong_key_of_a_criterion(tmp_path: Path):
    write(tmp_path / "more.yaml", "criterias:\n  - {name: c, evaluator: budget, scope: session}\n")
    write(
        tmp_path / "c.yaml",
        """\
        criterias: []
        criteria_files: [more.yaml]
        criteria:
          - {name: a, evaluator: budget, pass_at: 2}
          - {name: a, evaluator: policy, when: {servce: shop}}
        """,
    )
    ended = run("validate", "--config", "c.yaml", cwd=tmp_path)
    more = tmp_path / "more.yaml"
    assert ended.err.splitlines() == [
        "error: 6 problems in the configuration",
        f"  {more}:1: unknown key `criterias` in a criteria file (its keys are `criteria` and `tools`; what has more is a "
        "configuration, for `--config`)",
        f"  {more}:2: `scope` in criterion `c` is `session`; allowed: `trace`, `conversation`",
        "  c.yaml:1: unknown key `criterias` (did you mean `criteria`?)",
        "  c.yaml:4: `pass_at` in criterion `a` must be less than or equal to 1",
        "  c.yaml:5: unknown key `when.servce` in criterion `a` (did you mean `service`?)",
        "  c.yaml:5: criterion `a` is given twice, first at c.yaml:4",
    ]


def test_print_config_merges_files_overrides_and_environment(tmp_path: Path):
    write(tmp_path / "a.yaml", "hold: {timeout: 1s}\nannotate: off\n")
    write(tmp_path / "b.yaml", "hold: {timeout: 2s}\n")
    ended = run(
        "validate",
        "--print",
        *("--config", "a.yaml", "--config", "b.yaml", "--set", "hold.max_bytes=1KiB"),
        cwd=tmp_path,
        environment={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_EXPORTER_OTLP_HEADERS": "key=hunter2"},
    )
    assert (ended.code, ended.err) == (0, "")
    assert "\nannotate: off\nannotate_form:\n- toolgauge\nhold:\n  timeout: 2s\n  max_bytes: 1KiB\n" in ended.out
    assert "endpoint: http://c:4318\n" in ended.out
    assert "key: <redacted>\n" in ended.out
    assert "hunter2" not in ended.out


def test_variables_of_agents_fail_no_command_that_sends_nothing(tmp_path: Path):
    variable = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}
    file = str(tmp_path / "cases.jsonl")
    write(Path(file), "")
    for view in ("--calls", "--firings", "--cases"):
        assert "OTEL_" not in run("check", view, file, environment=variable).err
    for words in (("validate",), ("validate", "--print")):
        ended = run(*words, environment=variable)
        assert ended.code == 0
        assert ended.err.startswith("warning: OTEL_EXPORTER_OTLP_ENDPOINT: ")
        assert ended.err.endswith("warning: `toolgauge serve` does not start with these variables\n")
    ended = run("serve", environment=variable)
    assert ended.code == 2
    assert ended.err.startswith("error: OTEL_EXPORTER_OTLP_ENDPOINT: ")
    assert "`unset OTEL_EXPORTER_OTLP_ENDPOINT` in this shell, or set `exporters.otlp.endpoint`" in ended.err


def test_components_are_listed_as_text_and_as_json():
    ended = run("validate", "--components")
    assert "\n  genai " in ended.out
    assert "\n  known_tool " in ended.out
    listed = json.loads(run("validate", "--components", "--json").out)
    assert {"version", "dialects", "evaluators", "receivers", "exporters"} == set(listed)
    (known_tool,) = (entry for entry in listed["evaluators"] if entry["name"] == "known_tool")
    assert (known_tool["level"], known_tool["version"]) == ("call", "4")
