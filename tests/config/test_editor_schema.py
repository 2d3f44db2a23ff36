"""The JSON Schema for editors takes what the loader takes, and refuses what a schema can know to be wrong."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import json_schemas
from tests.rows import each_row
from toolgauge.config.editor_schema import config_schema, criteria_schema, reference_schema
from toolgauge.config.load import shown
from toolgauge.config.model import Config
from toolgauge.config.references import read_references
from toolgauge.model.errors import ConfigError
from toolgauge.model.json import Json
from toolgauge.service.configuration import load_configuration
from toolgauge.service.criteria_factory import load_for_replay

ROOT = Path(__file__).parents[2]
MAKE = {"config": config_schema, "criteria": criteria_schema, "cases": reference_schema}
_BLOCK = re.compile(r"^```yaml(?: criteria)?\n(.*?)^```", re.DOTALL | re.MULTILINE)


class Yaml12(yaml.SafeLoader):
    """Reads `yes` as a text, as YAML 1.2, editors and our loader do."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (the name and the kind are PyYAML's)
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


Yaml12.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|false)$"), list("tf"))  # pyright: ignore[reportUnknownMemberType] (no types in the stubs)


def read_yaml(text: str) -> Any:  # noqa: ANN401 (what a person wrote)
    return yaml.load(text, Yaml12)  # noqa: S506 (a safe loader)


@cache
def validator(of: str) -> json_schemas.Validator:
    return json_schemas.validator(MAKE[of]())


def problems(of: str, written: Json) -> list[str]:
    return [f"{error.json_path}: {error.message[:200]}" for error in validator(of).iter_errors(written)]


def kind(written: object) -> str | None:
    """Which schema a YAML document is for: other programs' files are for none."""
    if isinstance(written, list):
        return "criteria" if written and all(isinstance(entry, dict) and "evaluator" in entry for entry in written) else None  # pyright: ignore[reportUnknownVariableType]  # fmt: skip
    if not isinstance(written, dict) or not written:
        return None
    keys = set(written)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if keys == {"criteria"}:
        return "criteria"
    collectors = {"processors", "connectors", "service", "extensions"}
    return "config" if keys <= set(Config.model_fields) and not keys & collectors else None


def _documents(file: Path) -> Iterator[Json]:
    for written in yaml.load_all(file.read_text(), Yaml12):
        yield written
        if isinstance(written, dict) and written.get("kind") == "ConfigMap":  # pyright: ignore[reportUnknownMemberType]
            yield from map(read_yaml, written["data"].values())  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def documents() -> dict[str, tuple[str, Json]]:
    """All YAML of ours: files that a person may copy, and blocks on pages."""
    found: dict[str, tuple[str, Json]] = {}
    for folder in ("examples", "deploy", "src", "docs"):
        # Templates of the Helm chart are no YAML.
        for file in sorted(each for each in (ROOT / folder).rglob("*.y*ml") if each.parent.name != "templates"):
            for number, written in enumerate(_documents(file)):
                # The evaluator of the other package is not installed here.
                if "custom-" not in str(file) and (of := kind(written)) is not None:
                    found[f"{file.relative_to(ROOT)}#{number}"] = of, written
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for number, block in enumerate(_BLOCK.findall(page.read_text())):
            try:
                written = read_yaml(block)
            except yaml.YAMLError:
                continue  # several documents, or a template
            if (of := kind(written)) is not None:
                found[f"{page.relative_to(ROOT)}#{number}"] = of, written
    return found


DOCUMENTS = documents()


@each_row("of", MAKE)
def test_it_is_a_schema_and_the_stored_copy_is_the_same(of: str):
    schema = MAKE[of]()
    json_schemas.validator(schema).check_schema(schema)
    stored = json.loads((ROOT / "docs" / "schema" / f"{of}.json").read_text())
    assert stored == schema, (
        f"run `.venv-test/bin/toolgauge schema --of {of} > docs/schema/{of}.json`; see CONTRIBUTING.md"
    )


def test_there_are_examples_and_pages_with_configurations_and_criteria():
    assert {name.partition("#")[0] for name in DOCUMENTS} >= {
        "examples/toolgauge.yaml",
        "examples/criteria.yaml",
        "deploy/docker/toolgauge.yaml",
        "src/toolgauge/demo/criteria.yaml",
        "README.md",
        "docs/criteria.md",
        "docs/configuration.md",
        "docs/evaluators/policy.md",
        "deploy/kubernetes/configmap.yaml",
    }
    assert sum(of == "criteria" for of, _ in DOCUMENTS.values()) > 30


@each_row("name", DOCUMENTS)
def test_every_example_is_valid(name: str):
    of, written = DOCUMENTS[name]
    assert problems(of, written) == []


def test_the_defaults_are_valid_as_they_are_printed():
    assert problems("config", read_yaml(shown(Config()))) == []


def test_the_reference_lines_of_the_examples_are_valid():
    lines = (ROOT / "examples" / "cases.jsonl").read_text().splitlines()
    assert [problems("cases", json.loads(line)) for line in lines] == [[], []]


