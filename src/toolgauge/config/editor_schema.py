"""The configuration, criteria files and reference lines as JSON Schema (2020-12), for editors.

Only features of older drafts are used, which all editors know. `${env:NAME}` may stand for any value.
"""

import contextlib
import json
import re
from inspect import cleandoc
from typing import Any, TypeAlias, cast

from pydantic import BaseModel
from pydantic.errors import PydanticUserError
from pydantic.json_schema import models_json_schema

from toolgauge import plugins
from toolgauge.config.criteria import DEFAULT_CRITERIA, NAMED_CLASS, Criterion
from toolgauge.config.model import installed_model
from toolgauge.config.references import ReferenceLine
from toolgauge.model.json import JsonObject
from toolgauge.model.ports import needs_of
from toolgauge.settings import WRITTEN_DURATION, WRITTEN_SIZE, duration_text, size_text

_Schema: TypeAlias = dict[str, Any]  # Any JSON Schema; its values are looked at one by one

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_DEFS = "#/$defs/"
_REFERENCE = re.compile(rf'"\$ref": "{re.escape(_DEFS)}([^"/]+)')
_ENVIRONMENT = "environment"
_BY_ENVIRONMENT: _Schema = {"$ref": _DEFS + _ENVIRONMENT}
_CRITERION = "criterion"
# A limit is for numbers; pydantic leaves it beside a text that becomes one.
_LIMITS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_OF_ARRAYS = {"minLength": "minItems", "maxLength": "maxItems"}
# Titles repeat the key, and `discriminator` is no keyword of JSON Schema.
_LEFT_OUT = frozenset({"title", "discriminator", *_LIMITS})
_BESIDE = ("default", "description")
_EXPECTATIONS = {"expected": "array", "expected_turns": "array", "reference": "object"}


def config_schema() -> JsonObject:
    """Describe the configuration of `serve`, with the criteria in it."""
    definitions = _Definitions()
    config = definitions.config
    config["properties"]["criteria"]["items"] = {"$ref": _DEFS + _CRITERION}
    defaults = definitions.all["Defaults"]["properties"]
    for name in DEFAULT_CRITERIA:
        defaults[name]["anyOf"] = [{"type": "boolean"}, definitions.default_criterion(name), _BY_ENVIRONMENT]
    return definitions.document("Configuration of toolgauge", config)


def criteria_schema() -> JsonObject:
    """Describe a criteria file: a list of criteria, alone or under `criteria`."""
    criteria: _Schema = {"type": "array", "items": {"$ref": _DEFS + _CRITERION}}
    mapping: _Schema = {
        "type": "object",
        "properties": {"criteria": criteria},
        "required": ["criteria"],
        "additionalProperties": False,
    }
    return _Definitions().document("Criteria of toolgauge", {"anyOf": [mapping, criteria]})


def reference_schema() -> JsonObject:
    """Describe one line of a reference file."""
    definitions = _Definitions()
    line = definitions.line
    line["anyOf"] = [{"required": [key]} for key in ("expected", "expected_turns", "expected_output")]
    line["not"] = _both("expected", "expected_turns")
    return definitions.document("Reference line of toolgauge", line)


