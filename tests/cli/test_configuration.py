"""`validate`, `print-config` and `components`, as processes."""

import json
from pathlib import Path

from tests.cli.command import run
from tests.config.files import write


def test_a_valid_configuration_is_reported_on_stdout(tmp_path: Path):
    write(tmp_path / "criteria" / "a.yaml", "- {name: tools-exist, evaluator: known_tool}\n")
    write(tmp_path / "c.yaml", "criteria_files: ['criteria/*.yaml']\n")
    ended = run("validate", "--config", "c.yaml", cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert "tools-exist" in ended.out


def test_no_configuration_is_a_valid_one():
    ended = run("validate")
    assert (ended.code, ended.err) == (0, "")


def test_problems_are_reported_on_stderr_with_exit_code_2(tmp_path: Path):
    write(tmp_path / "c.yaml", "assemble:\n  idle_timout: 30s\n")
    ended = run("validate", "--config", "c.yaml", cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == ("error: c.yaml:2: unknown key `assemble.idle_timout`\nhint: did you mean `idle_timeout`?\n")


def test_evaluators_and_their_parameters_are_checked(tmp_path: Path):
    write(
        tmp_path / "c.yaml",
        """\
        criteria:
          - name: a
            evaluator: known_tol
          - name: b
            evaluator: known_tool
            tols: [x]
        """,
    )
    ended = run("validate", "--config", "c.yaml", cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines() == [
        "error: 2 problems in the configuration",
        "  c.yaml:3: no evaluator called `known_tol` in criterion `a` (did you mean `known_tool`?)",
        "  c.yaml:6: unknown parameter `tols` of evaluator `known_tool` in criterion `b` (did you mean `tools`?)",
    ]


def test_a_missing_file_is_bad_configuration(tmp_path: Path):
    ended = run("validate", "--config", "none.yaml", cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "error: cannot read `none.yaml`: No such file or directory\n"


def test_print_config_merges_files_overrides_and_environment(tmp_path: Path):
    write(tmp_path / "a.yaml", "hold: {timeout: 1s}\nannotate: off\n")
    write(tmp_path / "b.yaml", "hold: {timeout: 2s}\n")
    ended = run(
        "print-config",
        *("--config", "a.yaml", "--config", "b.yaml", "--set", "hold.max_bytes=1KiB"),
        cwd=tmp_path,
        environment={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_EXPORTER_OTLP_HEADERS": "key=hunter2"},
    )
    assert (ended.code, ended.err) == (0, "")
    assert "\nannotate: off\nhold:\n  timeout: 2s\n  max_bytes: 1KiB\n" in ended.out
    assert "endpoint: http://c:4318\n" in ended.out
    assert "key: <redacted>\n" in ended.out
    assert "hunter2" not in ended.out


def test_print_config_can_be_read_again(tmp_path: Path):
    printed = run("print-config").out
    (tmp_path / "printed.yaml").write_text(printed)
    assert run("print-config", "--config", "printed.yaml", cwd=tmp_path).out == printed


def test_components_are_listed_as_text_and_as_json():
    ended = run("components")
    assert "dialects:\n" in ended.out
    assert "evaluators:\n" in ended.out
    assert "\n  genai " in ended.out
    assert "\n  known_tool " in ended.out
    listed = json.loads(run("components", "--json").out)
    assert {"version", "dialects", "evaluators", "receivers", "emitters"} == set(listed)
    (known_tool,) = (entry for entry in listed["evaluators"] if entry["name"] == "known_tool")
    assert known_tool["level"] == "call"
    assert known_tool["version"] == "1"
    assert known_tool["description"]
