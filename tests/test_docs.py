"""README, pages, examples and changelog describe what the code does, and the site of the pages builds."""

import importlib.util
import json
import pkgutil
import re
import subprocess
import sys
import textwrap
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import cast

import pytest
import yaml
from msgspec.structs import replace

from tests.page_commands import PAGES, ROOT
from tests.score.support import not_evaluated, scored
from tests.walk.support import Walk
from toolgauge import plugins
from toolgauge.cli.main import commands
from toolgauge.config.load import load, shown
from toolgauge.config.model import Config
from toolgauge.model.errors import ToolgaugeError
from toolgauge.model.ports import Evaluator
from toolgauge.service.configuration import load_configuration, unusable_files
from toolgauge.service.criteria_factory import load_for_replay
from toolgauge.service.process import measure_process
from toolgauge.testing.evaluators import check_evaluator
from toolgauge.testing.samples import sample_call, sample_trajectory

DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text()


def rows(page: str) -> list[str]:
    """The rows of the first table of a page."""
    _, _, table = (DOCS / page).read_text().partition("\n|---")
    return [line for line in table.partition("\n\n")[0].splitlines() if line.startswith("| `")]


def test_every_dialect_has_its_row():
    named = [row.split("`")[1] for row in rows("dialects.md")]
    assert sorted(named) == sorted(plugins.names(plugins.DIALECTS))


def test_every_evaluator_has_its_row_with_its_parameters():
    table = {row.split("`")[1]: row for row in (*rows("evaluators/index.md"), *rows("evaluators/originals.md"))}
    for name in plugins.names(plugins.EVALUATORS):
        fields: dict[str, object] = getattr(plugins.evaluator(name), "model_fields", {})
        assert name in table, f"`docs/evaluators/index.md` has no row for `{name}`"
        missing = [field for field in fields if f"`{field}`" not in table[name]]
        assert missing == [], f"the row for `{name}` in `docs/evaluators/index.md` does not name these parameters"


def test_every_metric_is_on_the_page_of_metrics():
    page = (DOCS / "metrics.md").read_text()
    registry = Walk().registry
    measure_process(registry)
    assert [metric.name for metric in registry if f"`{metric.name}`" not in page] == []


def test_every_command_has_its_help_with_every_flag_on_the_page_of_commands():
    names = commands.list_commands(commands.make_context("toolgauge", ["--help"], resilient_parsing=True))
    assert [name for name in names if f"\n$ toolgauge {name} --help\n" not in PAGES["docs/commands.md"]] == []


def test_every_command_ends_its_help_with_its_exit_codes():
    context = commands.make_context("toolgauge", ["--help"], resilient_parsing=True)
    found = {name: commands.get_command(context, name) for name in commands.list_commands(context)}
    form = re.compile(r"Exit codes: 0 [^;]+; 1 [^;]+; 2 [^;]+(; 3 [^;]+)?\.")
    assert [name for name, one in found.items() if not (one and one.epilog and form.fullmatch(one.epilog))] == []


def test_the_inputs_of_the_action_are_on_the_page_about_ci():
    page = PAGES["docs/in-ci.md"]
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (.*?) \| ", page, re.MULTILINE))
    defaults = {
        name: f"`{entry['default']}`" if entry.get("default") else "" for name, entry in action["inputs"].items()
    }
    assert {name: rows.get(name, "").strip() for name in defaults} == defaults


def test_every_command_is_on_the_page_of_commands():
    page = (DOCS / "commands.md").read_text()
    context = commands.make_context("toolgauge", ["--help"], resilient_parsing=True)
    assert [name for name in commands.list_commands(context) if f"`toolgauge {name}" not in page and f"`{name}`" not in page] == []  # fmt: skip


def test_the_readme_stays_short_and_leads_to_every_page():
    assert len(README.splitlines()) <= 150
    index = (DOCS / "index.md").read_text()
    pages = [page.name for page in DOCS.glob("*.md") if page.stem not in ("index", "changelog", "contributing")]
    assert [page for page in pages if f"](docs/{page})" not in README] == []
    assert [page for page in pages if f"]({page})" not in index] == []


def test_the_reference_of_the_configuration_is_complete():
    """When it is not: paste what `toolgauge print-config` says."""
    block = re.search(r"```yaml\n(.*?)```", (DOCS / "configuration.md").read_text(), re.DOTALL)
    assert block is not None
    assert block[1] == shown(Config())


def test_pages_name_only_files_that_are_there():
    assert {page: missing for page, text in PAGES.items() if (missing := _missing(text))} == {}


