"""Criteria that ask a judge: what they need to be told, and where nobody is asked."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.rows import each_row
from toolgauge import plugins
from toolgauge.cli.main import commands
from toolgauge.config.load import load
from toolgauge.in_process import ToolgaugeSpanExporter
from toolgauge.model.errors import ConfigError
from toolgauge.service import judge_pool
from toolgauge.service.configuration import load_configuration

CRITERIA = "criteria: [{name: right, evaluator: tool_selection_accuracy}]\n"
JUDGE = 'judge: {model: "openai:gpt-4.1-mini", api_key: sk-key}\n'
CORPUS = Path(__file__).parent.parent / "corpus"


def written(folder: Path, text: str) -> str:
    file = folder / "config.yaml"
    file.write_text(text)
    return str(file)


def refused(file: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_configuration([file], [])
    return caught.value


def test_the_example_of_the_page_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-key")
    page = (Path(__file__).parents[2] / "docs" / "judges.md").read_text()
    (example,) = re.findall(r"```yaml\n(judge:.*?)```", page, re.DOTALL)
    config, criteria = load_configuration([written(tmp_path, example)], [])
    assert config.judge is not None
    assert criteria[-1].name == "right-tool"


def test_without_a_judge_to_ask_the_criterion_is_an_error(tmp_path: Path):
    file = written(tmp_path, CRITERIA)
    error = refused(file)
    assert error.message.startswith(f"{file}:1: ")
    assert "`judge` is not configured" in error.message


def test_without_the_extra_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(judge_pool, "_EXTRA", ("not_installed_anywhere",))
    error = refused(written(tmp_path, CRITERIA + JUDGE))
    assert "the extra `toolgauge[judge]` is not installed" in error.message
    assert error.hint == plugins.install_hint("judge")


@each_row(
    ("judge", "complaint"),
    [
        ("{}", "`judge.model` is missing"),
        ("{model: gpt}", "needs a `model` with its provider, such as `openai:gpt-5-mini`, or a `base_url`"),
        ("{model: 'a:b', max_cost_per_hour: 1}", "has `max_cost_per_hour`, which needs `prices`"),
        ("{model: a, base_url: 'localhost:1'}", "needs a URL as `base_url`, such as `http://localhost:11434/v1`"),
        ("{model: 'a:b', max_concurrent: 0}", "`judge.max_concurrent`"),
        ("{model: 'a:b', timeout: 5}", "`judge.timeout` must be a duration with a unit"),
    ],
)
def test_a_judge_that_could_not_be_asked_is_an_error(judge: str, complaint: str):
    with pytest.raises(ConfigError) as caught:
        load((), (f"judge={judge}",), {})
    assert complaint in caught.value.message


def test_a_replay_asks_nobody_and_says_so(tmp_path: Path):
    criteria = tmp_path / "criteria.yaml"
    criteria.write_text(CRITERIA)
    files = [str(file) for file in sorted((CORPUS / "pydantic-ai").glob("one_call*.otlp.pb"))]
    ran = CliRunner().invoke(commands, ["check", "--fail-on", "nothing", "--json", "--criteria", str(criteria), *files])
    assert ran.exit_code == 0, ran.output
    results = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [(one["outcome"], one["reason"]) for one in results if one["criterion"] == "right"] == [
        ("not_evaluated", "judge_budget")
    ]
    assert any(one["outcome"] == "pass" for one in results)


def test_in_process_a_criterion_that_asks_is_an_error(tmp_path: Path):
    criteria = tmp_path / "criteria.yaml"
    criteria.write_text(CRITERIA)
    with pytest.raises(ConfigError) as caught:
        ToolgaugeSpanExporter(criteria=criteria)
    assert caught.value.message == "criterion `right` asks a judge model, which is not possible in process"
