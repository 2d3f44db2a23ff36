"""People read about wrong values in our words: file and line, field, and what would be right. Pydantic's words reach no one."""

import re
from collections.abc import Iterator
from importlib import import_module
from inspect import isabstract
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType

import pytest
from pydantic import BaseModel, ValidationError

import toolgauge
from tests.rows import each_row
from toolgauge.config.load import load
from toolgauge.config.problems import Place, problems_of, written
from toolgauge.model.errors import ConfigError
from toolgauge.model.json import Json
from toolgauge.service.criteria_factory import load_for_replay

WORDS_OF_PYDANTIC = re.compile(
    r"(?i)input should|input must|unable to|\[type=|further information|union_tag|value_error|value error|assertion failed"
    r"|validation error|extra inputs|field required|a valid|instance of|discriminator|dictionary|tuple|constrained-|function-"
)
WRONG: tuple[Json, ...] = (
    *(None, True, -1, 1.5, 10**30, "", "x", "10s", "x" * 300),
    *(
        [],
        ["x"],
        [1],
        [None],
        [[["x"]]],
        {},
        {"x": 1},
        [{"x": 1}],
        {"x": {"y": 1}},
        {"match": 3},
        {"": [None, {"y": []}]},
    ),
)


def modules() -> Iterator[ModuleType]:
    for found in walk_packages(toolgauge.__path__, "toolgauge."):
        if not found.name.endswith("__main__"):
            try:
                yield import_module(found.name)
            except ImportError:  # of a group of packages that is not installed
                continue


def models() -> list[type[BaseModel]]:
    found = {
        value: None
        for module in modules()
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, BaseModel) and value.__module__.startswith("toolgauge")
    }
    return sorted(
        (model for model in found if not isabstract(model)), key=lambda model: (model.__module__, model.__name__)
    )


def test_no_field_of_any_model_answers_in_the_words_of_pydantic():
    seen, foreign = 0, list[str]()
    for model in models():
        for name, field in model.model_fields.items():
            for value in WRONG:
                given: dict[str, Json] = {field.alias or name: value}
                try:
                    model.model_validate(given)
                except ValidationError as error:
                    problems = problems_of(error, written(given, Place("criteria.yaml", 3)), model)
                    seen += len(problems)
                    foreign += (str(each) for each in problems if WORDS_OF_PYDANTIC.search(str(each)))
                    assert all(str(each).startswith("criteria.yaml:3: ") for each in problems)
    assert foreign == []
    assert seen > 5000


@each_row(
    ("override", "message"),
    [
        ("workers={}", "`workers` must be a whole number or `auto`"),
        ("hold={enabled: [1]}", "unknown key `hold.enabled`"),
        ("judge={model: 3}", "`judge.model` must be text"),
        ("web={insecure: 7}", "`web.insecure` must be `true` or `false`"),
        ("web={auth: {filename: ''}}", "`web.auth.filename` must not be empty"),
        ("watch.max_streams=-1", "`watch.max_streams` must be greater than or equal to 1"),
        ("costs.success=[]", "`costs.success` must not be empty"),
        ("costs.prices={large: 3}", "`costs.prices.large` must be a mapping of keys to values"),
        (
            "dialects={a: {spans: [{match: {x: {y: 1}}}]}}",
            "`dialects.a.spans[0].match.x` must be `true` or `false`, text, a whole number or a list",
        ),
    ],
)
def test_a_wrong_value_is_told_with_what_would_be_right(override: str, message: str):
    with pytest.raises(ConfigError) as raised:
        load((), (override,), {})
    assert message in raised.value.message


def test_a_plug_in_that_breaks_over_its_own_model_names_the_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from pydantic import BaseModel\n\n\nclass Limits(BaseModel):\n    most: int\n\n\nLIMITS = Limits(most='many')\n"
    )
    (tmp_path / "criteria.yaml").write_text("- {name: mine, evaluator: 'mine.py:Mine'}\n")
    with pytest.raises(ConfigError) as raised:
        load_for_replay((), (), ("criteria.yaml",), {})
    assert "line 8: ValidationError: `Limits` was made with wrong values for `most`" in raised.value.message
    assert WORDS_OF_PYDANTIC.search(raised.value.message) is None