def _missing(text: str) -> list[str]:
    paths = re.findall(r"(?<![\w/.-])(?:tests|tools/bench|tools/scripts|src|deploy|examples|docs)/[\w./-]*\w", text)
    benches = re.findall(r"python -m ((?:tests|tools)[.\w]+)", text)
    rooms = "|".join(path.name for path in (ROOT / "src" / "toolgauge").iterdir() if path.is_dir())
    modules = re.findall(rf"`((?:{rooms})/[\w/]+\.py)`", text)
    return [
        *(path for path in paths if not (ROOT / path).exists()),
        *(bench for bench in benches if importlib.util.find_spec(bench) is None),
        *(module for module in modules if not (ROOT / "src" / "toolgauge" / module).exists()),
    ]


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md", "docs/plugins.md", "docs/python.md"])
def test_a_page_about_the_code_names_only_modules_and_names_that_exist(page: str):
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    # The span that is called so.
    names = set(re.findall(r"(?<![\w./-])toolgauge(?:\.\w+)+", PAGES[page])) - {*groups, "toolgauge.scorecard"}
    assert [name for name in sorted(names) if not _is_importable(name)] == []
    files = {path.name for top in ("src", "tests", "tools", "examples") for path in (ROOT / top).rglob("*.py")}
    named = set(re.findall(r"`(?:[\w/]+/)?(\w+\.py)`", PAGES[page]))
    assert named - files - {"checks.py"} == set()  # the reader's own file


