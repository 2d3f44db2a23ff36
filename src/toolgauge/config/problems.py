"""A configuration as it was written, each value with its place, and the problems found in it.

Files, `--set` and environment variables all become the same tree of nodes, so that every complaint can name file and line:
about the YAML text, about values (pydantic, through `problems_of`) and about evaluators (through `parameter_problems`). All
leave as one `ConfigError` that lists every one of them, because a person who fixes one line at a time gives up.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TypeAlias, cast, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from toolgauge.model.errors import ConfigError
from toolgauge.model.json import Json
from toolgauge.settings import UnitError

PathStep: TypeAlias = str | int


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was written: a file as the user named it, an option or an environment variable."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"

    @property
    def directory(self) -> Path:
        """What relative file names are relative to; the working directory for anything but a file."""
        return Path(self.source).parent


@dataclass(frozen=True, slots=True)
class Node:
    """One value. The place of a mapping's entry is that of its key."""

    value: "bool | int | float | str | dict[str, Node] | list[Node] | None"
    place: Place

    def child(self, step: PathStep) -> "Node | None":
        """Step down one level; `None` when there is nothing."""
        match self.value, step:
            case dict() as entries, str():
                return entries.get(step)
            case list() as items, int() if step < len(items):
                return items[step]
            case _:
                return None


def plain(node: Node) -> Json:
    """Strip the places."""
    match node.value:
        case dict() as entries:
            return {key: plain(entry) for key, entry in entries.items()}
        case list() as items:
            return [plain(item) for item in items]
        case scalar:
            return scalar


def written(value: object, place: Place) -> Node:
    """Give a plain JSON value a place: one for the whole of it. Raises `TypeError` for anything that is not JSON."""
    match value:
        case None | bool() | int() | float() | str():
            return Node(value, place)
        case Mapping():
            entries = cast("Mapping[object, object]", value)  # narrowed from object, whose items have no type
            return Node({str(key): written(entry, place) for key, entry in entries.items()}, place)
        case list() | tuple():
            items = cast("Sequence[object]", value)  # as above
            return Node([written(item, place) for item in items], place)
        case _:
            raise TypeError(f"{type(value).__name__} is not a value of a configuration")


def merged(below: Node, above: Node) -> Node:
    """Lay one tree over another: mappings are merged key by key, everything else is replaced."""
    if not isinstance(below.value, dict) or not isinstance(above.value, dict):
        return above
    entries = dict(below.value)
    for key, entry in above.value.items():
        entries[key] = merged(entries[key], entry) if key in entries else entry
    return Node(entries, above.place)


def nearest(node: Node, path: Iterable[PathStep]) -> Node:
    """Follow the path as far as it was written."""
    for step in path:
        below = node.child(step)
        if below is None:
            continue
        node = below
    return node


def spelled(path: Iterable[PathStep]) -> str:
    """Write a path as people do: `criteria[0].expected`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


_PIPELINE_GRAPH = ("service", "processors", "extensions", "connectors")
_SECRET = ("headers", "auth", "tls")
# What other evaluation packages call our keys of a criterion and of an expected call; spelled without `_` and `-`.
_ELSEWHERE = {
    "pass_at": frozenset({"threshold", "passthreshold", "minscore", "passingscore"}),
    "evaluator": frozenset({"evaluatorname", "metric", "metricname", "scorer", "grader", "type"}),
    "expected": frozenset(
        {"expectedtools", "expectedcalls", "expectedtoolcalls", "expectedtooluse", "expectedtrajectory"}
        | {"referencetoolcalls", "referencetrajectory", "toolcalls"}
    ),
    "expected_output": frozenset(
        {"expectedanswer", "expectedresponse", "expectedfinalresponse", "referenceanswer", "groundtruth"}
    ),
    "sample": frozenset({"samplerate", "samplingrate"}),
    "when": frozenset({"filter", "filters", "match"}),
    "tools": frozenset({"toolname", "toolnames"}),
    "args": frozenset({"arguments", "inputparameters", "toolinput", "toolargs", "parameters", "input"}),
    "name": frozenset({"criterionname", "tool", "toolname", "function"}),
    "id": frozenset({"toolcallid", "callid"}),
    "output": frozenset({"result", "tooloutput"}),
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One complaint."""

    place: Place
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


def config_error(problems: Sequence[Problem]) -> ConfigError:
    """Make one error of all problems (at least one)."""
    if len(problems) == 1:
        return ConfigError(str(problems[0]), hint=problems[0].hint)
    in_order = sorted(problems, key=lambda problem: (problem.place.source, problem.place.line or 0))
    lines = (f"  {problem}" + (f" ({problem.hint})" if problem.hint else "") for problem in in_order)
    return ConfigError("\n".join((f"{len(problems)} problems in the configuration", *lines)))


