"""The pages of evaluators say what the code does: their criteria load, their cases score what is written.

A page holds a block of criteria (fence `yaml criteria`) and one of cases (fence `json cases`: one a line, as `toolgauge
check` reads them, with `score` besides: a number, or the reason why there is none).
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rows import each_row
from toolgauge import plugins
from toolgauge.cases.case import Case, parse
from toolgauge.cases.scoring import Cases
from toolgauge.config.model import Defaults
from toolgauge.model.outcomes import Errored, NotEvaluated, Outcome, Scored
from toolgauge.service.criteria_factory import default_criteria, load_for_replay

FOLDER = Path(__file__).parent.parent / "docs" / "evaluators"
ORIGINALS = FOLDER / "originals.md"
NATIVE = [name for name in plugins.names(plugins.EVALUATORS) if "." not in name]
PAGES = [page for page in (FOLDER / f"{name}.md" for name in NATIVE) if page.exists()]
PREFIXED = [name for name in plugins.names(plugins.EVALUATORS) if "." in name]


def blocks(page: Path, fence: str) -> list[str]:
    return re.findall(rf"^```{fence}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


def documented(page: Path) -> Iterator[tuple[str, float | str]]:
    for block in blocks(page, "json cases"):
        for line in block.splitlines():
            score: float | str = json.loads(line).pop("score")
            yield line, score


def parameters(name: str) -> list[str]:
    fields: dict[str, object] = getattr(plugins.evaluator(name), "model_fields", {})
    return list(fields)


def test_every_evaluator_of_ours_has_a_page_that_the_index_links_to():
    index = (FOLDER / "index.md").read_text()
    assert [name for name in NATIVE if not (FOLDER / f"{name}.md").is_file() or f"]({name}.md)" not in index] == [], (
        "write `docs/evaluators/<name>.md` and link to it in `docs/evaluators/index.md`; see CONTRIBUTING.md"
    )


@each_row("name", PREFIXED)
def test_every_original_is_on_their_page_with_its_parameters(name: str):
    text = ORIGINALS.read_text()
    parts = [part for part in text.split("\n## ")[1:] if re.search(rf"^\|.*`{re.escape(name)}`", part, re.MULTILINE)]
    assert len(parts) == 1
    assert [field for field in parameters(name) if f"`{field}`" not in parts[0]] == []


def test_every_page_is_about_an_evaluator():
    others = {"index", "originals", "comparison"}
    assert sorted(page.stem for page in FOLDER.glob("*.md") if page.stem not in others) == sorted(NATIVE)


def test_every_default_criterion_has_its_figures_and_its_page_links_to_them():
    evidence = (FOLDER.parent / "evidence.md").read_text()
    for criterion in default_criteria(Defaults()):
        name = criterion.evaluator_name
        section = evidence.partition(f"\n### {name}\n")[2].partition("\n#")[0]
        assert (f"<!-- figures: {name} -->\n\n| runs |" in section) is (criterion.pass_at > 0), name
        assert f"](../evidence.md#{name})" in (FOLDER / f"{name}.md").read_text()


@each_row("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_criteria_and_cases(page: Path):
    assert page.read_text().startswith(f"# `{page.stem}`\n")
    assert blocks(page, "yaml criteria")
    assert blocks(page, "json cases")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_criteria_of_a_page_are_valid(page: Path, tmp_path: Path):
    for block in blocks(page, "yaml criteria"):
        (tmp_path / "criteria.yaml").write_text(block)
        _, criteria = load_for_replay((), (), (str(tmp_path / "criteria.yaml"),), {})
        assert page.stem in [criterion.evaluator_name for criterion in criteria]


@each_row("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_every_parameter(page: Path):
    assert [field for field in parameters(page.stem) if f"`{field}`" not in page.read_text()] == []


@each_row("page", PAGES, ids=lambda page: page.stem)
def test_the_cases_of_a_page_score_what_is_written(page: Path):
    wrong: dict[str, Outcome] = {}
    for line, score in documented(page):
        case = parse("page", line.encode())
        assert isinstance(case, Case), case
        outcome = Cases().score(case).outcome
        if not _is_written(outcome, score):
            wrong[line] = outcome
    assert wrong == {}


def _is_written(outcome: Outcome, score: float | str) -> bool:
    match outcome:
        case Scored(value=value):
            return value == pytest.approx(score, abs=1e-9)
        case NotEvaluated(reason=reason):
            return reason == score
        case Errored():
            return False


def test_the_explanations_on_the_page_are_those_of_its_cases():
    (page,) = [page for page in PAGES if page.stem == "tool_trajectory"]
    (told,) = blocks(page, "text")
    (cases,) = blocks(page, "json cases")
    explanations: list[str] = []
    for line in cases.splitlines()[1:4]:
        case = parse("page", line.encode())
        assert isinstance(case, Case)
        outcome = Cases().score(case).outcome
        assert isinstance(outcome, Scored)
        explanations.append(outcome.explanation.partition("; no value of the reference")[0])
    assert explanations == told.splitlines()
