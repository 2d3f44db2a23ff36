"""Evaluators by name and parameters, for ways in that have no criteria."""

from typing import cast

from pydantic import BaseModel, ValidationError

from toolgauge import plugins
from toolgauge.config.nodes import Place, written
from toolgauge.config.problems import Wording, config_error, problems_of, suggestion
from toolgauge.model.errors import ConfigError
from toolgauge.model.json import JsonObject
from toolgauge.model.judging import JudgeEvaluator
from toolgauge.model.ports import Evaluator


def make_evaluator(name: str, parameters: JsonObject) -> Evaluator | JudgeEvaluator:
    """Make an evaluator; raise `ConfigError` that names what is wrong."""
    known = plugins.names(plugins.EVALUATORS)
    if name not in known:
        raise ConfigError(f"no evaluator called `{name}`", hint=suggestion(name, known))
    loaded = plugins.evaluator(name)
    if not issubclass(loaded, BaseModel):
        raise ConfigError(f"evaluator `{name}` is not a pydantic model")
    try:
        # A plug-in's class: `plugins.evaluator` has seen that it has what an evaluator must have.
        return cast("Evaluator | JudgeEvaluator", loaded.model_validate(parameters))
    except ValidationError as error:
        wording = Wording(kind="parameter", owner=f" of evaluator `{name}`", unknown=("version", "level"))
        raise config_error(problems_of(error, written(parameters, Place("config")), loaded, wording)) from error
