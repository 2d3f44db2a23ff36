"""Criteria as written -> criteria that can score: the place where an evaluator's name becomes a class."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import cast

from pydantic import BaseModel, ValidationError

from toolgauge import plugins
from toolgauge.config.criteria import (
    CriterionConfig,
    EvaluatorFile,
    criterion_problem,
    evaluator_file,
    load_default_criteria,
    parameter_problems,
    read_criteria,
    read_nodes,
)
from toolgauge.config.load import load
from toolgauge.config.model import Config, Defaults
from toolgauge.config.problems import (
    Place,
    Problem,
    Wording,
    config_error,
    problems_of,
    suggestion,
    written,
)
from toolgauge.model.errors import ConfigError
from toolgauge.model.json import JsonObject
from toolgauge.model.judging import JudgeEvaluator
from toolgauge.model.ports import Evaluator, needs_of
from toolgauge.score.contracts import Contract, ToolKinds
from toolgauge.score.criterion import Criterion, Inline, Lookup, NoReference, Reference, When, revision
from toolgauge.service.plug_in_evaluators import copied
from toolgauge.settings import AS_WRITTEN

_COMPARE_CALLS = "`tool_call_args`, `tool_call_f1`, `tool_call_order` and `tool_trajectory`"
_COMPARED_BY = {
    "expected": _COMPARE_CALLS,
    "expected_turns": _COMPARE_CALLS,
    "expected_output": "`json_similarity`, `output_judge` and `trajectory_judge`",
}


class EvaluatorFiles:
    """The files that one configuration names, or several, one after the other."""

    def __init__(self) -> None:
        self._loaded: dict[Path, ModuleType | ConfigError] = {}
        self._is_closed = False

    def close(self) -> None:
        """Run no other file from here on, and the loaded ones not again."""
        self._is_closed = True

    def evaluator_class(self, named: EvaluatorFile) -> type[object]:
        """Return the class; raise `ConfigError` where its file or the class is missing or fails."""
        path = named.path
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
        module = self._loaded[key]
        if isinstance(module, ConfigError):
            raise module
        found: object = getattr(module, named.class_name, None)
        if isinstance(found, type):
            return cast("type[object]", found)  # narrowed from object
        others = plugins.classes_of(module)
        hint = suggestion(named.class_name, others) or "a class with `version`, `level` and `evaluate` is an evaluator"
        raise ConfigError(f"no class called `{named.class_name}` in `{path}`", hint=hint)


def checked_evaluator(made: object, name: str) -> Evaluator | JudgeEvaluator:
    """Return an object as an evaluator; raise `ConfigError` where it lacks a member of one."""
    fault = plugins.evaluator_fault(made)
    if fault is not None:
        raise ConfigError(f"evaluator `{name}` {fault}")
    return cast("Evaluator | JudgeEvaluator", made)  # it has what an evaluator must have


def evaluator_files(criteria: Sequence[Criterion]) -> tuple[str, ...]:
    """Name the files with evaluators of criteria: code that runs."""
    return tuple(dict.fromkeys(one.evaluator_file for one in criteria if one.evaluator_file is not None))


def load_for_replay(
    paths: Sequence[str],
    overrides: Sequence[str],
    criteria_files: Sequence[str],
    environment: Mapping[str, str],
    *,
    written: Sequence[CriterionConfig] = (),
    defaults: bool = True,
    evaluators: EvaluatorFiles | None = None,
    sends: bool = False,
) -> tuple[Config, tuple[Criterion, ...]]:
    """Load configuration and criteria, with the criteria of further files and `written` ones.
    `evaluators` remembers the files it has run. `OTEL_EXPORTER_OTLP_*` counts only where it `sends`.
    """
    config = load(paths, overrides, environment, sends=sends, criteria_files=criteria_files)
    if not defaults:
        config = config.model_copy(update={"defaults": config.defaults.model_copy(update={"enabled": False})})
    problems: list[Problem] = []
    read = read_criteria(config, environment, problems)
    extra = read_nodes((), map(Path, criteria_files), environment, problems)
    criteria = criteria_of(config, (*read, *extra, *written), evaluators or EvaluatorFiles(), problems)
    if problems:
        raise config_error(problems)
    return config, criteria


def criteria_of(
    config: Config, written: Sequence[CriterionConfig], files: EvaluatorFiles, problems: list[Problem]
) -> tuple[Criterion, ...]:
    """Make the default criteria and the written ones that are valid, and add to `problems`."""
    criteria = list(default_criteria(config.defaults, config.tools))
    defaults = {criterion.name for criterion in criteria}
    first: dict[str, str] = {}
    for entry in written:
        if entry.name in defaults:
            problems.append(criterion_problem(entry, f"`{entry.name}` is the name of a default criterion"))
        elif entry.name in first:
            message = f"criterion `{entry.name}` is given twice, first at {first[entry.name]}"
            twice = criterion_problem(entry, message)
            # Found before where both are of one file.
            problems += () if twice in problems else (twice,)
        first.setdefault(entry.name, entry.where)
        criterion = _criterion(entry, files, problems)
        if criterion is not None:
            criteria.append(_by_contracts(criterion, config.tools))
    return tuple(criteria)


def _by_contracts(criterion: Criterion, contracts: Mapping[str, Contract]) -> Criterion:
    """Let contracts be part of what a criterion means whose evaluator judges by them."""
    if not needs_of(criterion.evaluator).contracts:
        return criterion
    tools: JsonObject = {name: one.model_dump(mode="json") for name, one in contracts.items()}
    version = criterion.evaluator.version
    return replace(
        criterion,
        revision=revision({"criterion": criterion.revision, "tools": tools}, version),
        measure=revision({"criterion": criterion.measure, "tools": tools}, version),
    )


def default_criteria(
    defaults: Defaults | None = None, contracts: Mapping[str, Contract] | None = None
) -> tuple[Criterion, ...]:
    """Make the criteria that need no reference, as far as they are on; raise `ConfigError` with every problem found.
    The criterion that judges by contracts is left out where no contract judges single calls.
    """
    problems: list[Problem] = []
    files = EvaluatorFiles()
    made = [_criterion(entry, files, problems) for entry in load_default_criteria(defaults or Defaults())]
    if problems:
        raise config_error(problems)
    found = [_by_contracts(one, contracts or {}) for one in made if one is not None]
    judges = ToolKinds(contracts).judges
    return tuple(replace(one, is_default=True) for one in found if judges or not needs_of(one.evaluator).contracts)


def make_criterion(entry: CriterionConfig) -> Criterion:
    """Make one criterion; raise `ConfigError` with every problem found."""
    problems: list[Problem] = []
    criterion = _criterion(entry, EvaluatorFiles(), problems)
    if criterion is None:
        raise config_error(problems)
    return criterion


def _criterion(entry: CriterionConfig, files: EvaluatorFiles, problems: list[Problem]) -> Criterion | None:
    in_file = evaluator_file(entry.node) if entry.made_evaluator is None else None
    if isinstance(in_file, Problem):
        problems.append(in_file)
        return None
    try:
        evaluator = entry.made_evaluator or _evaluator(entry, in_file, files, problems)
    except ConfigError as error:
        problems.append(criterion_problem(entry, error.message, error.hint, at=("evaluator",)))
        return None
    if evaluator is None:
        return None
    reference: Reference = NoReference()
    if entry.expected is not None:
        reference = Inline(entry.expected)
    elif entry.references is not None:
        reference = Lookup(entry.references.key, entry.references.cases)
    needed = needs_of(evaluator).reference
    has_none = isinstance(reference, NoReference)
    inline = reference.expected if isinstance(reference, Inline) else None
    missing = None
    if needed == "answer" and (has_none or (inline is not None and inline.answer is None)):
        missing = "`expected_output` or `reference`"
    elif needed == "calls" and (has_none or (inline is not None and not inline.names_calls)):
        missing = "`expected`, `expected_turns` or `reference`"
    if missing is not None:
        message = f"criterion `{entry.name}` has nothing that evaluator `{entry.evaluator}` could compare with"
        problems.append(criterion_problem(entry, message, f"give {missing}"))
        return None
    # A file of references may serve `when.case`.
    if inline is not None and needed == "none":
        key = next(key for key in _COMPARED_BY if entry.node.child(key) is not None)
        message = f"criterion `{entry.name}` has `{key}`, which evaluator `{entry.evaluator}` compares nothing with"
        problems.append(criterion_problem(entry, message, f"{_COMPARED_BY[key]} compare with it", at=(key,)))
        return None
    return Criterion(
        name=entry.name,
        evaluator_name=entry.evaluator,
        evaluator=evaluator,
        revision=revision(entry.canonical(), evaluator.version),
        measure=revision(entry.measure(needs_of(evaluator).titled), evaluator.version),
        when=When(**dict(entry.when)),
        scope=entry.scope,
        reference=reference,
        pass_at=entry.pass_at,
        sample=entry.sample,
        enforce=entry.enforce,
        notify=entry.notify,
        evaluator_file=None if in_file is None else str(in_file.path),
    )


def _evaluator(
    entry: CriterionConfig, in_file: EvaluatorFile | None, files: EvaluatorFiles, problems: list[Problem]
) -> Evaluator | JudgeEvaluator | None:
    """Make the evaluator of a criterion, or add to `problems`. Raises `ConfigError` where its class fails."""
    if in_file is None:
        known = plugins.names(plugins.EVALUATORS)
        if entry.evaluator not in known:
            message = f"no evaluator called `{entry.evaluator}` in criterion `{entry.name}`"
            problems.append(criterion_problem(entry, message, suggestion(entry.evaluator, known), at=("evaluator",)))
            return None
        loaded: type[object] = plugins.evaluator(entry.evaluator)
        if not issubclass(loaded, BaseModel):
            problems.append(criterion_problem(entry, f"evaluator `{entry.evaluator}` is not a pydantic model"))
            return None
    else:
        loaded = files.evaluator_class(in_file)
    where = f"in criterion `{entry.name}`"
    found = len(problems)
    if not issubclass(loaded, BaseModel):
        for key in entry.parameters:
            message = f"unknown key `{key}` {where}: evaluator `{entry.evaluator}` takes no parameters"
            hint = "those of a pydantic model are its fields"
            problems.append(criterion_problem(entry, message, hint, at=(key,)))
    elif in_file is not None and "extra" not in loaded.model_config:
        # Pydantic passes over unknown parameters where a class leaves that open.
        known_keys = [field.alias or name for name, field in loaded.model_fields.items()]
        for key in entry.parameters:
            if key not in known_keys:
                message = f"unknown parameter `{key}` of evaluator `{entry.evaluator}` {where}"
                problems.append(criterion_problem(entry, message, suggestion(key, known_keys), at=(key,)))
    if len(problems) > found:
        return None
    try:
        with plugins.running(f"cannot make an evaluator of `{entry.evaluator}`", passes=(ValidationError,)):
            if issubclass(loaded, BaseModel):
                # A copy: criteria may share a parameter, as an anchor of YAML.
                made: object = loaded.model_validate(copied(entry.parameters), context=AS_WRITTEN)
            else:
                made = loaded()
    except ValidationError as error:
        # Of a pydantic model: no other class is given parameters.
        problems.extend(parameter_problems(entry, cast("type[BaseModel]", loaded), error))
        return None
    return checked_evaluator(made, entry.evaluator)


def make_evaluator(name: str, parameters: JsonObject) -> Evaluator | JudgeEvaluator:
    """Make an evaluator; raise `ConfigError` that names the problem."""
    known = plugins.names(plugins.EVALUATORS)
    if name not in known:
        raise ConfigError(f"no evaluator called `{name}`", hint=suggestion(name, known))
    loaded = plugins.evaluator(name)
    if not issubclass(loaded, BaseModel):
        raise ConfigError(f"evaluator `{name}` is not a pydantic model")
    try:
        with plugins.running(f"cannot make an evaluator of `{name}`", passes=(ValidationError,)):
            made = loaded.model_validate(copied(parameters), context=AS_WRITTEN)
        # A plug-in's class: `plugins.evaluator` has seen that it has what an evaluator must have.
        return cast("Evaluator | JudgeEvaluator", made)
    except ValidationError as error:
        wording = Wording(kind="parameter", owner=f" of evaluator `{name}`", unknown=("version", "level"))
        raise config_error(problems_of(error, written(parameters, Place("config")), loaded, wording)) from error
