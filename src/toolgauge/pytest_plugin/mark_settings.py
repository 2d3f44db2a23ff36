"""What the mark `toolgauge` and the ini file set for a test: the nearest mark wins, files of all of them count."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

import pytest

# The attribute that names the case in the examples of reference files.
CASE_KEY = "eval.case.id"
# What the conventions call the test itself: a reference file may have one line a test.
TEST_KEY = "test.case.name"
_KEYS = ("criteria", "config", "overrides", "case", "attributes")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TestSettings:
    """How the spans of a test are scored. `criteria` are files and, as they were written, criteria."""

    __test__ = False  # no class of tests, whatever its name begins with

    criteria: tuple[object, ...]
    config: tuple[Path, ...]
    overrides: tuple[str, ...]
    case: str | None
    attributes: Mapping[str, str]


def settings_of(item: pytest.Item) -> TestSettings:
    """Read the marks of a test, those of its class and module included; raise `UsageError` for what none can mean."""
    # The module's come before the class's and the test's own, whose files and attributes are the last word.
    marks = [_Mark(mark, item.path.parent) for mark in reversed([*item.iter_markers("toolgauge")])]
    attributes = {TEST_KEY: item.nodeid}
    for mark in marks:
        attributes |= mark.attributes
    return TestSettings(
        criteria=_unique(
            [*item.config.getini("toolgauge_criteria"), *(one for mark in marks for one in mark.criteria)]
        ),
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
        self.criteria = tuple(_placed(one, place) for one in (*mark.args, *_several(given.get("criteria", ()))))
        self.config = tuple(Path(place, os.fspath(file)) for file in _paths("config", given.get("config", ())))
        self.overrides = tuple(str(one) for one in _paths("overrides", given.get("overrides", ())))
        case = given.get("case")
        self.case = None if case is None else str(case)
        attributes = given.get("attributes", {})
        if not isinstance(attributes, Mapping):
            raise pytest.UsageError("the mark `toolgauge`: `attributes` is a mapping of names to values")
        self.attributes = {str(key): str(value) for key, value in cast("Mapping[object, object]", attributes).items()}


def _placed(one: object, place: Path) -> object:
    return Path(place, cast("str | os.PathLike[str]", one)) if isinstance(one, str | os.PathLike) else one


def _several(given: object) -> tuple[object, ...]:
    return tuple(cast("Iterable[object]", given)) if isinstance(given, list | tuple) else (given,)


def _paths(key: str, given: object) -> tuple[str | os.PathLike[str], ...]:
    several = _several(given)
    if not all(isinstance(one, str | os.PathLike) for one in several):
        raise pytest.UsageError(f"the mark `toolgauge`: `{key}` is text, or a list of texts")
    return cast("tuple[str | os.PathLike[str], ...]", several)


def _unique(given: Iterable[_T]) -> tuple[_T, ...]:
    """Leave out what was there before: a file may be named for the module and for the test."""
    found: list[_T] = []
    for one in given:
        if one not in found:
            found.append(one)
    return tuple(found)
