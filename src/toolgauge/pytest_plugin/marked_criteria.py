"""The criteria and the configuration of a test, read once for all tests that have the same."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

import pytest

from toolgauge.api.check import check
from toolgauge.api.evaluation import Evaluation
from toolgauge.api.written_criterion import Criterion as WrittenCriterion
from toolgauge.config.problems import suggestion
from toolgauge.model.errors import ConfigError
from toolgauge.pytest_plugin.collector import ExportRequest
from toolgauge.score.criterion import Criterion, Lookup, register, with_writing_tools
from toolgauge.score.unmatched import Unmatched, UnmatchedCriteria
from toolgauge.service.criteria_factory import load_for_replay
from toolgauge.service.pipeline_factory import redactor, tool_kinds

# The attribute that names the case in the examples of reference files.
CASE_KEY = "eval.case.id"
# What the conventions call the test itself: a reference file may have one line a test.
TEST_KEY = "test.case.name"
_KEYS = ("criteria", "config", "overrides", "case", "attributes")
_T = TypeVar("_T")


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
        criteria=_unique([*item.config.getini("toolgauge_criteria"), *(it for mark in marks for it in mark.criteria)]),
        config=_unique([*item.config.getini("toolgauge_config"), *(file for mark in marks for file in mark.config)]),
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


def _unique(given: Iterable[_T]) -> tuple[_T, ...]:
    """Leave out repeats: a file may be named for the module and for the test."""
    found: list[_T] = []
    for one in given:
        if one not in found:
            found.append(one)
    return tuple(found)


class LoadedCriteria:
    """Criteria that are ready to score. Raises `ConfigError` when a file is wrong."""

    def __init__(self, settings: TestSettings, written: Sequence[WrittenCriterion]) -> None:
        self._settings = settings
        given = (*settings.criteria, *written)
        files = [str(one) for one in given if isinstance(one, Path)]
        objects = [one for one in given if isinstance(one, WrittenCriterion)]
        for one in given:
            if not isinstance(one, Path | WrittenCriterion):
                wanted = "give paths of criteria files, or `toolgauge.Criterion`"
                raise TypeError(f"a `{type(one).__name__}` is not a criterion: {wanted}")
        self._given = (*files, *objects)
        config_files = tuple(map(str, settings.config))
        self._config, self.criteria = load_for_replay(
            config_files, settings.overrides, files, os.environ, written=[one.written for one in objects]
        )
        is_shown = self._config.redact.values == "show" or "values" not in self._config.redact.model_fields_set
        self.redactor = redactor(self._config, show_values=is_shown)

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

    def evaluate(self, requests: Iterable[ExportRequest]) -> Evaluation:
        """Score the requests of a test."""
        return check(tuple(requests), self._given, config=self._settings.config, overrides=self._settings.overrides)

    def unmatched(self, evaluation: Evaluation) -> tuple[Unmatched, ...]:
        """Return the criteria that judged nothing, with the conditions that excluded everything."""
        unmatched, kinds = UnmatchedCriteria(tuple(map(register, self.criteria))), tool_kinds(self._config)
        for one in evaluation.trajectories:
            unmatched.see(with_writing_tools(one.trajectory, (), kinds))
        return unmatched.so_far()
