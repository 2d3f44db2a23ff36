"""Evaluators in Python files that stand beside the criteria which name them: the class of each, every file run once.

What runs here is code of the person who wrote the criteria. It is read anew for each configuration, so that a reload takes
what is in the file by then.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import cast

from toolgauge import plugins
from toolgauge.config.evaluator_files import EvaluatorFile
from toolgauge.config.problems import suggestion
from toolgauge.model.errors import ConfigError
from toolgauge.model.judging import JudgeEvaluator
from toolgauge.model.ports import Evaluator
from toolgauge.score.criterion import Criterion


class EvaluatorFiles:
    """The files that one configuration names, or several, one after the other."""

    def __init__(self) -> None:
        self._loaded: dict[Path, ModuleType | ConfigError] = {}
        self._is_closed = False

    def close(self) -> None:
        """Run no file from here on but those that have run, and these not again."""
        self._is_closed = True

    def evaluator_class(self, named: EvaluatorFile) -> type[object]:
        """Return the class; raise `ConfigError` where it cannot be had."""
        module = self._module(named.path)
        found: object = getattr(module, named.class_name, None)
        if isinstance(found, type):
            return cast("type[object]", found)  # narrowed from object
        others = plugins.classes_of(module)
        hint = suggestion(named.class_name, others) or "a class with `version`, `level` and `evaluate` is an evaluator"
        raise ConfigError(f"no class called `{named.class_name}` in `{named.path}`", hint=hint)

    def _module(self, path: Path) -> ModuleType:
        # `Path.resolve` raises where links lead round in a circle.
        key = Path(os.path.realpath(path))
        if key not in self._loaded:
            if self._is_closed:
                message = f"`{path}` is code that was not named when this process was started, and is not run"
                raise ConfigError(message, hint="start the process again")
            try:
                self._loaded[key] = plugins.load_file(path)
            except ConfigError as error:
                self._loaded[key] = error
        loaded = self._loaded[key]
        if isinstance(loaded, ConfigError):
            raise loaded
        return loaded


def checked_evaluator(made: object, name: str) -> Evaluator | JudgeEvaluator:
    """Return an object as the evaluator that it is; raise `ConfigError` where it is none."""
    fault = plugins.evaluator_fault(made)
    if fault is not None:
        raise ConfigError(f"evaluator `{name}` {fault}")
    return cast("Evaluator | JudgeEvaluator", made)  # it has what an evaluator must have


def evaluator_files(criteria: Sequence[Criterion]) -> tuple[str, ...]:
    """Name the files with evaluators of criteria: code that runs."""
    return tuple(dict.fromkeys(one.evaluator_file for one in criteria if one.evaluator_file is not None))
