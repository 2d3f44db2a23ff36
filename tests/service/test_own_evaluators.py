"""`evaluator: ./checks.py:Class`: evaluators in Python files beside the criteria that name them."""

import json
from pathlib import Path

import pytest

from toolgauge.cases.case import Case
from toolgauge.cases.scoring import Cases
from toolgauge.config.load import find_sources
from toolgauge.model.errors import ConfigError
from toolgauge.model.judging import JudgeEvaluator
from toolgauge.model.outcomes import Scored
from toolgauge.score.criterion import Criterion
from toolgauge.service.configuration import load_configuration
from toolgauge.service.criteria_factory import evaluator_files, load_for_replay
from toolgauge.testing.evaluators import check_evaluator

CHECKS = '''
from dataclasses import dataclass

from pydantic import BaseModel

import toolgauge


class Quiet:
    """1 when the run called no tool."""

    version = "1"
    level = "trajectory"

    def evaluate(self, trajectory, expected):
        yield None, toolgauge.Scored(value=float(not trajectory.calls), explanation="calls were looked for")


class Few(BaseModel):
    version: str = "1"
    level: str = "trajectory"
    most: int

    def evaluate(self, trajectory, expected):
        yield None, toolgauge.Scored(value=float(len(trajectory.calls) <= self.most), explanation="calls were counted")


class Half:
    version = "1"

    def evaluate(self, trajectory, expected):
        return ()


class Sideways(Quiet):
    level = "run"


class Unmade(Quiet):
    def __init__(self):
        raise RuntimeError("no key")


@dataclass(slots=True)
class Found:
    name: str


class NoJudge:
    version = "1"
    level = "trajectory"

    def questions(self, trajectory, expected):
        return ()


class Asks(NoJudge):
    def outcome(self, question, verdict):
        return toolgauge.Scored(value=1.0, explanation="fine")

    def joined(self, outcomes):
        return outcomes[0]
'''


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "checks.py").write_text(CHECKS)
    return tmp_path


def criteria(place: Path, *written: object) -> tuple[Criterion, ...]:
    file = place / "criteria.yaml"
    file.write_text(json.dumps({"criteria": written}))
    return load_for_replay((), ("defaults.enabled=false",), (str(file),), {})[1]


def problem(place: Path, evaluator: str, **parameters: object) -> str:
    with pytest.raises(ConfigError) as raised:
        criteria(place, {"name": "own", "evaluator": evaluator, **parameters})
    return f"{raised.value.message} ({raised.value.hint})".replace(str(place), "")


def test_a_class_in_a_file_is_an_evaluator(place: Path):
    quiet, few = criteria(
        place,
        {"name": "quiet", "evaluator": "./checks.py:Quiet"},
        {"name": "few", "evaluator": "checks.py:Few", "most": 3},
    )
    assert (quiet.evaluator_name, few.evaluator_name) == ("./checks.py:Quiet", "checks.py:Few")
    assert type(quiet.evaluator).__name__ == "Quiet"
    assert vars(few.evaluator)["most"] == 3
    for one in (quiet, few):
        assert not hasattr(one.evaluator, "questions")
        check_evaluator(one.evaluator)  # pyright: ignore[reportArgumentType] # it asks nothing


def test_a_file_runs_once_for_all_criteria_that_name_it(place: Path):
    (place / "checks.py").write_text(
        CHECKS
        + f"\nimport pathlib\nran = pathlib.Path({str(place / 'ran')!r})\nran.write_text(f'{{ran.exists()}} once')\n"
    )
    made = criteria(
        place,
        {"name": "quiet", "evaluator": "./checks.py:Quiet"},
        {"name": "few", "evaluator": f"../{place.name}/checks.py:Few", "most": 3},
    )
    assert (place / "ran").read_text() == "False once"
    assert evaluator_files(made) == (str(place / "checks.py"), str(place / ".." / place.name / "checks.py"))


@pytest.mark.parametrize(
    ("written", "before", "after"),
    [
        ({"evaluator": "./checks.py:Few", "most": 3}, 'version: str = "1"', 'version: str = "2"'),
        ({"evaluator": "./checks.py:Quiet"}, 'version = "1"', 'version = "2"'),
    ],
)
def test_a_file_is_read_anew_for_each_configuration(place: Path, written: dict[str, object], before: str, after: str):
    (first,) = criteria(place, {"name": "own", **written})
    (place / "checks.py").write_text(CHECKS.replace(before, after))
    (second,) = criteria(place, {"name": "own", **written})
    assert (first.evaluator.version, second.evaluator.version) == ("1", "2")
    assert first.revision != second.revision
    assert not (place / "__pycache__").exists()


