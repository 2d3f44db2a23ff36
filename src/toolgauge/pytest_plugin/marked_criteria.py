"""The criteria and the configuration of a test, read once for all tests that have the same."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import cast

import pytest

from toolgauge.api.check import LoadedCriteria
from toolgauge.api.evaluation import Evaluation
from toolgauge.api.written_criterion import Criterion as WrittenCriterion
from toolgauge.config.problems import suggestion
from toolgauge.model.errors import ConfigError
from toolgauge.score.criterion import Criterion, Lookup, register, with_writing_tools
from toolgauge.score.unmatched import Unmatched, UnmatchedCriteria
from toolgauge.service.pipeline_factory import tool_kinds

# The attribute that names the case in the examples of reference files.
CASE_KEY = "eval.case.id"
# What the conventions call the test itself: a reference file may have one line a test.
TEST_KEY = "test.case.name"
_KEYS = ("criteria", "config", "overrides", "case", "attributes")


@dataclass(frozen=True, slots=True, kw_only=True)
class TestSettings:
    """How the spans of a test are scored. `criteria` are files and, as they were written, criteria."""

    __test__ = False  # not a class of tests, despite its name

    criteria: tuple[object, ...]
    config: tuple[Path, ...]
    overrides: tuple[str, ...]
    case: str | None
    attributes: Mapping[str, str]


def settings_of(item: pytest.Item) -> TestSettings:
    """Read the marks of a test, also of its class and module; raise `UsageError` for a wrong one."""
    # The module's come before the class's and the test's own, whose files and attributes are the last word.
    marks = [_Mark(mark, item.path.parent) for mark in reversed([*item.iter_markers("toolgauge")])]
    attributes = {TEST_KEY: item.nodeid}
    for mark in marks:
        attributes |= mark.attributes
    return TestSettings(
        # A file may be named for the module and for the test.
        criteria=(*dict.fromkeys(chain(item.config.getini("toolgauge_criteria"), *(mark.criteria for mark in marks))),),
        config=(*dict.fromkeys(chain(item.config.getini("toolgauge_config"), *(mark.config for mark in marks))),),
        overrides=tuple(override for mark in marks for override in mark.overrides),
        case=next((mark.case for mark in reversed(marks) if mark.case is not None), None),
        attributes=attributes,
    )


class _Mark:
    """One mark, in a file of the directory `place`."""

    def __init__(self, mark: pytest.Mark, place: Path) -> None:
        unknown = [key for key in mark.kwargs if key not in _KEYS]
        if unknown:
            known = ", ".join(f"`{key}`" for key in _KEYS)
            raise pytest.UsageError(f"the mark `toolgauge` has no `{unknown[0]}`: it knows {known}")
        given = cast("Mapping[str, object]", mark.kwargs)
        self.criteria = tuple(
            (Path(place, cast("str | os.PathLike[str]", one)) if isinstance(one, str | os.PathLike) else one)
            for one in (*mark.args, *_several(given.get("criteria", ())))
        )
        self.config = tuple(Path(place, os.fspath(file)) for file in _paths("config", given.get("config", ())))
        self.overrides = tuple(str(one) for one in _paths("overrides", given.get("overrides", ())))
        case = given.get("case")
        self.case = None if case is None else str(case)
        attributes = given.get("attributes", {})
        if not isinstance(attributes, Mapping):
            raise pytest.UsageError("the mark `toolgauge`: `attributes` must be a mapping of names to values")
        self.attributes = {str(key): str(value) for key, value in cast("Mapping[object, object]", attributes).items()}


def _several(given: object) -> tuple[object, ...]:
    return tuple(cast("Iterable[object]", given)) if isinstance(given, list | tuple) else (given,)


def _paths(key: str, given: object) -> tuple[str | os.PathLike[str], ...]:
    several = _several(given)
    if not all(isinstance(one, str | os.PathLike) for one in several):
        raise pytest.UsageError(f"the mark `toolgauge`: `{key}` is text, or a list of texts")
    return cast("tuple[str | os.PathLike[str], ...]", several)


class TestCriteria(LoadedCriteria):
    """Criteria of a test that are ready to score."""

    __test__ = False  # not a class of tests, despite its name

    def __init__(self, settings: TestSettings, written: Sequence[WrittenCriterion]) -> None:
        given = cast("Iterable[Path | WrittenCriterion]", (*settings.criteria, *written))
        super().__init__(given, settings.config, settings.overrides)

    @property
    def case_keys(self) -> frozenset[str]:
        """The attributes that name the case."""
        return frozenset(one.reference.key for one in self.criteria if isinstance(one.reference, Lookup))

    def named(self, names: Sequence[str]) -> tuple[Criterion, ...]:
        """Return criteria by their names; raise `ConfigError` for an unknown name."""
        known = {criterion.name: criterion for criterion in self.criteria}
        unknown = next((name for name in names if name not in known), None)
        if unknown is not None:
            message = f"no criterion called `{unknown}` in the criteria files of this test"
            raise ConfigError(message, hint=suggestion(unknown, known))
        return tuple(known[name] for name in names)

    def unmatched(self, evaluation: Evaluation) -> tuple[Unmatched, ...]:
        """Return the criteria that judged nothing, with the conditions that excluded everything."""
        unmatched, kinds = UnmatchedCriteria(tuple(map(register, self.criteria))), tool_kinds(self.config)
        for one in evaluation.trajectories:
            unmatched.see(with_writing_tools(one.trajectory, (), kinds))
        return unmatched.so_far()