class _Definitions:
    """The schemas of all models, with names that differ, and the criteria put together from them."""

    def __init__(self) -> None:
        self._evaluators = {name: plugins.evaluator(name) for name in plugins.names(plugins.EVALUATORS)}
        config = installed_model()
        described: list[type[BaseModel]] = []
        for model in self._evaluators.values():
            # Plug-ins may have parameters of any kind, also some without a schema.
            with contextlib.suppress(PydanticUserError):
                if issubclass(model, BaseModel):
                    model.model_json_schema()
                    described.append(model)
        models = [config, Criterion, ReferenceLine, *described]
        places, generated = models_json_schema([(model, "validation") for model in models])
        self.all: dict[str, _Schema] = {
            name: _as_written(schema) for name, schema in cast("_Schema", generated["$defs"]).items()
        }
        names = {model: str(places[model, "validation"]["$ref"]).removeprefix(_DEFS) for model in models}
        self.config = self.all.pop(names[config])
        self.line = self.all.pop(names[ReferenceLine])
        self._criterion = self.all.pop(names[Criterion])
        self._parameters = {
            name: self.all.pop(names[model]) if model in names else None for name, model in self._evaluators.items()
        }
        self._add_criteria()

    def _add_criteria(self) -> None:
        names = list(self._evaluators)
        evaluators: list[_Schema] = [
            {"const": name, "description": (model.__doc__ or name).partition("\n")[0]}
            for name, model in self._evaluators.items()
        ]
        evaluators.append(
            {
                "type": "string",
                "pattern": NAMED_CLASS,
                "description": "A class in a Python file, such as `./checks.py:NoRefund`, relative to this file.",
            }
        )
        common: _Schema = {**self._criterion["properties"], "evaluator": {"oneOf": evaluators}}
        self.all[_CRITERION] = {
            "type": "object",
            "description": "A named rule: which trajectories, which evaluator, when it passes.",
            "properties": common,
            "required": ["name", "evaluator"],
            "allOf": [
                {
                    "if": {"properties": {"evaluator": {"const": name}}, "required": ["evaluator"]},
                    "then": {"$ref": f"{_DEFS}{_CRITERION}.{name}"},
                }
                for name in names
            ],
        }
        for name in names:
            self.all[f"{_CRITERION}.{name}"] = self._of_evaluator(name)
        self.all[_ENVIRONMENT] = {
            "type": "string",
            "pattern": r"\$\{",
            "description": "`${env:NAME}` or `${env:NAME:-default}`: the value of an environment variable.",
        }

    def _of_evaluator(self, name: str) -> _Schema:
        parameters, model = self._parameters[name], self._evaluators[name]
        keys = {key: {"$ref": f"{_DEFS}{_CRITERION}/properties/{key}"} for key in self._criterion["properties"]}
        schema: _Schema = {"type": "object", "properties": keys}
        if model.__doc__:
            schema["description"] = cleandoc(model.__doc__)
        if parameters is not None:
            keys |= parameters.get("properties", {})
            schema |= {"required": parameters.get("required", []), "additionalProperties": False}
        constraints: list[_Schema] = [
            {"not": _both(*pair)}
            for pair in (("expected", "expected_turns"), ("expected", "reference"), ("expected_turns", "reference"))
        ]
        needed = {"answer": ("expected_output", "reference"), "calls": tuple(_EXPECTATIONS)}
        if keys_of := needed.get(needs_of(model).reference):
            constraints.append({"anyOf": [{"required": [key]} for key in keys_of]})
        return {**schema, "allOf": constraints}

    def default_criterion(self, name: str) -> _Schema:
        """Describe what a default criterion may set: all but its name and its evaluator."""
        schema = self._of_evaluator(name)
        keys = {key: value for key, value in schema["properties"].items() if key not in ("name", "evaluator")}
        return {"type": "object", "properties": keys, "additionalProperties": False}

    def document(self, title: str, root: _Schema) -> JsonObject:
        """Put a schema together with the definitions that it uses."""
        used: dict[str, _Schema] = {}
        waiting = [root]
        while waiting:
            for name in _REFERENCE.findall(json.dumps(waiting.pop())):
                if name not in used:
                    used[name] = self.all[name]
                    waiting.append(used[name])
        return {"$schema": _DRAFT, "title": title, **root, "$defs": dict(sorted(used.items()))}


def _both(first: str, second: str) -> _Schema:
    given = {key: {"type": _EXPECTATIONS[key]} for key in (first, second)}
    return {"properties": given, "required": [first, second]}


def _as_written(schema: _Schema) -> _Schema:
    """Turn the schema of what a model reads into that of what people write."""
    made: _Schema = {}
    for key, value in schema.items():
        match key:
            case "properties" | "$defs":
                made[key] = {name: _as_written(entry) for name, entry in value.items()}
            case "items" | "additionalProperties" | "propertyNames" | "not" if isinstance(value, dict):
                made[key] = _as_written(cast("_Schema", value))
            case "anyOf" | "oneOf" | "allOf" | "prefixItems":
                made[key] = [_as_written(entry) for entry in value]
            case key if key not in _LEFT_OUT:
                made[key] = value
            case _:
                pass
    if made.get("type") in ("integer", "number"):
        made |= {_LIMITS[key]: schema[key] for key in _LIMITS if key in schema}
    elif made.get("type") == "array":
        made = {_OF_ARRAYS.get(key, key): value for key, value in made.items()}
    default = made.get("default")
    if isinstance(default, int) and not isinstance(default, bool):
        # The default of a duration or a size as a person would write it.
        patterns = [entry.get("pattern") for entry in (schema, *schema.get("anyOf", ()))]
        if WRITTEN_DURATION in patterns:
            made["default"] = duration_text(default)
        elif WRITTEN_SIZE in patterns:
            made["default"] = size_text(default)
    # A reference to an environment variable may stand for a value that not every text can be.
    if made.get("type") in ("integer", "number", "boolean") or "enum" in made or "pattern" in made:
        whole = {key: value for key, value in made.items() if key not in _BESIDE}
        beside = {key: made[key] for key in _BESIDE if key in made}
        return {**beside, "anyOf": [whole, _BY_ENVIRONMENT]}
    forms: list[_Schema] = made.get("anyOf", [])
    if not any(_BY_ENVIRONMENT in form.get("anyOf", ()) for form in forms):
        return made
    # One reference for all forms of a value, and the description of one of them for the value.
    flat = [inner for form in forms for inner in form.get("anyOf", [form]) if inner != _BY_ENVIRONMENT]
    described = [form["description"] for form in forms if "description" in form and "anyOf" in form]
    beside = {"description": described[0]} if described else {}
    return {**beside, **made, "anyOf": [*flat, _BY_ENVIRONMENT]}