def test_the_revision_is_the_same_wherever_the_files_are(place: Path):
    (here,) = criteria(place, {"name": "quiet", "evaluator": "./checks.py:Quiet"})
    there = place / "there"
    there.mkdir()
    (there / "checks.py").write_text(CHECKS)
    assert criteria(there, {"name": "quiet", "evaluator": "./checks.py:Quiet"})[0].revision == here.revision


@pytest.mark.parametrize(
    ("evaluator", "parameters", "found"),
    [
        ("./checks.py:Quit", {}, "no class called `Quit` in `/checks.py` (did you mean `Quiet`?)"),
        ("./checks.py:Found", {}, "cannot make an evaluator of `./checks.py:Found`: TypeError"),
        ("./checks.py:Half", {}, "evaluator `./checks.py:Half` has no `level`"),
        ("./checks.py:NoJudge", {}, "evaluator `./checks.py:NoJudge` has no `outcome`, `joined`"),
        ("./checks.py:Sideways", {}, "has a `level` that is neither `call` nor `trajectory`"),
        ("./checks.py:Unmade", {}, "cannot make an evaluator of `./checks.py:Unmade`: RuntimeError: no key"),
        ("./checks.py:Few", {}, "`most` of evaluator `./checks.py:Few` in criterion `own` is missing"),
        ("./checks.py:Few", {"most": 1, "least": 0}, "unknown parameter `least` of evaluator `./checks.py:Few`"),
        ("./checks.py:Quiet", {"most": 1}, "evaluator `./checks.py:Quiet` takes no parameters"),
        ("./checks.py", {}, "evaluator `./checks.py` names no class (write `./checks.py:ClassName`"),
        ("./other.py:Quiet", {}, "no such file: `/other.py`"),
        ("/etc/checks.py:Quiet", {}, "the path of evaluator `/etc/checks.py:Quiet` is not relative"),
        ("C:\\checks.py:Quiet", {}, "is not relative"),
        ("https://example.org/checks.py:Quiet", {}, "is not on this machine"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_line(
    place: Path, evaluator: str, parameters: dict[str, object], found: str
):
    text = problem(place, evaluator, **parameters)
    assert text.startswith("/criteria.yaml:1: ")
    assert found in text


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("x = 1\nraise ValueError('broken')\n", "cannot load `/checks.py`: line 2: ValueError: broken"),
        ("def f(:\n", "cannot load `/checks.py`: line 1: "),
        ("import sys\n\nsys.exit(3)\n", "cannot load `/checks.py`: line 3: SystemExit: 3"),
        ("import no_such_package\n", "line 1: ModuleNotFoundError: No module named 'no_such_package'"),
        ("x = '\0'", "cannot load `/checks.py`: "),
    ],
)
def test_a_file_that_cannot_be_run_is_a_problem_of_its_criterion(place: Path, code: str, found: str):
    (place / "checks.py").write_text(code)
    text = problem(place, "./checks.py:Quiet")
    assert text.startswith("/criteria.yaml:1: ")
    assert found in text


def test_an_evaluator_in_a_file_may_ask_a_judge_which_then_has_to_be_there(place: Path):
    (asking,) = criteria(place, {"name": "asking", "evaluator": "./checks.py:Asks"})
    assert isinstance(asking.evaluator, JudgeEvaluator)
    with pytest.raises(ConfigError, match="asks a judge model, and `judge` is not configured"):
        load_configuration((), (f"criteria_files=[{place / 'criteria.yaml'}]",))


def test_a_case_cannot_name_a_file(place: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(place)
    case = Case(
        place="cases.jsonl:1",
        name="own",
        evaluator="./checks.py:Quiet",
        config={},
        expected={},
        actual={"tool_calls": []},
        pass_at=1.0,
        verdicts=(),
    )
    result = Cases().score(case)
    assert not isinstance(result.outcome, Scored)
    assert "no evaluator called `./checks.py:Quiet`" in str(result.outcome)


def test_inline_criteria_of_a_configuration_file_name_it_relative_to_that(place: Path):
    file = place / "toolgauge.yaml"
    file.write_text('criteria:\n  - {name: own, evaluator: "./checks.py:Quiet"}\n')
    _, made = load_for_replay((str(file),), (), (), {})
    assert evaluator_files(made) == (str(place / "checks.py"),)
    assert place / "checks.py" in find_sources([file], (), {}).files
