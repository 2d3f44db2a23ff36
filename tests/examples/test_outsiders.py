"""Packages that somebody else wrote: installed beside toolgauge they are found, checked and used."""

import json
from pathlib import Path

import pytest

from tests.examples.outsiders import EXAMPLES, Installed, install
from tests.wire.support import CORPUS, serving, until


@pytest.fixture
def evaluator(tmp_path: Path) -> Installed:
    return install("custom-evaluator", tmp_path / "installed")


@pytest.mark.parametrize("example", ["custom-dialect", "custom-evaluator", "custom-exporter", "custom-receiver"])
def test_the_package_s_own_tests_pass(example: str, tmp_path: Path):
    installed = install(example, tmp_path / "installed")
    tests = EXAMPLES / example / "tests"
    plain = ("-p", "no:cacheprovider", "-p", "no:langsmith_plugin", "-c", "/dev/null")
    said = installed.run("pytest", "-q", *plain, "--rootdir", str(tests), str(tests))
    assert " passed" in said


def test_components_lists_the_dialect_and_the_evaluator(tmp_path: Path):
    install("custom-dialect", tmp_path / "installed")
    installed = install("custom-evaluator", tmp_path / "installed")
    components = json.loads(installed.run("toolgauge", "validate", "--components", "--json"))
    assert {"name": "acme", "description": "Reads spans of the Acme agent framework."} in components["dialects"]
    (budget,) = [entry for entry in components["evaluators"] if entry["name"] == "call_budget"]
    assert (budget["version"], budget["level"]) == ("1", "trajectory")


def test_replay_scores_with_the_outsider_s_evaluator(evaluator: Installed):
    criteria = ("--fail-on", "nothing", "--criteria", str(EXAMPLES / "custom-evaluator" / "criteria.yaml"))
    recording = str(CORPUS / "pydantic-ai" / "sequence3.otlp.pb")
    said = evaluator.run("toolgauge", "check", "--json", *criteria, recording)
    results = [json.loads(line) for line in said.splitlines()]
    (result,) = [result for result in results if result["criterion"] == "few-calls"]
    assert (result["evaluator"], result["outcome"], result["level"]) == ("call_budget", "fail", "trajectory")
    assert result["value"] == pytest.approx(2 / 3)


def install_folders(tmp_path: Path) -> Installed:
    install("custom-exporter", tmp_path / "installed")
    return install("custom-receiver", tmp_path / "installed")


def test_a_service_receives_from_and_exports_to_folders(tmp_path: Path):
    installed = install_folders(tmp_path)
    (tmp_path / "in").mkdir()
    recording = CORPUS / "pydantic-ai" / "sequence3.otlp.pb"
    with serving(
        tmp_path,
        f'receivers.folder={{path: "{tmp_path / "in"}", interval_s: 0.05}}',
        f'exporters.folder={{path: "{tmp_path / "out"}"}}',
        env={"PYTHONPATH": str(installed.folder)},
    ) as toolgauge:
        # Whole at once: what is half written would be taken in as it is.
        (tmp_path / "one.otlp.pb").write_bytes(recording.read_bytes())
        (tmp_path / "one.otlp.pb").rename(tmp_path / "in" / "one.otlp.pb")
        until(lambda: toolgauge.books()["forwarded"] > 0, "spans to be exported")
        until(lambda: not list((tmp_path / "in").iterdir()), "the file to be taken in")
        toolgauge.assert_books_balance()
        assert "exporting to `folder`" in toolgauge.said()
    written = sorted((tmp_path / "out").glob("*.otlp.pb"))
    said = installed.run("toolgauge", "check", "--calls", "--json", *map(str, written)).splitlines()
    assert [len(json.loads(line)["tool_calls"]) for line in said] == [3]


def test_settings_of_receivers_and_exporters_are_checked_like_ours(tmp_path: Path):
    installed = install_folders(tmp_path)
    config = tmp_path / "toolgauge.yaml"
    config.write_text("exporters:\n  folder: {path: /tmp/x, paht: 1}\nreceivers:\n  fodler: {}\n")
    said = installed.run("toolgauge", "validate", "--config", str(config), exit_code=2)
    assert "exporters.folder.paht" in said
    assert "receivers.fodler" in said
    config.write_text("exporters:\n  folder: {path: /tmp/x}\n")
    shown = installed.run("toolgauge", "validate", "--print", "--config", str(config))
    assert "path: /tmp/x" in shown
