"""What README, examples and changelog say is what the code does."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.walk.support import Walk
from toolgauge import plugins
from toolgauge.cli.main import commands
from toolgauge.config.load import load
from toolgauge.config.model import Config
from toolgauge.config.show import shown
from toolgauge.model.json import Json
from toolgauge.service.criteria import load_configuration, load_for_replay
from toolgauge.service.process import measure_process

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_every_dialect_and_evaluator_has_its_row():
    for group in (plugins.DIALECTS, plugins.EVALUATORS):
        for name in plugins.names(group):
            assert f"| `{name}` |" in README


def test_every_metric_is_in_the_readme():
    registry = Walk().registry
    measure_process(registry)
    assert [metric.name for metric in registry if f"`{metric.name}`" not in README] == []


def test_every_command_is_in_the_readme():
    missing = [name for name in commands.list_commands(commands.make_context("toolgauge", ["--help"], resilient_parsing=True)) if f"`toolgauge {name}" not in README and f"`{name}`" not in README]  # fmt: skip
    assert not missing


def test_every_parameter_of_an_evaluator_is_in_its_row():
    for name in plugins.names(plugins.EVALUATORS):
        (row,) = [line for line in README.splitlines() if line.startswith(f"| `{name}` |")]
        fields: dict[str, object] = getattr(plugins.evaluator(name), "model_fields", {})
        assert [field for field in fields if f"`{field}`" not in row] == []


def test_the_configuration_in_the_readme_holds_defaults():
    block = re.search(r"<!-- defaults -->\n```yaml\n(.*?)```", README, re.DOTALL)
    assert block is not None
    written: Json = yaml.safe_load(block[1])
    assert _shared(yaml.safe_load(shown(Config())), written) == written


def test_the_reference_of_the_configuration_is_complete():
    """When it is not: paste what `toolgauge print-config` says."""
    block = re.search(r"```yaml\n(.*?)```", (ROOT / "docs" / "configuration.md").read_text(), re.DOTALL)
    assert block is not None
    assert block[1] == shown(Config())


def _shared(whole: Json, part: Json) -> Json:
    """Leave of a configuration only the keys that a part of it names."""
    if not isinstance(whole, dict) or not isinstance(part, dict):
        return whole
    return {key: _shared(whole.get(key), below) for key, below in part.items()}


@pytest.mark.parametrize("name", ["tests", "src", "deploy", "examples"])
def test_the_readme_names_only_what_is_there(name: str):
    paths = re.findall(rf"\b{name}/[\w./-]*\w", README)
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_example_configuration_and_criteria_are_valid():
    _, criteria = load_configuration([str(ROOT / "examples" / "toolgauge.yaml")], [])
    assert [criterion.name for criterion in criteria] == [
        "default.tool_success",
        "default.known_tool",
        "refund-arguments",
        "nightly-cases",
        "trip-tools",
        "weather-answer",
    ]


def test_the_criterion_in_the_readme_is_valid(tmp_path: Path):
    (yaml,) = re.findall(r"```yaml\n(criteria:.*?)```", README, re.DOTALL)
    (tmp_path / "criteria.yaml").write_text(yaml)
    _, criteria = load_for_replay((), (), (str(tmp_path / "criteria.yaml"),), {})
    assert criteria[-1].name == "refund-arguments"


def test_the_reference_lines_of_the_examples_are_json():
    lines = (ROOT / "examples" / "cases.jsonl").read_text().splitlines()
    assert [json.loads(line)["case"] for line in lines] == ["refund-17", "refund-18"]


def test_the_default_file_loads_as_no_file_does(tmp_path: Path):
    (tmp_path / "defaults.yaml").write_text(shown(Config()))
    assert load([tmp_path / "defaults.yaml"], (), {}) == Config()


def test_help_is_quick_to_load():
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, toolgauge.cli.main; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert not {"grpc", "aiohttp", "pydantic", "opentelemetry", "google.protobuf"} & set(loaded)