RIGHT = """
receivers: {otlp: {protocols: {grpc: , http: {endpoint: "${env:HOST:-localhost}:4318", max_request_body_size: 0.5 GiB}}}}
exporters:
  otlp:
    - {name: a, endpoint: "a:4317", headers: {x-team: 7}, timeout: "${env:PATIENCE:-10s}", tls: {insecure: "${env:PLAIN:-true}"}}
    - {name: b, endpoint: "http://b:4318", protocol: http/protobuf}
  webhook: {url: "http://alerts:9093", name: "${env:NAME:-chat}"}
hold: {timeout: 1h30m, max_bytes: 0}
metrics: {max_tools: "${env:TOOLS:-200}"}
defaults: {tool_success: false, repeated_calls: {retries: 2, pass_at: 0.25}}
judge: null
criteria:
  - {name: a, evaluator: tool_call_args, expected: [pay, {name: ship, repeat: [0, 3]}, [x, {name: y, repeat: 2}]],
     arguments: {"pay.amount": {rule: numeric, absolute: 0.01}, "pay.note": ignore}, pass_at: "${env:LEAST:-0.5}", strict: "${env:STRICT:-false}"}
  - {name: b, evaluator: order_rules, rules: [{before: pay, call: "confirm_*"}, {never: {tool: [x, y], arguments: {n: 3}}}]}
  - {name: c, evaluator: policy, forbid: ["delete_*", {tool: pay, arguments: {amount: {above: 100}, land: [DE, AT]}}]}
  - {name: d, evaluator: tool_call_count, counts: {search: 1, book: "<= 2", pay: [">=", 1], ask: {min: 0, max: 3}}}
  - {name: e, evaluator: budget, calls: 5, duration: 30s}
  - {name: f, evaluator: tool_call_f1, expected: null, reference: {file: cases.jsonl, key: eval.case.id}, when: {case: "r-*"}}
  - {name: g, evaluator: json_similarity, expected_output: {a: 1}, target_output_key: a}
  - {name: h, evaluator: data_flow, rules: {"pay.id": {from: {tool: search}}}}
"""


def test_every_way_of_writing_a_value_is_valid_for_both(tmp_path: Path):
    (tmp_path / "cases.jsonl").write_text('{"case": 7, "expected": ["pay"]}\n')
    (tmp_path / "toolgauge.yaml").write_text(RIGHT)
    load_configuration([str(tmp_path / "toolgauge.yaml")], [])
    assert problems("config", read_yaml(RIGHT)) == []


WRONG: Mapping[str, str] = {
    "a key that is misspelled": "hold: {timout: 10s}",
    "a section that does not exist": "exporter: {}",
    "a duration without a unit": "hold: {timeout: 10}",
    "a duration with a unit of another language": "hold: {timeout: 10 seconds}",
    "a size without a unit": "memory: {limit: 536870912}",
    "a word that is not allowed": "annotate: always",
    "a number that is none": "metrics: {max_tools: many}",
    "a number that is too small": "metrics: {max_tools: 0}",
    "a truth value that is none": "defaults: {enabled: 2}",
    "a list where a mapping belongs": "receivers: []",
    "a parameter that a default criterion does not have": "defaults: {tool_success: {retrys: ignore}}",
    "a default criterion with a name": "defaults: {tool_success: {name: mine}}",
    "a criterion without an evaluator": "criteria: [{name: a}]",
    "an evaluator that does not exist": "criteria: [{name: a, evaluator: tool_call_arg}]",
    "a parameter of another evaluator": "criteria: [{name: a, evaluator: tool_success, subset: true}]",
    "a name with capitals": "criteria: [{name: Refund, evaluator: tool_success}]",
    "a limit above 1": "criteria: [{name: a, evaluator: tool_success, pass_at: 80}]",
    "nothing to compare with": "criteria: [{name: a, evaluator: tool_call_args}]",
    "two expectations": "criteria: [{name: a, evaluator: tool_call_f1, expected: [x], expected_turns: [[x]]}]",
    "a condition that does not exist": "criteria: [{name: a, evaluator: tool_success, when: {services: x}}]",
    "a call with a key too many": "criteria: [{name: a, evaluator: tool_call_f1, expected: [{name: x, arguments: {}}]}]",
    "a rule for arguments that does not exist": (
        "criteria: [{name: a, evaluator: tool_call_args, expected: [x], arguments: {n: almost}}]"
    ),
    "a parameter that is missing": "criteria: [{name: a, evaluator: trajectory_judge}]",
    "a word of an evaluator that is not allowed": "criteria: [{name: a, evaluator: tool_success, failed_calls: no}]",
}


@pytest.mark.parametrize("slip", WRONG)
def test_what_is_wrong_is_refused_by_both(slip: str, tmp_path: Path):
    file = tmp_path / "toolgauge.yaml"
    file.write_text(WRONG[slip])
    with pytest.raises(ConfigError):
        load_configuration([str(file)], [])
    written = read_yaml(WRONG[slip])
    assert problems("config", written) != []
    if set(written) == {"criteria"}:
        file.write_text(yaml.safe_dump(written["criteria"]))  # pyright: ignore[reportUnknownMemberType] - in newer stubs
        with pytest.raises(ConfigError):
            load_for_replay([], [], [str(file)], {})
        assert problems("criteria", written["criteria"]) != []


@each_row(
    "line",
    [
        '{"expected": ["pay"]}',
        '{"case": "a"}',
        '{"case": "a", "expected": ["pay"], "expected_turns": [["pay"]]}',
        '{"case": "a", "expect": ["pay"]}',
    ],
)
def test_a_wrong_reference_line_is_refused_by_both(line: str):
    assert read_references(line.encode(), "cases.jsonl")[1]
    assert problems("cases", json.loads(line)) != []


@each_row("evaluator", ["./checks.py:Quiet", "../own/checks.py:Quiet", "checks.py:Quiet"])
def test_a_class_in_a_file_is_an_evaluator(evaluator: str):
    assert problems("criteria", [{"name": "own", "evaluator": evaluator, "most": 3}]) == []