def _is_importable(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_the_way_of_a_span_names_functions_where_they_are():
    _, _, way = PAGES["docs/architecture.md"].partition("\n## The way of a span\n")
    steps = re.findall(r"^\d+\. `(.+?)`: (.+?)(?=^\d+\. |^$)", way.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
    assert len(steps) == 10
    source = "\n".join(path.read_text() for path in (ROOT / "src" / "toolgauge").rglob("*.py"))
    for module, text in steps:
        own = (ROOT / "src" / "toolgauge" / module).read_text()
        owners = dict.fromkeys(re.findall(r"`([A-Z]\w+)\.(\w+)`", text))
        assert owners, module
        assert any(f"class {owner}" in own and f"def {name}(" in own for owner, name in owners), module
        assert [one for one in owners if f"class {one[0]}" not in source or f"def {one[1]}(" not in source] == []


# `docs/outcomes.md`: the words are those of the web view.
_LONG_TABLES = {"docs/outcomes.md"}


def test_a_cell_of_a_table_has_at_most_25_words():
    found: list[tuple[str, str]] = []
    for page in PAGES.keys() - _LONG_TABLES:
        text = re.sub(r"^ *(`{3,}).*?^ *\1$", "", PAGES[page], flags=re.MULTILINE | re.DOTALL)
        rows = re.findall(r"^ *\|(.*)\|$", text, re.MULTILINE)
        found += [(page, cell) for row in rows for cell in re.split(r"(?<!\\)\|", row) if len(cell.split()) > 25]
    assert found == []


def test_a_page_says_in_its_first_two_lines_which_task_it_is_for():
    """One sentence to the reader: who, doing what, gets what."""
    pages = {
        page.name: page.read_text() for page in DOCS.glob("*.md") if page.stem not in ("changelog", "contributing")
    }
    first = {name: text.split("\n\n")[1] for name, text in pages.items()}
    form = re.compile(r"You[^.]{40,}(?:\.\w[^.]*)*\.")
    assert {name: found for name, found in first.items() if not form.fullmatch(found) or found.count("\n") > 1} == {}


def test_links_of_pages_lead_to_files():
    links = [(page, link) for page, text in PAGES.items() for link in re.findall(r"\]\((?!https?:)([^)#]+)", text)]
    assert [(page, link) for page, link in links if not ((ROOT / page).parent / link).exists()] == []


@pytest.mark.needs("docs")
@pytest.mark.parametrize("builder", ["dummy", pytest.param("html", marks=pytest.mark.long)])
def test_the_site_builds_without_a_warning(tmp_path: Path, builder: str):
    """The builder `dummy` reads all pages and follows their links; `html` also writes them, which takes twice as long."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", builder, str(DOCS), str(tmp_path)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stderr) == (0, "")


def test_the_example_configuration_and_criteria_are_valid():
    _, criteria = load_configuration([str(ROOT / "examples" / "toolgauge.yaml")], [])
    assert [criterion.name for criterion in criteria] == [
        "default.run_completed",
        "default.tool_success",
        "default.known_tool",
        "default.arguments_schema",
        "default.grounded_arguments",
        "default.one_effect",
        "default.grounded_answer",
        "default.repeated_calls",
        "default.error_handling",
        "default.honest_answer",
        "default.tool_use",
        "default.coverage",
        "refund-arguments",
        "nightly-cases",
        "trip-tools",
        "weather-answer",
    ]


@pytest.mark.parametrize("page", ["README.md", "docs/criteria.md"])
def test_the_criterion_on_a_page_is_valid(page: str, tmp_path: Path):
    (criteria_file,) = re.findall(r"```yaml\n((?:tools:\n(?: .*\n)+)?criteria:.*?)```", PAGES[page], re.DOTALL)
    (tmp_path / "criteria.yaml").write_text(criteria_file)
    _, criteria = load_for_replay((), (), (str(tmp_path / "criteria.yaml"),), {})
    assert criteria[-1].name == "refund-arguments"


def test_the_reference_lines_of_the_examples_are_json():
    lines = (ROOT / "examples" / "cases.jsonl").read_text().splitlines()
    assert [json.loads(line)["case"] for line in lines] == ["refund-17", "refund-18"]


def test_the_default_file_loads_as_no_file_does(tmp_path: Path):
    (tmp_path / "defaults.yaml").write_text(shown(Config()))
    assert load([tmp_path / "defaults.yaml"], (), {}) == Config()


def test_the_evaluator_of_the_contributing_page_keeps_the_contract():
    (indented,) = re.findall(r"```python\n(.*?)```", PAGES["CONTRIBUTING.md"], re.DOTALL)
    module: dict[str, object] = {"__name__": "call_budget"}
    exec(textwrap.dedent(indented), module)  # noqa: S102 - our own page
    evaluator = cast("type[Evaluator]", module["CallBudget"])()
    check_evaluator(evaluator)
    few, many = sample_trajectory(sample_call(0)), sample_trajectory(*map(sample_call, range(11)))
    assert (scored(evaluator, few).value, scored(evaluator, many).value) == (1.0, 0.0)
    assert not_evaluated(evaluator, replace(few, hidden_turns=30)) == "no_content"
    assert not_evaluated(evaluator, replace(few, closed_because="max_open")) == "incomplete"
    assert scored(evaluator, replace(many, hidden_turns=30, closed_because="max_open")).value == 0.0


def test_the_source_distribution_is_small_and_holds_the_demo():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    distribution: dict[str, list[str]] = project["tool"]["hatch"]["build"]["targets"]["sdist"]
    included, excluded = distribution["include"], [f"{ROOT}{pattern}*" for pattern in distribution["exclude"]]
    # Without the slash a pattern holds at any depth: `deploy` would bring `tests/deploy`.
    assert [pattern for pattern in included if not pattern.startswith("/")] == []
    files = [path for pattern in included for path in [ROOT / pattern[1:], *(ROOT / pattern[1:]).rglob("*")]]
    sizes = {path: path.stat().st_size for path in files if path.is_file() and path.suffix != ".pyc"}
    sizes = {path: size for path, size in sizes.items() if not any(fnmatch(str(path), one) for one in excluded)}
    assert sum(sizes.values()) < 7_000_000
    assert any(path.name.endswith(".otlp.pb") and "demo" in path.parts for path in sizes)


def test_help_is_quick_to_load():
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, toolgauge.cli.main; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert not {"grpc", "aiohttp", "pydantic", "opentelemetry", "google.protobuf"} & set(loaded)


def test_commands_that_check_no_schema_do_not_load_its_library(tmp_path: Path):
    (tmp_path / "cases.jsonl").write_text(
        '{"id": "a", "evaluator": "tool_call_f1", "config": {}, "expected": [{"name": "pay"}], "actual": {"tool_calls": []}}\n'
    )
    commands_run = f"""
import sys
from toolgauge.cli.main import main
assert main(["check", {str(tmp_path / "cases.jsonl")!r}]) in (0, 1)
assert not main(["validate", "--schema"])
assert not main(["validate"])
import toolgauge.cli.serve
print("jsonschema" in sys.modules, "toolgauge.evaluators.arguments_schema" in sys.modules)
"""
    found = subprocess.run([sys.executable, "-c", commands_run], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "False True"


@pytest.mark.parametrize(
    ("message", "config"),
    [
        ("anybody who reaches it gets in", "receivers: {otlp: {protocols: {grpc: {endpoint: '0.0.0.0:4317'}}}}"),
        ("which is our own", "exporters: {otlp: {endpoint: 'localhost:4317'}}"),
        ("unknown key", "hold: {timout: 1s}"),
        ("no evaluator called", "criteria: [{name: a, evaluator: b}]"),
        ("cannot read the TLS file", "exporters: {otlp: {endpoint: 'a:1', tls: {ca_file: /nowhere/ca.pem}}}"),
        ("is not a PEM file", "exporters: {otlp: {endpoint: 'a:1', tls: {ca_file: toolgauge.yaml}}}"),
    ],
)
def test_a_message_on_the_page_of_troubleshooting_is_what_is_shown(
    message: str, config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert f"`{message}`" in PAGES["docs/troubleshooting.md"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toolgauge.yaml").write_text(config)
    try:
        problems = [*unusable_files(load_configuration(["toolgauge.yaml"], [])[0])]
    except ToolgaugeError as error:
        problems = [error]
    assert [message in problem.message for problem in problems] == [True]