def suggestion(word: str, known: Iterable[str]) -> str | None:
    """Name the known word that was probably meant, else all of them."""
    words = sorted(known)
    meant = [name for name in _ELSEWHERE if name in words and _is_elsewhere(word, name)]
    meant += get_close_matches(word, words, n=1, cutoff=0.6)
    if meant:
        return f"did you mean `{meant[0]}`?"
    return "known: " + ", ".join(f"`{name}`" for name in words) if words else None


def _is_elsewhere(word: str, name: str) -> bool:
    """Return whether another package uses the word for our key `name`."""
    return word.replace("_", "").replace("-", "").lower() in _ELSEWHERE.get(name, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """How to speak of what pydantic checked: `kind` of name, `owner` behind it, and names known besides the model's."""

    kind: str = "key"
    owner: str = ""
    known: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def problems_of(
    error: ValidationError, node: Node, model: type[BaseModel], wording: Wording = Wording()
) -> tuple[Problem, ...]:
    """Turn the errors of pydantic about the values at `node` into problems."""
    return tuple(_problem(details, node, model, wording) for details in error.errors(include_url=False))


def _problem(details: ErrorDetails, node: Node, model: type[BaseModel], wording: Wording) -> Problem:
    path = _as_written(details["loc"], node)
    place = nearest(node, path).place
    if details["type"] == "extra_forbidden":
        message = f"unknown {wording.kind} `{spelled(path)}`{wording.owner}"
        return Problem(place, message, _hint_for_key(model, path, wording))
    name = (
        f"`{spelled(path)}`{wording.owner}"
        if path
        else (wording.owner.strip().partition(" ")[2] or "the configuration")
    )
    hint = None
    match details["type"]:
        case "missing":
            return Problem(place, f"{name} is missing", _hint_for_misspelt(str(path[-1]), node, model))
        case "literal_error":
            allowed = details.get("ctx", {}).get("expected", "").replace("'", "`").replace(" or ", ", ")
            complaint = f"{_is(details, path)}; allowed: {allowed}"
        case "string_pattern_mismatch":
            complaint = f"must match `{details.get('ctx', {}).get('pattern', '')}`"
        case "model_type" | "model_attributes_type" | "dict_type":
            complaint = "must be a mapping of keys to values"
        case "tuple_type" | "list_type":
            complaint = "must be a list"
        case "value_error":
            complaint, hint = details["msg"].removeprefix("Value error, "), _hint_of(details)
        case _:
            message = details["msg"].removeprefix("Input ").removeprefix("String ").replace("should ", "must ")
            complaint = f"{message[:1].lower()}{message[1:]}"
    return Problem(place, f"{name} {complaint}", hint)


def _hint_of(details: ErrorDetails) -> str | None:
    error = details.get("ctx", {}).get("error")
    return error.hint if isinstance(error, UnitError) else None


def _is(details: ErrorDetails, path: Sequence[PathStep]) -> str:
    value = details["input"]
    if details["input"] is None:
        return "is empty"
    if any(step in _SECRET for step in path) or not isinstance(value, str | int | float):
        return "is something else"
    return f"is `{str(value)[:60]}`"


def _as_written(loc: Sequence[PathStep], node: Node) -> tuple[PathStep, ...]:
    """Drop the steps that only pydantic sees: an index where one mapping stands for a list, and union members."""
    path: list[PathStep] = []
    for number, step in enumerate(loc):
        below = node.child(step)
        last = number == len(loc) - 1
        if below is None and not (last and isinstance(step, str) and isinstance(node.value, dict)):
            continue
        path.append(step)
        node = below or node
    return tuple(path)


def _hint_for_misspelt(key: str, node: Node, model: type[BaseModel]) -> str | None:
    """Find a missing key among those that were written; keys that are not allowed have complaints of their own."""
    if model.model_config.get("extra") != "allow" or not isinstance(node.value, dict):
        return None
    others = [written for written in node.value if written not in model.model_fields]
    meant = [written for written in others if _is_elsewhere(written, key)] or get_close_matches(key, others, n=1)
    return f"is `{meant[0]}` meant to be `{key}`?" if meant else None


def _hint_for_key(model: type[BaseModel], path: Sequence[PathStep], wording: Wording) -> str | None:
    key = str(path[-1]) if path else ""
    if len(path) == 1 and key in _PIPELINE_GRAPH and "receivers" in model.model_fields:
        return "toolgauge is one box and has no pipeline graph; see `toolgauge print-config`"
    parents = [model]
    for step in path[:-1]:
        parents = [below for parent in parents for below in _models_below(parent, step)] or parents
    known = [key for parent in parents for key in _keys(parent)]
    if parents == [model]:
        known += wording.known
    return suggestion(key, (name for name in known if name not in wording.unknown))


def _keys(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _models_below(model: type[BaseModel], step: PathStep) -> Iterator[type[BaseModel]]:
    """Yield the models that a field may hold, several for a union."""
    for name, field in model.model_fields.items():
        if step in (field.alias, name):
            yield from _models(field.annotation)


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)
